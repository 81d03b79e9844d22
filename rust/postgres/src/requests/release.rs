//! `Release`: the owner stays in the row, so that its epoch is known.

use rota_engine::{
    HistoryId, Meta, Revision,
    requests::{Content, Fence, Release},
};

use super::{OWN, REVISION, Small, part_of};
use crate::{
    failure::Failure,
    image,
    sql::{Told, is_held},
};

impl Small for Release {
    fn statements(&self, history: HistoryId) -> String {
        let is_held = is_held(self.partition, &self.token, history);
        let write = format!("UPDATE part SET held = false, revision = {REVISION} WHERE {is_held};");
        format!("{write}{}", part_of(self.partition))
    }

    fn answer(&self, told: &Told, _: Meta, _: Revision) -> Result<Content, Failure> {
        if told.has_done(OWN)? {
            return Ok(Content::Fence(Fence::Held));
        }
        let part = told.row(OWN + 1)?.map(|row| image::part(row, 0)).transpose()?;
        Ok(Content::Fence(Fence::Refused(part)))
    }
}
