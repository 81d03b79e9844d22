//! `Append`: owner by value, a free position, and the entry before it by the revision that wrote it.

use rota_engine::{
    Entry, PartitionId, Prev, Revision,
    requests::{Append, Appended, Content},
};

use super::{Mapped, is_held};
use crate::{
    keys::Keys,
    proto::{Compare, TxnRequest, TxnResponse},
    txn::{self, Malformed, get, is_absent, put, was_written, when},
    values,
};

impl Mapped for Append {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let entry = keys.entry(self.partition, self.base_offset);
        let compare = vec![
            is_held(keys, self.partition, &self.token),
            is_absent(entry.clone()),
            has_prev(keys, self.partition, self.prev),
        ];
        let value = values::encode_entry(self.nonce, self.token.epoch, self.count, &self.bytes);
        when(compare, vec![put(entry.clone(), value)], vec![get(keys.part(self.partition)), get(entry)])
    }

    fn grows(&self) -> bool {
        true
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, revision: Revision) -> Result<Content, Malformed> {
        if answer.succeeded {
            return Ok(Content::Appended(Appended::Written(revision)));
        }
        let part = txn::value_at(&answer.responses, 0)?;
        let entry = txn::key_at(&answer.responses, 1)?;
        let entry = entry.map(|kv| Ok((txn::value_of::<Entry>(kv)?.nonce, txn::written_at(kv)))).transpose()?;
        Ok(Content::Appended(Appended::Refused { part, entry }))
    }
}

/// The log still ends as its owner knows.
pub(super) fn has_prev(keys: &Keys, partition: PartitionId, prev: Prev) -> Compare {
    match prev {
        Prev::Nothing => is_absent(keys.head(partition)),
        Prev::Head(revision) => was_written(keys.head(partition), revision),
        Prev::Entry(base_offset, revision) => was_written(keys.entry(partition, base_offset), revision),
    }
}
