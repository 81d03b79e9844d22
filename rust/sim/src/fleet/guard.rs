//! Checks consumer groups after every event of their coordinators: the rules of [`crate::consumers`], which the
//! exploration of all states checks, too. Who holds what is known from the processes themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_core::{
    ErrorCode, Phase, Projection, Ticket,
    consumer_group::{
        group::{AWAY, ConsumerGroup, ConsumerMember, Current},
        partitions::Partition,
    },
    embedded,
    records::SubscriptionValue,
};
use rota_journal::Event;
use rota_member::{Answer, ConsumerHeartbeat, Request};

use super::{
    Fleet,
    log::{AppendNumber, Effects},
    promises::Waiting,
    protocols,
    topics::{Known, id_in},
};
use crate::consumers::rules::{self, Holds};

type Partitions = BTreeSet<Partition>;

/// What is known of one group.
pub struct Guard {
    /// The fold of its durable records.
    stored: ConsumerGroup,
    /// Since which epoch each member has held each partition.
    since: BTreeMap<Arc<str>, BTreeMap<Partition, i32>>,
    /// What the answers to heartbeats have to say, once they come: the epoch, and the assignment.
    expected: BTreeMap<Ticket, (i32, Option<Partitions>)>,
    /// The generation with which the group became a classic one without a rebalance, and when: its leader does not know
    /// that it leads.
    pub unled: Option<(i32, u64)>,
    /// The epoch with which the group became a consumer one, if that raised none.
    pub upgraded: Option<i32>,
    /// Members that do not know their assignment: the answer that had it was lost after the answer to a later request. Such a
    /// member knows of no failure, and does not ask.
    pub unheard: BTreeSet<String>,
    /// Number of targets so far.
    pub targets: u64,
    /// Number of checks by id.
    pub looked: BTreeMap<&'static str, u64>,
    violated: Option<(&'static str, String)>,
}

/// A group before an event.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Watched {
    group: usize,
    old: Option<ConsumerGroup>,
    /// The classic group, if it is one.
    classic: Option<Projection>,
    ticket: Option<Ticket>,
    /// An append that failed: what it had changed is taken back.
    is_undoing: bool,
    /// Answers have not had what this event takes back; and behind an append that ends, what has waited for it goes on.
    is_setback: bool,
    is_load: bool,
    is_advance: bool,
}

/// What a step needs to know besides the group before and after it.
struct Scene<'a> {
    topics: &'a Known,
    /// The request, if it was handled at once, and the error with which it was answered at once.
    request: Option<(&'a Request, Option<ErrorCode>)>,
    now_ms: u64,
    max_size: u32,
}

impl Guard {
    pub fn new(group_id: &Arc<str>) -> Guard {
        Guard {
            stored: ConsumerGroup::new(group_id.clone()),
            since: BTreeMap::new(),
            expected: BTreeMap::new(),
            unled: None,
            upgraded: None,
            unheard: BTreeSet::new(),
            targets: 0,
            looked: BTreeMap::new(),
            violated: None,
        }
    }

    fn check(&mut self, id: &'static str, holds: impl Into<Option<Holds>>) {
        let Some(holds) = holds.into() else { return };
        *self.looked.entry(id).or_default() += 1;
        if let Err(words) = holds {
            self.violated.get_or_insert((id, words));
        }
    }

    /// `held`: the group with what an append in flight has ended.
    fn check_state(&mut self, held: Option<&ConsumerGroup>, group: Option<&ConsumerGroup>, max_size: u32) {
        let live = held.and_then(rules::durable);
        let stored = Some(&self.stored).filter(|stored| !stored.is_gone());
        let holds = rules::replay_equal(live.as_deref(), stored);
        self.check("C13", holds);
        if let Some(group) = group {
            self.check("C15", rules::no_stray_pattern(group));
            self.check("C16", rules::timers(group));
            self.check("C17", rules::bounded(group, max_size));
        }
    }

    fn check_step(&mut self, watched: &Watched, old: &ConsumerGroup, new: &ConsumerGroup, scene: &Scene<'_>) {
        if !watched.is_setback {
            self.check("C3", rules::epochs_rise(old, new));
            self.check("C4", rules::member_epochs_rise(old, new));
            self.check("C5", rules::granted_only_free(old, new));
            let report = scene.request.and_then(|(body, _)| report_of(body, scene.topics));
            let report = report.as_ref().map(|(id, owned)| (&**id, owned));
            self.check("C6", rules::acknowledged(old, new, report));
        }
        if watched.is_advance {
            for pattern in new.patterns().filter(|pattern| {
                old.patterns().all(|other| other != *pattern)
                    || old.resolved_topics(pattern) != new.resolved_topics(pattern)
            }) {
                let known = scene.topics.keys().filter(|topic| protocols::matches(pattern, topic));
                self.check("C15", rules::resolved(new, pattern, &known.cloned().collect()));
            }
        }
    }

    /// The group starts again.
    pub fn deleted(&mut self) {
        self.unled = None;
        self.upgraded = None;
        self.unheard.clear();
    }

    /// Checks what a request did that was handled at once.
    fn check_request(&mut self, ticket: Ticket, old: &ConsumerGroup, new: Option<&ConsumerGroup>, scene: &Scene<'_>) {
        let Some((body, error)) = scene.request else { return };
        if let Some(error) = error {
            let is_ended = old.is_empty() && new.is_none();
            if rules::is_refusal(error) && !is_ended {
                self.check("C12", rules::is_unchanged(old, new));
            }
        } else if let (Request::ConsumerGroupHeartbeat(heartbeat), Some(new)) = (body, new)
            && old.write.is_none()
        {
            self.check_heartbeat(ticket, heartbeat, (old, new), scene);
        }
        if let Request::OffsetCommit { generation, member_id, offsets, .. } = body {
            let since = self.since.get(&**member_id);
            let topics = scene.topics;
            let kept = |at: Partition| since.and_then(|since| since.get(&at)).is_some_and(|since| since <= generation);
            let has_kept_all =
                offsets.iter().all(|(at, _)| topics.get(&at.topic).is_some_and(|of| kept((of.0, at.index))));
            let member = old.member(member_id);
            let wanted = rules::may_commit(member, *generation, has_kept_all);
            let detail = || {
                format!("{member_id} at {:?} commits with {generation}: {error:?}", member.map(ConsumerMember::epoch))
            };
            self.check("C11", rules::ensure(error.is_none() == wanted, detail));
        }
    }

    fn check_heartbeat(
        &mut self,
        ticket: Ticket,
        heartbeat: &ConsumerHeartbeat,
        (old, new): (&ConsumerGroup, &ConsumerGroup),
        scene: &Scene<'_>,
    ) {
        let id = &*heartbeat.member_id;
        let current = |group: &ConsumerGroup| {
            group.member(id).map(|member| member.current.clone().unwrap_or_else(Current::joining))
        };
        if heartbeat.epoch == AWAY {
            if let Some(before) = current(old) {
                self.check("C10", rules::goes_away(id, &before, current(new).as_ref()));
            }
            return;
        }
        let Some(after) = current(new).filter(|_| heartbeat.epoch >= 0) else { return };
        if heartbeat.epoch > 0 {
            let topics = scene.topics;
            let name_of = |id: u128| topics.iter().find(|(_, of)| of.0 == id).map(|(name, _)| name.clone());
            self.check("C19", rules::free_is_granted(old, new, id, &name_of));
        }
        if let Some(instance) = heartbeat.instance_id.as_ref().filter(|_| heartbeat.epoch == 0) {
            let mut topics = heartbeat.topics.clone().unwrap_or_default();
            topics.sort();
            let is_same =
                |value: &SubscriptionValue| value.topic_names == topics && !new.has_patterns() && !old.has_patterns();
            self.check("C10", rules::static_return((old, new), instance, id, is_same, scene.now_ms));
        }
        let subscribes = heartbeat.topics.is_some() || heartbeat.pattern.is_some();
        let is_full = heartbeat.rebalance_timeout_ms != -1 && heartbeat.owned.is_some() && subscribes;
        let owned = rules::owned(&after);
        let has_changed = current(old).is_none_or(|before| rules::owned(&before) != owned);
        let shown = heartbeat.epoch == 0 || is_full || has_changed;
        self.expected.insert(ticket, (after.epoch, shown.then_some(owned)));
    }

    /// Follows since when members hold what they hold. `anew`: as the coordinator says.
    fn follow(&mut self, old: Option<&ConsumerGroup>, new: Option<&ConsumerGroup>, anew: bool) {
        let Some(new) = new else { return self.since.clear() };
        self.since.retain(|id, _| new.member(id).is_some());
        for (id, member, _) in new.members() {
            let Some(current) = &member.current else { continue };
            let before = old.and_then(|old| old.member(id)?.current.as_ref());
            let is_known = before.is_some_and(|before| before.epoch > 0) && current.epoch > 0;
            if anew || !is_known || !self.since.contains_key(id) {
                self.since.insert(id.clone(), current.held().map(|(at, since)| (*at, *since)).collect());
                continue;
            }
            let was_pending = |at: &Partition| before.is_some_and(|before| before.pending.contains_key(at));
            let Some(since) = self.since.get_mut(id) else { continue };
            since.retain(|at, _| {
                let is_held = current.assigned.contains_key(at) || current.pending.contains_key(at);
                is_held && (!was_pending(at) || current.pending.contains_key(at))
            });
            for (at, _) in current.held() {
                since.entry(*at).or_insert(current.epoch);
            }
        }
    }

    /// Checks the answer to a request.
    fn check_answer(&mut self, ticket: Ticket, to: &Waiting, answer: &Answer, topics: &Known) {
        let expected = self.expected.remove(&ticket);
        let (id, epoch, mut shown) = match (&*to.asked.body, answer) {
            (
                Request::ConsumerGroupHeartbeat(heartbeat),
                Answer::ConsumerGroupHeartbeat { error: ErrorCode::None, epoch, assignment, .. },
            ) if heartbeat.epoch >= 0 => {
                let each = |(topic, indexes): &(u128, Vec<i32>)| {
                    let topic = *topic;
                    indexes.iter().map(move |index| (topic, *index)).collect::<Vec<_>>()
                };
                let shown: Option<Partitions> = assignment.as_ref().map(|all| all.iter().flat_map(each).collect());
                (&heartbeat.member_id, *epoch, shown)
            }
            (Request::JoinGroup { .. }, Answer::JoinGroup { error: ErrorCode::None, generation, member_id, .. }) => {
                (member_id, *generation, None)
            }
            (
                Request::SyncGroup { generation, member_id, .. },
                Answer::SyncGroup { error: ErrorCode::None, assignment, .. },
            ) => {
                let ids = |name: &str| id_in(topics, name);
                (member_id, *generation, Some(rules::assigned(assignment, &ids)))
            }
            _ => return,
        };
        if let Some(expected) = expected {
            let found = (epoch, shown.clone());
            let detail = || format!("{id} gets {found:?}, not {expected:?}");
            self.check("C8", rules::ensure(found == expected, detail));
        }
        if self.stored.is_gone() && matches!(answer, Answer::JoinGroup { .. }) {
            // It has made a classic group of this one.
            return;
        }
        let stored = self.stored.member(id);
        if matches!(answer, Answer::SyncGroup { .. })
            && let (Some(shown), Some(current)) = (&mut shown, stored.and_then(|stored| stored.current.as_ref()))
        {
            // An assignment by name leaves topics out that are gone.
            shown.extend(current.assigned.keys().filter(|(topic, _)| !is_known(topics, *topic)));
        }
        let holds = rules::durable_before_told(stored, id, epoch, shown.as_ref());
        self.check("C9", holds);
    }
}

/// Whether a coordinator knows a topic of this id.
fn is_known(topics: &Known, topic: u128) -> bool {
    topics.values().any(|(id, _)| *id == topic)
}

/// The error of an answer that has one.
pub(super) fn error_of(answer: &Answer) -> ErrorCode {
    match answer {
        Answer::JoinGroup { error, .. }
        | Answer::SyncGroup { error, .. }
        | Answer::Heartbeat(error)
        | Answer::ConsumerGroupHeartbeat { error, .. }
        | Answer::LeaveGroup(error)
        | Answer::OffsetFetch { error, .. } => *error,
        Answer::OffsetCommit(codes) => codes.first().map_or(ErrorCode::None, |(_, error)| *error),
        Answer::FindCoordinator(_) | Answer::Metadata { .. } | Answer::TopicNames(_) => ErrorCode::None,
    }
}

/// Whose partitions a request reports, and which.
fn report_of(body: &Request, topics: &Known) -> Option<(String, Partitions)> {
    match body {
        Request::ConsumerGroupHeartbeat(heartbeat) => {
            let owned = heartbeat.owned.as_ref()?.iter();
            let each = |(topic, indexes): &(u128, Vec<i32>)| {
                let topic = *topic;
                indexes.iter().map(move |index| (topic, *index)).collect::<Vec<_>>()
            };
            Some((heartbeat.member_id.clone(), owned.flat_map(each).collect()))
        }
        Request::JoinGroup { member_id, protocols, .. } => {
            let said = embedded::decode_subscription(&protocols.first()?.1).ok()?;
            let ids = |name: &str| id_in(topics, name);
            Some((member_id.clone(), rules::identified(&said.owned_partitions, &ids)))
        }
        _ => None,
    }
}

impl Fleet {
    /// Returns the groups that an event may change, as they are before it.
    pub(super) fn watched(&self, node: usize, partition: usize, event: &Event<'_>) -> Vec<Watched> {
        let core = &self.nodes[node].cores[partition];
        let of = |id: &str| self.shape.groups.iter().position(|group| *group.id == *id);
        let is_here = |group: &usize| self.shape.partition_of(&self.shape.groups[*group].id) == partition;
        let (mut failed, mut ticket) = (false, None);
        let groups: Vec<usize> = match event {
            Event::Submitted { request, ticket: of_it, .. } => {
                ticket = Some(*of_it);
                request.group_id().and_then(of).into_iter().collect()
            }
            Event::Appended { append_id, result } => {
                failed = result.is_err();
                core.append_group(*append_id).and_then(of).into_iter().collect()
            }
            Event::Advanced(_) | Event::Loaded { .. } => (0..self.shape.groups.len()).filter(is_here).collect(),
            _ => Vec::new(),
        };
        let watched = groups.into_iter().map(|group| {
            let id = &self.shape.groups[group].id;
            let old = core.consumer_group(id).cloned();
            let is_active = core.phase() == Phase::Active;
            Watched {
                group,
                classic: if old.is_none() && is_active { core.project(id) } else { None },
                ticket,
                is_undoing: failed,
                is_setback: failed || old.as_ref().is_some_and(|old| !old.waiting.is_empty()),
                is_load: matches!(event, Event::Loaded { .. }),
                is_advance: matches!(event, Event::Advanced(_)),
                old,
            }
        });
        watched.collect()
    }

    /// Checks these groups after the event.
    pub(super) fn guard(&mut self, node: usize, partition: usize, watched: Vec<Watched>, effects: &Effects) {
        let core = &self.nodes[node].cores[partition];
        if let Some(one) = watched.first()
            && core.phase() == Phase::Active
            && let Err(violation) = core.check_invariants()
        {
            self.guards[one.group].violated.get_or_insert((violation.id, violation.detail));
        }
        for one in watched {
            self.guard_group(node, partition, &one, effects);
            self.guard_holders(one.group);
        }
    }

    fn guard_group(&mut self, node: usize, partition: usize, watched: &Watched, effects: &Effects) {
        let Fleet { nodes, shape, guards, waiting, now_ms, promises, topics, crowd, .. } = self;
        let core = &nodes[node].cores[partition];
        if core.phase() != Phase::Active {
            return;
        }
        let (guard, id) = (&mut guards[watched.group], &shape.groups[watched.group].id);
        let new = core.consumer_group(id);
        let answered = |ticket: Ticket| {
            let mut answers = effects.answers.iter();
            let found = answers.find(|(of, _)| *of == ticket);
            found.and_then(|(_, answer)| answer.as_ref().map(error_of)).filter(|error| *error != ErrorCode::None)
        };
        let asked = watched.ticket.and_then(|ticket| Some((ticket, &*waiting.get(&ticket)?.asked.body)));
        let scene = Scene {
            topics: &nodes[node].topics[partition],
            request: asked.map(|(ticket, body)| (body, answered(ticket))),
            now_ms: core.now().mono_ms,
            max_size: shape.consumer_config().max_size,
        };
        guard.check_state(core.inspect().consumer_groups.get(id), new, scene.max_size);
        if let (Some(old), Some(new)) = (&watched.old, new) {
            guard.check_step(watched, old, new, &scene);
        }
        if let (Some(ticket), Some(old)) = (watched.ticket, &watched.old) {
            guard.check_request(ticket, old, new, &scene);
        }
        if let Some(new) = new.filter(|_| !watched.is_load) {
            let exact = rules::target_exact(watched.old.as_ref(), new, scene.topics);
            guard.targets += u64::from(exact.is_some());
            guard.check("C7", exact);
        }
        let after = if new.is_none() && watched.old.is_some() { core.project(id) } else { None };
        if !watched.is_undoing && !watched.is_load {
            let ids = |name: &str| id_in(scene.topics, name);
            let joins = asked.and_then(|(_, body)| match body {
                Request::ConsumerGroupHeartbeat(heartbeat) => Some(&*heartbeat.member_id),
                _ => None,
            });
            let migration = shape.consumer_config().migration;
            let change = match (&watched.classic, new, &watched.old, &after) {
                (Some(classic), Some(group), None, _) => Some((classic, group, true, migration.upgrades())),
                (_, None, Some(group), Some(classic)) => Some((classic, group, false, migration.downgrades())),
                _ => None,
            };
            if let Some((classic, group, is_up, may)) = change {
                if !watched.is_setback {
                    // The topic may have been deleted and created again since the records were written.
                    let id_now = |id: u128| topics.name(id).and_then(|name| scene.topics.get(name)).map(|(id, _)| *id);
                    let converted = rules::converted(classic, group, is_up, joins, (&ids, &id_now));
                    if converted.is_some() {
                        guard.check("C14", rules::ensure(may, || format!("{migration:?}, and the group changed over")));
                    }
                    guard.check("C14", converted);
                }
                promises.converted(watched.group);
                if is_up {
                    crowd.upgraded(watched.group);
                    guard.upgraded = (group.epoch() == classic.generation).then_some(group.epoch());
                }
                if !is_up && classic.state == rota_core::State::Stable {
                    guard.unled = Some((classic.generation, *now_ms));
                }
            }
        }
        guard.follow(watched.old.as_ref(), new, watched.is_setback || watched.is_load);
        self.take_violation(watched.group);
    }

    fn take_violation(&mut self, group: usize) {
        if let Some((id, words)) = self.guards[group].violated.take() {
            let words = format!("{}: {words}", self.shape.groups[group].id);
            self.violated(id, words);
        }
    }

    /// Checks an answer of a consumer group.
    pub(super) fn guard_answer(&mut self, ticket: Ticket, to: &Waiting, answer: &Answer) {
        if !self.shape.is_newer() || to.place.epoch != self.logs[to.place.partition].epoch || !to.by_consumer_group {
            return;
        }
        self.note_heard(to, answer);
        let Fleet { guards, nodes, .. } = self;
        let topics = &nodes[to.place.node].topics[to.place.partition];
        guards[to.asked.group].check_answer(ticket, to, answer, topics);
        self.take_violation(to.asked.group);
    }

    /// Records whether a consumer member hears of its assignment.
    fn note_heard(&mut self, to: &Waiting, answer: &Answer) {
        let (Request::ConsumerGroupHeartbeat(asked), Answer::ConsumerGroupHeartbeat { error, assignment, .. }) =
            (&*to.asked.body, answer)
        else {
            return;
        };
        let (seat, is_open) = self.reader_of(to.wire);
        let seat = &mut self.seats[seat];
        if *error != ErrorCode::None || seat.member.as_ref().is_none_or(|member| member.member_id() != asked.member_id)
        {
            return;
        }
        let is_overtaken = !is_open && seat.heard.is_some_and(|heard| to.request < heard);
        if is_open {
            seat.heard = seat.heard.max(Some(to.request));
        }
        let unheard = &mut self.guards[to.asked.group].unheard;
        if assignment.is_some() && is_overtaken {
            unheard.insert(asked.member_id.clone());
        } else if assignment.is_some() && is_open {
            unheard.remove(&asked.member_id);
        }
    }

    /// Folds the records of an append that is durable.
    pub(super) fn stored(&mut self, partition: usize, number: AppendNumber) {
        let Fleet { guards, logs, .. } = self;
        logs[partition].each_consumer_record(Some(number), &mut |group_id, record| {
            if let Some(guard) = guards.iter_mut().find(|guard| guard.stored.id == *group_id) {
                guard.stored.apply(record);
            }
        });
    }

    /// Folds the whole log of a partition, which may have lost or kept what was in flight.
    pub(super) fn refold(&mut self, partition: usize) {
        let Fleet { guards, logs, shape, .. } = self;
        for guard in guards.iter_mut() {
            if shape.partition_of(&guard.stored.id) == partition {
                guard.stored = ConsumerGroup::new(guard.stored.id.clone());
                guard.expected.clear();
            }
        }
        logs[partition].each_consumer_record(None, &mut |group_id, record| {
            if let Some(guard) = guards.iter_mut().find(|guard| guard.stored.id == *group_id) {
                guard.stored.apply(record);
            }
        });
    }

    /// Finds out which processes are members without interruption, and checks that no two of them hold one partition (C2).
    pub(super) fn guard_holders(&mut self, group: usize) {
        if !self.shape.is_newer() {
            return;
        }
        let Fleet { nodes, owners, logs, shape, guards, ledgers, seats, .. } = self;
        let id = &shape.groups[group].id;
        let partition = shape.partition_of(id);
        let core = &nodes[owners[partition]].cores[partition];
        let is_stale = nodes[owners[partition]].eras[partition] < logs[partition].era;
        if core.phase() != Phase::Active || core.epoch() != logs[partition].epoch || is_stale {
            return;
        }
        let consumers = core.consumer_group(id);
        let generation = || {
            let inside = core.inspect();
            inside.group_ids.get(id).map_or(-1, |handle| inside.groups[*handle].generation)
        };
        let is_member = |(seat, life): (usize, u32)| {
            let one = &seats[seat];
            let Some(member) = one.member.as_ref().filter(|_| one.life == life) else { return false };
            if let Some(consumers) = consumers {
                return consumers.member(member.member_id()).is_some_and(|member| member.epoch() != AWAY);
            }
            let knows = |known: i32| known >= generation();
            core.member_handle(id, member.member_id()).is_some()
                && (knows(member.generation()) || one.knows_generation().is_some_and(knows))
        };
        let ledger = &mut ledgers[group];
        ledger.interrupt(|process| !is_member(process));
        if consumers.is_some() {
            guards[group].check("C2", rules::held_once(&ledger.holders(|seat| seats[seat].name())));
        }
        self.take_violation(group);
    }
}
