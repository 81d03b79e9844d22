//! `Check`: flat, so that etcd answers it without a write to its log.

use rota_engine::{
    HistoryId,
    requests::{Answer, Check, Content, Fence},
};

use super::{is_held, is_history, meta_at, read_meta};
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{self, Malformed, get, when},
};

/// The check as a transaction.
pub fn transaction(check: &Check, keys: &Keys, history: HistoryId) -> TxnRequest {
    let compare = vec![is_history(keys, history), is_held(keys, check.partition, &check.token)];
    let part = get(keys.part(check.partition));
    let mut failure = read_meta(keys);
    failure.push(part.clone());
    when(compare, vec![part], failure)
}

/// What its answer says.
pub fn answer(answer: &TxnResponse, history: HistoryId) -> Result<Answer, Malformed> {
    let revision = txn::revision(answer)?;
    if answer.succeeded {
        return Ok(Answer { revision, content: Content::Fence(Fence::Held) });
    }
    let meta = meta_at(&answer.responses, 0)?;
    let content = if meta.history == history {
        Content::Fence(Fence::Refused(txn::value_at(&answer.responses, 2)?))
    } else {
        Content::OtherHistory(meta)
    };
    Ok(Answer { revision, content })
}
