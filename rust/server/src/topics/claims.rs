//! The messages in the data directory of a node of a cluster. Which topics there are, the engine says: some time after the
//! start, and whenever they change. A topic claims the partitions with its id that this node leads.
//!
//! What no topic claims stays where it is: its topic was deleted while this server was away, or another node leads it, or
//! the engine has lost it. It is deleted only to make room for another topic of its name, and only if the engine has lost
//! nothing since: then its own topic is gone for good.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use rota_log::{
    SegmentStore,
    store::{Command, PartitionInfo},
};
use uuid::Uuid;

use super::{
    disk::{KAFKAS_OWN, OnDisk, TopicDisk, deleted},
    snapshot::Table,
};
use crate::{
    base::text_file::TextFile,
    log::node_file::{Home, NodeFile},
};

/// Partitions named in one line about what is not claimed.
const NAMED_MAX: usize = 5;

/// See the module.
#[derive(Debug)]
pub(super) struct Claims {
    store: Arc<SegmentStore>,
    file: TextFile,
    node_id: i32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Where the directory was used last; `None`: nowhere.
    home: Option<Home>,
    /// Where it is used now; `None`: the engine has not answered yet.
    now: Option<Home>,
    unclaimed: Vec<PartitionInfo>,
    /// Whether it was said what is not claimed.
    is_said: bool,
}

impl Claims {
    /// Finds the partitions of topics in an open store. Its directory was used at `home`, as `file` says.
    pub fn find(store: Arc<SegmentStore>, file: TextFile, node_id: i32, home: Option<Home>) -> Claims {
        let mut unclaimed = store.partitions();
        unclaimed.retain(|info| !KAFKAS_OWN.contains(&info.topic.as_str()));
        Claims { store, file, node_id, state: Mutex::new(State { home, now: None, unclaimed, is_said: false }) }
    }

    /// Writes where the directory is used, if nothing in it has to be kept from that cluster.
    fn note_home(&self, state: &mut State) {
        let was_alone = state.home.as_ref().is_some_and(|home| home.history.is_none());
        let may_be = state.is_at_home() || state.now.is_some() && state.unclaimed.is_empty() && !was_alone;
        if !may_be || state.home == state.now {
            return;
        }
        let file = NodeFile { node_id: self.node_id, home: state.now.clone() };
        match self.file.replace(&file.written()) {
            Ok(()) => state.home = state.now.clone(),
            Err(error) => eprintln!("rota: `{}` cannot be written: {error}", self.file.path.display()),
        }
    }

    /// The engine has answered: this is the cluster, and its history. Returns whether another one was there before: then what
    /// is missing may be lost, and not deleted.
    pub fn is_used_at(&self, now: Home) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.now.replace(now);
        before.is_some() && before != state.now
    }

    /// Opens the partitions that the topics in `table` claim at this node. Deletes those in their way. Returns what was
    /// claimed now. Waits for the store.
    pub fn claim(&self, table: &Table) -> Vec<((Uuid, i32), OnDisk)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.now.is_none() {
            return Vec::new();
        }
        if state.unclaimed.is_empty() {
            self.note_home(&mut state);
            return Vec::new();
        }
        let is_at_home = state.is_at_home();
        let (mut claimed, mut in_the_way, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for info in state.unclaimed.drain(..) {
            let led = table.topic(&info.topic).filter(|topic| {
                usize::try_from(info.partition).ok().and_then(|at| topic.leaders.get(at)) == Some(&self.node_id)
            });
            match led {
                Some(topic) if topic.id.as_u128() == info.topic_id => claimed.push(info),
                Some(_) if is_at_home => in_the_way.push(info),
                _ => others.push(info),
            }
        }
        let epoch = |info: &PartitionInfo| info.epoch.unwrap_or(0);
        let opens = claimed.iter().map(|info| Command::Open { partition: info.handle, epoch: epoch(info) });
        let deletes = in_the_way.iter().map(|info| Command::Delete { partition: info.handle });
        // A partition that cannot be opened refuses produce requests, and one that is not deleted those of the other topic.
        let outcomes = self.store.call(opens.chain(deletes).collect()).split_off(claimed.len());
        let dir = self.file.path.parent().unwrap_or(&self.file.path).display();
        for (info, outcome) in in_the_way.into_iter().zip(outcomes) {
            let (PartitionInfo { topic, partition, .. }, why) =
                (&info, "the cluster has another topic of this name now");
            match deleted(outcome) {
                Ok(()) => eprintln!("rota: `{dir}`: deleted {topic}-{partition}: {why}"),
                Err(error) => {
                    eprintln!("rota: `{dir}`: could not delete {topic}-{partition}: {error}. {why}");
                    others.push(info);
                }
            }
        }
        if !others.is_empty() && !state.is_said {
            eprintln!("rota: `{dir}`: {}", not_used(&others, is_at_home));
        }
        (state.unclaimed, state.is_said) = (others, true);
        self.note_home(&mut state);
        let on_disk = |info: PartitionInfo| {
            let (place, epoch) = ((Uuid::from_u128(info.topic_id), info.partition), epoch(&info));
            (place, OnDisk { epoch, ..OnDisk::of(info) })
        };
        claimed.into_iter().map(on_disk).collect()
    }

    /// Why a partition of a new topic cannot be created; `None`: it can.
    pub fn taken_place(&self, topic: &str, index: i32) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let other = state.unclaimed.iter().find(|info| info.topic == topic && info.partition == index)?;
        let (dir, id) = (self.file.path.with_file_name(format!("{topic}-{index}")), Uuid::from_u128(other.topic_id));
        Some(format!(
            "`{}` has messages of another topic of this name, {id}: stop the server, and move that directory away",
            dir.display()
        ))
    }

    /// The cluster has these topics no more: deletes their messages, unless the topics may be lost.
    pub fn disown(&self, disk: &TopicDisk, ids: &HashSet<Uuid>, may_be_lost: bool) {
        if ids.is_empty() {
            return;
        }
        if !may_be_lost {
            for (id, error) in disk.delete(ids) {
                let dir = self.file.path.parent().unwrap_or(&self.file.path).display();
                eprintln!("rota: `{dir}`: could not delete the messages of topic id {id}: {error}");
            }
            return;
        }
        disk.release(ids);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_theirs = |info: &PartitionInfo| ids.contains(&Uuid::from_u128(info.topic_id));
        state.unclaimed.extend(self.store.partitions().into_iter().filter(is_theirs));
    }
}

impl State {
    /// Whether what is in the directory is of this cluster, and the engine has lost nothing since.
    fn is_at_home(&self) -> bool {
        let Some(now) = &self.now else { return false };
        let is_same = |before: &Home| {
            before.cluster_id == now.cluster_id && (before.history.is_none() || before.history == now.history)
        };
        self.home.as_ref().is_none_or(is_same)
    }
}

/// What stays in the directory without use, and why.
fn not_used(infos: &[PartitionInfo], is_at_home: bool) -> String {
    let mut names: Vec<String> = infos.iter().map(|info| format!("{}-{}", info.topic, info.partition)).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = if is_at_home {
        "their topics were deleted while this server was away, or other servers lead them"
    } else {
        "they are of another cluster, or of topics that the engine has lost"
    };
    format!("not used, and kept: {}{more}; {why}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use rota_engine::HistoryId;

    use super::*;
    use crate::{
        base::settings::Settings,
        log::{
            data_dir::{DataConfig, DataDir},
            node_file::NODE_FILE,
        },
        topics::{configs::TopicConfigs, snapshot::Topic},
    };

    const NODE: i32 = 3;

    fn home(history: u128) -> Home {
        Home { cluster_id: "c".to_owned(), history: Some(HistoryId(history)) }
    }

    /// A table with topic `t`, led by `leader`.
    fn table(id: u128, leader: i32) -> Table {
        let mut table = Table::default();
        let (id, configs) = (Uuid::from_u128(id), TopicConfigs::default());
        table.insert("t", Topic { id, internal: false, configs, leaders: vec![leader] });
        table
    }

    /// The directory of the node at a start.
    fn open(dir: &std::path::Path) -> (DataDir, TopicDisk, Claims) {
        let config = DataConfig::at(dir.to_owned());
        let (data, home) = DataDir::open_for_node(&config, &Settings::default(), "c", NODE).unwrap();
        let claims = Claims::find(Arc::clone(&data.store), data.text_file(NODE_FILE), NODE, home);
        let disk = TopicDisk::new(&data).unwrap();
        (data, disk, claims)
    }

    /// The topic ids of the partitions in the directory.
    fn ids(data: &DataDir) -> Vec<u128> {
        data.store.partitions().iter().map(|info| info.topic_id).collect()
    }

    #[test]
    fn a_topic_claims_its_partition_where_this_node_leads_it() {
        let dir = tempfile::tempdir().unwrap();
        let (data, disk, claims) = open(dir.path());
        claims.is_used_at(home(1));
        assert!(claims.claim(&Table::default()).is_empty());
        disk.create("t", Uuid::from_u128(7), 0).unwrap();
        drop((data, disk, claims));
        let (data, disk, claims) = open(dir.path());
        assert!(!claims.is_used_at(home(1)));
        assert!(claims.claim(&Table::default()).is_empty());
        assert!(claims.claim(&table(7, NODE + 1)).is_empty());
        assert!(claims.taken_place("t", 0).unwrap().contains("has messages of another topic"));
        let claimed = claims.claim(&table(7, NODE));
        assert_eq!(claimed.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [(Uuid::from_u128(7), 0)]);
        assert!(claims.claim(&table(7, NODE)).is_empty(), "it is claimed once");
        assert_eq!(claims.taken_place("t", 0), None);
        disk.add(&claimed);
        claims.disown(&disk, &HashSet::from([Uuid::from_u128(7)]), false);
        assert_eq!(ids(&data), []);
    }

    #[test]
    fn what_the_engine_has_lost_is_deleted_neither_at_once_nor_for_another_topic() {
        let dir = tempfile::tempdir().unwrap();
        let (data, disk, claims) = open(dir.path());
        claims.is_used_at(home(1));
        assert!(claims.claim(&Table::default()).is_empty());
        disk.create("t", Uuid::from_u128(7), 0).unwrap();
        assert!(claims.is_used_at(home(2)));
        claims.disown(&disk, &HashSet::from([Uuid::from_u128(7)]), true);
        assert!(disk.all().is_empty());
        assert!(claims.claim(&table(8, NODE)).is_empty());
        assert_eq!(ids(&data), [7]);
        // What was created since is deleted with its topic.
        disk.create("u", Uuid::from_u128(9), 0).unwrap();
        assert!(!claims.is_used_at(home(2)));
        claims.disown(&disk, &HashSet::from([Uuid::from_u128(9)]), false);
        assert_eq!(ids(&data), [7]);
        drop((data, disk, claims));
        // Nor after a start.
        let (data, disk, claims) = open(dir.path());
        assert!(claims.claim(&table(8, NODE)).is_empty(), "the engine has not answered yet");
        claims.is_used_at(home(2));
        assert!(claims.claim(&table(8, NODE)).is_empty());
        assert_eq!(ids(&data), [7]);
        assert_eq!(claims.claim(&table(7, NODE)).len(), 1, "an operator has it back");
        drop((data, disk, claims));
        // Now nothing has to be kept from this history, and what it has deleted makes room.
        let (data, _, claims) = open(dir.path());
        claims.is_used_at(home(2));
        assert!(claims.claim(&table(8, NODE)).is_empty());
        assert_eq!(ids(&data), []);
    }
}
