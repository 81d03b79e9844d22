//! A group of the real core, the log under it, and its clients. Time stands still: deadlines fire in any order.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, LogEntry, Now, Record, Request, SelfCheck, Sink, Ticket,
    consumer_group::{
        group::{AWAY, ConsumerGroup, Current},
        partitions::Partition,
        topics::TopicMetadata,
    },
    embedded::{self, Subscription},
    inspect::Operation,
    purgatory::OpId,
    response::Answer,
};

use super::{
    bounds::Bounds,
    client::{Asked, Client, Listed, Partitions, Said, Speaks},
    event::{Event, Fate},
    rules,
};

/// The group.
pub const GROUP: &str = "g";
/// The topics: name and id.
pub const TOPICS: [(&str, u128); 2] = [("foo", 1), ("foobar", 2)];
/// A pattern that matches both.
pub const PATTERN: &str = "foo.*";
/// The time.
pub const START: Now = Now { mono_ms: 1_000, wall_ms: 1_700_000_001_000 };
/// The protocol of all classic clients.
pub const OFFER: &str = "range";

/// The records of the log: the newest of each key, with its offset.
type Log = BTreeMap<Vec<u8>, (u64, Arc<Record>)>;

/// What a step has given back.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The answers: to whom, and what. `None`: no client waits for it any more.
    pub answers: Vec<(Option<(usize, Asked)>, Said)>,
    /// How many answers each ticket got, the lost ones too.
    pub tickets: Vec<Ticket>,
    /// Whether records were appended.
    pub wrote: bool,
    /// The error with which an append has failed.
    pub failed: Option<ErrorCode>,
}

impl Told {
    /// The answer that a client got, or one that no client waits for.
    pub fn said(&self, client: Option<usize>) -> Option<&Said> {
        self.answers.iter().find(|(whom, _)| whom.map(|(client, _)| client) == client).map(|(_, said)| said)
    }
}

/// The effects of one call.
#[derive(Default)]
pub struct Effects {
    answers: Vec<(Ticket, Said)>,
    appends: Vec<(AppendId, Arc<[Record]>)>,
}

impl Effects {
    /// The appends so far.
    pub fn take_appends(&mut self) -> Vec<(AppendId, Arc<[Record]>)> {
        std::mem::take(&mut self.appends)
    }
}

/// The id of a topic; 0: there is no such topic.
pub fn topic_id(name: &str) -> u128 {
    TOPICS.iter().find(|(known, _)| *known == name).map_or(0, |(_, id)| *id)
}

/// Partitions as the embedded protocol lists them.
pub fn named(partitions: &Partitions) -> Vec<embedded::TopicPartitions> {
    let of = |(name, id): &(&str, u128)| embedded::TopicPartitions {
        topic: (*name).to_owned(),
        partitions: partitions.iter().filter(|partition| partition.0 == *id).map(|partition| partition.1).collect(),
    };
    TOPICS.iter().map(of).filter(|named| !named.partitions.is_empty()).collect()
}

/// What an assignment says; empty bytes say nothing.
pub fn assigned(bytes: &[u8]) -> Partitions {
    rules::assigned(bytes, &topic_id)
}

/// What metadata reports as owned.
pub fn reported(bytes: &[u8]) -> Partitions {
    let said = embedded::decode_subscription(bytes);
    said.map(|Subscription { owned_partitions, .. }| rules::identified(&owned_partitions, &topic_id))
        .unwrap_or_default()
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let said = match &answer {
            Answer::ConsumerGroupHeartbeat(answer) => {
                let assignment = answer.assignment.map(|topics| {
                    let of = |topic: &rota_core::response::AssignedTopic<'_>| {
                        topic.partitions.iter().map(|index| (topic.topic_id, *index)).collect::<Vec<_>>()
                    };
                    topics.iter().flat_map(of).collect()
                });
                Said::Beat(answer.error, answer.member_epoch, assignment)
            }
            Answer::JoinGroup(answer) => {
                let listed = answer.members.iter();
                let listed = listed.map(|member| (Arc::from(member.member_id), reported(member.metadata)));
                Said::Join(answer.error, answer.generation, answer.member_id.into(), listed.collect())
            }
            Answer::SyncGroup(answer) => Said::Sync(answer.error, assigned(answer.assignment)),
            answer => Said::Other(crate::world::error(answer)),
        };
        self.answers.push((ticket, said));
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.appends.push((append_id, records.into()));
    }
}

/// Everything that there is.
#[derive(Clone)]
pub struct World {
    /// The coordinator.
    pub core: Coordinator,
    /// The clients.
    pub clients: Vec<Client>,
    /// Appends in flight.
    pub in_flight: Vec<(AppendId, Arc<[Record]>)>,
    /// The log.
    pub log: Arc<Log>,
    /// How many of the topics there are.
    pub topics: usize,
    /// The bounds.
    pub bounds: Arc<Bounds>,
    /// Of each client what was so when the append that ends next began; without one: nothing.
    pub kept_before: Vec<Before>,
    written: u64,
    tickets: u64,
}

/// What is so of a client when an append begins.
#[derive(Clone, Debug)]
pub struct Before {
    /// The epoch that it knows.
    pub epoch: Option<i32>,
    /// What it has kept since its member had that.
    pub kept: Partitions,
    /// What its member has to give up. The log has the same.
    pub revoked: Partitions,
}

/// The client that a member id belongs to, and which of its ids that is.
pub fn owner_of(member_id: &str) -> (usize, u8) {
    let bytes = member_id.as_bytes();
    (usize::from(bytes[0].wrapping_sub(b'a')), bytes.get(1).copied().unwrap_or(0))
}

impl World {
    /// A coordinator with an empty log, and clients that have not joined.
    pub fn new(bounds: &Arc<Bounds>) -> World {
        let mut world = World {
            core: Coordinator::new(Config::default(), 0, 0),
            clients: vec![Client::default(); bounds.clients],
            in_flight: Vec::new(),
            log: Arc::default(),
            topics: bounds.topics - usize::from(bounds.patterns),
            bounds: Arc::clone(bounds),
            kept_before: Vec::new(),
            written: 0,
            tickets: 0,
        };
        world.core = world.loaded(false);
        world
    }

    /// A coordinator that has read the log, with or without its tombstones.
    pub fn loaded(&self, tombstones: bool) -> Coordinator {
        let config = Config {
            group_min_session_timeout_ms: 0,
            group_initial_rebalance_delay_ms: 0,
            offsets_retention_check_interval_ms: 1 << 40,
            rebalance_history: 0,
            ..Config::default()
        };
        let mut core = Coordinator::new(config, 0, 0);
        core.check_itself(SelfCheck::Never);
        core.configure_consumer_groups(self.bounds.config());
        let mut records: Vec<&(u64, Arc<Record>)> = self.log.values().collect();
        records.sort_unstable_by_key(|(offset, _)| *offset);
        for (offset, record) in records.into_iter().filter(|(_, record)| tombstones || !is_tombstone(record)) {
            core.replay(&LogEntry { offset: *offset, timestamp_ms: START.wall_ms, record: Record::clone(record) });
        }
        core.topics_changed(&self.metadata(), START);
        core.loaded(START, &mut Effects::default());
        core
    }

    fn metadata(&self) -> Vec<TopicMetadata> {
        let topics = TOPICS[..self.topics].iter();
        let partitions = self.bounds.partitions;
        topics
            .map(|(name, topic_id)| TopicMetadata {
                name: (*name).into(),
                topic_id: *topic_id,
                partitions,
                racks: Vec::new(),
            })
            .collect()
    }

    /// The consumer group, if there is one.
    pub fn group(&self) -> Option<&ConsumerGroup> {
        self.core.consumer_group(GROUP)
    }

    /// Whether there is a classic group with a protocol.
    pub fn is_classic(&self) -> bool {
        let inside = self.core.inspect();
        inside.group_ids.get(GROUP).is_some_and(|handle| inside.groups[*handle].protocol_type.is_some())
    }

    /// The member id of a client.
    pub fn id_of(&self, client: usize) -> Arc<str> {
        let known = &self.clients[client];
        let names = [["a1", "a2"], ["b1", "b2"], ["c1", "c2"]];
        match known.speaks {
            Speaks::Classic => Arc::clone(&known.classic_id),
            Speaks::Consumer => names[client][usize::from(known.second_id)].into(),
        }
    }

    /// The instance id of a client.
    pub fn instance_of(&self, client: usize) -> Option<&'static str> {
        (client < self.bounds.statics).then(|| ["a", "b", "c"][client])
    }

    /// The current assignment of a client's member, if it is one.
    pub fn current(&self, client: usize) -> Option<Current> {
        let (_, member) = self.group()?.member_entry(&self.id_of(client))?;
        Some(member.current.clone().unwrap_or_else(Current::joining))
    }

    /// Whether a client's member is part of the group and knows its membership.
    pub fn is_member(&self, client: usize) -> bool {
        if self.clients[client].epoch.is_none() || self.clients[client].is_fenced {
            return false;
        }
        match self.group() {
            Some(_) => self.current(client).is_some_and(|current| current.epoch != AWAY),
            None => self.core.member_handle(GROUP, &self.id_of(client)).is_some(),
        }
    }

    /// What the coordinator counts as held by a client's member.
    pub fn held(&self, client: usize) -> Partitions {
        let current = self.current(client);
        current.iter().flat_map(Current::held).map(|(partition, _)| *partition).collect()
    }

    /// All partitions.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> {
        let each = TOPICS[..self.topics].iter();
        each.flat_map(|(_, id)| (0..self.bounds.partitions).map(|index| (*id, index)))
    }

    /// Every deadline that may fire, in the order of arming: its name and the member, if it has one.
    pub fn deadlines(&self) -> Vec<(OpId, &'static str, Option<Arc<str>>)> {
        let inside = self.core.inspect();
        let member = |operation: &Operation| match operation {
            Operation::Session(handle) | Operation::NewMember(handle) => {
                inside.members.get(*handle).map(|member| member.id.shared())
            }
            Operation::ConsumerSession(name) | Operation::ConsumerJoin(name) | Operation::ConsumerSync(name) => {
                Some(Arc::clone(&name.1))
            }
            Operation::ConsumerRebalance(name) => Some(Arc::clone(&name.1)),
            Operation::Pending(pending) => Some(Arc::clone(&pending.1)),
            _ => None,
        };
        let mut all: Vec<_> = inside.purgatory.iter().collect();
        all.sort_unstable_by_key(|(id, ..)| *id);
        let all = all.into_iter().filter(|(_, _, operation)| !matches!(operation, Operation::Cleaner));
        all.map(|(id, _, operation)| (id, operation.name(), member(operation))).collect()
    }

    /// Lets one event happen.
    pub fn apply(&mut self, event: Event) -> Told {
        let mut told = Told::default();
        let mut effects = Effects::default();
        let mut fate = Fate::Answered;
        // What a failed append has asked for is not given up.
        let has_failed = matches!(event, Event::End(Some(_)) | Event::Crash(false));
        let revoked = if has_failed { self.keep_what_was_kept() } else { self.revoked() };
        let (ends_next, kept_so_far) = (self.ends_next(), self.bounds.held.then(|| self.kept(&revoked)));
        match event {
            Event::Ask(client, ask, of_it) => {
                fate = of_it;
                self.ask(client, ask, fate, &mut effects);
            }
            Event::Restart(client, speaks) => {
                let is_static = self.instance_of(client).is_some();
                self.clients[client].restart(speaks, is_static);
            }
            Event::Apply(client) => {
                let known = &mut self.clients[client];
                known.owned.clone_from(&known.told);
            }
            Event::GiveUp(client) => self.clients[client].waits = None,
            Event::Probe(client, probe) => self.probe(client, probe, &mut effects),
            Event::Fire(at, name) => {
                let (deadline, found, _) = self.deadlines().swap_remove(at);
                assert_eq!(found, name, "events of one state are always the same");
                self.core.fire_now(deadline, START, &mut effects);
            }
            Event::End(error) => self.end(error, &mut effects, &mut told),
            Event::Crash(kept) => {
                let in_flight = std::mem::take(&mut self.in_flight);
                in_flight.iter().filter(|_| kept).for_each(|(_, records)| self.store(records));
                self.clients.iter_mut().for_each(|client| client.waits = None);
                self.core = self.loaded(true);
                self.note_lost_generations();
            }
            Event::Create => {
                self.topics += 1;
                self.core.topics_changed(&self.metadata(), START);
            }
            Event::Delete => {
                self.topics -= 1;
                self.core.topics_deleted(&[TOPICS[self.topics].0], START, &mut effects);
            }
        }
        self.take(&mut effects, &mut told);
        let mut error = if let Fate::Refused(error) = fate { Some(error) } else { None };
        while !self.bounds.held && !self.in_flight.is_empty() {
            self.end(error.take(), &mut effects, &mut told);
            self.take(&mut effects, &mut told);
        }
        self.note_what_is_kept(&revoked);
        if self.ends_next() != ends_next {
            self.kept_before = kept_so_far.filter(|_| self.ends_next().is_some()).unwrap_or_default();
        }
        self.note_who_was_removed();
        if self.is_classic() {
            self.fence_clients();
        }
        told
    }

    /// Keeps the appends of a call, and gives its answers to the clients.
    fn take(&mut self, effects: &mut Effects, told: &mut Told) {
        told.wrote |= !effects.appends.is_empty();
        self.in_flight.append(&mut effects.appends);
        for (ticket, said) in effects.answers.drain(..) {
            told.tickets.push(ticket);
            let waits = |client: &usize| self.clients[*client].waits.is_some_and(|(waited, _)| waited == ticket);
            let whom = (0..self.clients.len()).find(waits).and_then(|client| {
                let (_, asked) = self.clients[client].waits.take()?;
                self.clients[client].hear(asked, &said);
                Some((client, asked))
            });
            told.answers.push((whom, said));
        }
    }

    /// Classic members of an older generation are refused: behind a downgrade, whose generation is the group epoch, and
    /// static ones that a join phase has not waited for.
    fn fence_clients(&mut self) {
        let generation = self.core.project(GROUP).map_or(0, |group| group.generation);
        let known = self.clients.iter_mut().filter(|known| known.speaks == Speaks::Classic);
        known.for_each(|known| known.is_fenced = known.epoch.is_some_and(|epoch| epoch < generation));
    }

    /// The log has no generation before its plan. The next join phase gives the number of one that is lost to another,
    /// in which the clients of the lost one are not fenced.
    fn note_lost_generations(&mut self) {
        let Some(group) = self.core.project(GROUP).filter(|_| self.is_classic()) else { return };
        let known = self.clients.iter_mut().filter(|known| known.speaks == Speaks::Classic);
        known.for_each(|known| known.was_removed |= known.epoch.is_some_and(|epoch| epoch > group.generation));
    }

    /// A classic client that has joined once joins again under its old id, also if its member is gone.
    fn note_who_was_removed(&mut self) {
        for client in 0..self.clients.len() {
            let known = &self.clients[client];
            let is_joined = known.speaks == Speaks::Classic && known.epoch.is_some();
            if is_joined && !known.is_fenced && !self.is_member(client) {
                self.clients[client].was_removed = true;
            }
        }
    }

    /// What each client's member has to give up.
    fn revoked(&self) -> Vec<Partitions> {
        let pending = |client| self.current(client).map(|current| current.pending.into_keys().collect());
        (0..self.clients.len()).map(|client| pending(client).unwrap_or_default()).collect()
    }

    /// What is held while the member's epoch is the one that its client knows is kept until it is not held any more. What
    /// was to be given up and is not any more was given up, also if it is granted again.
    fn note_what_is_kept(&mut self, before: &[Partitions]) {
        let after = self.revoked();
        for client in 0..self.clients.len() {
            let Some(known) = self.clients[client].epoch else { continue };
            let is_current = self.current(client).is_some_and(|current| current.epoch == known);
            let mut held = self.held(client);
            held.retain(|partition| {
                !before[client].contains(partition) || after[client].contains(partition) || is_current
            });
            if is_current {
                self.clients[client].kept = held;
            } else {
                self.clients[client].kept.retain(|partition| held.contains(partition));
            }
        }
    }

    fn ends_next(&self) -> Option<AppendId> {
        self.in_flight.first().map(|(append_id, _)| *append_id)
    }

    fn kept(&self, revoked: &[Partitions]) -> Vec<Before> {
        let clients = self.clients.iter().zip(revoked);
        let kept = |(known, revoked): (&Client, &Partitions)| Before {
            epoch: known.epoch,
            kept: known.kept.clone(),
            revoked: revoked.clone(),
        };
        clients.map(kept).collect()
    }

    /// What an append took from a member, it has had all along if the append fails. Returns what each client was to give up
    /// when that append began: the next request may acknowledge it in the same step.
    fn keep_what_was_kept(&mut self) -> Vec<Partitions> {
        let mut revoked = vec![Partitions::new(); self.clients.len()];
        for (client, before) in std::mem::take(&mut self.kept_before).into_iter().enumerate() {
            let known = &mut self.clients[client];
            if known.epoch == before.epoch {
                known.kept = before.kept;
            }
            revoked[client] = before.revoked;
        }
        revoked
    }

    fn end(&mut self, error: Option<ErrorCode>, effects: &mut Effects, told: &mut Told) {
        let (append_id, records) = self.in_flight.remove(0);
        if error.is_none() {
            self.store(&records);
        }
        told.failed = told.failed.or(error);
        self.core.appended(append_id, error.map_or(Ok(self.written), Err), START, effects);
    }

    fn store(&mut self, records: &[Record]) {
        let log = Arc::make_mut(&mut self.log);
        for record in records {
            self.written += 1;
            log.insert(record.key_bytes(), (self.written, Arc::new(record.clone())));
        }
    }

    /// The next ticket, and random bits that go with it: an id of this client begins with its letter and a dash.
    pub(super) fn ticket(&mut self, client: usize) -> (Ticket, Entropy) {
        const LETTER_A: u128 = 26;
        const DASH: u128 = 62;
        self.tickets += 1;
        let letters = (LETTER_A + client as u128) << 122 | DASH << 116;
        (Ticket(self.tickets), Entropy(letters | u128::from(self.tickets) << 36))
    }

    /// Sends a request; the client waits for the answer as `asked` says.
    pub(super) fn send(&mut self, client: usize, asked: Option<Asked>, request: Request<'_>, effects: &mut Effects) {
        let (ticket, entropy) = self.ticket(client);
        if let Some(asked) = asked {
            self.clients[client].waits = Some((ticket, asked));
        }
        self.core.submit(START, ticket, entropy, request, effects);
    }
}

fn is_tombstone(record: &Record) -> bool {
    use rota_core::records::ConsumerRecord;
    match record {
        Record::Group { value, .. } => value.is_none(),
        Record::Offset { value, .. } => value.is_none(),
        Record::Unknown { .. } => false,
        Record::Consumer { about, .. } => matches!(
            about,
            ConsumerRecord::Epoch(None)
                | ConsumerRecord::Metadata(None)
                | ConsumerRecord::TargetEpoch(None)
                | ConsumerRecord::Member(_, None)
                | ConsumerRecord::Target(_, None)
                | ConsumerRecord::Current(_, None)
                | ConsumerRecord::Pattern(_, None)
        ),
    }
}

/// The lists of a leader's plan: what each member is to have. A cooperative leader withholds what another member owns.
pub fn plan(listed: &[Listed], partitions: &[Partition], cooperative: bool) -> Vec<Partitions> {
    let mut plan = vec![Partitions::new(); listed.len()];
    for (at, partition) in partitions.iter().enumerate() {
        let owner = at % listed.len();
        let is_free = |(at, (_, owned)): (usize, &Listed)| at == owner || !owned.contains(partition);
        if !cooperative || listed.iter().enumerate().all(is_free) {
            plan[owner].insert(*partition);
        }
    }
    plan
}
