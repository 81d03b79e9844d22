//! Hands a partition of `__consumer_offsets` from one node to another. The old node unloads it; the new one fences the
//! older epoch, replays what is durable, and continues (docs/protocol.md §15).
//!
//! The new node replays in slices and serves requests in between, or on separate threads when a server starts with data
//! ([`crate::node::loaders`]). Meanwhile the gate answers for the partition (§3).

use std::{
    collections::btree_map::Entry,
    io, mem,
    panic::{self, AssertUnwindSafe},
    rc::Rc,
};

use rota_core::coordinator::{Coordinator, SelfCheck};
use rota_engine::{Epoch, PartitionId};
use rota_journal::Event;
use rota_log::LogError;
use tokio::sync::{Notify, mpsc::UnboundedSender};

use super::{
    Node,
    loaders::{self, LoadResult, Loaders, PANICKED, PartialLoad, Unreadable},
    members::MemberClient,
    new_coordinator,
};
use crate::{
    base::{error::ServerError, owners::Owner},
    client::MemberKey,
};

/// A partition that is being loaded.
#[derive(Debug)]
pub struct Loading {
    /// The epoch of the incarnation.
    epoch: u32,
    work: Work,
    /// Topics deleted meanwhile.
    pub(super) deleted: Vec<String>,
    /// Notified when loading can continue.
    resumed: Rc<Notify>,
}

/// Progress of loading a partition.
#[derive(Debug)]
enum Work {
    /// The log has not opened the partition yet. The future coordinator is still empty.
    Opening(Box<Coordinator>),
    /// The log refused to open it.
    Refused(LogError),
    /// Partly loaded.
    Ready(Box<PartialLoad>),
    /// A thread is loading it.
    Away,
}

/// The result of a loading step.
#[derive(Debug)]
pub enum Progress {
    /// More records remain.
    More,
    /// Loading is held until this is notified.
    Held(Rc<Notify>),
    /// Done: the partition is loaded, or belongs to another node now, or a thread loads it.
    Over,
    /// The log cannot be read.
    Failed(ServerError),
}

/// State that a node hands over with a partition.
#[derive(Debug)]
pub struct HandedOver {
    /// The partition's epoch on the old node.
    pub epoch: u32,
    /// The clients of its members.
    pub clients: Vec<(MemberKey, MemberClient)>,
}

impl Loading {
    fn take_load(&mut self) -> Option<PartialLoad> {
        match mem::replace(&mut self.work, Work::Away) {
            Work::Ready(load) => Some(*load),
            other => {
                self.work = other;
                None
            }
        }
    }
}

impl Node {
    /// Gives up a partition. Waiting requests and later ones get `NOT_COORDINATOR`. Returns `None` if this node does
    /// not own the partition.
    pub fn give_up(&mut self, partition: u32) -> Option<HandedOver> {
        // Durable appends are answered first; the others never will be.
        self.settle();
        let epoch = self.coordinator(partition)?.epoch();
        self.on_partition(partition, &Event::Unloaded);
        self.effects.log.forget(partition);
        self.drop_partition(partition);
        let partitions = self.partitions();
        let clients = self.members.take(|group_id| rota_core::partition_for(group_id, partitions) == partition);
        Some(HandedOver { epoch, clients })
    }

    /// Drops the coordinator of a partition, and its load.
    pub(super) fn drop_partition(&mut self, partition: u32) {
        if let Some(loading) = self.loading.remove(&partition) {
            // A task that waits for this load must see that it is over.
            loading.resumed.notify_one();
        }
        self.coordinators[partition as usize] = None;
        // Readers learn from their answers that it has gone.
        self.topics.wake_offsets_readers(partition.cast_signed());
        self.newer.remove(&partition);
        self.marker_fences.remove(&partition);
        self.admissions.groups_lost(partition);
    }

    /// Drops the state of all coordinators that is not in the log. The partitions must be loaded again, which does not
    /// start by itself.
    pub fn forget_coordinators(&mut self) {
        for partition in 0..self.partitions() {
            if let Some(HandedOver { epoch, clients }) = self.give_up(partition) {
                self.take_over(partition, epoch + 1, clients);
            }
        }
    }

    /// Takes over a partition under a new epoch. Loading begins once the log has opened it, which may take time; an
    /// empty partition is loaded at once.
    pub fn take_over(&mut self, partition: u32, epoch: u32, clients: Vec<(MemberKey, MemberClient)>) {
        let mut coordinator = new_coordinator(&self.settings, partition, epoch);
        // Checks after every event would be quadratic in large groups, which must answer in debug builds, too.
        coordinator.check_itself(if cfg!(debug_assertions) { SelfCheck::Sampled } else { SelfCheck::Never });
        // Until it is loaded, the partition has a coordinator that only knows that it is loading.
        self.begin(coordinator.clone());
        let work = Work::Opening(Box::new(coordinator));
        self.loading.insert(partition, Loading { epoch, work, deleted: Vec::new(), resumed: Rc::default() });
        self.members.put(clients);
        self.shared.owners.set(partition, Owner { node_id: self.place.node_id, epoch });
        self.effects.log.open(partition, epoch);
        self.settle();
    }

    /// Handles the completion of opening a partition: its end in the log, or an error.
    pub(super) fn opened(&mut self, partition: u32, epoch: u32, end: Result<i64, LogError>) {
        let Some(loading) = self.loading.get_mut(&partition).filter(|loading| loading.epoch == epoch) else { return };
        let Work::Opening(coordinator) = mem::replace(&mut loading.work, Work::Away) else { return };
        loading.resumed.notify_one();
        match end {
            Ok(end) => {
                loading.work = Work::Ready(Box::new(PartialLoad::new(*coordinator, end)));
                if end == 0 && !self.loads_held {
                    self.load_nothing(partition);
                }
            }
            Err(error) => {
                loading.work = Work::Refused(error);
                self.refuse(partition, epoch);
            }
        }
    }

    /// Installs a coordinator for a partition whose log cannot be opened. It answers like one that could not be loaded.
    pub fn refuse(&mut self, partition: u32, epoch: u32) {
        self.begin(new_coordinator(&self.settings, partition, epoch));
        self.on_partition(partition, &Event::LoadFailed);
    }

    /// Installs a new incarnation.
    fn begin(&mut self, coordinator: Coordinator) {
        let (partition, epoch) = (coordinator.partition(), coordinator.epoch());
        self.coordinators[partition as usize] = Some(coordinator);
        let config = self.settings.coordinator();
        self.on_partition(partition, &Event::Began { config: &config, partition, epoch });
        let consumer = self.settings.consumer_groups();
        if consumer.enabled {
            self.on_partition(partition, &Event::Configured { config: &consumer });
        }
    }

    /// Replays the next slice of a partition that this node took over under `epoch`.
    pub fn load_slice(&mut self, partition: u32, epoch: u32) -> Progress {
        if let Some(of_transactions) = self.transaction_partition(partition) {
            return self.load_transactions_slice(of_transactions, epoch.cast_signed());
        }
        let (of_engine, engine_epoch) = (PartitionId(partition.cast_signed()), epoch.cast_signed());
        let Some(loading) = self.loading.get_mut(&partition).filter(|loading| loading.epoch == epoch) else {
            return Progress::Over;
        };
        if self.loads_held {
            return Progress::Held(Rc::clone(&loading.resumed));
        }
        let mut load = match mem::replace(&mut loading.work, Work::Away) {
            Work::Ready(load) => load,
            Work::Away => return Progress::Over,
            Work::Refused(error) => {
                if self.has_lost(of_engine, engine_epoch) {
                    return Progress::Over;
                }
                self.loading.remove(&partition);
                return Progress::Failed(ServerError::LoadFailed { partition, offset: 0, reason: error.to_string() });
            }
            opening @ Work::Opening(_) => {
                loading.work = opening;
                return Progress::Held(Rc::clone(&loading.resumed));
            }
        };
        match load.slice(&self.shared.log) {
            Ok(true) => {
                loading.work = Work::Ready(load);
                Progress::More
            }
            Err(_) if self.has_lost(of_engine, engine_epoch) => Progress::Over,
            ended => match self.end_loading(*load, ended.map(drop)) {
                Ok(()) => Progress::Over,
                Err(error) => Progress::Failed(error),
            },
        }
    }

    fn load_nothing(&mut self, partition: u32) {
        if let Some(load) = self.loading.get_mut(&partition).and_then(Loading::take_load) {
            let _cannot_fail = self.end_loading(load, Ok(()));
        }
    }

    /// Takes the partial loads of partitions for another thread. Their results go to [`Node::end_loading`].
    fn take_loads(&mut self) -> Vec<PartialLoad> {
        self.loading.values_mut().filter_map(Loading::take_load).collect()
    }

    /// Returns the notification of a partition that the log has not opened yet; `None` if there is none.
    pub fn opening(&self) -> Option<Rc<Notify>> {
        let opening = self.loading.values().find(|loading| matches!(loading.work, Work::Opening(_)))?;
        Some(Rc::clone(&opening.resumed))
    }

    /// Completes loading a partition, or fails it. Has no effect if this node has since lost the partition or taken it
    /// over under another epoch. A panic is an error of this partition alone, which then answers like one that cannot
    /// be loaded.
    pub fn end_loading(&mut self, load: PartialLoad, result: Result<(), Unreadable>) -> Result<(), ServerError> {
        let (partition, epoch) = (load.coordinator.partition(), load.coordinator.epoch());
        // What `install` passes on must not be older than the deletions.
        self.catch_up();
        let Entry::Occupied(loading) = self.loading.entry(partition) else { return Ok(()) };
        if loading.get().epoch != epoch {
            return Ok(());
        }
        let deleted = loading.remove().deleted;
        panic::catch_unwind(AssertUnwindSafe(|| self.install(load, result, &deleted))).unwrap_or_else(|_| {
            self.refuse(partition, epoch);
            Err(ServerError::LoadFailed { partition, offset: 0, reason: PANICKED.to_owned() })
        })
    }

    fn install(
        &mut self,
        load: PartialLoad,
        result: Result<(), Unreadable>,
        deleted: &[String],
    ) -> Result<(), ServerError> {
        let PartialLoad { coordinator, newer, fences, .. } = load;
        let (partition, epoch) = (coordinator.partition(), coordinator.epoch());
        if let Err(Unreadable { offset, reason }) = result {
            self.on_partition(partition, &Event::LoadFailed);
            if let Some(cluster) = self.cluster() {
                let (of_engine, engine_epoch) = (PartitionId(partition.cast_signed()), epoch.cast_signed());
                let why = format!("cannot load it: the record at offset {offset}: {reason}");
                cluster.session().damaged(of_engine, Epoch(engine_epoch), why);
            }
            return Err(ServerError::LoadFailed { partition, offset, reason });
        }
        self.coordinators[partition as usize] = Some(coordinator);
        self.newer.insert(partition, newer);
        self.marker_fences.insert(partition, fences);
        // Members get the session timeout of their group when the load ends.
        self.tell_group_configs();
        self.tell_group_configs_to(partition);
        self.on_partition(partition, &Event::Loaded { state: &[] });
        // Deletions come first: a topic may have been created again since.
        if !deleted.is_empty() {
            let topics: Vec<&str> = deleted.iter().map(String::as_str).collect();
            self.on_partition(partition, &Event::TopicsDeleted { topics: &topics });
        }
        self.tell_topics_to(partition);
        self.shared.changes.notify();
        Ok(())
    }

    /// Holds loading: the gate answers for partitions that are taken over from now on.
    pub fn hold_loads(&mut self) {
        self.loads_held = true;
    }

    /// Resumes loading.
    pub fn release_loads(&mut self) {
        self.loads_held = false;
        self.loading.values().for_each(|loading| loading.resumed.notify_one());
    }

    /// Returns the partitions still to be loaded, with their epochs.
    pub fn to_load(&self) -> Vec<(u32, u32)> {
        self.loading.iter().map(|(partition, loading)| (*partition, loading.epoch)).collect()
    }

    /// Starts threads that load the waiting partitions. Each result goes to `ended`, for [`Node::end_loading`].
    pub fn load_by_threads(&mut self, ended: &UnboundedSender<LoadResult>) -> io::Result<Loaders> {
        let threads_max = loaders::threads_of(self.place.nodes as usize);
        let loads = self.take_loads();
        Loaders::begin(threads_max, loads, &self.shared.log, ended)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{Context, Waker},
    };

    use kafka_protocol::{
        messages::{DeleteTopicsRequest, TopicName},
        protocol::StrBytes,
    };
    use rota_core::{
        error::ErrorCode,
        request::{CommitPartition, CommitTopic, OffsetCommit, Request},
    };
    use rota_log::{Fault, FencedLog as _, SLICE_RECORDS};
    use rota_wire::versions;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::{
        base::{clock::Clock, place::Place, settings::Settings},
        client::{
            Client,
            reply::{Beside, Reply},
            reply_to::ReplyTo,
            tests::nowhere,
        },
        log::offsets_log::tests::append_raw,
        node::shared_state::SharedState,
    };

    /// Two nodes on this thread, the owner of the partition of `g` first, and that partition.
    fn two_nodes() -> (Arc<SharedState>, Node, Node, u32) {
        let place = Place { cluster_id: String::new(), node_id: 1, nodes: 2, listeners: Arc::default() };
        let shared = Arc::new(SharedState::new(Settings::default(), place, Clock::standing()));
        let mut nodes = [Node::new(&shared, 1), Node::new(&shared, 2)];
        let partition = nodes[0].partition_of("g");
        if nodes[0].owner_of(partition) == 2 {
            nodes.swap(0, 1);
        }
        let [owner, other] = nodes;
        (shared, owner, other, partition)
    }

    /// A commit of one offset for `g` in version 2, and the client that its answer goes to.
    fn commit(node: &mut Node, offset: i64) -> Rc<Client> {
        let client = nowhere();
        let api = versions::find(versions::OFFSET_COMMIT).unwrap();
        let reply_to = ReplyTo { client: Rc::clone(&client), api, version: 2, correlation_id: 7 };
        let partitions = [CommitPartition { index: offset as i32, offset, leader_epoch: -1, metadata: None }];
        let request = OffsetCommit {
            version: 2,
            group_id: Some("g"),
            generation: -1,
            member_id: "",
            instance_id: None,
            retention_time_ms: None,
            topics: &[CommitTopic { name: "t", topic_id: 0, partitions: &partitions }],
        };
        let partition = node.partition_of("g");
        node.submit(partition, Reply::Whole(reply_to, Beside::Nothing), Request::OffsetCommit(request));
        client
    }

    /// The error at the end of the answer; `None`: there is no answer.
    fn error(client: &Client) -> Option<ErrorCode> {
        let out = client.out();
        let code = out.last_chunk::<2>().map(|code| i16::from_be_bytes(*code))?;
        ErrorCode::from_code(code)
    }

    fn durable(shared: &SharedState, partition: u32) -> usize {
        let (mut from, mut count) = (0, 0);
        loop {
            match shared.log.read(partition as i32, from, &mut |_| count += 1).unwrap() {
                next if next == from => return count,
                next => from = next,
            }
        }
    }

    /// S28, for a node that does not know that it has lost the partition.
    #[test]
    fn a_node_whose_epoch_is_fenced_acknowledges_nothing_any_more() {
        let (shared, mut old, mut new, partition) = two_nodes();
        assert_eq!(error(&commit(&mut old, 0)), Some(ErrorCode::None));
        shared.log.hold();
        let in_flight = commit(&mut old, 1);
        assert_eq!(error(&in_flight), None);
        new.take_over(partition, 1, Vec::new());
        shared.log.release_all();
        old.settle();
        assert_eq!(error(&in_flight), Some(ErrorCode::NotCoordinator));
        assert_eq!(error(&commit(&mut old, 2)), Some(ErrorCode::NotCoordinator));
        assert_eq!(durable(&shared, partition), 1);
        old.take_over(partition, 0, Vec::new());
        let Progress::Failed(reason) = old.load_slice(partition, 0) else { panic!("its own epoch is over") };
        assert!(reason.to_string().contains("epoch 0 is fenced"), "{reason}");
        assert_eq!(error(&commit(&mut old, 3)), Some(ErrorCode::NotCoordinator));
    }

    #[test]
    fn an_append_whose_answer_is_lost_is_refused_like_a_failed_one_and_what_was_acknowledged_stays() {
        let (shared, mut old, mut new, partition) = two_nodes();
        assert_eq!(error(&commit(&mut old, 0)), Some(ErrorCode::None));
        let timed_out = LogError::Failed { code: ErrorCode::RequestTimedOut.code() };
        for fault in [Fault::LoseAnswer(timed_out.clone()), Fault::Fail(timed_out)] {
            shared.log.strike(fault, 1);
            assert_eq!(error(&commit(&mut old, 1)), Some(ErrorCode::CoordinatorNotAvailable));
        }
        assert_eq!(error(&commit(&mut old, 2)), Some(ErrorCode::None));
        assert_eq!(old.offset_count(), 2);
        let given = old.give_up(partition).unwrap();
        new.take_over(partition, 1, given.clients);
        while !matches!(new.load_slice(partition, 1), Progress::Over) {}
        assert_eq!(new.offset_count(), 3, "the one of unknown outcome is there, too");
    }

    #[test]
    fn an_append_that_arrives_twice_is_answered_once_and_changes_nothing_else() {
        let (shared, mut old, mut new, partition) = two_nodes();
        shared.log.strike(Fault::Duplicate, 1);
        let client = commit(&mut old, 0);
        let once = client.out_bytes();
        assert_eq!((error(&client), durable(&shared, partition)), (Some(ErrorCode::None), 2));
        assert_eq!(once, commit(&mut old, 1).out_bytes(), "one answer");
        let given = old.give_up(partition).unwrap();
        new.take_over(partition, 1, given.clients);
        while !matches!(new.load_slice(partition, 1), Progress::Over) {}
        assert_eq!(new.offset_count(), 2);
    }

    #[test]
    fn what_is_durable_when_the_server_stops_is_acknowledged() {
        let (shared, mut old, _, partition) = two_nodes();
        assert_eq!(error(&commit(&mut old, 0)), Some(ErrorCode::None));
        shared.log.hold();
        let clients = [commit(&mut old, 1), commit(&mut old, 2)];
        shared.log.release(1);
        old.unload();
        assert_eq!(clients.map(|client| error(&client)), [Some(ErrorCode::None), Some(ErrorCode::NotCoordinator)]);
        shared.log.release_all();
        old.finish_waiting();
        assert_eq!(durable(&shared, partition), 3);
    }

    /// S28, where the fence comes while the append is on its way.
    #[test]
    fn a_node_that_is_fenced_while_its_append_is_in_flight_acknowledges_neither_it_nor_later_ones() {
        let (shared, mut old, mut new, partition) = two_nodes();
        assert_eq!(error(&commit(&mut old, 0)), Some(ErrorCode::None));
        shared.log.strike(Fault::Fence, 1);
        for offset in [1, 2] {
            assert_eq!(error(&commit(&mut old, offset)), Some(ErrorCode::NotCoordinator));
        }
        let given = old.give_up(partition).unwrap();
        new.take_over(partition, given.epoch + 1, given.clients);
        while !matches!(new.load_slice(partition, 1), Progress::Over) {}
        assert_eq!(new.offset_count(), 1, "what was acknowledged, and nothing else");
        assert_eq!(error(&commit(&mut new, 3)), Some(ErrorCode::None));
    }

    #[test]
    fn a_partition_whose_log_takes_time_to_open_answers_the_gate_until_it_is_loaded() {
        let (shared, mut old, mut new, partition) = two_nodes();
        commit(&mut old, 0);
        let given = old.give_up(partition).unwrap();
        shared.log.hold_opens();
        new.take_over(partition, 1, given.clients);
        assert_eq!(error(&commit(&mut new, 1)), Some(ErrorCode::CoordinatorLoadInProgress));
        let Progress::Held(opened) = new.load_slice(partition, 1) else { panic!("it is not open") };
        assert_eq!(shared.log.release_opens(), 1);
        new.settle();
        let notified = std::pin::pin!(opened.notified());
        assert!(notified.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        while !matches!(new.load_slice(partition, 1), Progress::Over) {}
        assert_eq!(new.offset_count(), 1);
        assert_eq!(error(&commit(&mut new, 1)), Some(ErrorCode::None));
    }

    #[test]
    fn a_partition_is_loaded_in_slices_and_answers_the_gate_meanwhile() {
        let (shared, mut old, mut new, partition) = two_nodes();
        for offset in 0..=2 * SLICE_RECORDS as i64 {
            assert_eq!(error(&commit(&mut old, offset)), Some(ErrorCode::None));
        }
        let given = old.give_up(partition).unwrap();
        assert_eq!((given.epoch, given.clients.len()), (0, 0));
        assert!(old.give_up(partition).is_none(), "it has gone");
        assert_eq!(error(&commit(&mut old, 0)), Some(ErrorCode::NotCoordinator));
        new.take_over(partition, 1, given.clients);
        for _ in 0..3 {
            assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::CoordinatorLoadInProgress));
            assert!(matches!(new.load_slice(partition, 1), Progress::More));
        }
        assert!(matches!(new.load_slice(partition, 1), Progress::Over));
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::None));
        assert_eq!(durable(&shared, partition), 2 * SLICE_RECORDS + 2);
        assert_eq!(new.group_ids().len(), 1);
    }

    #[test]
    fn loading_that_was_overtaken_by_another_move_ends() {
        let (_, mut new, partition) = taken_over();
        let given = new.give_up(partition).unwrap();
        assert!(matches!(new.load_slice(partition, 1), Progress::Over));
        new.take_over(partition, given.epoch + 1, given.clients);
        assert!(matches!(new.load_slice(partition, 1), Progress::Over), "that was the incarnation before");
        assert!(matches!(new.load_slice(partition, 2), Progress::More));
    }

    #[test]
    fn loading_that_was_held_when_another_move_overtook_it_is_told_so() {
        let (_, mut old, mut new, partition) = two_nodes();
        commit(&mut old, 0);
        let given = old.give_up(partition).unwrap();
        new.hold_loads();
        new.take_over(partition, 1, given.clients);
        let Progress::Held(resumed) = new.load_slice(partition, 1) else { panic!("it is held") };
        new.give_up(partition).unwrap();
        let told = std::pin::pin!(resumed.notified());
        assert!(told.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(matches!(new.load_slice(partition, 1), Progress::Over));
    }

    /// A node that has taken a partition over, with one offset in it, and has loaded nothing of it yet.
    fn taken_over() -> (Arc<SharedState>, Node, u32) {
        let (shared, mut old, mut new, partition) = two_nodes();
        commit(&mut old, 0);
        let given = old.give_up(partition).unwrap();
        new.take_over(partition, 1, given.clients);
        (shared, new, partition)
    }

    /// What two threads make of everything that the node is to load, in the order in which they end.
    fn loaded_by_threads(shared: &SharedState, node: &mut Node) -> Vec<LoadResult> {
        let (ended, mut loaded) = unbounded_channel();
        let _loaders = Loaders::begin(2, node.take_loads(), &shared.log, &ended).unwrap();
        drop(ended);
        std::iter::from_fn(|| loaded.blocking_recv()).collect()
    }

    #[test]
    fn what_threads_load_is_told_of_what_happened_meanwhile() {
        let (shared, mut new, partition) = taken_over();
        let loaded = loaded_by_threads(&shared, &mut new);
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::CoordinatorLoadInProgress), "it is not in its place");
        assert!(matches!(new.load_slice(partition, 1), Progress::Over), "another thread loads it");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::CoordinatorLoadInProgress));
        assert_eq!(new.group_ids().len(), 0);
        new.topics_deleted(&["t"]);
        for (load, result) in loaded {
            assert_eq!(load.coordinator.offset_count(), 1);
            new.end_loading(load, result).unwrap();
        }
        assert_eq!(new.offset_count(), 0, "the topic has gone");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::None));
    }

    #[test]
    fn a_topic_that_is_deleted_just_before_a_load_ends_is_not_told() {
        let (shared, mut new, _) = taken_over();
        let (topics, random) = new.topics_mut();
        topics.create("t", 1, random).unwrap();
        new.catch_up();
        let loaded = loaded_by_threads(&shared, &mut new);
        let named = DeleteTopicsRequest::default().with_topic_names(vec![TopicName(StrBytes::from_static_str("t"))]);
        new.topics_mut().0.delete_topics(&named, 5);
        new.topics_deleted(&["t"]);
        assert!(new.known_topics.contains_key("t"), "nothing has looked since");
        for (load, result) in loaded {
            new.end_loading(load, result).unwrap();
        }
        assert!(!new.known_topics.contains_key("t"));
    }

    #[test]
    fn what_threads_load_is_nothing_to_a_node_that_has_lost_the_partition_meanwhile() {
        let (shared, mut new, partition) = taken_over();
        let mut loaded = loaded_by_threads(&shared, &mut new);
        let again = PartialLoad::new(Coordinator::new(new.settings.coordinator(), partition, 1), 0);
        let given = new.give_up(partition).unwrap();
        let (load, result) = loaded.pop().unwrap();
        new.end_loading(load, result).unwrap();
        assert_eq!(error(&commit(&mut new, 1)), Some(ErrorCode::NotCoordinator));
        new.take_over(partition, given.epoch + 1, given.clients);
        let reason = String::new();
        new.end_loading(again, Err(Unreadable { offset: 0, reason })).unwrap();
        assert_eq!(error(&commit(&mut new, 1)), Some(ErrorCode::CoordinatorLoadInProgress), "of the epoch before");
        for (load, result) in loaded_by_threads(&shared, &mut new) {
            new.end_loading(load, result).unwrap();
        }
        assert_eq!(new.offset_count(), 1);
    }

    #[test]
    fn what_threads_load_is_nothing_to_a_node_that_ends() {
        let (shared, mut new, _) = taken_over();
        let (load, result) = loaded_by_threads(&shared, &mut new).pop().unwrap();
        new.unload();
        new.end_loading(load, result).unwrap();
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::NotCoordinator));
    }

    #[test]
    fn a_panic_at_the_end_of_loading_is_an_error_and_the_partition_refuses_everything() {
        let (shared, mut new, _) = taken_over();
        let (mut load, result) = loaded_by_threads(&shared, &mut new).pop().unwrap();
        // As a bug would: it does not load, and panics at the end of loading.
        load.coordinator.load_failed();
        let error_of_load = new.end_loading(load, result).unwrap_err();
        assert!(error_of_load.to_string().contains(PANICKED), "{error_of_load}");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::NotCoordinator));
    }

    #[test]
    fn a_log_that_cannot_be_read_leaves_a_partition_that_refuses_everything() {
        let (shared, mut old, mut new, partition) = two_nodes();
        commit(&mut old, 0);
        let given = old.give_up(partition).unwrap();
        append_raw(&shared.log, partition, b"\0\x01\0\x01".to_vec());
        new.take_over(partition, 1, given.clients);
        let Progress::Failed(reason) = new.load_slice(partition, 1) else { panic!("the record is damaged") };
        assert!(reason.to_string().contains(&format!("partition {partition} of __consumer_offsets")), "{reason}");
        assert!(reason.to_string().contains("at offset 1"), "{reason}");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::NotCoordinator));
    }
}
