//! The settings that groups have of their own (docs/consumer-protocol.md §20): one table for all nodes, and its file in
//! the data directory. Those of a cluster are notes of the engine, so all servers have the same.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rota_cluster::notes;
use rota_core::consumer_group::config::GroupSettings;
use rota_engine::{HistoryId, Revision, requests::PutNote};

use super::{data_dir::DataDir, notes::Notes};
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
    /// `None`: in memory, or in the engine.
    file: Option<TextFile>,
    engine: OnceLock<Notes>,
    seen: Mutex<Seen>,
}

/// The notes of the engine that the table follows.
#[derive(Debug, Default)]
struct Seen {
    history: Option<HistoryId>,
    revision: Revision,
    notes: BTreeMap<String, Vec<u8>>,
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
        Ok(GroupConfigs { table, version: AtomicU64::new(1), file: Some(file), ..GroupConfigs::default() })
    }

    /// Keeps the settings in the engine of a cluster, once.
    pub fn share(&self, engine: Notes) {
        // A second one would not be the cluster's.
        let _once = self.engine.set(engine);
    }

    /// The engine has these notes. Revisions of another history say nothing about those before it: the engine was
    /// restored to an earlier one.
    pub fn arrive(&self, history: Option<HistoryId>, revision: Revision, notes: &BTreeMap<String, Vec<u8>>) {
        let mut seen = self.seen();
        let is_another = history.is_some() && history != seen.history;
        if is_another || revision >= seen.revision {
            seen.history = history.or(seen.history);
            seen.revision = revision;
            if seen.notes != *notes {
                seen.notes = notes.clone();
                self.publish(&seen);
            }
        }
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

    /// Sets what each change makes of the settings of its group. They are durable when this returns, by one write of the
    /// file. Errors: of the change, or why the file could not be written.
    pub fn change_all<E: From<io::Error>>(
        &self,
        changes: Vec<(&str, impl FnOnce(GroupSettings) -> Result<GroupSettings, E>)>,
    ) -> Vec<Result<(), E>> {
        if let Some(engine) = self.engine.get() {
            let change = |(group_id, change)| self.change_in_engine(engine, group_id, change);
            return changes.into_iter().map(change).collect();
        }
        let mut published = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = GroupTable::clone(&published);
        let outcomes = changes.into_iter().map(|(group_id, change)| set(&mut table, group_id, change));
        let outcomes: Vec<Result<bool, E>> = outcomes.collect();
        if !outcomes.iter().any(|outcome| matches!(outcome, Ok(true))) {
            return outcomes.into_iter().map(|outcome| outcome.map(drop)).collect();
        }
        if let Some(file) = &self.file
            && let Err(error) = file.replace(&written(&table))
        {
            let unwritten = || E::from(io::Error::new(error.kind(), error.to_string()));
            let answer = |outcome: Result<bool, E>| if outcome? { Err(unwritten()) } else { Ok(()) };
            return outcomes.into_iter().map(answer).collect();
        }
        *published = Arc::new(table);
        self.version.fetch_add(1, Ordering::Release);
        outcomes.into_iter().map(|outcome| outcome.map(drop)).collect()
    }

    /// Errors: of `change`, or why the engine does not have the change, or may not have it.
    fn change_in_engine<E: From<io::Error>>(
        &self,
        engine: &Notes,
        group_id: &str,
        change: impl FnOnce(GroupSettings) -> Result<GroupSettings, E>,
    ) -> Result<(), E> {
        let name = escaped(group_id);
        // Not locked while the engine is asked: its thread passes on what arrives meanwhile.
        let before = self.seen().notes.get(&name).cloned();
        let settings = before.as_deref().map_or(Ok(GroupSettings::default()), read_note).map_err(io::Error::other)?;
        let after = change(settings)?;
        let value = [note(after), of_later_versions(before.as_deref().unwrap_or_default())].concat();
        let value = Some(value).filter(|value| !value.is_empty());
        // Also if nothing changes: what is known here may be old, and the engine compares it.
        let put = PutNote { name: notes::group(&name), seen: before, value: value.clone() };
        let revision = engine.write(vec![put]).map_err(io::Error::other)?;
        let mut seen = self.seen();
        if revision > seen.revision {
            seen.revision = revision;
            match value {
                Some(value) => drop(seen.notes.insert(name, value)),
                None => drop(seen.notes.remove(&name)),
            }
            self.publish(&seen);
        }
        Ok(())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the table that of these notes.
    fn publish(&self, seen: &Seen) {
        let mut table = GroupTable::new();
        for (name, note) in &seen.notes {
            match (unescaped(name), read_note(note)) {
                (Some(group_id), Ok(settings)) => drop(table.insert(group_id.into(), settings)),
                (_, read) => {
                    let reason = read.err().unwrap_or_else(|| "its name is none".to_owned());
                    eprintln!("rota: the settings of group `{name}` in the engine cannot be read: {reason}");
                }
            }
        }
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// Sets what `change` makes of a group's settings. Returns whether that is something else.
fn set<E>(
    table: &mut GroupTable,
    group_id: &str,
    change: impl FnOnce(GroupSettings) -> Result<GroupSettings, E>,
) -> Result<bool, E> {
    let before = table.get(group_id).copied().unwrap_or_default();
    let after = change(before)?;
    if after == GroupSettings::default() {
        table.remove(group_id);
    } else {
        table.insert(group_id.into(), after);
    }
    Ok(after != before)
}

/// Formats the settings of a group as a note of the engine: a line each.
fn note(settings: GroupSettings) -> Vec<u8> {
    let mut text = String::new();
    for (name, value) in values(settings) {
        let _infallible = writeln!(text, "{name} {value}");
    }
    text.into()
}

/// Returns the lines of a note that only a later version knows.
fn of_later_versions(note: &[u8]) -> Vec<u8> {
    let is_known =
        |line: &&[u8]| GroupSettings::NAMES.iter().any(|name| line.starts_with(format!("{name} ").as_bytes()));
    note.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_known(line)).flatten().copied().collect()
}

/// Reads a note. Settings that only a later version knows are left out.
fn read_note(note: &[u8]) -> Result<GroupSettings, String> {
    let mut settings = GroupSettings::default();
    for line in std::str::from_utf8(note).map_err(|error| error.to_string())?.lines() {
        let bad = || format!("the line `{line}` cannot be parsed");
        let (name, value) = line.split_once(' ').ok_or_else(bad)?;
        if let Some(setting) = settings.value_mut(name) {
            *setting = Some(value.parse().map_err(|_| bad())?);
        }
    }
    Ok(settings)
}

/// Returns the settings that are set, with their names.
fn values(mut settings: GroupSettings) -> Vec<(&'static str, i32)> {
    let value = |name| Some((name, settings.value_mut(name).and_then(|value| *value)?));
    GroupSettings::NAMES.into_iter().filter_map(value).collect()
}

/// Formats the file: a line per setting with its name, value and group, then the checksum.
fn written(table: &GroupTable) -> String {
    let mut text = format!("{HEAD}{FORMAT}\n");
    for (group_id, settings) in table {
        for (name, value) in values(*settings) {
            let _infallible = writeln!(text, "{name} {value} {}", escaped(group_id));
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

    /// Changes the settings of one group.
    fn change(
        configs: &GroupConfigs,
        group_id: &str,
        change: impl FnOnce(GroupSettings) -> Result<GroupSettings, io::Error>,
    ) -> Result<(), io::Error> {
        configs.change_all(vec![(group_id, change)]).remove(0)
    }

    #[test]
    fn a_file_that_cannot_be_written_refuses_the_changes_that_need_it() {
        let path = std::path::PathBuf::from(GROUPS_FILE);
        let file = TextFile {
            files: Arc::new(rota_log::files::DiskFiles),
            path,
            is_read_only: true,
            store: std::sync::Weak::new(),
        };
        let configs = GroupConfigs { file: Some(file), ..GroupConfigs::default() };
        let to = |session_timeout_ms| {
            move |settings| match session_timeout_ms {
                Some(0) => Err(io::Error::other("no")),
                _ => Ok(GroupSettings { session_timeout_ms, ..settings }),
            }
        };
        let answers = configs.change_all(vec![("a", to(Some(50_000))), ("b", to(None)), ("c", to(Some(0)))]);
        let errors: Vec<_> = answers.into_iter().map(|answer| answer.err().map(|error| error.to_string())).collect();
        let unwritten = "the data directory is only read";
        assert_eq!(errors, [Some(unwritten.to_owned()), None, Some("no".to_owned())]);
        assert_eq!((configs.version(), configs.table().len()), (0, 0));
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing() {
        let configs = GroupConfigs::default();
        let refused = change(&configs, "g", |_| Err(io::Error::other("no")));
        assert_eq!(refused.unwrap_err().to_string(), "no");
        assert_eq!((configs.version(), configs.table().len()), (0, 0));
        let set = |settings| Ok(GroupSettings { session_timeout_ms: Some(50_000), ..settings });
        change(&configs, "g", set).unwrap();
        assert_eq!((configs.version(), configs.of("g").session_timeout_ms), (1, Some(50_000)));
        change(&configs, "g", |_| Ok(GroupSettings::default())).unwrap();
        assert_eq!((configs.version(), configs.table().len()), (2, 0));
    }

    /// Settings in an engine that has these notes, and how many changes it was asked for.
    fn shared(answer: Result<Revision, String>) -> (GroupConfigs, Arc<AtomicU64>) {
        let (configs, asked) = (GroupConfigs::default(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&asked);
        let put = move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            let (sender, receiver) = std::sync::mpsc::channel();
            sender.send(rota_cluster::Written::All(answer.clone())).unwrap();
            receiver
        };
        configs.share(Notes::new(Box::new(put), Box::new(|| true), Box::new(|| ())));
        (configs, asked)
    }

    fn set(configs: &GroupConfigs, value: Option<i32>) -> Result<(), io::Error> {
        change(configs, "a/b", |settings| Ok(GroupSettings { session_timeout_ms: value, ..settings }))
    }

    #[test]
    fn what_the_engine_takes_counts_here_at_once_and_not_before() {
        let (configs, asked) = shared(Ok(Revision(7)));
        set(&configs, Some(50_000)).unwrap();
        set(&configs, Some(50_000)).unwrap();
        assert_eq!((configs.of("a/b").session_timeout_ms, asked.load(Ordering::Relaxed)), (Some(50_000), 2));
        let (refused, _) = shared(Err("no".to_owned()));
        assert_eq!(set(&refused, Some(50_000)).unwrap_err().to_string(), "no");
        assert_eq!(refused.of("a/b"), GroupSettings::default());
    }

    #[test]
    fn an_older_image_of_the_engine_undoes_nothing() {
        let (configs, _) = shared(Ok(Revision(7)));
        set(&configs, Some(50_000)).unwrap();
        configs.arrive(None, Revision(6), &BTreeMap::new());
        assert_eq!(configs.of("a/b").session_timeout_ms, Some(50_000));
        let other = note(GroupSettings { heartbeat_interval_ms: Some(6_000), ..GroupSettings::default() });
        configs.arrive(None, Revision(8), &BTreeMap::from([("100%25".to_owned(), other)]));
        assert_eq!(configs.of("a/b"), GroupSettings::default());
        assert_eq!(configs.of("100%").heartbeat_interval_ms, Some(6_000));
        let (version, notes) = (configs.version(), configs.seen().notes.clone());
        configs.arrive(None, Revision(9), &notes);
        assert_eq!(configs.version(), version, "nothing has changed");
    }

    #[test]
    fn an_image_of_another_history_counts_although_its_revision_is_lower() {
        let (configs, _) = shared(Ok(Revision(3)));
        let notes = |session_timeout_ms| {
            let settings = GroupSettings { session_timeout_ms: Some(session_timeout_ms), ..GroupSettings::default() };
            BTreeMap::from([("g".to_owned(), note(settings))])
        };
        configs.arrive(Some(HistoryId(1)), Revision(8), &notes(50_000));
        configs.arrive(Some(HistoryId(2)), Revision(2), &notes(40_000));
        assert_eq!(configs.of("g").session_timeout_ms, Some(40_000));
        set(&configs, Some(45_000)).unwrap();
        assert_eq!(configs.of("a/b").session_timeout_ms, Some(45_000), "a change in it is after it");
        configs.arrive(Some(HistoryId(2)), Revision(2), &notes(50_000));
        assert_eq!(configs.of("g").session_timeout_ms, Some(40_000));
    }

    #[test]
    fn a_note_is_read_as_it_was_written_without_what_a_later_version_knows() {
        let settings = GroupSettings { session_timeout_ms: Some(50_000), ..GroupSettings::default() };
        let later = [note(settings), b"consumer.of.tomorrow maybe\n".to_vec()].concat();
        assert_eq!(read_note(&later), Ok(settings));
        assert_eq!(of_later_versions(&later), b"consumer.of.tomorrow maybe\n");
        let session = GroupSettings::SESSION_TIMEOUT;
        assert!(read_note(format!("{session} soon\n").as_bytes()).unwrap_err().contains("cannot be parsed"));
    }
}
