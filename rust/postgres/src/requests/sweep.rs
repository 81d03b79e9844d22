//! `Sweep`: chunks that come before those of a snapshot go. Their keys are ordered as the protocol's are.

use rota_engine::{
    HistoryId, PartitionId,
    requests::{Content, Sweep},
};

use super::{Batch, Fenced, fence, hold};
use crate::{
    failure::Failure,
    sql::{Told, is_held},
};

impl Fenced for Batch<&Sweep> {
    fn partition(&self) -> PartitionId {
        self.of.partition
    }

    fn statements(&self, history: HistoryId) -> String {
        let Sweep { partition, token, keep } = self.of;
        let (p, is_held) = (partition.0, is_held(*partition, token, history));
        let (upto, epoch) = (keep.upto, keep.epoch.0);
        let before = format!(
            "SELECT upto, epoch, index FROM chunk WHERE p = {p} AND (upto, epoch, index) < ({upto}, {epoch}, 0) \
             ORDER BY upto, epoch, index LIMIT {}",
            self.rows
        );
        let delete = format!(
            "DELETE FROM chunk WHERE p = {p} AND (upto, epoch, index) IN ({before}) \
             AND EXISTS (SELECT FROM part WHERE {is_held});"
        );
        format!("{}{delete}", hold(&is_held))
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        Ok(Content::Fence(fence(told)?))
    }
}
