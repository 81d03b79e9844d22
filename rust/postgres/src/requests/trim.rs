//! `Trim`: entries that the snapshot has go, but never the newest one.

use rota_engine::{
    HistoryId, PartitionId,
    requests::{Content, Trim},
};

use super::{Fenced, change_tail, fence};
use crate::{
    failure::Failure,
    sql::{Told, is_held},
};

impl Fenced for Trim {
    fn partition(&self) -> PartitionId {
        self.partition
    }

    fn statements(&self, history: HistoryId) -> String {
        let is_held = is_held(self.partition, &self.token, history);
        let upto = format!("(SELECT upto FROM head WHERE p = {})", self.partition.0);
        let delete = delete_below(self.partition, &upto, &format!("EXISTS (SELECT FROM part WHERE {is_held})"));
        format!("{}{delete}", change_tail(&is_held))
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        Ok(Content::Fence(fence(told)?))
    }
}

/// Deletes what lies below an offset from the tail. The newest entry stays, which the next append follows.
pub(super) fn delete_below(partition: PartitionId, upto: &str, condition: &str) -> String {
    let p = partition.0;
    format!(
        "DELETE FROM log WHERE p = {p} AND base_offset + count <= {upto} \
         AND base_offset < (SELECT max(base_offset) FROM log WHERE p = {p}) AND {condition};"
    )
}
