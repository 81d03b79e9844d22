//! `Release`: the same owner, as released.

use rota_engine::{
    Part, Revision,
    requests::{Content, Release},
};

use super::{Mapped, fence, when_held};
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{Malformed, put},
    values::Value,
};

impl Mapped for Release {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let released = Part { held: false, ..self.token.part() };
        let put = put(keys.part(self.partition), released.encode());
        when_held(keys, self.partition, &self.token, vec![put])
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        fence(answer)
    }
}
