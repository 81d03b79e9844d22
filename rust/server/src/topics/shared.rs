//! The topics of a cluster of several servers. Each topic is a note of the engine, so all servers know the same ones.
//! Messages stay with the server that leads their partition.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use rota_cluster::{ProducerIds, notes};
use rota_engine::{HistoryId, Revision, requests::PutNote};

use super::{
    disk::{Found, parse, written},
    snapshot::{Table, Topic},
};
use crate::log::{node_file::Home, notes::Notes};

/// See the module.
pub struct SharedTopics {
    notes: Notes,
    producer_ids: Arc<ProducerIds>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The notes as the engine has them, that the table does not follow yet.
    arrived: Option<Image>,
    /// The notes that this server cannot read, and has said so.
    unreadable: BTreeMap<String, Vec<u8>>,
    /// The table has followed the engine at least once.
    is_known: bool,
    /// The revision of this server's last change in this history: older images lack it.
    changed: Revision,
    history: Option<HistoryId>,
}

/// The topics of a cluster at one moment.
pub struct Image {
    /// When.
    pub revision: Revision,
    /// The cluster; `None`: the engine has not answered yet.
    pub home: Option<Home>,
    /// The notes, by topic.
    pub topics: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for SharedTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTopics")
    }
}

impl SharedTopics {
    /// The topics that are in the engine.
    pub fn new(notes: Notes, producer_ids: Arc<ProducerIds>) -> SharedTopics {
        SharedTopics { notes, producer_ids, state: Mutex::default() }
    }

    /// Takes a producer id that no server of the cluster gives; `None`: the engine has not given more yet.
    pub(super) fn new_producer_id(&self) -> Option<i64> {
        self.producer_ids.take()
    }

    /// Returns the first producer id of the cluster's history.
    pub fn first_producer_id(&self) -> i64 {
        self.producer_ids.first_of_history()
    }

    /// The engine has these notes of topics. The node takes them at its next wakeup. Revisions of another history say
    /// nothing about this server's last change: the engine was restored to an earlier one.
    pub fn arrive(&self, image: Image) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let history = image.home.as_ref().and_then(|home| home.history);
        if history.is_some() && history != state.history {
            (state.history, state.changed) = (history, Revision::default());
        }
        state.arrived = Some(image);
    }

    /// Whether a topic, or a partition of it, that is not in the table does not exist: the node has taken what arrived, and
    /// could read the note.
    pub fn is_sure_of(&self, topic: &str) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_sure_of(topic)
    }

    /// Whether the node knows what topics there are: the engine has answered since the start.
    pub(super) fn is_known(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_known
    }

    /// Writes the difference of two tables. Errors: why it is not written, or may not be.
    pub(super) fn save(&self, before: &Table, after: &Table) -> Result<(), String> {
        let (before, after) = (as_notes(before), as_notes(after));
        let gone = before.iter().filter(|(name, _)| !after.contains_key(*name)).map(|(name, note)| PutNote {
            name: notes::topic(name),
            seen: Some(note.clone()),
            value: None,
        });
        let new = after.iter().filter(|(name, note)| before.get(*name) != Some(*note)).map(|(name, note)| PutNote {
            name: notes::topic(name),
            seen: before.get(name).cloned(),
            value: Some(note.clone()),
        });
        let revision = self.notes.write(gone.chain(new).collect())?;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).changed = revision;
        Ok(())
    }

    /// The table with the topics that have arrived, or `None` if it has them already, and their cluster. `None`: none have
    /// arrived.
    pub(super) fn take(&self, table: &Table) -> Option<(Option<Table>, Option<Home>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Image { topics, home, .. } = state.take_arrived()?;
        state.is_known |= home.is_some();
        Some((state.follow(table, &topics), home))
    }
}

impl State {
    fn is_sure_of(&self, topic: &str) -> bool {
        self.arrived.is_none() && !self.unreadable.contains_key(topic)
    }

    /// An image older than this server's last change waits for the next one, which the host shows in any case.
    fn take_arrived(&mut self) -> Option<Image> {
        let changed = self.changed;
        self.arrived.take_if(|image| image.revision >= changed)
    }

    /// The table with these notes; `None`: it has them already. A note that this server cannot read, such as one of a
    /// later version, changes nothing: its topic exists.
    fn follow(&mut self, table: &Table, topics: &BTreeMap<String, Vec<u8>>) -> Option<Table> {
        let known = as_notes(table);
        self.unreadable.retain(|name, note| topics.get(name) == Some(note));
        let mut next = None;
        for name in known.keys().filter(|name| !topics.contains_key(*name)) {
            next.get_or_insert_with(|| table.clone()).remove(name);
        }
        for (name, note) in topics.iter().filter(|(name, note)| known.get(*name) != Some(*note)) {
            match std::str::from_utf8(note).map_err(|error| error.to_string()).and_then(parse) {
                Ok(found) => {
                    let next = next.get_or_insert_with(|| table.clone());
                    next.remove(name);
                    for Found { name, topic } in found {
                        next.insert(&name, topic);
                    }
                }
                Err(reason) => {
                    if self.unreadable.insert(name.clone(), note.clone()).is_none() {
                        eprintln!(
                            "rota: topic `{name}` stays as this server knows it: its note cannot be read: {reason}"
                        );
                    }
                }
            }
        }
        next
    }
}

/// The leaders of the partitions of a topic, in its note; `None` if it is none.
pub fn leaders_in_note(note: &[u8]) -> Option<Vec<i32>> {
    let found = parse(std::str::from_utf8(note).ok()?).ok()?;
    Some(found.into_iter().flat_map(|found| found.topic.leaders).collect())
}

/// Each topic as a note, in the format of a data directory's table.
fn as_notes(table: &Table) -> BTreeMap<String, Vec<u8>> {
    let user = table.by_name.iter().filter(|(_, topic)| !topic.internal);
    user.map(|(name, topic)| {
        let mut alone = Table::default();
        alone.insert(name, Topic::clone(topic));
        (name.to_string(), written(&alone).into())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::topics::configs::TopicConfigs;

    fn table(topics: &[(&str, u128, i32)]) -> Table {
        let mut table = Table::default();
        for (name, id, leader) in topics {
            let (id, configs) = (Uuid::from_u128(*id), TopicConfigs::default());
            table.insert(name, Topic { id, internal: false, configs, leaders: vec![*leader] });
        }
        table
    }

    #[test]
    fn an_image_without_this_servers_last_change_is_not_taken_for_the_newest() {
        let mut state = State { changed: Revision(7), ..State::default() };
        let image = |revision| Some(Image { revision: Revision(revision), home: None, topics: BTreeMap::new() });
        state.arrived = image(6);
        assert!(state.take_arrived().is_none());
        assert!(state.arrived.is_some(), "the table is not current");
        state.arrived = image(7);
        assert!(state.take_arrived().is_some_and(|image| image.revision == Revision(7)));
        assert!(state.arrived.is_none());
    }

    #[test]
    fn a_topic_whose_note_cannot_be_read_stays_as_it_was_while_others_change() {
        let (mut state, before) = (State::default(), table(&[("a", 1, 1), ("b", 2, 1), ("c", 3, 1)]));
        let mut notes = as_notes(&table(&[("a", 1, 1), ("b", 2, 7), ("d", 4, 1)]));
        notes.insert("a".to_owned(), b"rota.topics 2\n".to_vec());
        notes.insert("e".to_owned(), vec![0xff]);
        let after = state.follow(&before, &notes).expect("`b`, `c` and `d` have changed");
        assert_eq!(as_notes(&after), as_notes(&table(&[("a", 1, 1), ("b", 2, 7), ("d", 4, 1)])));
        assert!(after.name_by_id.contains_key(&Uuid::from_u128(1)), "its messages stay");
        assert_eq!(state.unreadable.keys().collect::<Vec<_>>(), ["a", "e"]);
        // `e` exists, although the table lacks it, and `a` may have more partitions.
        assert_eq!(["a", "b", "c", "d", "e"].map(|name| state.is_sure_of(name)), [false, true, true, true, false]);
        assert!(state.follow(&after, &notes).is_none(), "nothing has changed");
        notes.remove("a");
        notes.remove("e");
        let after = state.follow(&after, &notes).expect("`a` is deleted");
        assert_eq!(as_notes(&after), notes);
        assert!(state.unreadable.is_empty());
    }
}
