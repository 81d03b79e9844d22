//! `Chunk`: the key has offset and epoch, so chunks of two owners do not meet.

use rota_engine::{
    ChunkKey, Revision,
    requests::{Content, PutChunk},
};

use super::{Mapped, fence, when_held};
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{Malformed, put},
};

impl Mapped for PutChunk {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let key = ChunkKey { upto: self.upto, epoch: self.token.epoch, index: self.index };
        let put = put(keys.chunk(self.partition, key), self.bytes.clone().into());
        when_held(keys, self.partition, &self.token, vec![put])
    }

    fn grows(&self) -> bool {
        true
    }

    fn answer(&self, _: &Keys, answer: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        fence(answer)
    }
}
