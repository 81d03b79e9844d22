//! `Sweep`: chunks that come before those of a snapshot go. Their keys are ordered as the protocol's are.

use rota_engine::{
    HistoryId, PartitionId,
    requests::{Content, Sweep},
};

use super::{Fenced, fence, hold};
use crate::{
    failure::Failure,
    sql::{Told, is_held},
};

impl Fenced for Sweep {
    fn partition(&self) -> PartitionId {
        self.partition
    }

    fn statements(&self, history: HistoryId) -> String {
        let is_held = is_held(self.partition, &self.token, history);
        let (p, upto, epoch) = (self.partition.0, self.keep.upto, self.keep.epoch.0);
        let delete = format!(
            "DELETE FROM chunk WHERE p = {p} AND (upto, epoch, index) < ({upto}, {epoch}, 0) \
             AND EXISTS (SELECT FROM part WHERE {is_held});"
        );
        format!("{}{delete}", hold(&is_held))
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        Ok(Content::Fence(fence(told)?))
    }
}
