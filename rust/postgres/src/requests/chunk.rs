//! `Chunk`: the key has offset and epoch, so chunks of two owners do not meet.

use rota_engine::{
    Answer, HistoryId, PartitionId, Revision,
    requests::{Content, Fence, PutChunk},
};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{Fenced, fence};
use crate::{failure::Failure, sql::Told};

/// Writes a chunk under the lock that keeps its owner the owner, if the chunk before it is there.
pub fn statement() -> String {
    let held = "p = $2 AND history = $1 AND epoch = $3 AND node = $4 AND incarnation = $5 AND held";
    let before = "p = $2 AND upto = $6 AND epoch = $3 AND index = $7::bigint - 1";
    format!(
        "WITH owned AS MATERIALIZED (SELECT p FROM part WHERE {held} FOR SHARE) \
         INSERT INTO chunk (p, upto, epoch, index, bytes) SELECT p, $6, $3, $7, $8 FROM owned \
         WHERE $7::bigint = 0 OR EXISTS (SELECT FROM chunk WHERE {before}) \
         ON CONFLICT (p, upto, epoch, index) DO UPDATE SET bytes = excluded.bytes RETURNING nextval('revision')"
    )
}

/// The statement's parameters.
#[derive(Debug)]
pub struct Columns<'a> {
    history: Uuid,
    partition: i32,
    epoch: i32,
    node: i32,
    incarnation: Uuid,
    upto: i64,
    index: i64,
    bytes: &'a [u8],
}

impl<'a> Columns<'a> {
    /// Of a chunk.
    pub fn new(history: HistoryId, put: &'a PutChunk) -> Columns<'a> {
        Columns {
            history: Uuid::from_u128(history.0),
            partition: put.partition.0,
            epoch: put.token.epoch.0,
            node: put.token.node.0,
            incarnation: Uuid::from_u128(put.token.incarnation.0),
            upto: put.upto,
            index: put.index.into(),
            bytes: &put.bytes,
        }
    }

    /// In the statement's order.
    pub fn parameters(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.history,
            &self.partition,
            &self.epoch,
            &self.node,
            &self.incarnation,
            &self.upto,
            &self.index,
            &self.bytes,
        ]
    }
}

/// The answer to a chunk that was written.
pub fn written(rows: &[Row]) -> Option<Answer> {
    let revision = Revision(rows.first()?.get::<_, i64>(0) as u64);
    Some(Answer { revision, content: Content::Fence(Fence::Held) })
}

/// Reads why a chunk was not written: it has another owner, or the chunk before it is not there.
#[derive(Clone, Copy, Debug)]
pub struct Why(pub PartitionId);

impl Fenced for Why {
    fn partition(&self) -> PartitionId {
        self.0
    }

    fn statements(&self, _: HistoryId) -> String {
        "SELECT WHERE false;".to_owned()
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        Ok(Content::Fence(fence(told)?))
    }
}
