//! `Trim`: deletes only, so that it works when etcd refuses every write.

use rota_engine::{
    Revision,
    requests::{Content, Trim},
};

use super::{Mapped, fence, tail::Tail, when_held};
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{Malformed, nested, was_written, when},
};

/// The request, with the head and the entries as they were read before it.
#[derive(Clone, Debug)]
pub struct TrimOver<'a> {
    /// The request.
    pub trim: &'a Trim,
    /// Head and entries.
    pub tail: Tail,
}

impl Mapped for TrimOver<'_> {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let Trim { partition, token } = self.trim;
        let goes = self.tail.head.and_then(|(head, written)| {
            let below = self.tail.delete_below(keys, *partition, head.upto)?;
            Some(nested(when(vec![was_written(keys.head(*partition), written)], vec![below], vec![])))
        });
        when_held(keys, *partition, token, goes.into_iter().collect())
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        fence(answer)
    }
}
