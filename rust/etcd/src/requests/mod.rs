//! The requests of `rota_engine::requests` as transactions of etcd, one file each: what a request compares and writes,
//! and how its answer is read.
//!
//! A transaction compares the history first. What the request itself compares is a transaction nested in it, so the
//! answer shows which of the two has failed. Only `Read`, `Check` and `Usage` are flat: etcd answers a transaction
//! without nested ones and without writes from memory, after it has made sure that no later one was confirmed. `Head`
//! and `Trim` need the names of entries: they are read first, and compared by the transaction that deletes.

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
pub mod tail;
pub mod trim;

use bytes::Bytes;
use rota_engine::{
    HistoryId, Meta, PartitionId, Revision, Token,
    requests::{Answer, Content, Fence},
};

use crate::{
    keys::Keys,
    proto::{Compare, RequestOp, ResponseOp, TxnRequest, TxnResponse},
    txn::{self, Malformed, get, has_value, nested, put, when},
    values::Value,
};

/// A request that is one transaction.
pub trait Mapped: Sync {
    /// What the history's comparison guards: one operation.
    fn operation(&self, keys: &Keys) -> RequestOp {
        nested(self.transaction(keys))
    }

    /// The request's own comparisons, writes and reads.
    fn transaction(&self, keys: &Keys) -> TxnRequest;

    /// Whether the request makes etcd grow, and so counts against its quota.
    fn grows(&self) -> bool {
        false
    }

    /// What the transaction's answer says. `revision` is that of the engine after it.
    fn answer(&self, keys: &Keys, answer: &TxnResponse, revision: Revision) -> Result<Content, Malformed>;
}

/// Requests of one history as one transaction.
///
/// etcd counts a transaction's own puts against its quota, and none of nested transactions. Of requests that make it grow,
/// the transaction has a put that is never carried out, so that the quota holds for them. All others pass when the quota is
/// used up: beats, claims and heads take no more space than what they replace or delete.
pub fn guarded(keys: &Keys, history: HistoryId, requests: &[&dyn Mapped]) -> TxnRequest {
    let operations = requests.iter().map(|request| request.operation(keys)).collect();
    let guarded = when(vec![is_history(keys, history)], operations, read_meta(keys));
    if !is_counted(requests) {
        return guarded;
    }
    when(vec![txn::never(keys.history())], vec![put(keys.counted(), Bytes::new())], vec![nested(guarded)])
}

fn is_counted(requests: &[&dyn Mapped]) -> bool {
    requests.iter().any(|request| request.grows())
}

/// The answers to the requests of [`guarded`].
pub fn answers(keys: &Keys, answer: &TxnResponse, requests: &[&dyn Mapped]) -> Result<Vec<Answer>, Malformed> {
    let revision = txn::revision(answer)?;
    let answer = if is_counted(requests) { txn::nested_at(&answer.responses, 0)? } else { answer };
    let content = |(index, request): (usize, &&dyn Mapped)| {
        if !answer.succeeded {
            return other_history(&answer.responses);
        }
        request.answer(keys, txn::nested_at(&answer.responses, index)?, revision)
    };
    let contents = requests.iter().enumerate().map(content);
    contents.map(|content| content.map(|content| Answer { revision, content })).collect()
}

/// What every transaction compares first.
pub fn is_history(keys: &Keys, history: HistoryId) -> Compare {
    has_value(keys.history(), history.encode())
}

/// Reads what [`meta_at`] decodes: two operations.
pub fn read_meta(keys: &Keys) -> Vec<RequestOp> {
    vec![get(keys.history()), get(keys.format())]
}

/// The history and format that [`read_meta`] has read. A prefix that was wiped has history 0, which is never begun.
pub fn meta_at(responses: &[ResponseOp], index: usize) -> Result<Meta, Malformed> {
    let history = txn::value_at(responses, index)?.unwrap_or(HistoryId(0));
    let format = txn::value_at(responses, index + 1)?.unwrap_or(0);
    Ok(Meta { history, format })
}

fn other_history(responses: &[ResponseOp]) -> Result<Content, Malformed> {
    meta_at(responses, 0).map(Content::OtherHistory)
}

/// The fence: the partition's owner is the token's, by value.
fn is_held(keys: &Keys, partition: PartitionId, token: &Token) -> Compare {
    has_value(keys.part(partition), token.part().encode())
}

/// If the owner is the token's, then `operations`, else reads the owner.
fn when_held(keys: &Keys, partition: PartitionId, token: &Token, operations: Vec<RequestOp>) -> TxnRequest {
    when(vec![is_held(keys, partition, token)], operations, vec![get(keys.part(partition))])
}

/// The answer to [`when_held`].
fn fence(answer: &TxnResponse) -> Result<Content, Malformed> {
    let fence = if answer.succeeded { Fence::Held } else { Fence::Refused(txn::value_at(&answer.responses, 0)?) };
    Ok(Content::Fence(fence))
}
