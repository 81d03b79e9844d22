//! `Beat`: a beat is written over none, over one of another process, or over an older one of its own. A process that was
//! shown a beat writes over that one or a later one only.

use rota_engine::{
    HistoryId, Meta, Revision,
    requests::{Beaten, Content, PutBeat},
};

use super::{OWN, Small};
use crate::{
    failure::Failure,
    image::{PARTS, owned},
    sql::{Told, bool_at, is_history, uuid, uuid_at},
};

impl Small for PutBeat {
    fn statements(&self, history: HistoryId) -> String {
        let (id, incarnation, counter) = (self.node.0, uuid(self.beat.incarnation.0), self.beat.counter);
        let shown = self.shown;
        let has_shown = if shown == 0 {
            "true".to_owned()
        } else {
            format!("(beat_incarnation = {incarnation} AND beat_counter >= {shown})")
        };
        let follows = format!("(beat_incarnation IS DISTINCT FROM {incarnation} OR beat_counter < {counter})");
        let write = format!(
            "UPDATE node SET beat_incarnation = {incarnation}, beat_counter = {counter} \
             WHERE id = {id} AND incarnation = {incarnation} AND {has_shown} AND {follows} AND {};",
            is_history(history)
        );
        // What the node still owns is read after its beat is written.
        format!("{write}SELECT incarnation, coalesce({has_shown}, false) FROM node WHERE id = {id};{PARTS}")
    }

    fn answer(&self, told: &Told, _: Meta, _: Revision) -> Result<Content, Failure> {
        let found = told.row(OWN + 1)?.map(|row| Ok::<_, Failure>((uuid_at(row, 0)?, bool_at(row, 1)?))).transpose()?;
        let has_shown = found.and_then(|(registered, has)| (registered == self.beat.incarnation.0).then_some(has));
        let beaten = match has_shown {
            None => Beaten::Replaced,
            Some(_) if told.has_done(OWN)? => {
                Beaten::Alive(told.rows(OWN + 2)?.iter().map(owned).collect::<Result<_, _>>()?)
            }
            Some(true) => Beaten::Late,
            Some(false) => Beaten::Lost,
        };
        Ok(Content::Beaten(beaten))
    }
}
