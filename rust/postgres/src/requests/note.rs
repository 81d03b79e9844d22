//! `Note`: a note that already has the value is as good as one that was written.

use rota_engine::{
    HistoryId, Meta, Revision,
    requests::{Content, NotePut, PutNote},
};

use super::{OWN, Small};
use crate::{
    failure::Failure,
    sql::{Told, bytes, bytes_at, is_history, text},
};

impl Small for PutNote {
    fn statements(&self, history: HistoryId) -> String {
        let (name, is_history) = (text(&self.name), is_history(history));
        let write = match (&self.seen, &self.value) {
            (None, Some(value)) => format!(
                "INSERT INTO note (name, value) SELECT {name}, {} WHERE {is_history} ON CONFLICT DO NOTHING;",
                bytes(value)
            ),
            (Some(seen), Some(value)) => format!(
                "UPDATE note SET value = {} WHERE name = {name} AND value = {} AND {is_history};",
                bytes(value),
                bytes(seen)
            ),
            (Some(seen), None) => {
                format!("DELETE FROM note WHERE name = {name} AND value = {} AND {is_history};", bytes(seen))
            }
            (None, None) => "SELECT;".to_owned(),
        };
        format!("{write}SELECT value FROM note WHERE name = {name};")
    }

    fn answer(&self, told: &Told, _: Meta, _: Revision) -> Result<Content, Failure> {
        let found = told.row(OWN + 1)?.map(|row| bytes_at(row, 0)).transpose()?;
        let put = if found == self.value { NotePut::Written } else { NotePut::Refused(found) };
        Ok(Content::NotePut(put))
    }
}
