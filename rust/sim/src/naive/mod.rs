//! The classic protocol once more, from docs/protocol.md alone: sorted maps, recounts, linear searches.
//!
//! An oracle for the real core. It shares the core's vocabulary (requests, answers, records, the projection) and none
//! of its logic, and it has the same verbs, so that one driver feeds both and compares every effect.

mod appends;
mod joining;
mod loading;
mod offsets;
mod purging;
mod rounds;
mod statics;
mod syncing;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_core::{
    AppendId, Config, Entropy, ErrorCode, Now, Phase, Record, Request, Sink, State, Ticket,
    records::OffsetValue,
    response::{
        Answer, CommitAnswer, CommittedTopic, DeleteAnswer, DescribeAnswer, FetchAnswer, JoinAnswer, LeaveAnswer,
        ListAnswer, OffsetDeleteAnswer, OffsetDeletedTopic, SyncAnswer,
    },
};

use rota_journal::owned;

/// Shared text: ids and names.
pub type Text = Arc<str>;

/// A deadline that is armed. What is due at once fires in this order (§16.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Alarm {
    deadline_ms: u64,
    /// How many were armed before.
    arming: u64,
}

/// What a deadline is of (§16.2).
#[derive(Clone, Debug)]
pub(crate) enum Timer {
    /// Of a member, by its place.
    Session(Text, u64),
    NewMember(Text, u64),
    Pending(Text, Text),
    InitialDelay(Text),
    Join(Text),
    Sync(Text),
    Append(u64),
    StableFetch(Ticket),
    AfterDeletion(Ticket),
    Cleaner,
}

/// A request that waits inside a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parked {
    ticket: Ticket,
    version: i16,
}

/// §1.2
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    id: Text,
    instance: Option<Text>,
    client_id: Text,
    client_host: Text,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    protocols: Vec<(Text, Arc<[u8]>)>,
    assignment: Arc<[u8]>,
    join: Option<Parked>,
    sync: Option<Parked>,
    owes_sync: bool,
    is_new: bool,
    session: Option<Alarm>,
    newcomer: Option<Alarm>,
}

/// An initial delay that is running (§5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Delay {
    ms: u64,
    budget_ms: u64,
}

/// §1.1
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    state: State,
    since_ms: u64,
    state_timestamp_ms: Option<i64>,
    generation: i32,
    protocol_type: Option<Text>,
    protocol_name: Option<Text>,
    leader: Option<Text>,
    /// By joining order.
    members: BTreeMap<u64, Member>,
    pending: BTreeMap<Text, Alarm>,
    subscribed_topics: Option<BTreeSet<Text>>,
    newcomer_in_delay: bool,
    delay: Option<Delay>,
    initial_delay: Option<Alarm>,
    join_deadline: Option<Alarm>,
    sync_deadline: Option<Alarm>,
    /// This `PreparingRebalance` was entered from Empty.
    was_empty: bool,
    /// A completed join phase waits for the group's record (§4.10).
    is_held: bool,
    creating: Option<u64>,
    assigning: Option<u64>,
    deleting: Option<u64>,
    is_durable: bool,
    offsets: BTreeMap<(Text, i32), OffsetValue>,
}

/// What the end of an append decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Creation,
    Plan { generation: i32, assignments: BTreeMap<Text, Arc<[u8]>> },
    Replacement(Box<Replaced>),
    Commit { ticket: Ticket, topics: Vec<CommittedTopic> },
    Delete { ticket: Ticket },
    OffsetDelete { ticket: Ticket, topics: Vec<OffsetDeletedTopic> },
    Retention { ends: Vec<Text> },
    Nobody,
}

/// A static replacement that is being written (§9.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Replaced {
    /// The newcomer.
    id: Text,
    /// The member as it was before.
    before: Member,
    leader_before: Text,
    /// When the session of before ends, counted from the replacement.
    session_ends_ms: u64,
    /// Whether the requester was answered already, and the replacement undone.
    is_undone: bool,
    /// A rebalance overtook it.
    stands: bool,
}

/// An append in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Append {
    group_id: Text,
    records: Vec<Record>,
    purpose: Purpose,
    /// Only if somebody waits for it.
    deadline: Option<Alarm>,
    /// Its deadline passed: whoever waited was told.
    is_late: bool,
}

/// A stable fetch that waits (§11.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fetch {
    group_id: Text,
    topics: Option<Vec<(String, u128, Vec<i32>)>>,
    awaits: BTreeSet<u64>,
    deadline: Alarm,
}

/// A request that waits for the end of a deletion (§12.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Deferred {
    /// The append of the deletion.
    awaits: u64,
    entropy: Entropy,
    request: owned::Request<'static>,
    deadline: Alarm,
}

/// What a record speaks of. What could not be stored is written again in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Group(Text),
    Offset(Text, (Text, i32)),
}

/// The naive coordinator.
#[derive(Clone, Debug)]
pub struct Naive {
    config: Config,
    phase: Phase,
    groups: BTreeMap<Text, Group>,
    cleaner: Option<Alarm>,
    armings: u64,
    appends: BTreeMap<u64, Append>,
    early_ends: BTreeMap<u64, Option<ErrorCode>>,
    unsaved: BTreeMap<Key, Record>,
    fetches: BTreeMap<Ticket, Fetch>,
    after_deletion: BTreeMap<Ticket, Deferred>,
    next_append: u64,
    next_place: u64,
    clock: Now,
    /// Whole ids by their text without the slot (§4.5), as another coordinator minted them.
    whole_ids: BTreeMap<String, Text>,
}

/// Digits at the end of an id that name a slot, which only the other coordinator knows.
const SLOT_DIGITS: usize = 8;

impl Naive {
    /// Starts loading.
    pub fn new(config: Config) -> Naive {
        Naive {
            config,
            phase: Phase::Loading,
            groups: BTreeMap::new(),
            cleaner: None,
            armings: 0,
            appends: BTreeMap::new(),
            early_ends: BTreeMap::new(),
            unsaved: BTreeMap::new(),
            fetches: BTreeMap::new(),
            after_deletion: BTreeMap::new(),
            next_append: 0,
            next_place: 0,
            clock: Now { mono_ms: 0, wall_ms: 0 },
            whole_ids: BTreeMap::new(),
        }
    }

    /// Member ids hold a hint that is another coordinator's affair. An id told here is minted as a whole when the same
    /// entropy comes along.
    pub fn learn_id(&mut self, id: &str) {
        if id.len() > SLOT_DIGITS && id.is_char_boundary(id.len() - SLOT_DIGITS) {
            self.whole_ids.insert(id[..id.len() - SLOT_DIGITS].to_owned(), id.into());
        }
    }

    /// Forgets the ids that it was told.
    pub fn forget_ids(&mut self) {
        self.whole_ids.clear();
    }

    /// One request (§3 first).
    pub fn submit(&mut self, now: Now, ticket: Ticket, entropy: Entropy, request: Request<'_>, sink: &mut dyn Sink) {
        self.observe(now);
        if let Some(error) = self.gate(&request) {
            refuse(ticket, &request, error, sink);
            return;
        }
        self.handle(ticket, entropy, request, sink);
    }

    fn handle(&mut self, ticket: Ticket, entropy: Entropy, request: Request<'_>, sink: &mut dyn Sink) {
        if self.waits_for_deletion(ticket, entropy, &request) {
            return;
        }
        match request {
            Request::JoinGroup(join) => self.join(ticket, entropy, &join, sink),
            Request::SyncGroup(sync) => self.sync(ticket, &sync, sink),
            Request::Heartbeat(heartbeat) => self.heartbeat(ticket, &heartbeat, sink),
            Request::LeaveGroup(leave) => self.leave(ticket, &leave, sink),
            Request::OffsetCommit(commit) => self.commit(ticket, &commit, sink),
            Request::OffsetFetch(fetch) => self.fetch(ticket, &fetch, sink),
            Request::DescribeGroup(describe) => self.describe(ticket, &describe, sink),
            Request::ListGroups(list) => self.list(ticket, &list, sink),
            Request::DeleteGroup(delete) => self.delete_group(ticket, &delete, sink),
            Request::OffsetDelete(delete) => self.delete_offsets(ticket, &delete, sink),
        }
    }

    /// Fires what is due and was armed before (§16.1, §21).
    pub fn advance(&mut self, now: Now, sink: &mut dyn Sink) {
        self.observe(now);
        let now_ms = self.clock.mono_ms;
        let mut due: Vec<(Alarm, Timer)> = Vec::new();
        self.each_alarm(|alarm, timer| {
            if alarm.deadline_ms <= now_ms {
                due.push((alarm, timer()));
            }
        });
        due.sort_by_key(|(alarm, _)| *alarm);
        for (alarm, timer) in due {
            if self.is_armed(alarm) {
                self.fire(timer, sink);
            }
        }
    }

    /// Shows whatever is armed, and what it is of.
    fn each_alarm(&self, mut show_armed: impl FnMut(Alarm, &dyn Fn() -> Timer)) {
        let mut show = |alarm: Option<Alarm>, timer: &dyn Fn() -> Timer| {
            if let Some(alarm) = alarm {
                show_armed(alarm, timer);
            }
        };
        for (id, group) in &self.groups {
            let id = || Arc::clone(id);
            show(group.initial_delay, &|| Timer::InitialDelay(id()));
            show(group.join_deadline, &|| Timer::Join(id()));
            show(group.sync_deadline, &|| Timer::Sync(id()));
            for (place, member) in &group.members {
                show(member.session, &|| Timer::Session(id(), *place));
                show(member.newcomer, &|| Timer::NewMember(id(), *place));
            }
            for (pending, alarm) in &group.pending {
                show(Some(*alarm), &|| Timer::Pending(id(), Arc::clone(pending)));
            }
        }
        for (append_id, append) in &self.appends {
            show(append.deadline, &|| Timer::Append(*append_id));
        }
        for (ticket, fetch) in &self.fetches {
            show(Some(fetch.deadline), &|| Timer::StableFetch(*ticket));
        }
        for (ticket, deferred) in &self.after_deletion {
            show(Some(deferred.deadline), &|| Timer::AfterDeletion(*ticket));
        }
        show(self.cleaner, &|| Timer::Cleaner);
    }

    /// Whether nothing has stopped it meanwhile.
    fn is_armed(&self, alarm: Alarm) -> bool {
        let mut is_armed = false;
        self.each_alarm(|other, _| is_armed |= other == alarm);
        is_armed
    }

    fn fire(&mut self, timer: Timer, sink: &mut dyn Sink) {
        match timer {
            Timer::Session(group, place) | Timer::NewMember(group, place) => self.expire(&group, place, sink),
            Timer::Pending(group, id) => {
                self.group_mut(&group).pending.remove(&id);
                self.test_all_joined(&group, true, sink);
            }
            Timer::InitialDelay(group) => self.delay_passed(&group, sink),
            Timer::Join(group) => self.complete_join(&group, sink),
            Timer::Sync(group) => self.sync_deadline_passed(&group, sink),
            Timer::Append(id) => self.append_deadline_passed(id, sink),
            Timer::StableFetch(ticket) => {
                let fetch = self.fetches.remove(&ticket).expect("a fetch that waits");
                answer_fetch_error(ticket, &fetch.group_id, ErrorCode::NotCoordinator, sink);
            }
            Timer::AfterDeletion(ticket) => {
                let deferred = self.after_deletion.remove(&ticket).expect("a request that waits");
                refuse_waiting(ticket, &deferred.request, ErrorCode::CoordinatorNotAvailable, sink);
            }
            Timer::Cleaner => self.clean(sink),
        }
    }

    /// The end of an append, which counts when its elders have ended (§10.3).
    pub fn appended(&mut self, append_id: AppendId, result: Result<u64, ErrorCode>, now: Now, sink: &mut dyn Sink) {
        self.observe(now);
        self.append_ended(append_id.0, result.err(), sink);
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<u64> {
        let mut next: Option<u64> = None;
        self.each_alarm(|alarm, _| next = Some(next.map_or(alarm.deadline_ms, |next| next.min(alarm.deadline_ms))));
        next
    }

    /// What it can do at the moment.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    fn observe(&mut self, now: Now) {
        self.clock = Now { mono_ms: now.mono_ms.max(self.clock.mono_ms), wall_ms: now.wall_ms };
    }

    /// The text of a group's id: the group's own, if there is one.
    fn shared(&self, id: Option<&str>) -> Text {
        let id = id.expect("behind the gate");
        self.groups.get_key_value(id).map_or_else(|| id.into(), |(id, _)| Arc::clone(id))
    }

    fn group_mut(&mut self, id: &str) -> &mut Group {
        self.groups.get_mut(id).expect("a group that is there")
    }

    fn member_mut(&mut self, id: &str, place: u64) -> &mut Member {
        self.group_mut(id).members.get_mut(&place).expect("its member")
    }

    /// A deadline from now on, for whatever it is of.
    fn alarm(&mut self, wait_ms: u64) -> Alarm {
        self.armings += 1;
        Alarm { deadline_ms: self.clock.mono_ms.saturating_add(wait_ms), arming: self.armings }
    }

    /// `prefix-UUID` (§4.5).
    fn mint(&self, prefix: &str, entropy: Entropy) -> Text {
        let stem = id_without_slot(prefix, entropy);
        self.whole_ids.get(&stem).cloned().unwrap_or_else(|| format!("{stem}00000000").into())
    }

    /// The gate (§3).
    fn gate(&self, request: &Request<'_>) -> Option<ErrorCode> {
        if let Request::SyncGroup(sync) = request
            && sync.version >= 5
            && (sync.protocol_type.is_none() || sync.protocol_name.is_none())
        {
            return Some(ErrorCode::InconsistentGroupProtocol);
        }
        let empty_is_fine = matches!(
            request,
            Request::OffsetCommit(_) | Request::OffsetFetch(_) | Request::DescribeGroup(_) | Request::DeleteGroup(_)
        );
        let group_id = match request {
            Request::JoinGroup(join) => join.group_id,
            Request::SyncGroup(sync) => sync.group_id,
            Request::Heartbeat(heartbeat) => heartbeat.group_id,
            Request::LeaveGroup(leave) => leave.group_id,
            Request::OffsetCommit(commit) => commit.group_id,
            Request::OffsetFetch(fetch) => fetch.group_id,
            Request::DescribeGroup(describe) => describe.group_id,
            Request::ListGroups(_) => Some("-"),
            Request::DeleteGroup(delete) => delete.group_id,
            Request::OffsetDelete(delete) => delete.group_id,
        };
        if group_id.is_none_or(|id| id.is_empty() && !empty_is_fine) {
            return Some(ErrorCode::InvalidGroupId);
        }
        if let Request::JoinGroup(join) = request {
            let allowed = self.config.group_min_session_timeout_ms..=self.config.group_max_session_timeout_ms;
            if !allowed.contains(&join.session_timeout_ms) {
                return Some(ErrorCode::InvalidSessionTimeout);
            }
        }
        match self.phase {
            Phase::Loading => Some(ErrorCode::CoordinatorLoadInProgress),
            Phase::Failed | Phase::Unloaded => Some(ErrorCode::NotCoordinator),
            Phase::Active => None,
        }
    }
}

/// The text of a minted id, but for the eight digits that name its slot.
pub fn id_without_slot(prefix: &str, entropy: Entropy) -> String {
    let bits = entropy.0 & !(0xf_u128 << 76) & !(0x3_u128 << 62) | 4 << 76 | 2 << 62;
    let mut id = String::with_capacity(prefix.len() + 36);
    id.push_str(prefix);
    for at in 0..24 {
        if matches!(at, 0 | 8 | 12 | 16 | 20) {
            id.push('-');
        }
        let digit = (bits >> (124 - 4 * at)) as u32 & 0xf;
        id.push(char::from_digit(digit, 16).expect("four bits"));
    }
    id
}

/// How the gate's error is given (§3).
fn refuse(ticket: Ticket, request: &Request<'_>, error: ErrorCode, sink: &mut dyn Sink) {
    match request {
        Request::JoinGroup(join) => {
            let echoed = !matches!(error, ErrorCode::CoordinatorLoadInProgress | ErrorCode::NotCoordinator);
            answer_join_error(ticket, error, if echoed { join.member_id } else { "" }, sink);
        }
        Request::SyncGroup(_) => answer_sync_error(ticket, error, sink),
        Request::Heartbeat(_) => {
            let blind = error == ErrorCode::CoordinatorLoadInProgress;
            sink.answer(ticket, Answer::Heartbeat(if blind { ErrorCode::None } else { error }));
        }
        Request::LeaveGroup(_) => sink.answer(ticket, Answer::LeaveGroup(LeaveAnswer { error, members: &[] })),
        Request::OffsetCommit(commit) => {
            let topics: Vec<CommittedTopic> = commit
                .topics
                .iter()
                .map(|topic| CommittedTopic {
                    name: topic.name.into(),
                    topic_id: topic.topic_id,
                    partitions: topic.partitions.iter().map(|partition| (partition.index, error)).collect(),
                })
                .collect();
            sink.answer(ticket, Answer::OffsetCommit(CommitAnswer { topics: &topics }));
        }
        Request::OffsetFetch(fetch) => answer_fetch_error(ticket, fetch.group_id.unwrap_or(""), error, sink),
        Request::DescribeGroup(describe) => sink.answer(
            ticket,
            Answer::DescribeGroup(DescribeAnswer {
                error,
                error_message: None,
                group_id: describe.group_id.unwrap_or(""),
                state: "",
                protocol_type: "",
                protocol_name: "",
                members: &[],
            }),
        ),
        Request::ListGroups(_) => sink.answer(ticket, Answer::ListGroups(ListAnswer { error, groups: &[] })),
        Request::DeleteGroup(delete) => answer_delete(ticket, delete.group_id.unwrap_or(""), error, sink),
        Request::OffsetDelete(_) => {
            sink.answer(ticket, Answer::OffsetDelete(OffsetDeleteAnswer { error, topics: &[] }));
        }
    }
}

/// A request that waited for the end of a deletion is refused.
fn refuse_waiting(ticket: Ticket, request: &owned::Request<'_>, error: ErrorCode, sink: &mut dyn Sink) {
    request.with(|request| match request {
        Request::JoinGroup(join) => answer_join_error(ticket, error, join.member_id, sink),
        request => refuse(ticket, &request, error, sink),
    });
}

fn answer_join_error(ticket: Ticket, error: ErrorCode, member_id: &str, sink: &mut dyn Sink) {
    let answer = JoinAnswer {
        error,
        generation: -1,
        protocol_type: None,
        protocol_name: None,
        leader: "",
        skip_assignment: false,
        member_id,
        members: &[],
    };
    sink.answer(ticket, Answer::JoinGroup(answer));
}

fn answer_sync_error(ticket: Ticket, error: ErrorCode, sink: &mut dyn Sink) {
    let answer = SyncAnswer { error, protocol_type: None, protocol_name: None, assignment: &[] };
    sink.answer(ticket, Answer::SyncGroup(answer));
}

fn answer_fetch_error(ticket: Ticket, group_id: &str, error: ErrorCode, sink: &mut dyn Sink) {
    sink.answer(ticket, Answer::OffsetFetch(FetchAnswer { error, group_id, topics: &[] }));
}

fn answer_delete(ticket: Ticket, group_id: &str, error: ErrorCode, sink: &mut dyn Sink) {
    sink.answer(ticket, Answer::DeleteGroup(DeleteAnswer { error, group_id }));
}

/// A timeout as the protocol has it: a negative one has passed already.
fn wait_of(timeout_ms: i32) -> u64 {
    u64::try_from(timeout_ms).unwrap_or(0)
}
