//! What clients received, and what must hold for it: the checks that need more than one state.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::{
    AppendId, ErrorCode, Projection, Record, Sink, State, Ticket,
    response::{Answer, JoinAnswer},
};

/// What a wrong coordinator, or a wrong road from it, would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    AnswerTwice,
    AnswerNever,
    GenerationBack,
    AnotherLeader,
    ListToFollower,
    WrongAssignment,
    RefusalWithEffect,
    LostRecord,
    EarlyAnswer,
    EarlyDelete,
    StrangersCommit,
    StaleView,
}

impl Fault {
    /// Each fault with the check that has to catch it.
    pub const CAUGHT_BY: [(Fault, &'static str); 12] = [
        (Fault::AnswerTwice, "S18:"),
        (Fault::AnswerNever, "S18:"),
        (Fault::GenerationBack, "S4:"),
        (Fault::AnotherLeader, "S1:"),
        (Fault::ListToFollower, "S9:"),
        (Fault::WrongAssignment, "S11:"),
        (Fault::RefusalWithEffect, "S14:"),
        (Fault::LostRecord, "S22:"),
        (Fault::EarlyAnswer, "S26:"),
        (Fault::EarlyDelete, "S26:"),
        (Fault::StrangersCommit, "S15:"),
        (Fault::StaleView, "S25:"),
    ];
}

/// An identity that a client knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub group: &'static str,
    pub member_id: String,
    pub instance: Option<&'static str>,
}

/// A request whose answer is outstanding.
#[derive(Clone)]
pub struct Open {
    pub known: Known,
    pub kind: &'static str,
    pub generation: i32,
    /// The append that its answer waits for: a commit's.
    pub append: Option<AppendId>,
}

/// One event's effects.
#[derive(Default)]
pub struct Effects {
    pub answers: Vec<(Ticket, ErrorCode, Option<Success>)>,
    pub appends: Vec<(AppendId, Vec<Record>)>,
    /// Everything in words, if anybody reads it.
    pub words: Option<Vec<String>>,
}

/// The part of an answer that the history keeps.
#[derive(Clone)]
pub enum Success {
    Join { member_id: String, generation: i32, leader: String, listed: Vec<String>, skip: bool },
    Id(String),
    Sync { assignment: Vec<u8> },
    Commit,
    Delete,
    OffsetDelete,
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        if let Some(words) = &mut self.words {
            words.push(format!("answer {ticket:?} {answer:?}"));
        }
        let (error, told) = match &answer {
            Answer::JoinGroup(join) => (join.error, told_join(join)),
            Answer::SyncGroup(sync) => {
                let told = Success::Sync { assignment: sync.assignment.to_vec() };
                (sync.error, (sync.error == ErrorCode::None).then_some(told))
            }
            Answer::Heartbeat(error) | Answer::WriteTxnMarker(error) => (*error, None),
            Answer::LeaveGroup(leave) => (leave.error, None),
            Answer::OffsetCommit(commit) => {
                // Clients commit one partition. What a damaged snapshot says was asked may be none.
                let first = commit.topics.first().and_then(|topic| topic.partitions.first());
                let error = first.map_or(ErrorCode::UnknownServerError, |partition| partition.1);
                (error, (error == ErrorCode::None).then_some(Success::Commit))
            }
            Answer::OffsetFetch(fetch) => (fetch.error, None),
            Answer::DescribeGroup(describe) => (describe.error, None),
            Answer::ConsumerGroupHeartbeat(heartbeat) => (heartbeat.error, None),
            Answer::ConsumerGroupDescribe(describe) => (describe.error, None),
            Answer::ListGroups(list) => (list.error, None),
            Answer::DeleteGroup(delete) => (delete.error, (delete.error == ErrorCode::None).then_some(Success::Delete)),
            Answer::OffsetDelete(delete) => {
                (delete.error, (delete.error == ErrorCode::None).then_some(Success::OffsetDelete))
            }
        };
        self.answers.push((ticket, error, told));
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        if let Some(words) = &mut self.words {
            words.push(format!("append {append_id:?} {records:?}"));
        }
        self.appends.push((append_id, records.to_vec()));
    }
}

fn told_join(join: &JoinAnswer<'_>) -> Option<Success> {
    match join.error {
        ErrorCode::None => Some(Success::Join {
            member_id: join.member_id.to_owned(),
            generation: join.generation,
            leader: join.leader.to_owned(),
            listed: join.members.iter().map(|member| member.member_id.to_owned()).collect(),
            skip: join.skip_assignment,
        }),
        ErrorCode::MemberIdRequired => Some(Success::Id(join.member_id.to_owned())),
        _ => None,
    }
}

/// One life of a group in one incarnation of its coordinator.
pub type Era = (u32, u32);

/// A group, in one of its lives, in one generation.
type Round = (&'static str, Era, i32);

/// An incarnation, and its append.
type LogPlace = (u32, AppendId);

/// What the log has of a group in one record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// An offset, or a record without a plan.
    Something,
    /// The plan of this generation.
    Plan(i32),
    /// The end of the group: nothing before it counts.
    Tombstone,
}

#[derive(Clone, Default)]
pub struct History {
    /// The members that an answer named as leader, in order.
    leaders: BTreeMap<Round, Vec<String>>,
    /// The plan that the leader handed in first.
    plans: BTreeMap<Round, BTreeMap<String, Vec<u8>>>,
    /// What each member received for a generation, in any incarnation.
    assignments: BTreeMap<(&'static str, i32, String), Vec<u8>>,
    /// The highest generation that was seen.
    reached: BTreeMap<(&'static str, Era), i32>,
    /// How often a group was there, and then was not.
    ends: BTreeMap<&'static str, u32>,
    /// The groups that the log had something of when they were seen last.
    durable: BTreeSet<&'static str>,
    /// How many tombstones it took for the ends of each group.
    tombstones_used: BTreeMap<&'static str, usize>,
    /// How many deletions of a group were acknowledged.
    deleted: BTreeMap<&'static str, usize>,
    /// The ids that the instance of an id had before (S1).
    chains: BTreeMap<String, BTreeSet<String>>,
    /// Who has an instance now.
    holders: BTreeMap<(&'static str, String), String>,
    /// What the log has of each group, in the order of the log.
    stored: BTreeMap<String, Vec<(LogPlace, Stored)>>,
    /// Appends of this incarnation that the log has acknowledged.
    acknowledged: BTreeSet<AppendId>,
    sightings: BTreeMap<String, usize>,
}

impl History {
    pub fn absorb(&mut self, other: &History) {
        for (what, count) in &other.sightings {
            *self.sightings.entry(what.clone()).or_default() += count;
        }
    }

    pub fn count(&self, what: &str) -> usize {
        self.sightings.get(what).copied().unwrap_or(0)
    }

    pub fn see(&mut self, what: String) {
        *self.sightings.entry(what).or_default() += 1;
    }

    /// Another incarnation: what was only in memory is gone.
    pub fn forget_memory(&mut self) {
        self.holders.clear();
        self.durable.clear();
        self.acknowledged.clear();
    }

    pub fn acknowledge(&mut self, life: u32, append_id: AppendId, records: &[Record]) {
        self.acknowledged.insert(append_id);
        self.store(life, append_id, records);
    }

    /// The log has these records.
    pub fn store(&mut self, life: u32, append_id: AppendId, records: &[Record]) {
        for record in records {
            let (group_id, what) = match record {
                Record::Group { group_id, value: Some(value) } if !value.members.is_empty() => {
                    (group_id, Stored::Plan(value.generation))
                }
                Record::Group { group_id, value: None } => (group_id, Stored::Tombstone),
                Record::Group { group_id, .. } | Record::Offset { group_id, value: Some(_), .. } => {
                    (group_id, Stored::Something)
                }
                _ => continue,
            };
            let stored = self.stored.entry(group_id.to_string()).or_default();
            stored.push(((life, append_id), what));
            stored.sort_by_key(|(place, _)| *place);
        }
    }

    /// What the log has of a group since it came into being last.
    fn stored_of(&self, group: &str) -> Vec<Stored> {
        let all = self.stored.get(group).into_iter().flatten().map(|(_, what)| *what);
        all.fold(Vec::new(), |mut since, what| {
            if what == Stored::Tombstone {
                since.clear();
            } else {
                since.push(what);
            }
            since
        })
    }

    /// Which life of a group this is.
    pub fn era(&self, group: &'static str, life: u32) -> Era {
        (life, self.ends.get(group).copied().unwrap_or(0))
    }

    /// Looks for a group after an event, and it is not there.
    pub fn observe_nothing(&mut self, group: &'static str) {
        if self.durable.remove(group) {
            self.end(group);
        }
    }

    fn tombstones(&self, group: &str) -> usize {
        let stored = self.stored.get(group).into_iter().flatten();
        stored.filter(|(_, what)| *what == Stored::Tombstone).count()
    }

    /// A success of `DeleteGroup`: each has a tombstone of its own.
    pub fn told_delete(&mut self, group: &'static str, append: Option<AppendId>) {
        let durable = append.is_none_or(|append_id| self.acknowledged.contains(&append_id));
        assert!(durable, "S26: the end of {group} was reported before {append:?} was durable");
        let tombstones = self.tombstones(group);
        let deleted = self.deleted.entry(group).or_default();
        *deleted += 1;
        assert!(*deleted <= tombstones, "S26: {group} was deleted {deleted} times, with {tombstones} tombstones");
    }

    /// A success of `OffsetDelete`: it had nothing to write, or that is durable.
    pub fn told_offset_delete(&self, append: Option<AppendId>) {
        let durable = append.is_none_or(|append_id| self.acknowledged.contains(&append_id));
        assert!(durable, "S26: a deletion was acknowledged before {append:?} was durable");
    }

    /// A group that the log had is over: its tombstone is there (S22, S29).
    fn end(&mut self, group: &'static str) {
        let tombstones = self.tombstones(group);
        let used = self.tombstones_used.entry(group).or_default();
        *used += 1;
        assert!(*used <= tombstones, "S29: {group} ended {used} times, with {tombstones} tombstones");
        *self.ends.entry(group).or_default() += 1;
        self.holders.retain(|(of, _), _| *of != group);
        self.see("a group ended".to_owned());
    }

    /// The plan of a generation, if it is the first.
    pub fn plan(&mut self, round: Round, plan: &BTreeMap<String, Vec<u8>>) {
        self.plans.entry(round).or_insert_with(|| plan.clone());
    }

    /// Looks at a group after an event.
    pub fn observe(&mut self, group: &'static str, life: u32, projection: &Projection) {
        let generation = projection.generation;
        if self.reached.get(&(group, self.era(group, life))).is_some_and(|reached| generation == 0 && *reached > 0) {
            // It ended and came back in one event.
            self.end(group);
        }
        if projection.durable {
            self.durable.insert(group);
        } else {
            self.durable.remove(group);
        }
        let era = self.era(group, life);
        let reached = self.reached.entry((group, era)).or_default();
        assert!(generation >= *reached, "S4: generation {generation} after {reached} in {group}");
        *reached = generation;
        let mut gone: BTreeSet<(&'static str, String)> =
            self.holders.keys().filter(|(of, _)| *of == group).cloned().collect();
        for member in &projection.members {
            let Some(instance) = &member.instance_id else { continue };
            let place = (group, instance.to_string());
            gone.remove(&place);
            let id = member.member_id.to_string();
            match self.holders.insert(place, id.clone()) {
                Some(before) if before != id && !self.chains.contains_key(&id) => {
                    let mut chain = self.chains.get(&before).cloned().unwrap_or_default();
                    chain.insert(before);
                    self.chains.insert(id, chain);
                }
                _ => {}
            }
        }
        for place in gone {
            self.holders.remove(&place);
        }
    }

    /// A success of `JoinGroup`.
    pub fn told_join(&mut self, round: Round, id: &str, leader: &str, listed: &[String], now: Option<&Projection>) {
        assert!(!self.stored_of(round.0).is_empty(), "S26: {id} got {}, which the log does not have", round.0);
        if listed.is_empty() {
            return;
        }
        assert!(leader == id, "S9: {id} got the list of leader {leader}");
        assert!(listed.iter().any(|member| member == id), "S9: the leader {id} is not on its own list");
        if let Some(group) =
            now.filter(|group| group.generation == round.2 && group.state == State::CompletingRebalance)
        {
            let members = group.members.iter().map(|member| &*member.member_id);
            assert!(members.eq(listed.iter().map(String::as_str)), "S34: the list {listed:?} is not the group");
        }
        let leaders = self.leaders.entry(round).or_default();
        let chain = self.chains.get(id);
        let inherits = |other: &String| chain.is_some_and(|chain| chain.contains(other));
        let succeeds = leaders.iter().all(|other| other == leader || inherits(other));
        assert!(succeeds, "S1: {leader} after {leaders:?} in {round:?}");
        leaders.push(leader.to_owned());
    }

    /// A success of `SyncGroup`.
    pub fn told_assignment(&mut self, round: Round, id: &str, assignment: &[u8]) {
        // A generation that was loaded from the log has its plan in the record.
        if let Some(plan) = self.plans.get(&round) {
            let mut before = self.chains.get(id).into_iter().flatten();
            let own = plan.get(id).or_else(|| before.find_map(|other| plan.get(other)));
            let own = own.map_or(&[][..], Vec::as_slice);
            assert_eq!(own, assignment, "S11: the leader's bytes for {id} in {round:?}, exactly");
        }
        let stored = self.stored_of(round.0).contains(&Stored::Plan(round.2));
        assert!(stored, "S26: {id} got {round:?}, whose plan the log does not have");
        let told = self.assignments.entry((round.0, round.2, id.to_owned())).or_insert_with(|| assignment.to_vec());
        assert_eq!(told, assignment, "S4: a generation has two assignments");
    }

    /// A success of `OffsetCommit`.
    pub fn told_commit(&self, append: Option<AppendId>) {
        let durable = append.is_some_and(|append_id| self.acknowledged.contains(&append_id));
        assert!(durable, "S26: a commit was acknowledged before {append:?} was durable");
    }
}
