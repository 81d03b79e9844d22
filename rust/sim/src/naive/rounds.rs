//! Join phases (§5): how they begin, wait and end, the vote, and who leaves them.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    ErrorCode, Record, Sink, State, embedded,
    records::{GroupValue, MemberValue},
    response::{Answer, JoinAnswer, JoinedMember},
};

use super::{Delay, Group, Member, Naive, Parked, Purpose, Text, answer_join_error, answer_sync_error, wait_of};

/// A join phase that finds only absent static members looks again after this long at least (D12).
const LOOK_AGAIN_MS: u64 = 100;

impl Group {
    pub(super) fn new(now_ms: u64, wall_ms: i64) -> Group {
        Group {
            state: State::Empty,
            since_ms: now_ms,
            state_timestamp_ms: Some(wall_ms),
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            pending: BTreeMap::new(),
            subscribed_topics: None,
            newcomer_in_delay: false,
            delay: None,
            initial_delay: None,
            join_deadline: None,
            sync_deadline: None,
            was_empty: false,
            is_held: false,
            creating: None,
            assigning: None,
            deleting: None,
            is_durable: false,
            offsets: BTreeMap::new(),
        }
    }

    pub(super) fn place_of(&self, id: &str) -> Option<u64> {
        self.members.iter().find(|(_, member)| *member.id == *id).map(|(place, _)| *place)
    }

    pub(super) fn place_of_instance(&self, instance: &str) -> Option<u64> {
        self.members.iter().find(|(_, member)| member.instance.as_deref() == Some(instance)).map(|(place, _)| *place)
    }

    pub(super) fn leads(&self, id: &str) -> bool {
        self.leader.as_deref() == Some(id)
    }

    pub(super) fn rebalance_wait_ms(&self) -> u64 {
        self.members.values().map(|member| wait_of(member.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    pub(super) fn all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.join.is_some())
    }

    pub(super) fn parked_joins(&self) -> usize {
        self.members.values().filter(|member| member.join.is_some()).count()
    }

    /// A name that every member lists.
    pub(super) fn is_common(&self, name: &str) -> bool {
        self.members.values().all(|member| member.offers(name))
    }

    /// §5.5
    pub(super) fn elect(&self) -> Option<Text> {
        let mut votes: Vec<(Text, usize)> = Vec::new();
        for member in self.members.values() {
            let (choice, _) = member.protocols.iter().find(|(name, _)| self.is_common(name))?;
            match votes.iter_mut().find(|(name, _)| name == choice) {
                Some((_, count)) => *count += 1,
                None => votes.push((Arc::clone(choice), 1)),
            }
        }
        let mut buckets = 16;
        while votes.len() > buckets / 4 * 3 {
            buckets *= 2;
        }
        let most = votes.iter().map(|(_, count)| *count).max()?;
        let best = votes.iter().filter(|(_, count)| *count == most);
        // The first of equal buckets is the one voted for first.
        best.min_by_key(|(name, _)| bucket(name, buckets)).map(|(name, _)| Arc::clone(name))
    }

    /// What a leader is told of everybody.
    pub(super) fn listed(&self) -> Vec<JoinedMember<'_>> {
        let listed = self.members.values().map(|member| JoinedMember {
            member_id: &member.id,
            instance_id: member.instance.as_deref(),
            metadata: member.metadata(self.protocol_name.as_deref()),
        });
        listed.collect()
    }

    /// The group as one record (§14), with these assignments or its own.
    pub(super) fn record(&self, id: &Text, assignments: Option<&BTreeMap<Text, Arc<[u8]>>>) -> Record {
        let assignment = |member: &Member| match assignments {
            Some(assignments) => assignments.get(&member.id).cloned().unwrap_or_else(|| Arc::from([])),
            None => Arc::clone(&member.assignment),
        };
        let members = self.members.values().map(|member| MemberValue {
            member_id: Arc::clone(&member.id),
            instance_id: member.instance.clone(),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(self.protocol_name.as_deref()).into(),
            assignment: assignment(member),
        });
        let value = GroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_else(|| Arc::from("")),
            generation: self.generation,
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone(),
            state_timestamp_ms: self.state_timestamp_ms.unwrap_or(-1),
            members: members.collect(),
        };
        Record::Group { group_id: Arc::clone(id), value: Some(value) }
    }

    /// §13.2
    pub(super) fn recompute_subscriptions(&mut self) {
        let consumers = self.protocol_type.as_deref() == Some("consumer");
        self.subscribed_topics = if self.members.is_empty() && consumers {
            Some(std::collections::BTreeSet::new())
        } else if consumers && self.protocol_name.is_some() {
            let mut topics = Some(std::collections::BTreeSet::new());
            for member in self.members.values() {
                let metadata = member.metadata(self.protocol_name.as_deref());
                match (embedded::topics(metadata), &mut topics) {
                    (Some(names), Some(topics)) => topics.extend(names.into_iter().map(Text::from)),
                    _ => topics = None,
                }
            }
            topics
        } else {
            None
        };
    }

    fn enter(&mut self, state: State, now: rota_core::Now) {
        self.state = state;
        self.since_ms = now.mono_ms;
        self.state_timestamp_ms = Some(now.wall_ms);
    }

    pub(super) fn enter_stable(&mut self, now: rota_core::Now) {
        self.enter(State::Stable, now);
    }
}

impl Member {
    pub(super) fn offers(&self, name: &str) -> bool {
        self.protocols.iter().any(|(offered, _)| **offered == *name)
    }

    pub(super) fn metadata(&self, protocol: Option<&str>) -> &[u8] {
        let found = self.protocols.iter().find(|(name, _)| Some(&**name) == protocol);
        found.map_or(&[], |(_, metadata)| metadata)
    }
}

/// §19's hash in a table of so many buckets.
fn bucket(name: &str, buckets: usize) -> usize {
    let hash = name.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    (hash ^ hash >> 16) as usize & (buckets - 1)
}

impl Naive {
    /// §5.1
    pub(super) fn begin_rebalance(&mut self, id: &Text, sink: &mut dyn Sink) {
        match self.group_mut(id).state {
            State::CompletingRebalance => {
                for member in self.group_mut(id).members.values_mut() {
                    member.assignment = Arc::from([]);
                }
                self.answer_syncs(id, ErrorCode::RebalanceInProgress, sink);
            }
            State::Stable => self.overtake_replacements(id, sink),
            _ => {}
        }
        let now = self.clock;
        let group = self.group_mut(id);
        group.assigning = None;
        for member in group.members.values_mut() {
            member.owes_sync = false;
        }
        let wait_ms = group.rebalance_wait_ms();
        let was_empty = group.state == State::Empty;
        group.was_empty = was_empty;
        group.sync_deadline = None;
        group.enter(State::PreparingRebalance, now);
        if was_empty {
            let delay_ms = u64::from(self.config.group_initial_rebalance_delay_ms);
            self.group_mut(id).delay = Some(Delay { ms: delay_ms, budget_ms: wait_ms.saturating_sub(delay_ms) });
            let alarm = self.alarm(delay_ms);
            self.group_mut(id).initial_delay = Some(alarm);
        } else if self.group_mut(id).all_joined() {
            self.complete_join(id, sink);
        } else {
            let alarm = self.alarm(wait_ms);
            self.group_mut(id).join_deadline = Some(alarm);
        }
    }

    /// From states that allow it; in `PreparingRebalance` "all joined" is tested instead.
    pub(super) fn rebalance_or_test(&mut self, id: &Text, sink: &mut dyn Sink) {
        if self.group_mut(id).state == State::PreparingRebalance {
            self.test_all_joined(id, false, sink);
        } else {
            self.begin_rebalance(id, sink);
        }
    }

    /// §5.2
    pub(super) fn test_all_joined(&mut self, id: &Text, cuts_delay: bool, sink: &mut dyn Sink) {
        let group = self.group_mut(id);
        if group.state == State::PreparingRebalance && group.all_joined() && (group.delay.is_none() || cuts_delay) {
            self.complete_join(id, sink);
        }
    }

    /// §5.3
    pub(super) fn delay_passed(&mut self, id: &Text, sink: &mut dyn Sink) {
        let longest_ms = u64::from(self.config.group_initial_rebalance_delay_ms);
        let group = self.group_mut(id);
        let passed = group.delay.expect("a delay that runs");
        if group.newcomer_in_delay && passed.budget_ms > 0 {
            group.newcomer_in_delay = false;
            let next_ms = longest_ms.min(passed.budget_ms);
            group.delay = Some(Delay { ms: next_ms, budget_ms: passed.budget_ms.saturating_sub(passed.ms) });
            let alarm = self.alarm(next_ms);
            self.group_mut(id).initial_delay = Some(alarm);
        } else {
            self.complete_join(id, sink);
        }
    }

    /// §5.4
    pub(super) fn complete_join(&mut self, id: &Text, sink: &mut dyn Sink) {
        let group = self.group_mut(id);
        (group.initial_delay, group.join_deadline) = (None, None);
        group.delay = None;
        if group.creating.is_some() && !group.is_durable {
            group.is_held = true;
            return;
        }
        group.is_held = false;
        let absent = group.members.iter().filter(|(_, member)| member.instance.is_none() && member.join.is_none());
        for place in absent.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.remove_member(id, place, sink);
        }
        let group = self.group_mut(id);
        let leader_parked = group.members.values().any(|member| group.leads(&member.id) && member.join.is_some());
        let first_parked = group.members.values().find(|member| member.join.is_some());
        match first_parked.map(|member| Arc::clone(&member.id)) {
            Some(first) if !leader_parked => group.leader = Some(first),
            None if !group.members.is_empty() => {
                let wait_ms = group.rebalance_wait_ms().max(LOOK_AGAIN_MS);
                let alarm = self.alarm(wait_ms);
                self.group_mut(id).join_deadline = Some(alarm);
                return;
            }
            _ => {}
        }
        let now = self.clock;
        let group = self.group_mut(id);
        group.generation += 1;
        if group.members.is_empty() {
            group.protocol_name = None;
            group.enter(State::Empty, now);
            group.recompute_subscriptions();
            let record = group.record(id, None);
            self.append(id, vec![record], Purpose::Nobody, sink);
            return;
        }
        group.protocol_name = group.elect();
        group.enter(State::CompletingRebalance, now);
        group.recompute_subscriptions();
        let wait_ms = group.rebalance_wait_ms();
        for place in group.members.keys().copied().collect::<Vec<_>>() {
            let member = self.group_mut(id).members.get_mut(&place).expect("its member");
            member.owes_sync = true;
            member.is_new = false;
            member.newcomer = None;
            if let Some(parked) = member.join.take() {
                self.answer_join(id, place, parked, sink);
            }
            self.arm_session(id, place);
        }
        let alarm = self.alarm(wait_ms);
        self.group_mut(id).sync_deadline = Some(alarm);
    }

    /// The success of §4.9.
    pub(super) fn answer_join(&mut self, id: &Text, place: u64, parked: Parked, sink: &mut dyn Sink) {
        let group = &self.groups[id];
        let member = &group.members[&place];
        let listed = if group.leads(&member.id) { group.listed() } else { Vec::new() };
        let answer = JoinAnswer {
            error: ErrorCode::None,
            generation: group.generation,
            protocol_type: group.protocol_type.as_deref(),
            protocol_name: group.protocol_name.as_deref(),
            leader: group.leader.as_deref().unwrap_or(""),
            skip_assignment: false,
            member_id: &member.id,
            members: &listed,
        };
        sink.answer(parked.ticket, Answer::JoinGroup(answer));
    }

    /// A session timer for a member that is not parked (§7.2).
    pub(super) fn arm_session(&mut self, id: &Text, place: u64) {
        let alarm = self.alarm(wait_of(self.groups[id].members[&place].session_timeout_ms));
        let member = self.member_mut(id, place);
        if member.is_new {
            member.newcomer = Some(alarm);
        } else if member.join.is_none() && member.sync.is_none() {
            member.session = Some(alarm);
        }
    }

    /// Takes a member out, tells it, and finds a leader (§5.6).
    pub(super) fn remove_member(&mut self, id: &Text, place: u64, sink: &mut dyn Sink) {
        let group = self.group_mut(id);
        let member = group.members.remove(&place).expect("a member to remove");
        if group.leads(&member.id) {
            group.leader = group.members.values().next().map(|next| Arc::clone(&next.id));
        }
        if let Some(parked) = member.join {
            answer_join_error(parked.ticket, ErrorCode::UnknownMemberId, "", sink);
        }
        if let Some(parked) = member.sync {
            answer_sync_error(parked.ticket, ErrorCode::UnknownMemberId, sink);
        }
        self.end_sync_timer_if_settled(id);
    }

    pub(super) fn end_sync_timer_if_settled(&mut self, id: &Text) {
        let group = self.group_mut(id);
        if group.members.values().all(|member| !member.owes_sync) {
            group.sync_deadline = None;
        }
    }

    /// §7.3
    pub(super) fn expire(&mut self, id: &Text, place: u64, sink: &mut dyn Sink) {
        self.remove_member(id, place, sink);
        if self.group_mut(id).state == State::PreparingRebalance {
            self.test_all_joined(id, true, sink);
        } else {
            self.begin_rebalance(id, sink);
        }
    }

    /// §6.5
    pub(super) fn sync_deadline_passed(&mut self, id: &Text, sink: &mut dyn Sink) {
        let late = self.group_mut(id).members.iter().filter(|(_, member)| member.owes_sync);
        for place in late.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.remove_member(id, place, sink);
        }
        self.begin_rebalance(id, sink);
    }
}
