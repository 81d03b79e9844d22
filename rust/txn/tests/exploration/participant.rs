//! A participant as docs/transactions.md §10 has it: data, epochs, markers.

use std::collections::BTreeSet;

use rota_txn::{Marker, Producer, TransactionVersion};

/// A client's transaction: the client, and its number.
pub type Tag = (usize, u8);

/// One participant, with all data of the id's producer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// The producer's epoch here.
    pub epoch: i16,
    pub coordinator_epoch: i32,
    /// Data of the open transaction, with its epoch.
    pub open: BTreeSet<(Tag, i16)>,
    pub visible: BTreeSet<Tag>,
    pub dropped: BTreeSet<Tag>,
}

/// What a participant did with a marker.
pub enum Wrote {
    /// It ended this data.
    Ended(BTreeSet<(Tag, i16)>),
    OlderCoordinator,
    /// Its epoch does not fence the data.
    LowEpoch,
}

impl Part {
    /// Appends data unless its epoch is fenced.
    pub fn append(&mut self, producer: Producer, tag: Tag) -> bool {
        if producer.epoch < self.epoch {
            return false;
        }
        self.epoch = producer.epoch;
        self.open.insert((tag, producer.epoch));
        true
    }

    pub fn mark(&mut self, marker: &Marker) -> Wrote {
        if marker.coordinator_epoch < self.coordinator_epoch {
            return Wrote::OlderCoordinator;
        }
        let is_strict = marker.transaction_version == TransactionVersion::V2;
        let is_low = |(_, epoch): &(Tag, i16)| marker.producer_epoch < *epoch + i16::from(is_strict);
        if marker.producer_epoch < self.epoch || self.open.iter().any(is_low) {
            return Wrote::LowEpoch;
        }
        self.epoch = marker.producer_epoch;
        self.coordinator_epoch = marker.coordinator_epoch;
        let ended = std::mem::take(&mut self.open);
        let to = if marker.is_commit { &mut self.visible } else { &mut self.dropped };
        to.extend(ended.iter().map(|(tag, _)| *tag));
        Wrote::Ended(ended)
    }
}
