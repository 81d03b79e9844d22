//! `Register`: the directory and the process are keys of their own, so that each is compared by value.

use rota_engine::{
    Directory, Revision,
    requests::{Content, Register, Registered},
};

use super::Mapped;
use crate::{
    image::Image,
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{self, Malformed, get, has_value, is_absent, nested, put, range, when},
    values::Value,
};

impl Mapped for Register {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let directory = keys.directory(self.node);
        let incarnation = || put(keys.incarnation(self.node), self.incarnation.encode());
        let known = when(
            vec![has_value(directory.clone(), self.directory.encode())],
            vec![incarnation(), range(keys.view(), 0)],
            vec![get(directory.clone())],
        );
        when(
            vec![is_absent(directory.clone())],
            vec![put(directory, self.directory.encode()), incarnation(), range(keys.view(), 0)],
            vec![nested(known)],
        )
    }

    fn answer(&self, keys: &Keys, answer: &TxnResponse, revision: Revision) -> Result<Content, Malformed> {
        let (registered, view) =
            if answer.succeeded { (answer, 2) } else { (txn::nested_at(&answer.responses, 0)?, 1) };
        if !registered.succeeded {
            let directory: Option<Directory> = txn::value_at(&registered.responses, 0)?;
            let directory = directory.ok_or(Malformed("a node without a directory"))?;
            return Ok(Content::Registered(Registered::Taken(directory)));
        }
        let image = Image::read(keys, txn::keys_at(&registered.responses, view)?);
        Ok(Content::Registered(Registered::As(image.view(revision)?)))
    }
}
