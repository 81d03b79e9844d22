//! `Read`: owner, snapshot and tail as rows of one statement, which sees one snapshot of the database.

use rota_engine::{
    ChunkKey, Entry, Epoch, HistoryId, Incarnation, Log, Meta, NodeId, Nonce, Part, Revision, SnapshotHead,
    requests::Contents, store::Stored,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::failure::Failure;

/// The first column says what a row is. It takes no lock: a reader that sleeps would keep it.
pub const STATEMENT: &str = "
SELECT 0, format::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, history, NULL::bytea FROM meta
UNION ALL SELECT 1, epoch, node, held::int, NULL, NULL, incarnation, NULL FROM part WHERE p = $1
UNION ALL SELECT 2, upto, epoch, chunks, checksum, revision, NULL, NULL FROM head WHERE p = $1
UNION ALL SELECT 3, upto, epoch, index, NULL, NULL, NULL, bytes FROM chunk WHERE p = $1
UNION ALL SELECT 4, base_offset, epoch, count, NULL, revision, nonce, bytes FROM log WHERE p = $1";

/// What is there so far.
#[derive(Debug)]
pub struct Loading {
    /// History and format, once their row is there.
    pub meta: Option<Meta>,
    /// The rest.
    pub contents: Contents,
    /// Of chunks and entries.
    pub bytes: usize,
}

impl Default for Loading {
    fn default() -> Loading {
        Loading { meta: None, contents: Contents { part: None, log: Log::default() }, bytes: 0 }
    }
}

impl Loading {
    /// Takes a row over.
    pub fn add(&mut self, row: &Row) -> Result<(), Failure> {
        let number = |column: usize| row.get::<_, Option<i64>>(column).unwrap_or_default();
        let id = || row.get::<_, Option<Uuid>>(6).unwrap_or_default().as_u128();
        let bytes = || row.get::<_, Option<Vec<u8>>>(7).unwrap_or_default();
        let (epoch, revision, log) = (Epoch(number(2) as i32), Revision(number(5) as u64), &mut self.contents.log);
        match row.get::<_, i32>(0) {
            0 => self.meta = Some(Meta { history: HistoryId(id()), format: number(1) as u32 }),
            1 => {
                let (epoch, node) = (Epoch(number(1) as i32), NodeId(number(2) as i32));
                self.contents.part = Some(Part { epoch, node, incarnation: Incarnation(id()), held: number(3) != 0 });
            }
            2 => {
                let (chunks, checksum) = (number(3) as u32, number(4) as u32);
                log.head = Some(Stored { value: SnapshotHead { upto: number(1), epoch, chunks, checksum }, revision });
            }
            3 => {
                let bytes = bytes();
                self.bytes += bytes.len();
                log.chunks.insert(ChunkKey { upto: number(1), epoch, index: number(3) as u32 }, bytes);
            }
            4 => {
                let value = Entry { nonce: Nonce(id()), epoch, count: number(3), bytes: bytes() };
                self.bytes += value.bytes.len();
                log.entries.insert(number(1), Stored { value, revision });
            }
            _ => return Err(Failure::Malformed("a row of no kind")),
        }
        Ok(())
    }
}
