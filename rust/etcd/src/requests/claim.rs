//! `Claim`: compares the owner that was seen, and its silence, by value.

use rota_engine::{
    Revision,
    requests::{Claim, Claimed, Content, Silence},
};

use super::Mapped;
use crate::{
    keys::Keys,
    proto::{Compare, TxnRequest, TxnResponse},
    txn::{self, Malformed, get, has_other_value, is_found, put, when},
    values::Value,
};

impl Mapped for Claim {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let part = keys.part(self.partition);
        let mut compare = vec![is_found(part.clone(), self.seen.as_ref())];
        compare.extend(is_silent(keys, self.silence));
        when(compare, vec![put(part.clone(), self.part().encode())], vec![get(part)])
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, revision: Revision) -> Result<Content, Malformed> {
        if answer.succeeded {
            return Ok(Content::Claimed(Claimed::Owner(self.token(revision))));
        }
        let owner = txn::key_at(&answer.responses, 0)?;
        let owner = owner.map(|kv| Ok((txn::value_of(kv)?, txn::written_at(kv)))).transpose()?;
        Ok(Content::Claimed(Claimed::Lost(owner)))
    }
}

fn is_silent(keys: &Keys, silence: Silence) -> Option<Compare> {
    match silence {
        Silence::NotNeeded => None,
        Silence::Beat(node, beat) => Some(is_found(keys.beat(node), beat.as_ref())),
        Silence::Replaced(node, incarnation) => Some(has_other_value(keys.incarnation(node), incarnation.encode())),
    }
}
