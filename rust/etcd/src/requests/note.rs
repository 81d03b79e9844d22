//! `Note`: compared by value; a note that has the new value already is written.

use rota_engine::{
    Revision,
    requests::{Content, NotePut, PutNote},
};

use super::Mapped;
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{self, Malformed, delete_key, get, is_found, nested, put, when},
};

impl Mapped for PutNote {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let key = keys.note(&self.name);
        let write = match &self.value {
            Some(value) => put(key.clone(), value.clone().into()),
            None => delete_key(key.clone()),
        };
        let replace = when(vec![is_found(key.clone(), self.seen.as_ref())], vec![write], vec![get(key.clone())]);
        when(vec![is_found(key, self.value.as_ref())], vec![], vec![nested(replace)])
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        if answer.succeeded {
            return Ok(Content::NotePut(NotePut::Written));
        }
        let replace = txn::nested_at(&answer.responses, 0)?;
        let put =
            if replace.succeeded { NotePut::Written } else { NotePut::Refused(txn::value_at(&replace.responses, 0)?) };
        Ok(Content::NotePut(put))
    }
}
