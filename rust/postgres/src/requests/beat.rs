//! `Beat`: a beat is written over none, over one of another process, or over an older one of its own.

use rota_engine::{
    HistoryId, Meta, Revision,
    requests::{Beaten, Content, PutBeat},
};

use super::{OWN, Small};
use crate::{
    failure::Failure,
    image::{PARTS, owned},
    sql::{Told, is_history, uuid, uuid_at},
};

impl Small for PutBeat {
    fn statements(&self, history: HistoryId) -> String {
        let (id, incarnation, counter) = (self.node.0, uuid(self.beat.incarnation.0), self.beat.counter);
        let follows = format!("(beat_incarnation IS DISTINCT FROM {incarnation} OR beat_counter < {counter})");
        let write = format!(
            "UPDATE node SET beat_incarnation = {incarnation}, beat_counter = {counter} \
             WHERE id = {id} AND incarnation = {incarnation} AND {follows} AND {};",
            is_history(history)
        );
        // What the node still owns is read after its beat is written.
        format!("{write}SELECT incarnation FROM node WHERE id = {id};{PARTS}")
    }

    fn answer(&self, told: &Told, _: Meta, _: Revision) -> Result<Content, Failure> {
        let registered = told.row(OWN + 1)?.map(|row| uuid_at(row, 0)).transpose()?;
        let beaten = if registered != Some(self.beat.incarnation.0) {
            Beaten::Replaced
        } else if told.has_done(OWN)? {
            Beaten::Alive(told.rows(OWN + 2)?.iter().map(owned).collect::<Result<_, _>>()?)
        } else {
            Beaten::Late
        };
        Ok(Content::Beaten(beaten))
    }
}
