//! `Chunk`: the key has offset and epoch, so chunks of two owners do not meet.

use rota_engine::{
    Revision,
    requests::{Content, PutChunk},
};

use super::{Mapped, fence, is_held};
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{Malformed, get, is_present, put, when},
};

impl Mapped for PutChunk {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let mut compare = vec![is_held(keys, self.partition, &self.token)];
        compare.extend(self.key_before().map(|before| is_present(keys.chunk(self.partition, before))));
        let put = put(keys.chunk(self.partition, self.key()), self.bytes.clone().into());
        when(compare, vec![put], vec![get(keys.part(self.partition))])
    }

    fn grows(&self) -> bool {
        true
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        fence(answer)
    }
}
