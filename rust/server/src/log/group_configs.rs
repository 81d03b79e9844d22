//! The settings that groups have of their own (docs/consumer-protocol.md §20): one table for all nodes, and its file in
//! the data directory.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rota_core::consumer_group::config::GroupSettings;

use super::data_dir::DataDir;
use crate::base::{
    error::ServerError,
    text_file::{TextFile, check_format, entries, escaped, summed, unescaped},
};

/// The table's file in the data directory.
pub const GROUPS_FILE: &str = "rota.groups";

/// The first word of the file, before the number of its format.
const HEAD: &str = "rota.groups ";
/// The format that this release writes.
const FORMAT: u32 = 1;

/// Settings by group id. Groups without settings of their own are not in it.
pub type GroupTable = BTreeMap<Arc<str>, GroupSettings>;

/// The table, which all nodes share.
#[derive(Debug, Default)]
pub struct GroupConfigs {
    table: Mutex<Arc<GroupTable>>,
    version: AtomicU64,
    /// `None`: in memory.
    file: Option<TextFile>,
}

impl GroupConfigs {
    /// Reads the table of a data directory. Errors: `BadData`.
    pub fn in_data_dir(data: &DataDir) -> Result<GroupConfigs, ServerError> {
        let file = data.text_file(GROUPS_FILE);
        let unreadable = |reason| data.bad(&format!("has a `{GROUPS_FILE}` that cannot be read: {reason}"));
        let text = file.read().map_err(|error| unreadable(error.to_string()))?;
        let table = text.map_or(Ok(GroupTable::new()), |text| {
            check_format(&text, HEAD, FORMAT)?;
            parse(&text).map_err(|reason| format!("{reason}; restore it from a copy"))
        });
        let table = Mutex::new(Arc::new(table.map_err(unreadable)?));
        Ok(GroupConfigs { table, version: AtomicU64::new(1), file: Some(file) })
    }

    /// Returns the number of changes.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the table.
    pub fn table(&self) -> Arc<GroupTable> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the settings of a group.
    pub fn of(&self, group_id: &str) -> GroupSettings {
        self.table().get(group_id).copied().unwrap_or_default()
    }

    /// Sets what `change` makes of a group's settings. They are durable when this returns. Errors: of `change`, or why
    /// the file could not be written.
    pub fn change<E: From<io::Error>>(
        &self,
        group_id: &str,
        change: impl FnOnce(GroupSettings) -> Result<GroupSettings, E>,
    ) -> Result<(), E> {
        let mut published = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let before = published.get(group_id).copied().unwrap_or_default();
        let after = change(before)?;
        if after == before {
            return Ok(());
        }
        let mut table = GroupTable::clone(&published);
        if after == GroupSettings::default() {
            table.remove(group_id);
        } else {
            table.insert(group_id.into(), after);
        }
        if let Some(file) = &self.file {
            file.replace(&written(&table))?;
        }
        *published = Arc::new(table);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// Formats the file: a line per setting with its name, value and group, then the checksum.
fn written(table: &GroupTable) -> String {
    let mut text = format!("{HEAD}{FORMAT}\n");
    for (group_id, settings) in table {
        for name in GroupSettings::NAMES {
            if let Some(value) = GroupSettings::clone(settings).value_mut(name).and_then(|value| *value) {
                let _infallible = writeln!(text, "{name} {value} {}", escaped(group_id));
            }
        }
    }
    summed(text)
}

fn parse(text: &str) -> Result<GroupTable, String> {
    let mut table = GroupTable::new();
    for line in entries(text, HEAD, FORMAT)? {
        let bad = || format!("the line `{line}` cannot be parsed");
        let [name, value, group_id] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { return Err(bad()) };
        let group_id = unescaped(group_id).ok_or_else(bad)?;
        let settings = table.entry(group_id.into()).or_default();
        *settings.value_mut(name).ok_or_else(bad)? = Some(value.parse().map_err(|_| bad())?);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let settings = GroupSettings { session_timeout_ms: Some(50_000), ..GroupSettings::default() };
        let both = GroupSettings { heartbeat_interval_ms: Some(6_000), ..settings };
        let table = GroupTable::from([("a b".into(), settings), ("100%\n".into(), both)]);
        assert_eq!(parse(&written(&table)).unwrap(), table);
    }

    #[test]
    fn a_changed_byte_and_a_later_format_are_refused() {
        let table = GroupTable::from([(
            "g".into(),
            GroupSettings { session_timeout_ms: Some(50_000), ..GroupSettings::default() },
        )]);
        let text = written(&table);
        assert_eq!(parse(&text.replacen('5', "6", 1)).unwrap_err(), "its checksum is wrong");
        let later = summed("rota.groups 2\n".to_owned());
        assert!(check_format(&later, HEAD, FORMAT).unwrap_err().starts_with("it has format 2, and"));
        assert_eq!(
            parse(&summed("rota.groups 1\nnope 1 g\n".to_owned())).unwrap_err(),
            "the line `nope 1 g` cannot be parsed"
        );
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing() {
        let configs = GroupConfigs::default();
        let refused = configs.change("g", |_| Err(io::Error::other("no")));
        assert_eq!(refused.unwrap_err().to_string(), "no");
        assert_eq!((configs.version(), configs.table().len()), (0, 0));
        let set = |settings| Ok::<_, io::Error>(GroupSettings { session_timeout_ms: Some(50_000), ..settings });
        configs.change("g", set).unwrap();
        assert_eq!((configs.version(), configs.of("g").session_timeout_ms), (1, Some(50_000)));
        configs.change("g", |_| Ok::<_, io::Error>(GroupSettings::default())).unwrap();
        assert_eq!((configs.version(), configs.table().len()), (2, 0));
    }
}
