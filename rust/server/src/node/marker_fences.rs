//! What a partition of `__consumer_offsets` remembers of the markers of its producers, as the log of a topic does: a
//! marker that comes late, from a coordinator that has lost the transaction, must not end the next one.

use std::{collections::HashMap, mem};

use rota_core::error::ErrorCode;
use rota_log::EndMarker;
use rota_txn::{Marker, TransactionVersion};

/// Producers that are remembered at least.
const PRODUCERS: usize = 10_000;

/// The last marker of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    producer_epoch: i16,
    coordinator_epoch: i32,
}

/// The last markers of producers, by producer id.
#[derive(Debug, Default)]
pub struct MarkerFences {
    recent: HashMap<i64, Fence>,
    /// When there are [`PRODUCERS`] recent ones, they take the place of the older ones.
    older: HashMap<i64, Fence>,
}

impl MarkerFences {
    /// Checks a marker (docs/transactions.md §10.2). `open` is the epoch of the producer's open transaction in the partition.
    pub fn check(&self, marker: &Marker, open: Option<i16>) -> Result<(), ErrorCode> {
        let known = self.recent.get(&marker.producer_id).or_else(|| self.older.get(&marker.producer_id));
        let is_strict = marker.transaction_version == TransactionVersion::V2;
        if known.is_some_and(|known| marker.producer_epoch < known.producer_epoch)
            || is_strict && open.is_some_and(|epoch| marker.producer_epoch <= epoch)
        {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if known.is_some_and(|known| marker.coordinator_epoch < known.coordinator_epoch) {
            return Err(ErrorCode::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// Remembers a marker that is written.
    pub fn put(&mut self, marker: &EndMarker) {
        let EndMarker { producer_id, producer_epoch, coordinator_epoch, .. } = *marker;
        if self.recent.len() >= PRODUCERS {
            self.older = mem::take(&mut self.recent);
        }
        self.recent.insert(producer_id, Fence { producer_epoch, coordinator_epoch });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(producer_id: i64, producer_epoch: i16, coordinator_epoch: i32) -> EndMarker {
        EndMarker { producer_id, producer_epoch, coordinator_epoch, is_commit: true }
    }

    fn check(fences: &MarkerFences, end: EndMarker, version: TransactionVersion, open: Option<i16>) -> i16 {
        let EndMarker { producer_id, producer_epoch, coordinator_epoch, is_commit } = end;
        let marker = Marker { producer_id, producer_epoch, coordinator_epoch, is_commit, transaction_version: version };
        fences.check(&marker, open).err().map_or(0, ErrorCode::code)
    }

    #[test]
    fn a_late_marker_is_refused_and_a_repeated_one_is_not() {
        use TransactionVersion::{V1, V2};
        let mut fences = MarkerFences::default();
        assert_eq!(check(&fences, end(7, 0, 0), V1, None), 0, "an unknown producer");
        fences.put(&end(7, 1, 5));
        for (marker, version, open, expected) in [
            (end(7, 1, 5), V1, Some(1), 0),
            (end(7, 1, 6), V2, None, 0),
            (end(7, 2, 6), V2, Some(1), 0),
            (end(7, 0, 5), V1, None, 47),
            (end(7, 1, 4), V1, Some(1), 52),
            (end(7, 1, 6), V2, Some(1), 47),
            (end(8, 0, 0), V1, None, 0),
        ] {
            assert_eq!(check(&fences, marker, version, open), expected, "{marker:?} {version:?} {open:?}");
        }
    }

    #[test]
    fn the_last_producers_are_remembered() {
        let mut fences = MarkerFences::default();
        for id in 0..3 * PRODUCERS as i64 {
            fences.put(&end(id, 1, 5));
        }
        let late = |id: i64| check(&fences, end(id, 1, 4), TransactionVersion::V1, None);
        assert_eq!(late(3 * PRODUCERS as i64 - 1), 52);
        assert_eq!(late(2 * PRODUCERS as i64), 52);
        assert_eq!(late(0), 0);
        assert!(fences.recent.len() + fences.older.len() <= 2 * PRODUCERS);
    }
}
