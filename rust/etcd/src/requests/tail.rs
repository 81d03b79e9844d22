//! The names of a partition's entries, which `Head` and `Trim` read before they delete some of them.

use rota_engine::{HistoryId, Meta, PartitionId, Revision, SnapshotHead};

use super::{is_history, meta_at, read_meta};
use crate::{
    keys::Keys,
    proto::{RequestOp, TxnRequest, TxnResponse},
    txn::{self, Malformed, delete, get, names, nested, was_written, when},
};

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The snapshot that counts, and the revision that wrote it.
    pub head: Option<(SnapshotHead, Revision)>,
    /// Entries by base offset, with the revisions that wrote them.
    pub entries: Vec<(i64, Revision)>,
}

/// Reads head and names, at one revision.
pub fn transaction(keys: &Keys, history: HistoryId, partition: PartitionId) -> TxnRequest {
    let read = vec![get(keys.head(partition)), names(keys.entries(partition))];
    when(vec![is_history(keys, history)], read, read_meta(keys))
}

/// What the answer says.
pub fn answer(answer: &TxnResponse) -> Result<Result<Tail, Meta>, Malformed> {
    if !answer.succeeded {
        return Ok(Err(meta_at(&answer.responses, 0)?));
    }
    let head = txn::key_at(&answer.responses, 0)?;
    let head = head.map(|kv| Ok((txn::value_of(kv)?, txn::written_at(kv)))).transpose()?;
    let entries = txn::keys_at(&answer.responses, 1)?.iter().map(|kv| {
        let base_offset = Keys::base_offset(&kv.key).ok_or(Malformed("an entry without an offset"))?;
        Ok((base_offset, txn::written_at(kv)))
    });
    Ok(Ok(Tail { head, entries: entries.collect::<Result<_, _>>()? }))
}

impl Tail {
    /// The first entry that stays when everything below `upto` goes, and the revision that wrote it. `None` if nothing
    /// goes.
    ///
    /// An entry goes if its last offset is below `upto`, but never the newest one. No offset is missing, so it ends where
    /// the next one begins.
    pub fn first_to_keep(&self, upto: i64) -> Option<(i64, Revision)> {
        let later = self.entries.iter().skip(1).take_while(|(base_offset, _)| *base_offset <= upto);
        later.last().copied()
    }

    /// Deletes the entries below `upto`, if the first one that stays is still there.
    pub fn delete_below(&self, keys: &Keys, partition: PartitionId, upto: i64) -> Option<RequestOp> {
        let (base_offset, written) = self.first_to_keep(upto)?;
        let is_there = was_written(keys.entry(partition, base_offset), written);
        Some(nested(when(vec![is_there], vec![delete(keys.entries_before(partition, base_offset))], vec![])))
    }
}
