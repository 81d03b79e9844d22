//! `Register`: the id is free, or belongs to the same directory.

use rota_engine::{
    Directory, HistoryId, Meta, Revision,
    requests::{Content, Register, Registered},
};

use super::{OWN, Small};
use crate::{
    failure::Failure,
    image,
    sql::{Told, is_history, uuid, uuid_at},
};

impl Small for Register {
    fn statements(&self, history: HistoryId) -> String {
        let (id, directory, incarnation) = (self.node.0, uuid(self.directory.0), uuid(self.incarnation.0));
        let write = format!(
            "INSERT INTO node (id, directory, incarnation) SELECT {id}, {directory}, {incarnation} WHERE {} \
             ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation WHERE node.directory = excluded.directory;",
            is_history(history)
        );
        format!("{write}SELECT directory FROM node WHERE id = {id};{}", image::statements())
    }

    fn answer(&self, told: &Told, meta: Meta, revision: Revision) -> Result<Content, Failure> {
        let known = told.row(OWN + 1)?.ok_or(Failure::Malformed("a node that is not there"))?;
        let directory = Directory(uuid_at(known, 0)?);
        let registered = if directory == self.directory {
            Registered::As(image::view(told, OWN + 2, meta, revision)?)
        } else {
            Registered::Taken(directory)
        };
        Ok(Content::Registered(registered))
    }
}
