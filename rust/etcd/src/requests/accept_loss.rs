//! `AcceptLoss`: the history that is compared first is the one that lost something.

use rota_engine::{
    Revision,
    requests::{AcceptLoss, Content},
};

use super::Mapped;
use crate::{
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    txn::{Malformed, put, when},
    values::Value,
};

impl Mapped for AcceptLoss {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        when(vec![], vec![put(keys.history(), self.begin.encode())], vec![])
    }

    fn answer(&self, _: &Keys, _: &TxnResponse, _: Revision) -> Result<Content, Malformed> {
        Ok(Content::HistoryBegun)
    }
}
