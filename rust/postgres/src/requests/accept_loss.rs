//! `AcceptLoss`: the history that is compared first is the one that lost something. Fences have the history, too.

use rota_engine::{
    HistoryId, Meta, Revision,
    requests::{AcceptLoss, Content},
};

use super::Small;
use crate::{
    failure::Failure,
    sql::{Told, uuid},
};

impl Small for AcceptLoss {
    fn statements(&self, history: HistoryId) -> String {
        let (lost, begin) = (uuid(history.0), uuid(self.begin.0));
        format!(
            "UPDATE part SET history = {begin} WHERE history = {lost};\
             UPDATE meta SET history = {begin} WHERE history = {lost};"
        )
    }

    fn answer(&self, _: &Told, _: Meta, _: Revision) -> Result<Content, Failure> {
        Ok(Content::HistoryBegun)
    }
}
