//! `Sweep`: chunks are ordered by offset and epoch, so older ones are a range.

use rota_engine::{
    Revision,
    requests::{Content, Sweep},
};

use super::{Mapped, fence, when_held};
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{Malformed, delete},
};

impl Mapped for Sweep {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let older = delete(keys.chunks_before(self.partition, &self.keep));
        when_held(keys, self.partition, &self.token, vec![older])
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        fence(answer)
    }
}
