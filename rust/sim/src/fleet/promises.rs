//! Checks each answer against the coordinators' invariants (ids of `python/rota/specs/vocabulary.toml`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_core::ErrorCode;
use rota_member::{Answer, Offset, Partition, Request, RequestId};

use super::{
    keeping::{Keeping, Missing},
    log::{AppendNumber, Committed, Log},
    protocols::SUFFIX,
    wires::WireId,
};

/// A violation: the id, and what was observed.
pub type Broken = (&'static str, String);

/// The coordinator of a request.
pub struct Place {
    pub node: usize,
    pub partition: usize,
    pub epoch: u32,
    /// Whether a newer epoch had begun when the request arrived.
    pub is_fenced: bool,
}

/// A request.
pub struct Asked {
    pub group: usize,
    pub group_id: Arc<str>,
    pub body: Box<Request>,
    pub since_ms: u64,
}

/// A request without an answer.
pub struct Waiting {
    pub wire: WireId,
    pub request: RequestId,
    pub place: Place,
    pub asked: Asked,
    /// Whether a consumer group answers: promises about generations are those of classic groups.
    pub by_consumer_group: bool,
    /// The latest known generation of the group when the request arrived.
    reached: i32,
    /// For a fetch: the newest acknowledged commits when the request arrived, and their times.
    floors: Vec<Option<(AppendNumber, u64)>>,
    /// For a commit: the answers for partitions that its node does not know. The coordinator does not see these.
    pub refused: Vec<(Partition, ErrorCode)>,
}

impl Waiting {
    pub fn new(wire: WireId, request: RequestId, place: Place, asked: Asked) -> Waiting {
        let (floors, refused) = (Vec::new(), Vec::new());
        Waiting { wire, request, place, asked, by_consumer_group: false, reached: 0, floors, refused }
    }

    /// Adds to an answer of a coordinator what its node has refused.
    pub fn complete(&self, mut answer: Answer) -> Answer {
        if let Answer::OffsetCommit(codes) = &mut answer {
            codes.extend(self.refused.iter().cloned());
        }
        answer
    }
}

/// The result of a fetch for a partition.
type FoundOffset = (Partition, Result<Option<Offset>, ErrorCode>);

/// A generation of a group in one incarnation of its coordinator.
type Round = (usize, u32, i32);

/// A coordinator hears that a topic is gone: what was committed before goes, and nothing else.
#[derive(Clone, Copy)]
pub struct Deletion {
    /// The epoch of the coordinator.
    pub epoch: u32,
    /// Appends below this one have ended.
    pub ended: AppendNumber,
    /// The first append after it.
    pub next: AppendNumber,
}

/// The answers of one generation.
#[derive(Default)]
struct Answers {
    protocol: String,
    leader: String,
    leaders: Vec<String>,
    plan: Option<BTreeMap<String, Vec<u8>>>,
}

/// All answers so far.
#[derive(Default)]
pub struct Promises {
    rounds: BTreeMap<Round, Answers>,
    reached: BTreeMap<(usize, u32), i32>,
    assignments: BTreeMap<(usize, i32), BTreeMap<String, Vec<u8>>>,
    plan_epochs: BTreeMap<(usize, i32), u32>,
    instances: BTreeMap<String, String>,
    /// The newest last. Earlier ones count if the engine goes back.
    acknowledged: BTreeMap<Committed, Vec<(AppendNumber, u64)>>,
    /// The last deletion of a topic that the coordinator of a group heard of.
    deletions: BTreeMap<(Arc<str>, Arc<str>), Deletion>,
    /// Topics that were ever deleted, whether coordinators heard of that or not.
    pub vanished: BTreeSet<Arc<str>>,
    /// The check of expiry, in worlds with retention.
    keeping: Option<Keeping>,
    /// Groups whose members have changed their subscription.
    resubscribed: BTreeSet<usize>,
    /// Groups in which a member that subscribed by a pattern has ended.
    unmatched: BTreeSet<usize>,
    /// Number of known generations by group.
    begun: BTreeMap<usize, u64>,
    /// When the leader of each generation was asked to plan.
    planned_ms: BTreeMap<(usize, i32), u64>,
    /// When a static member was last replaced within a generation.
    replaced_ms: BTreeMap<(usize, i32), u64>,
    /// Number of checks by id.
    pub looked: BTreeMap<&'static str, u64>,
}

fn broken<T>(id: &'static str, words: String) -> Result<T, Broken> {
    Err((id, words))
}

impl Promises {
    /// Creates the checks of a world with or without retention.
    pub fn new(offsets_expire: bool) -> Promises {
        Promises { keeping: offsets_expire.then(Keeping::default), ..Promises::default() }
    }

    /// Records that members changed their subscription: offsets of topics without a subscriber may expire.
    pub fn resubscribed(&mut self, group: usize) {
        self.resubscribed.insert(group);
    }

    /// Records that a member with a pattern ends: offsets of topics that only patterns match may expire.
    pub fn unmatched(&mut self, group: usize) {
        self.unmatched.insert(group);
    }

    /// Whether members of a group ever did.
    pub fn was_resubscribed(&self, group: usize) -> bool {
        self.resubscribed.contains(&group)
    }

    /// Records that a consumer group became a classic one, whose generation is the group epoch, with another leader.
    pub fn converted(&mut self, group: usize) {
        self.rounds.retain(|(of, ..), _| *of != group);
        self.assignments.retain(|(of, _), _| *of != group);
    }

    /// Records a durable deletion of a group, which then starts again.
    pub fn deleted(&mut self, group: usize) {
        self.rounds.retain(|(of, ..), _| *of != group);
        self.reached.retain(|(of, _), _| *of != group);
        self.plan_epochs.retain(|(of, _), _| *of != group);
        self.assignments.retain(|(of, _), _| *of != group);
        self.planned_ms.retain(|(of, _), _| *of != group);
        self.replaced_ms.retain(|(of, _), _| *of != group);
    }

    /// Records that the coordinator of a group hears that a topic is gone.
    pub fn topic_deleted(&mut self, group_id: &Arc<str>, topic: &Arc<str>, deletion: Deletion) {
        self.acknowledged.retain(|(group, name, _), _| group != group_id || name != topic);
        self.deletions.insert((group_id.clone(), topic.clone()), deletion);
    }

    fn deletion(&self, (group_id, topic, _): &Committed) -> Option<Deletion> {
        self.deletions.get(&(group_id.clone(), topic.clone())).copied()
    }

    /// Whether a commit went with its topic.
    fn is_deleted(&self, what: &Committed, number: AppendNumber) -> bool {
        self.deletion(what).is_some_and(|deletion| number < deletion.next)
    }

    /// Returns the number of known generations of a group.
    pub fn begun(&self, group: usize) -> u64 {
        self.begun.get(&group).copied().unwrap_or(0)
    }

    /// Whether any answer named a generation of the current group, which is then durable (S26).
    pub fn was_told(&self, group: usize) -> bool {
        self.reached.range((group, 0)..=(group, u32::MAX)).next().is_some()
    }

    fn look(&mut self, id: &'static str) {
        *self.looked.entry(id).or_default() += 1;
    }

    /// Records the state needed when the answer arrives.
    pub fn submitted(&mut self, mut waiting: Waiting) -> Waiting {
        let Asked { group, group_id, body, .. } = &waiting.asked;
        if let Some(keeping) = &mut self.keeping {
            keeping.asked(*group, body);
        }
        waiting.reached = self.reached.get(&(*group, waiting.place.epoch)).copied().unwrap_or(0);
        match &**body {
            Request::OffsetFetch { partitions, .. } => {
                let newest = |one: &Partition| self.acknowledged.get(&committed(group_id, one))?.last().copied();
                waiting.floors = partitions.iter().map(newest).collect();
            }
            Request::SyncGroup { generation, member_id, assignments, .. } if !assignments.is_empty() => {
                let round = self.rounds.entry((*group, waiting.place.epoch, *generation)).or_default();
                if round.leaders.contains(member_id) && round.plan.is_none() {
                    round.plan = Some(assignments.iter().cloned().collect());
                }
            }
            _ => {}
        }
        waiting
    }

    /// Checks an answer.
    pub fn answered(&mut self, to: &Waiting, answer: &Answer, log: &Log, now_ms: u64) -> Result<(), Broken> {
        if let Some(keeping) = &mut self.keeping {
            keeping.answered(to, answer, now_ms)?;
        }
        let Asked { group, group_id, body, .. } = &to.asked;
        match (&**body, answer) {
            (Request::JoinGroup { instance_id, .. }, Answer::JoinGroup { error: ErrorCode::None, member_id, .. }) => {
                if let Some(instance_id) = instance_id {
                    self.instances.insert(member_id.clone(), format!("{group_id}/{instance_id}"));
                }
                if to.by_consumer_group {
                    return Ok(());
                }
                self.joined(*group, to, answer, log, now_ms)
            }
            (
                Request::SyncGroup { generation, member_id, .. },
                Answer::SyncGroup { error: ErrorCode::None, assignment, .. },
            ) if !to.by_consumer_group => {
                self.look("S26");
                let Some(epoch) = log.plan_epoch(group_id, *generation, now_ms) else {
                    let words = format!("{member_id} got generation {generation}, which the log does not have");
                    return broken("S26", words);
                };
                self.plan_epochs.entry((*group, *generation)).or_insert(epoch);
                self.synced((*group, to.place.epoch, *generation), member_id, assignment)
            }
            (Request::OffsetCommit { generation, offsets, .. }, Answer::OffsetCommit(codes)) => {
                if codes.iter().all(|(_, code)| *code != ErrorCode::None) {
                    return Ok(());
                }
                self.look("S15");
                if *generation >= 0 && *generation < to.reached && !to.by_consumer_group {
                    return broken("S15", format!("a commit of generation {generation} after {} began", to.reached));
                }
                if to.place.is_fenced {
                    return broken("S28", format!("a commit was accepted by epoch {}, which is over", to.place.epoch));
                }
                for (partition, offset) in offsets {
                    self.look("S26");
                    let what = committed(group_id, partition);
                    let Some(number) = log.committed(&what, offset.offset, now_ms) else {
                        let words = format!("{partition} {} is acknowledged and not in the log", offset.offset);
                        return broken("S26", words);
                    };
                    self.acknowledge(what, (number, now_ms));
                }
                Ok(())
            }
            (Request::OffsetFetch { .. }, Answer::OffsetFetch { error: ErrorCode::None, offsets })
                if to.place.epoch == log.epoch =>
            {
                self.fetched(to, offsets, log, now_ms)
            }
            _ => Ok(()),
        }
    }

    fn acknowledge(&mut self, what: Committed, commit: (AppendNumber, u64)) {
        if self.is_deleted(&what, commit.0) {
            return;
        }
        let known = self.acknowledged.entry(what).or_default();
        if known.last().is_none_or(|last| *last < commit) {
            known.push(commit);
        }
    }

    /// Checks an answer of a coordinator that knows what the engine has lost. A commit that was written before may still
    /// be acknowledged.
    pub fn answered_stale(&mut self, to: &Waiting, answer: &Answer, log: &Log, now_ms: u64) -> Result<(), Broken> {
        let Asked { group, body, .. } = &to.asked;
        if let Answer::JoinGroup { error: ErrorCode::None, generation, .. } = answer {
            // It may take over a static member, or lead.
            self.planned_ms.entry((*group, *generation)).or_insert(now_ms);
            self.replaced_ms.insert((*group, *generation), now_ms);
        }
        let (Request::OffsetCommit { offsets, .. }, Answer::OffsetCommit(codes)) = (&**body, answer) else {
            return Ok(());
        };
        for ((partition, offset), _) in offsets.iter().zip(codes).filter(|(_, (_, code))| *code == ErrorCode::None) {
            self.look("S26");
            let what = committed(&to.asked.group_id, partition);
            match log.committed(&what, offset.offset, now_ms) {
                Some(number) => self.acknowledge(what, (number, now_ms)),
                None if log.has_lost(&what, offset.offset) => {}
                None => {
                    let words = format!("{partition} {} is acknowledged and was never in the log", offset.offset);
                    return broken("S26", words);
                }
            }
        }
        Ok(())
    }

    /// The engine went back: of these groups it has only these appends. What was acknowledged before still holds.
    pub fn went_back(&mut self, groups: &BTreeSet<Arc<str>>, is_stored: impl Fn(AppendNumber) -> bool) {
        for (_, known) in self.acknowledged.iter_mut().filter(|((group, ..), _)| groups.contains(group)) {
            known.retain(|(number, _)| is_stored(*number));
        }
        self.acknowledged.retain(|_, known| !known.is_empty());
    }

    /// The engine went back: a group begins again with the generations whose plan it still has. What lacks an owner for
    /// want of a rebalance still does.
    pub fn begin_again(&mut self, group: usize, has_plan: impl Fn(i32) -> bool) {
        self.rounds.retain(|(of, ..), _| *of != group);
        self.reached.retain(|(of, _), _| *of != group);
        self.assignments.retain(|(of, _), _| *of != group);
        self.plan_epochs.retain(|(of, generation), _| *of != group || has_plan(*generation));
        if let Some(keeping) = &mut self.keeping {
            keeping.forget(group);
        }
    }

    /// Checks a successful fetch.
    fn fetched(&mut self, to: &Waiting, offsets: &[FoundOffset], log: &Log, now_ms: u64) -> Result<(), Broken> {
        let Asked { group, group_id, .. } = &to.asked;
        self.look("S25");
        for ((partition, found), floor) in offsets.iter().zip(&to.floors) {
            let Ok(found) = found else { continue };
            let what = committed(group_id, partition);
            let number = found.as_ref().and_then(|found| log.committed(&what, found.offset, now_ms));
            let floor = floor.filter(|(number, _)| !self.is_deleted(&what, *number));
            if let Some(deletion) = self.deletion(&what).filter(|deletion| deletion.epoch == to.place.epoch) {
                self.look("S29");
                if number.is_some_and(|number| number < deletion.ended) {
                    let words = format!("{partition} of {group_id} is {found:?}, and the topic was deleted since");
                    return broken("S29", words);
                }
            }
            if number >= floor.map(|(number, _)| number) && found.is_some() == number.is_some() {
                continue;
            }
            let words = format!("{partition} of {group_id} is {found:?}, not as new as {floor:?}");
            let (Some(keeping), None, Some((_, acknowledged_ms))) = (&mut self.keeping, found, floor) else {
                return broken("S25", words);
            };
            self.acknowledged.remove(&what);
            // No pattern keeps what is left of a topic that was deleted.
            let was_deleted = self.vanished.contains(&partition.topic);
            // A topic that was created is read by members with patterns only.
            let is_unmatched = self.unmatched.contains(group) && partition.topic.ends_with(SUFFIX);
            if !self.resubscribed.contains(group) && !is_unmatched && !was_deleted {
                let missing = Missing { group: *group, acknowledged_ms, seen_ms: now_ms, words };
                keeping.miss(missing);
            }
        }
        Ok(())
    }

    /// Checks a successful join.
    fn joined(&mut self, group: usize, to: &Waiting, answer: &Answer, log: &Log, now_ms: u64) -> Result<(), Broken> {
        let Answer::JoinGroup { generation, protocol_name, leader, member_id, members, skip_assignment, .. } = answer
        else {
            return Ok(());
        };
        self.look("S26");
        let group_id = &to.asked.group_id;
        if !log.has_group(group_id, now_ms) {
            return broken("S26", format!("{member_id} got an answer about {group_id}, which the log does not have"));
        }
        let takes_over = self.plan_epochs.contains_key(&(group, *generation)) && to.place.epoch == log.epoch;
        if takes_over && !log.has_member(group_id, member_id, now_ms) {
            return broken("S26", format!("{member_id} took over, and the log does not have it"));
        }
        self.look("S4");
        let reached = self.reached.entry((group, to.place.epoch)).or_default();
        if *generation < *reached {
            return broken("S4", format!("{member_id} got generation {generation} after {reached}"));
        }
        *reached = *generation;
        if self.plan_epochs.contains_key(&(group, *generation)) {
            self.replaced_ms.insert((group, *generation), now_ms);
        }
        self.look("S9");
        // A member replaced before its answer is known by its id only, which starts with the instance id (§9).
        let is_of = |id: &str, other: &str| {
            let instance = self.instances.get(other).and_then(|of| of.strip_prefix(&**group_id)?.strip_prefix('/'));
            instance.and_then(|instance| id.strip_prefix(instance)).is_some_and(|rest| rest.starts_with('-'))
        };
        let same_chain = |one: &str, other: &str| one == other || is_of(one, other) || is_of(other, one);
        let round = self.rounds.entry((group, to.place.epoch, *generation)).or_default();
        if round.leader.is_empty() {
            *self.begun.entry(group).or_default() += 1;
            (round.protocol, round.leader) = (protocol_name.clone(), leader.clone());
        }
        if round.protocol != *protocol_name || !same_chain(&round.leader, leader) {
            let words = format!(
                "generation {generation}: {} led by {}, then {protocol_name} led by {leader}",
                round.protocol, round.leader
            );
            return broken("S9", words);
        }
        if leader != member_id {
            return if members.is_empty() { Ok(()) } else { broken("S9", format!("{member_id} got {leader}'s list")) };
        }
        if round.leaders.iter().any(|before| !same_chain(before, leader)) {
            return broken("S1", format!("{leader} after {:?} in generation {generation}", round.leaders));
        }
        round.leaders.push(leader.clone());
        if !skip_assignment {
            self.planned_ms.insert((group, *generation), now_ms);
        }
        self.look("S1");
        Ok(())
    }

    fn synced(&mut self, of: Round, member_id: &str, assignment: &[u8]) -> Result<(), Broken> {
        let (group, _, generation) = of;
        if let Some(plan) = self.rounds.get(&of).and_then(|round| round.plan.as_ref()) {
            let instance = self.instances.get(member_id);
            let predecessor = || {
                let mut planned = plan.iter();
                planned.find(|(id, _)| instance.is_some() && self.instances.get(*id) == instance).map(|(_, own)| own)
            };
            let own = plan.get(member_id).or_else(predecessor).map_or(&[][..], Vec::as_slice);
            if own != assignment {
                return broken("S11", format!("{member_id} in generation {generation}: not the leader's bytes"));
            }
            self.look("S11");
        }
        let told = self.assignments.entry((group, generation)).or_default();
        let before = told.entry(member_id.to_owned()).or_insert_with(|| assignment.to_vec());
        if before != assignment {
            return broken("S4", format!("{member_id} got two assignments of generation {generation}"));
        }
        Ok(())
    }

    /// Returns the epoch that stored the plan of a generation.
    pub fn plan_epoch(&self, group: usize, generation: i32) -> Option<u32> {
        self.plan_epochs.get(&(group, generation)).copied()
    }

    /// Returns when a generation was planned, and when a static member of it was last replaced.
    pub fn replaced(&self, group: usize, generation: i32) -> Option<(u64, u64)> {
        let of = (group, generation);
        Some((*self.planned_ms.get(&of)?, *self.replaced_ms.get(&of)?))
    }

    /// Iterates over acknowledged offsets that must be present.
    pub fn acknowledged(&self) -> impl Iterator<Item = (&Committed, AppendNumber)> {
        self.acknowledged.iter().filter_map(|(what, known)| Some((what, known.last()?.0)))
    }
}

fn committed(group_id: &Arc<str>, partition: &Partition) -> Committed {
    (group_id.clone(), partition.topic.clone(), partition.index)
}
