//! How a partition of `__consumer_offsets` goes from one node to another: the old one unloads it, the new one fences
//! the older epoch, replays what is durable and goes on (docs/protocol.md §15).
//!
//! Replaying is done in slices, between which the node serves everybody else, or by threads of its own when a server
//! starts with data ([`crate::node::loaders`]); meanwhile the gate answers for the partition (§3).

use std::{
    collections::btree_map::Entry,
    io, mem,
    panic::{self, AssertUnwindSafe},
    rc::Rc,
};

use rota_core::coordinator::{Coordinator, SelfCheck};
use rota_journal::Event;
use rota_log::LogError;
use tokio::sync::{Notify, mpsc::UnboundedSender};

use super::{
    Node,
    loaders::{self, Ended, Fold, Loaders, PANICKED, Unreadable},
    members::Voice,
};
use crate::{
    base::{error::ServerError, owners::Owner},
    client::MemberKey,
};

/// A partition that is being loaded.
#[derive(Debug)]
pub struct Loading {
    /// Of the incarnation that is being loaded.
    epoch: u32,
    work: Work,
    /// Topics that went meanwhile.
    pub(super) deleted: Vec<String>,
    /// Is notified when loading can go on.
    resumed: Rc<Notify>,
}

/// How far a partition is loaded.
#[derive(Debug)]
enum Work {
    /// The log has not opened it yet. What becomes of the coordinator begins then.
    Opening(Box<Coordinator>),
    /// The log refused to open it.
    Refused(LogError),
    /// As far as it is loaded.
    Ready(Box<Fold>),
    /// A thread has it.
    Away,
}

/// How loading stands.
#[derive(Debug)]
pub enum Progress {
    /// There is more to replay.
    More,
    /// It stands still until this is notified.
    Held(Rc<Notify>),
    /// The partition is loaded, or is not this node's any more, or a thread has it and brings it.
    Over,
    /// The log cannot be read.
    Failed(ServerError),
}

/// What a node gives away with a partition.
#[derive(Debug)]
pub struct Given {
    /// Its epoch there.
    pub epoch: u32,
    /// Who speaks for its members.
    pub voices: Vec<(MemberKey, Voice)>,
}

impl Loading {
    fn take_fold(&mut self) -> Option<Fold> {
        match mem::replace(&mut self.work, Work::Away) {
            Work::Ready(fold) => Some(*fold),
            other => {
                self.work = other;
                None
            }
        }
    }
}

impl Node {
    /// Gives up a partition: whoever is parked is answered `NOT_COORDINATOR`, and so is whoever comes. `None`: this
    /// node does not own it.
    pub fn give_up(&mut self, partition: u32) -> Option<Given> {
        // What has become durable by now is told; the rest never is.
        self.settle();
        let epoch = self.coordinator(partition)?.epoch();
        self.on_partition(partition, &Event::Unloaded);
        self.effects.log.forget(partition);
        if let Some(loading) = self.loading.remove(&partition) {
            // Whoever waits to go on with it has to see that it is over.
            loading.resumed.notify_one();
        }
        self.coordinators[partition as usize] = None;
        self.newer.remove(&partition);
        let partitions = self.partitions();
        let voices = self.members.take(|group_id| rota_core::partition_for(group_id, partitions) == partition);
        Some(Given { epoch, voices })
    }

    /// Forgets what its coordinators know that is not in the log: each of its partitions is to be loaded again, which
    /// does not begin by itself.
    pub fn forget_coordinators(&mut self) {
        for partition in 0..self.partitions() {
            if let Some(Given { epoch, voices }) = self.give_up(partition) {
                self.take_over(partition, epoch + 1, voices);
            }
        }
    }

    /// Takes a partition over under a new epoch and begins to load it once the log has opened it, which may take time;
    /// an empty one is loaded then.
    pub fn take_over(&mut self, partition: u32, epoch: u32, voices: Vec<(MemberKey, Voice)>) {
        let mut coordinator = Coordinator::new(self.settings.coordinator(), partition, epoch);
        coordinator.configure_consumer_groups(self.settings.consumer_groups());
        // Every event would be quadratic in a large group, and its members are to be answered in debug builds, too.
        coordinator.check_itself(if cfg!(debug_assertions) { SelfCheck::Sampled } else { SelfCheck::Never });
        // What is here until that is loaded has to know that it loads, and nothing else.
        self.begin(coordinator.clone());
        let work = Work::Opening(Box::new(coordinator));
        self.loading.insert(partition, Loading { epoch, work, deleted: Vec::new(), resumed: Rc::default() });
        self.members.put(voices);
        self.shared.owners.set(partition, Owner { node_id: self.place.node_id, epoch });
        self.effects.log.open(partition, epoch);
        self.settle();
    }

    /// The log has opened a partition, up to whose `end` it is to be loaded, or refuses to.
    pub(super) fn opened(&mut self, partition: u32, epoch: u32, end: Result<i64, LogError>) {
        let Some(loading) = self.loading.get_mut(&partition).filter(|loading| loading.epoch == epoch) else { return };
        let Work::Opening(coordinator) = mem::replace(&mut loading.work, Work::Away) else { return };
        loading.resumed.notify_one();
        match end {
            Ok(end) => {
                loading.work = Work::Ready(Box::new(Fold::new(*coordinator, end)));
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

    /// Owns a partition whose log cannot be opened: it answers like one that could not be loaded.
    pub fn refuse(&mut self, partition: u32, epoch: u32) {
        self.begin(Coordinator::new(self.settings.coordinator(), partition, epoch));
        self.on_partition(partition, &Event::LoadFailed);
    }

    /// A new incarnation is there.
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

    /// Replays the next slice of a partition that this node has taken over under `epoch`.
    pub fn load_slice(&mut self, partition: u32, epoch: u32) -> Progress {
        let Some(loading) = self.loading.get_mut(&partition).filter(|loading| loading.epoch == epoch) else {
            return Progress::Over;
        };
        if self.loads_held {
            return Progress::Held(Rc::clone(&loading.resumed));
        }
        let mut fold = match mem::replace(&mut loading.work, Work::Away) {
            Work::Ready(fold) => fold,
            Work::Away => return Progress::Over,
            Work::Refused(error) => {
                self.loading.remove(&partition);
                return Progress::Failed(ServerError::LoadFailed { partition, offset: 0, reason: error.to_string() });
            }
            opening @ Work::Opening(_) => {
                loading.work = opening;
                return Progress::Held(Rc::clone(&loading.resumed));
            }
        };
        match fold.slice(&self.shared.log) {
            Ok(true) => {
                loading.work = Work::Ready(fold);
                Progress::More
            }
            ended => match self.end_loading(*fold, ended.map(drop)) {
                Ok(()) => Progress::Over,
                Err(error) => Progress::Failed(error),
            },
        }
    }

    fn load_nothing(&mut self, partition: u32) {
        if let Some(fold) = self.loading.get_mut(&partition).and_then(Loading::take_fold) {
            let _cannot_fail = self.end_loading(fold, Ok(()));
        }
    }

    /// Gives what is to be loaded of partitions to somebody else; what comes of each is for [`Node::end_loading`].
    fn take_folds(&mut self) -> Vec<Fold> {
        self.loading.values_mut().filter_map(Loading::take_fold).collect()
    }

    /// What is notified when a partition that the log has not opened yet is open; `None`: there is none.
    pub fn opening(&self) -> Option<Rc<Notify>> {
        let opening = self.loading.values().find(|loading| matches!(loading.work, Work::Opening(_)))?;
        Some(Rc::clone(&opening.resumed))
    }

    /// Everything that was to be loaded of a partition is, or cannot be. If this node has lost the partition since, or
    /// has taken it over under another epoch, nothing comes of it. A panic is an error like any other, and of this
    /// partition alone: it answers like one that cannot be loaded.
    pub fn end_loading(&mut self, fold: Fold, result: Result<(), Unreadable>) -> Result<(), ServerError> {
        let (partition, epoch) = (fold.coordinator.partition(), fold.coordinator.epoch());
        let Entry::Occupied(loading) = self.loading.entry(partition) else { return Ok(()) };
        if loading.get().epoch != epoch {
            return Ok(());
        }
        let deleted = loading.remove().deleted;
        panic::catch_unwind(AssertUnwindSafe(|| self.put_in_place(fold, result, &deleted))).unwrap_or_else(|_| {
            self.refuse(partition, epoch);
            Err(ServerError::LoadFailed { partition, offset: 0, reason: PANICKED.to_owned() })
        })
    }

    fn put_in_place(
        &mut self,
        fold: Fold,
        result: Result<(), Unreadable>,
        deleted: &[String],
    ) -> Result<(), ServerError> {
        let Fold { coordinator, newer, .. } = fold;
        let partition = coordinator.partition();
        if let Err(Unreadable { offset, reason }) = result {
            self.on_partition(partition, &Event::LoadFailed);
            return Err(ServerError::LoadFailed { partition, offset, reason });
        }
        self.coordinators[partition as usize] = Some(coordinator);
        self.newer.insert(partition, newer);
        self.on_partition(partition, &Event::Loaded { state: &[] });
        self.tell_topics_to(partition);
        self.shared.changes.notify();
        if !deleted.is_empty() {
            let topics: Vec<&str> = deleted.iter().map(String::as_str).collect();
            self.on_partition(partition, &Event::TopicsDeleted { topics: &topics });
        }
        Ok(())
    }

    /// From now on loading stands still: the gate answers for partitions that are taken over.
    pub fn hold_loads(&mut self) {
        self.loads_held = true;
    }

    /// Loading goes on.
    pub fn release_loads(&mut self) {
        self.loads_held = false;
        self.loading.values().for_each(|loading| loading.resumed.notify_one());
    }

    /// The partitions that are still to be loaded, with the epoch of each.
    pub fn to_load(&self) -> Vec<(u32, u32)> {
        self.loading.iter().map(|(partition, loading)| (*partition, loading.epoch)).collect()
    }

    /// Starts threads that load what is to be loaded; each partition is sent to `ended`, for [`Node::end_loading`].
    pub fn load_by_threads(&mut self, ended: &UnboundedSender<Ended>) -> io::Result<Loaders> {
        let threads_max = loaders::threads_of(self.place.ports.len());
        let folds = self.take_folds();
        Loaders::begin(threads_max, folds, &self.shared.log, ended)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{Context, Waker},
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
        let place = Place { cluster_id: String::new(), node_id: 1, host: None, ports: vec![0, 0] };
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
        new.take_over(partition, 1, given.voices);
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
        new.take_over(partition, 1, given.voices);
        while !matches!(new.load_slice(partition, 1), Progress::Over) {}
        assert_eq!(new.offset_count(), 2);
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
        new.take_over(partition, given.epoch + 1, given.voices);
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
        new.take_over(partition, 1, given.voices);
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
        assert_eq!((given.epoch, given.voices.len()), (0, 0));
        assert!(old.give_up(partition).is_none(), "it has gone");
        assert_eq!(error(&commit(&mut old, 0)), Some(ErrorCode::NotCoordinator));
        new.take_over(partition, 1, given.voices);
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
        new.take_over(partition, given.epoch + 1, given.voices);
        assert!(matches!(new.load_slice(partition, 1), Progress::Over), "that was the incarnation before");
        assert!(matches!(new.load_slice(partition, 2), Progress::More));
    }

    #[test]
    fn loading_that_was_held_when_another_move_overtook_it_is_told_so() {
        let (_, mut old, mut new, partition) = two_nodes();
        commit(&mut old, 0);
        let given = old.give_up(partition).unwrap();
        new.hold_loads();
        new.take_over(partition, 1, given.voices);
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
        new.take_over(partition, 1, given.voices);
        (shared, new, partition)
    }

    /// What two threads make of everything that the node is to load, in the order in which they end.
    fn loaded_by_threads(shared: &SharedState, node: &mut Node) -> Vec<Ended> {
        let (ended, mut loaded) = unbounded_channel();
        let _loaders = Loaders::begin(2, node.take_folds(), &shared.log, &ended).unwrap();
        drop(ended);
        std::iter::from_fn(|| loaded.blocking_recv()).collect()
    }

    #[test]
    fn what_threads_load_is_told_of_what_happened_meanwhile() {
        let (shared, mut new, partition) = taken_over();
        let loaded = loaded_by_threads(&shared, &mut new);
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::CoordinatorLoadInProgress), "it is not in its place");
        assert!(matches!(new.load_slice(partition, 1), Progress::Over), "somebody else loads it");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::CoordinatorLoadInProgress));
        assert_eq!(new.group_ids().len(), 0);
        new.topics_deleted(&["t"]);
        for (fold, result) in loaded {
            assert_eq!(fold.coordinator.offset_count(), 1);
            new.end_loading(fold, result).unwrap();
        }
        assert_eq!(new.offset_count(), 0, "the topic has gone");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::None));
    }

    #[test]
    fn what_threads_load_is_nothing_to_a_node_that_has_lost_the_partition_meanwhile() {
        let (shared, mut new, partition) = taken_over();
        let mut loaded = loaded_by_threads(&shared, &mut new);
        let again = Fold::new(Coordinator::new(new.settings.coordinator(), partition, 1), 0);
        let given = new.give_up(partition).unwrap();
        let (fold, result) = loaded.pop().unwrap();
        new.end_loading(fold, result).unwrap();
        assert_eq!(error(&commit(&mut new, 1)), Some(ErrorCode::NotCoordinator));
        new.take_over(partition, given.epoch + 1, given.voices);
        let reason = String::new();
        new.end_loading(again, Err(Unreadable { offset: 0, reason })).unwrap();
        assert_eq!(error(&commit(&mut new, 1)), Some(ErrorCode::CoordinatorLoadInProgress), "of the epoch before");
        for (fold, result) in loaded_by_threads(&shared, &mut new) {
            new.end_loading(fold, result).unwrap();
        }
        assert_eq!(new.offset_count(), 1);
    }

    #[test]
    fn what_threads_load_is_nothing_to_a_node_that_ends() {
        let (shared, mut new, _) = taken_over();
        let (fold, result) = loaded_by_threads(&shared, &mut new).pop().unwrap();
        new.unload();
        new.end_loading(fold, result).unwrap();
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::NotCoordinator));
    }

    #[test]
    fn a_panic_at_the_end_of_loading_is_an_error_and_the_partition_refuses_everything() {
        let (shared, mut new, _) = taken_over();
        let (mut fold, result) = loaded_by_threads(&shared, &mut new).pop().unwrap();
        // As a bug would: it does not load, and panics when it is told that it has loaded.
        fold.coordinator.load_failed();
        let error_of_load = new.end_loading(fold, result).unwrap_err();
        assert!(error_of_load.to_string().contains(PANICKED), "{error_of_load}");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::NotCoordinator));
    }

    #[test]
    fn a_log_that_cannot_be_read_leaves_a_partition_that_refuses_everything() {
        let (shared, mut old, mut new, partition) = two_nodes();
        commit(&mut old, 0);
        let given = old.give_up(partition).unwrap();
        append_raw(&shared.log, partition, b"\0\x01\0\x01".to_vec());
        new.take_over(partition, 1, given.voices);
        let Progress::Failed(reason) = new.load_slice(partition, 1) else { panic!("the record is damaged") };
        assert!(reason.to_string().contains(&format!("partition {partition} of __consumer_offsets")), "{reason}");
        assert!(reason.to_string().contains("at offset 1"), "{reason}");
        assert_eq!(error(&commit(&mut new, 0)), Some(ErrorCode::NotCoordinator));
    }
}
