//! The end of the chaos: every group settles within a bound (L5), and nothing acknowledged is lost (S25).

use std::collections::BTreeMap;

use rota_core::{
    Phase,
    config::NEW_MEMBER_JOIN_TIMEOUT_MS,
    consumer_group::group::{ConsumerGroup, GroupState},
};
use rota_member::{Member, Partition, State};

use super::{
    Fleet,
    ledger::Held,
    promises::Waiting,
    protocols::Roll,
    shape::{APPEND_MS, METADATA_MS, REQUEST_MS, Shape},
};

/// Time beyond the rebalance timeout after which a join on a dead connection is given up, in milliseconds.
const JOIN_SLACK_MS: u64 = 5_000;
/// Maximum time that an application works at the usual pace, in milliseconds.
const BUSY_MS: u64 = 20_100;
/// Time that a settled state must last at the usual pace, in milliseconds.
const QUIET_MS: u64 = 4_000;
const LOOK_MS: u64 = 250;
/// Time within which nodes learn of topics.
const SLOWLY_LEARNT_MS: u64 = 400;

/// Returns the time limit for settling. L5 counts from when all connections work: before that, hanging requests time
/// out, and a leader reads topics only at intervals.
fn settle_ms(shape: &Shape) -> u64 {
    let to_hear = u64::from(shape.timeouts.rebalance_ms) + JOIN_SLACK_MS + u64::from(REQUEST_MS);
    let to_look = (BUSY_MS + u64::from(METADATA_MS)) * u64::from(shape.pace);
    slowly(to_hear + to_look + phases_ms(shape))
}

/// Returns the time for a session to expire, consecutive rebalances, and their appends.
fn phases_ms(shape: &Shape) -> u64 {
    let timeouts = &shape.timeouts;
    u64::from(timeouts.session_ms) + 2 * u64::from(timeouts.rebalance_ms) + u64::from(APPEND_MS)
}

/// Returns a duration on a slow clock.
pub fn slowly(time_ms: u64) -> u64 {
    time_ms * 21 / 20
}

impl Fleet {
    /// Returns how long a request may wait: no longer than all phases take, and for a new member no longer than its
    /// first join (docs/protocol.md §4.7) after its group's append.
    pub(super) fn patience_ms(&self, waiting: &Waiting) -> u64 {
        let phases_ms = phases_ms(&self.shape);
        slowly(if self.sessions.is_new(&waiting.asked.body) {
            phases_ms.min(NEW_MEMBER_JOIN_TIMEOUT_MS + u64::from(APPEND_MS))
        } else {
            phases_ms
        })
    }

    pub(super) fn settle(&mut self) {
        let healed_ms = self.now_ms;
        self.healed_ms = Some(healed_ms);
        let pace = u64::from(self.shape.pace);
        let groups = if self.shape.is_newer() { self.shape.groups.len() } else { 1 };
        (0..groups).for_each(|group| self.look(self.liveness(group)));
        let begun: Vec<u64> = (0..self.shape.groups.len()).map(|group| self.begun(group)).collect();
        let mut since_ms = None;
        while self.violation.is_none() {
            match self.unsettled() {
                None => {
                    let since_ms = *since_ms.get_or_insert(self.now_ms);
                    self.figures.settled_ms = (since_ms - healed_ms) / pace;
                    if self.now_ms - since_ms >= QUIET_MS * pace {
                        return;
                    }
                }
                Some(why) => {
                    since_ms = None;
                    if self.now_ms - healed_ms > settle_ms(&self.shape) {
                        let (group, words) = why;
                        return self.violated(self.liveness(group), words);
                    }
                }
            }
            let next_ms = self.now_ms + LOOK_MS * pace;
            self.go_on(next_ms);
            self.count_rebalances(&begun);
        }
    }

    /// Checks the number of rebalances for L5: after the chaos, remaining processes end one after the other.
    fn count_rebalances(&mut self, before: &[u64]) {
        for (group, before) in before.iter().enumerate() {
            let since = self.begun(group) - before;
            self.figures.settled_rebalances = self.figures.settled_rebalances.max(since);
            let processes = self.seats.iter().filter(|seat| self.shape.seats[seat.shape].group == group).count() as u64;
            let is_short = !self.shape.is_newer() && !self.shape.groups[group].is_cooperative();
            let rounds = if is_short { 2 } else { 3 };
            if since > rounds * (1 + processes) {
                let words =
                    format!("{} had {since} rebalances after everything had healed", self.shape.groups[group].id);
                self.violated(self.liveness(group), words);
            }
        }
    }

    /// Returns why the groups are not settled: one generation, and every partition read by one subscriber.
    fn unsettled(&self) -> Option<(usize, String)> {
        if let Some(partition) = self.unowned() {
            return Some((0, format!("partition {partition} has no owner")));
        }
        (0..self.shape.groups.len()).find_map(|group| Some((group, self.unsettled_group(group)?)))
    }

    /// Returns the number of known generations and targets of a group.
    fn begun(&self, group: usize) -> u64 {
        self.promises.begun(group) + self.guards[group].targets
    }

    /// The id of the promise that a group settles.
    fn liveness(&self, group: usize) -> &'static str {
        let roll = self.shape.groups[group].roll;
        match (self.shape.is_newer(), roll == Roll::Never) {
            (false, _) => "L5",
            (true, true) => "C18",
            (true, false) => "C20",
        }
    }

    /// The consumer group of this id, at the node that owns its partition.
    fn consumer_group(&self, group: usize) -> Option<&ConsumerGroup> {
        let id = &self.shape.groups[group].id;
        let partition = self.shape.partition_of(id);
        self.nodes[self.owners[partition]].cores[partition].consumer_group(id)
    }

    fn unsettled_group(&self, group: usize) -> Option<String> {
        let ledger = &self.ledgers[group];
        let of = |seat: &super::Seat| self.shape.seats[seat.shape].group == group;
        let mut wanted: BTreeMap<Partition, u32> = BTreeMap::new();
        for (at, seat) in self.seats.iter().enumerate().filter(|(_, seat)| of(seat)) {
            let Some(member) = &seat.member else { continue };
            if member.state() != State::Stable || seat.undone > 0 {
                let (state, generation) = (member.state(), member.generation());
                return Some(format!("{} is {state:?} in generation {generation}", seat.name()));
            }
            for (topic, known) in self.topics.by_name.iter().filter(|(topic, _)| self.wants(at, topic)) {
                wanted.extend((0..known.partitions).map(|index| (Partition::new(topic.clone(), index), 0)));
            }
        }
        let (id, consumers) = (&self.shape.groups[group].id, self.consumer_group(group));
        for Held { partition, process: (seat, _), generation, topic_id } in ledger.held() {
            let name = self.seats[seat].name();
            if !self.wants(seat, &partition.topic) {
                return Some(format!("{name} reads {partition}, which it does not want"));
            }
            if !self.topics.has(partition) {
                // An upgrade takes over what the leader assigned. If it raises no epoch, no member hears of it.
                let was_taken_over = self.guards[group].upgraded == Some(generation);
                let may_remain = match consumers {
                    Some(consumers) => was_taken_over && consumers.epoch() == generation,
                    None => was_taken_over || self.is_forgotten(group, generation, partition),
                };
                if may_remain {
                    continue;
                }
                return Some(format!("{name} reads {partition}, which does not exist"));
            }
            if self.seats[seat].is_consumer && topic_id != self.topics.id(&partition.topic) {
                return Some(format!("{name} reads {partition} of a topic that was deleted"));
            }
            *wanted.entry(partition.clone()).or_default() += 1;
        }
        if let Some(state) = consumers.map(ConsumerGroup::state).filter(|state| *state != GroupState::Stable)
            && !wanted.is_empty()
        {
            return Some(format!("{id} is {}", state.name()));
        }
        let generations = ledger.generations();
        if generations.len() > 1 && consumers.is_none() {
            return Some(format!("{id} is in generations {generations:?}"));
        }
        // Where no member has anything, members still know their generation.
        let member_of = |one: &super::Seat| one.member.as_ref().filter(|_| of(one)).map(Member::generation);
        let known = || self.seats.iter().find_map(member_of);
        let generation = generations.first().copied().or_else(known).unwrap_or(-1);
        let mut wrong = wanted.iter().filter(|(_, count)| **count != 1);
        wrong
            .find(|(partition, count)| {
                let may_lack = match consumers {
                    Some(consumers) => {
                        self.is_unheard(group, consumers, partition) || self.is_left(consumers, partition)
                    }
                    None => self.is_forgotten(group, generation, partition),
                };
                **count > 1 || !may_lack
            })
            .map(|(partition, count)| format!("{partition} of {id} is read by {count}"))
    }

    /// Whether a partition is of a member that does not know it (docs/simulate.md).
    fn is_unheard(&self, group: usize, consumers: &ConsumerGroup, partition: &Partition) -> bool {
        let topic_id = self.topics.id(&partition.topic);
        self.guards[group].unheard.iter().any(|member_id| {
            let current = consumers.member(member_id).and_then(|member| member.current.as_ref());
            current.is_some_and(|current| current.assigned.contains_key(&(topic_id, partition.index)))
        })
    }

    /// Whether a partition stays with a member that has turned to a pattern without topics: that changes no epoch
    /// (docs/simulate.md).
    fn is_left(&self, consumers: &ConsumerGroup, partition: &Partition) -> bool {
        let place = (self.topics.id(&partition.topic), partition.index);
        consumers.members().any(|(_, member, value)| {
            let pattern = ConsumerGroup::pattern_of(value);
            member.target.iter().flatten().any(|at| *at == place)
                && pattern.is_some_and(|pattern| consumers.resolved_topics(pattern).is_empty())
        })
    }

    /// Whether a missing owner of this partition is unavoidable, in Kafka as well, because a static member restarted
    /// without a rebalance (docs/simulate.md): the leader, after the topic grew and before it read that; or a member
    /// that had revoked the partition and not rejoined, so that others could take it over. And so it is where a static member
    /// has made a classic group of a Stable consumer group: no member knows that it leads, also if one returns with another
    /// subscription.
    fn is_forgotten(&self, group: usize, generation: i32, partition: &Partition) -> bool {
        let changed_ms = self.topics.changed_ms.get(&partition.topic);
        if let Some((of, since_ms)) = self.guards[group].unled
            && of == generation
            && (self.promises.was_resubscribed(group)
                || changed_ms.is_some_and(|changed_ms| *changed_ms + SLOWLY_LEARNT_MS >= since_ms))
        {
            return true;
        }
        let Some((planned_ms, replaced_ms)) = self.promises.replaced(group, generation) else { return false };
        let known_ms = planned_ms..=replaced_ms + u64::from(REQUEST_MS);
        let changed_unseen = changed_ms.is_some_and(|changed_ms| known_ms.contains(changed_ms));
        let may_be_unplanned = self.shape.groups[group].is_cooperative() || self.promises.was_resubscribed(group);
        changed_unseen || may_be_unplanned && !self.ledgers[group].was_told_in(generation, partition)
    }

    /// Checks that no request waits in vain, and that everything acknowledged is present.
    pub(super) fn look_at_the_end(&mut self) {
        if self.violation.is_some() {
            return;
        }
        let is_late = |waiting: &Waiting| waiting.asked.since_ms + self.patience_ms(waiting) < self.now_ms;
        if let Some((ticket, waiting)) = self.waiting.iter().find(|(_, waiting)| is_late(waiting)) {
            let words =
                format!("ticket {} waits since {} ms: {:?}", ticket.0, waiting.asked.since_ms, waiting.asked.body);
            return self.violated("L4", words);
        }
        if let Some(wire) = self.mute_wire() {
            return self.violated("S18", format!("wire {wire} waits for an answer that no node owes"));
        }
        let mut lost = None;
        for (what, number) in self.promises.acknowledged() {
            let partition = self.shape.partition_of(&what.0);
            let core = &self.nodes[self.owners[partition]].cores[partition];
            if core.phase() != Phase::Active {
                lost = Some(format!("partition {partition} is {:?} on its owner", core.phase()));
                break;
            }
            let offsets = core.project(&what.0).map_or(Vec::new(), |group| group.offsets);
            let found = offsets.into_iter().find(|(topic, index, _)| *topic == what.1 && *index == what.2);
            let at = found.and_then(|(_, _, value)| self.logs[partition].committed(what, value.offset, self.now_ms));
            if at.is_none_or(|at| at < number) && !(at.is_none() && self.shape.limits.retention) {
                lost = Some(format!("{what:?} was acknowledged at {number:?}, and is {at:?}"));
                break;
            }
        }
        if let Some(words) = lost {
            self.violated("S25", words);
        }
    }
}
