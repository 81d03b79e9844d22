//! `Trim`: entries that the snapshot has go, but never the newest one. The oldest go first: what is left has no hole.

use rota_engine::{
    HistoryId, PartitionId,
    requests::{Content, Trim},
};

use super::{Batch, Fenced, change_tail, fence};
use crate::{
    failure::Failure,
    sql::{Told, is_held},
};

impl Fenced for Batch<&Trim> {
    fn partition(&self) -> PartitionId {
        self.of.partition
    }

    fn statements(&self, history: HistoryId) -> String {
        let (p, is_held) = (self.of.partition.0, is_held(self.of.partition, &self.of.token, history));
        let oldest = format!(
            "SELECT base_offset FROM log WHERE p = {p} \
             AND base_offset + count <= (SELECT upto FROM head WHERE p = {p}) AND {} \
             ORDER BY base_offset LIMIT {}",
            is_followed(p),
            self.rows
        );
        let delete = format!(
            "DELETE FROM log WHERE p = {p} AND base_offset IN ({oldest}) \
             AND EXISTS (SELECT FROM part WHERE {is_held});"
        );
        format!("{}{delete}", change_tail(&is_held))
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        Ok(Content::Fence(fence(told)?))
    }
}

/// The newest entry stays, which the next append follows.
fn is_followed(p: i32) -> String {
    format!("base_offset < (SELECT max(base_offset) FROM log WHERE p = {p})")
}
