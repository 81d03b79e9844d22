//! The transactions of a partition: what its durable batches say about them (docs/transactions.md §10).

use rota_log::{Batch, BatchHeader, EndMarker};

use super::{Partition, disk::TopicDisk, partition_data::Records};

/// A batch, as transactions see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenBatch {
    pub(super) header: BatchHeader,
    /// The marker, if the batch is one.
    pub(super) marker: Option<EndMarker>,
}

impl WrittenBatch {
    pub(super) fn of(batch: &Batch<'_>, marker: Option<EndMarker>) -> WrittenBatch {
        WrittenBatch { header: *batch.header(), marker }
    }

    /// Sets the offset of the first record.
    pub(super) fn at(self, base_offset: i64) -> WrittenBatch {
        WrittenBatch { header: BatchHeader { base_offset, ..self.header }, ..self }
    }
}

impl Partition {
    /// Counts a durable batch, and adds it to the transactions and to their files on disk.
    pub(super) fn observe(&mut self, batch: &WrittenBatch, disk: Option<&TopicDisk>) {
        self.arrived_bytes += batch.header.size_bytes() as u64;
        let on_disk = match (&self.log, disk) {
            (Records::Disk(records), Some(disk)) if records.has_transactions => Some((disk, records.on_disk.clone())),
            _ => None,
        };
        if let Some((disk, on_disk)) = &on_disk {
            disk.note_segment(on_disk, &self.transactions, batch.header.base_offset);
        }
        let aborted = self.transactions.observe(&batch.header, batch.marker.as_ref());
        if let (Some((disk, on_disk)), Some(aborted)) = (&on_disk, &aborted) {
            disk.note_aborted(on_disk, aborted);
        }
        if batch.header.is_transactional() {
            self.log.keep_open(self.transactions.first_open());
            self.transactions.forget_below(self.log.first_offset());
        }
    }

    /// Returns the offset below which every transaction is decided and durable. Never below the log's start. What the disk
    /// has made durable counts when it was observed.
    pub(super) fn last_stable_offset(&self) -> i64 {
        self.transactions.last_stable_offset(self.log.settled_offset()).max(self.log.first_offset())
    }
}
