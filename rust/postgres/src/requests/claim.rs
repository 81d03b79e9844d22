//! `Claim`: compares the owner that was seen, and its silence. It waits for appends that hold the partition's row.

use rota_engine::{
    HistoryId, Meta, Revision,
    requests::{Claim, Claimed, Content, Silence},
};

use super::{OWN, REVISION, Small, part_of};
use crate::{
    failure::Failure,
    image,
    sql::{Told, is_history, is_part, uuid, value},
};

impl Small for Claim {
    fn statements(&self, history: HistoryId) -> String {
        let (p, part, uuid_of) = (self.partition.0, self.part(), uuid(history.0));
        let (epoch, node, incarnation) = (part.epoch.0, part.node.0, uuid(part.incarnation.0));
        let may = format!("{} AND {}", is_history(history), is_silent(self.silence));
        let write = match &self.seen {
            None => format!(
                "INSERT INTO part (p, history, epoch, node, incarnation, held, revision) \
                 SELECT {p}, {uuid_of}, {epoch}, {node}, {incarnation}, true, {REVISION} WHERE {may} ON CONFLICT DO NOTHING;"
            ),
            Some(seen) => format!(
                "UPDATE part SET history = {uuid_of}, epoch = {epoch}, node = {node}, incarnation = {incarnation}, \
                 held = true, revision = {REVISION} WHERE p = {p} AND {} AND {may};",
                is_part(seen)
            ),
        };
        format!("{write}{}", part_of(self.partition))
    }

    fn answer(&self, told: &Told, _: Meta, revision: Revision) -> Result<Content, Failure> {
        if told.has_done(OWN)? {
            return Ok(Content::Claimed(Claimed::Owner(self.token(revision))));
        }
        let owner = |row| Ok::<_, Failure>((image::part(row, 0)?, Revision(value(row, 4)?)));
        Ok(Content::Claimed(Claimed::Lost(told.row(OWN + 1)?.map(owner).transpose()?)))
    }
}

fn is_silent(silence: Silence) -> String {
    match silence {
        Silence::NotNeeded => "true".to_owned(),
        Silence::Beat(node, None) => {
            format!("NOT EXISTS (SELECT FROM node WHERE id = {} AND beat_incarnation IS NOT NULL)", node.0)
        }
        Silence::Beat(node, Some(beat)) => format!(
            "EXISTS (SELECT FROM node WHERE id = {} AND beat_incarnation = {} AND beat_counter = {})",
            node.0,
            uuid(beat.incarnation.0),
            beat.counter
        ),
        Silence::Replaced(node, incarnation) => {
            format!("EXISTS (SELECT FROM node WHERE id = {} AND incarnation <> {})", node.0, uuid(incarnation.0))
        }
    }
}
