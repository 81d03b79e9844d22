//! `Head`: the head and the deletion of what it has, in one transaction.

use rota_engine::{
    Revision,
    requests::{Content, HeadPut, PutHead},
};

use super::{Mapped, append::has_prev, tail::Tail, when_held};
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{self, Malformed, get, has_value, is_found, is_present, nested, put, when},
    values::Value,
};

/// The request, with the entries as they were read before it.
#[derive(Clone, Debug)]
pub struct HeadOver<'a> {
    /// The request.
    pub put: &'a PutHead,
    /// The entries.
    pub tail: Tail,
}

impl Mapped for HeadOver<'_> {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let PutHead { partition, token, replaces, prev, head } = self.put;
        let key = keys.head(*partition);
        let mut compare = vec![is_found(key.clone(), replaces.as_ref()), has_prev(keys, *partition, *prev)];
        // The last chunk is written after all others. An owner that outlives a restore does not find it.
        if let Some(last) = head.chunks.checked_sub(1) {
            compare.push(is_present(keys.chunk(*partition, head.chunk_key(last))));
        }
        let mut write = vec![put(key.clone(), head.encode())];
        write.extend(self.tail.delete_below(keys, *partition, head.upto));
        let replace = when(compare, write, vec![get(keys.part(*partition))]);
        let is_written = when(vec![has_value(key, head.encode())], vec![], vec![nested(replace)]);
        when_held(keys, *partition, token, vec![nested(is_written)])
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        if !answer.succeeded {
            return Ok(Content::HeadPut(HeadPut::Refused(txn::value_at(&answer.responses, 0)?)));
        }
        let is_written = txn::nested_at(&answer.responses, 0)?;
        if is_written.succeeded {
            return Ok(Content::HeadPut(HeadPut::Written));
        }
        let replace = txn::nested_at(&is_written.responses, 0)?;
        if replace.succeeded {
            return Ok(Content::HeadPut(HeadPut::Written));
        }
        Ok(Content::HeadPut(HeadPut::Refused(txn::value_at(&replace.responses, 0)?)))
    }
}
