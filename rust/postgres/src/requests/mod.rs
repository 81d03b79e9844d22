//! The requests of `rota_engine::requests` as statements, one file each: what a request compares and writes, and how its
//! answer is read.
//!
//! A [`Small`] request changes small keys. It takes the lock of small keys first, and each of its statements sees what was
//! committed before. A [`Fenced`] request concerns one partition. All its statements see one snapshot, and lock the
//! partition's row: a row that has changed since then aborts the transaction, which is sent again. `Append` and `Chunk`
//! have statements with parameters, because their bytes are many; `Read` has one whose rows are streamed.

pub mod accept_loss;
pub mod append;
pub mod beat;
pub mod check;
pub mod chunk;
pub mod claim;
pub mod head;
pub mod note;
pub mod read;
pub mod register;
pub mod release;
pub mod sweep;
pub mod trim;
pub mod usage;

use rota_engine::{
    HistoryId, Meta, PartitionId, Revision,
    requests::{Answer, Content, Fence},
};

use crate::{
    failure::Failure,
    image::{self, META},
    sql::{Told, value},
};

/// One at a time changes small keys: the order of revisions is that of commits.
const LOCK: &str = "SELECT pg_advisory_xact_lock('meta'::regclass::oid::bigint);";
/// Every request writes, also one that is refused: its answer waits until standbys have what it has read.
const REVISE: &str = "UPDATE meta SET revision = nextval('revision') RETURNING history, format, revision;";
/// The revision after a request that concerns a partition.
pub const LAST: &str = "SELECT last_value FROM revision;";
/// Waits until standbys have everything that was read before: a host that was replaced does not get their answer.
pub const BARRIER: &str = "SELECT pg_logical_emit_message(true, 'rota', '');";

/// A request that changes small keys.
pub trait Small: Sync {
    /// The request's own statements. Those that write compare the history.
    fn statements(&self, history: HistoryId) -> String;

    /// What they have answered, in the history that the request names. The first one is statement [`OWN`].
    fn answer(&self, told: &Told, meta: Meta, revision: Revision) -> Result<Content, Failure>;
}

/// The number of a request's first own statement.
pub const OWN: usize = 2;

/// A request that changes small keys, as one message. Those who listen to the channel hear of it.
pub fn small(request: &dyn Small, history: HistoryId, channel: &str) -> String {
    format!("{LOCK}{REVISE}{}SELECT pg_notify('{channel}', '');", request.statements(history))
}

/// What the message has answered.
pub fn small_answer(request: &dyn Small, history: HistoryId, told: &Told) -> Result<Answer, Failure> {
    let (meta, revision) = image::meta(told.row(1)?)?;
    let content =
        if meta.history == history { request.answer(told, meta, revision)? } else { Content::OtherHistory(meta) };
    Ok(Answer { revision, content })
}

/// A request that concerns one partition.
pub trait Fenced: Sync {
    /// The partition.
    fn partition(&self) -> PartitionId;

    /// The request's own statements. The first one locks the partition's row if the request's owner is the partition's.
    fn statements(&self, history: HistoryId) -> String;

    /// What they have answered. The first one is statement [`OWN`].
    fn answer(&self, told: &Told) -> Result<Content, Failure>;
}

/// At most so many rows of a deletion. Each of its transactions deletes some, and one that is sent again goes on.
#[derive(Clone, Copy, Debug)]
pub struct Batch<T> {
    /// The request.
    pub of: T,
    /// How many.
    pub rows: u64,
}

/// A request that concerns one partition, as one message. One that is refused writes nothing, so it has a barrier.
pub fn fenced(request: &dyn Fenced, history: HistoryId) -> String {
    [META, &part_of(request.partition()), &request.statements(history), BARRIER, LAST].concat()
}

/// Reads a partition's owner.
pub fn part_of(partition: PartitionId) -> String {
    format!("SELECT epoch, node, incarnation, held, revision FROM part WHERE p = {};", partition.0)
}

/// What the message has answered.
pub fn fenced_answer(request: &dyn Fenced, history: HistoryId, told: &Told) -> Result<Answer, Failure> {
    let (meta, _) = image::meta(told.row(0)?)?;
    let content = if meta.history == history { request.answer(told)? } else { Content::OtherHistory(meta) };
    Ok(Answer { revision: Revision(value(told.last()?, 0)?), content })
}

/// What the fence says: the first own statement has found the owner's row, or the owner is another one.
fn fence(told: &Told) -> Result<Fence, Failure> {
    if told.has_done(OWN)? {
        return Ok(Fence::Held);
    }
    Ok(Fence::Refused(told.row(1)?.map(|row| image::part(row, 0)).transpose()?))
}

/// Takes the lock on the partition's row that keeps its owner the owner, beside others who do the same.
fn hold(is_held: &str) -> String {
    format!("SELECT FROM part WHERE {is_held} FOR SHARE;")
}

/// Takes the lock that appends wait for: the tail is about to change. One that has begun before is aborted.
fn change_tail(is_held: &str) -> String {
    format!("UPDATE part SET heads = heads + 1 WHERE {is_held};")
}

/// The revision of the message's change of small keys.
const REVISION: &str = "(SELECT revision FROM meta)";
