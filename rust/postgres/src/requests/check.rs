//! `Check`: the lock makes the transaction wait for the standbys, so a host that was replaced confirms nothing.

use rota_engine::{
    HistoryId, PartitionId,
    requests::{Check, Content},
};

use super::{Fenced, fence, hold};
use crate::{
    failure::Failure,
    sql::{Told, is_held},
};

impl Fenced for Check {
    fn partition(&self) -> PartitionId {
        self.partition
    }

    fn statements(&self, history: HistoryId) -> String {
        hold(&is_held(self.partition, &self.token, history))
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        Ok(Content::Fence(fence(told)?))
    }
}
