//! The join phase: how a rebalance begins, how long it waits, and how it ends (docs/protocol.md §5).

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    coordinator::Coordinator,
    effects::{Moment, Step},
    embedded,
    error::ErrorCode,
    group::{Group, GroupHandle, InitialDelay, Member, MemberHandle, ParkedJoin},
    history::{Cause, Departed, Rebalance, Trigger, kept_reason, remember},
    in_flight::Purpose,
    operations::Operation,
    records::Record,
    request::Now,
    response::{Answer, JoinAnswer, JoinedMember},
    states::State,
    vote,
};

/// Minimum wait of a join phase that found only absent static members before it checks again, in milliseconds. Their
/// own timeout may be 0, and checking in a loop would block other groups (departure D12).
const AGAIN_MS_MIN: i32 = 100;

impl Coordinator {
    /// Begins a rebalance: refuses parked syncs, then starts the initial delay or the join phase (§5.1).
    pub(crate) fn begin_rebalance(
        &mut self,
        step: &mut Step<'_>,
        handle: GroupHandle,
        cause: Cause,
        member_id: &Arc<str>,
        reason: &str,
    ) {
        match self.groups[handle].state {
            State::CompletingRebalance => {
                self.drop_assignments(handle);
                self.answer_parked_syncs_with(step, handle, ErrorCode::RebalanceInProgress);
            }
            State::Stable => self.answer_overtaken_replacements(step, handle),
            State::Empty | State::PreparingRebalance | State::Dead => {}
        }
        self.clear_owed_syncs(handle);
        self.remember_rebalance(step, handle, cause, member_id, reason);
        let wait_ms = self.longest_rebalance_timeout(handle);
        let group = &mut self.groups[handle];
        let from_empty = group.state == State::Empty;
        group.assigning = None;
        group.enter(State::PreparingRebalance, step.now);
        if from_empty {
            let delay_ms = u64::from(self.config.group_initial_rebalance_delay_ms);
            let remaining_ms = (wait_ms.max(0) as u64).saturating_sub(delay_ms);
            group.initial = Some(InitialDelay { delay_ms, remaining_ms });
            let deadline = step.now.after(delay_ms);
            group.join_deadline = Some(self.purgatory.watch(deadline, &[], Operation::InitialDelay(handle)));
        } else if self.groups[handle].all_joined() {
            self.complete_join(step, handle);
        } else {
            self.arm_join_deadline(step, handle, wait_ms);
        }
    }

    fn remember_rebalance(
        &mut self,
        step: &mut Step<'_>,
        handle: GroupHandle,
        cause: Cause,
        member_id: &Arc<str>,
        reason: &str,
    ) {
        let kept = self.config.rebalance_history;
        let group = &mut self.groups[handle];
        let trigger = Trigger { cause, member_id: Arc::clone(member_id), reason: kept_reason(reason) };
        let rebalance = Rebalance::beginning(step.now, &trigger, group.generation);
        step.sink.rebalance(&group.id, Moment::Began, &rebalance);
        remember(&mut group.rebalances, kept, rebalance);
    }

    fn arm_join_deadline(&mut self, step: &Step<'_>, handle: GroupHandle, wait_ms: i32) {
        self.end_join_deadline(handle);
        let deadline = step.now.after_timeout(wait_ms);
        self.groups[handle].join_deadline = Some(self.purgatory.watch(deadline, &[], Operation::Join(handle)));
    }

    pub(crate) fn end_join_deadline(&mut self, handle: GroupHandle) {
        if let Some(operation) = self.groups[handle].join_deadline.take() {
            self.purgatory.complete(operation);
        }
    }

    /// Returns R: the time limit of a join or sync phase that begins now.
    pub(crate) fn longest_rebalance_timeout(&self, handle: GroupHandle) -> i32 {
        let group = &self.groups[handle];
        group.joined.values().map(|member| self.members[*member].rebalance_timeout_ms).max().unwrap_or(0)
    }

    /// After a join or a departure: completes the join phase if no member is missing. An initial delay continues
    /// (§5.2).
    pub(crate) fn complete_join_unless_initial(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        let group = &self.groups[handle];
        if group.state == State::PreparingRebalance && group.initial.is_none() {
            self.complete_join_if_all_joined(step, handle);
        }
    }

    /// After an expiry: completes the join phase if no member is missing, even during an initial delay (§5.2).
    pub(crate) fn complete_join_if_all_joined(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        if self.groups[handle].all_joined() {
            self.complete_join(step, handle);
        }
    }

    pub(crate) fn join_deadline_passed(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        self.groups[handle].join_deadline = None;
        self.complete_join(step, handle);
    }

    /// Extends the initial delay if a member joined during it and the budget allows (§5.3).
    pub(crate) fn initial_delay_over(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        let group = &mut self.groups[handle];
        group.join_deadline = None;
        let initial = group.initial.expect("only an initial rebalance has an initial delay");
        if !group.new_member_added || initial.remaining_ms == 0 {
            self.complete_join(step, handle);
            return;
        }
        group.new_member_added = false;
        let delay_ms = u64::from(self.config.group_initial_rebalance_delay_ms).min(initial.remaining_ms);
        let remaining_ms = initial.remaining_ms.saturating_sub(initial.delay_ms);
        group.initial = Some(InitialDelay { delay_ms, remaining_ms });
        let deadline = step.now.after(delay_ms);
        group.join_deadline = Some(self.purgatory.watch(deadline, &[], Operation::InitialDelay(handle)));
    }

    /// Completes the join phase with the members that have joined (§5.4).
    pub(crate) fn complete_join(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        if self.groups[handle].creating.is_some() && !self.groups[handle].durable {
            // INVARIANT: S26, no answer mentions a group that is not durable (departure D9).
            self.end_join_deadline(handle);
            self.groups[handle].join_held = true;
            return;
        }
        self.remove_absent_dynamic_members(step.now, handle);
        if !self.elect_joined_leader(handle) && !self.groups[handle].joined.is_empty() {
            // An upgrade that was refused may have answered every JoinGroup of an initial delay.
            let group = &mut self.groups[handle];
            (group.initial, group.join_held) = (None, false);
            let wait_ms = self.longest_rebalance_timeout(handle).max(AGAIN_MS_MIN);
            self.arm_join_deadline(step, handle, wait_ms);
            return;
        }
        self.end_join_deadline(handle);
        let group = &mut self.groups[handle];
        group.join_held = false;
        group.initial = None;
        group.generation = group.generation.checked_add(1).unwrap_or(1);
        let generation = group.generation;
        group.rebalance_joined(step, generation);
        if group.joined.is_empty() {
            self.become_empty(step, handle);
        } else {
            self.begin_generation(step, handle);
        }
    }

    fn remove_absent_dynamic_members(&mut self, now: Now, handle: GroupHandle) {
        let group = &self.groups[handle];
        let absent: Vec<MemberHandle> = group
            .joined
            .values()
            .copied()
            .filter(|member| {
                let member = &self.members[*member];
                !member.awaits_join() && member.client.instance_id.is_none()
            })
            .collect();
        for member in absent {
            let removed = self.remove_member(member);
            let kept = self.config.rebalance_history;
            self.groups[handle].note_departure(now, kept, removed.id.shared(), Departed::RejoinExpired, "");
        }
    }

    /// Keeps a leader that has joined; otherwise the first joined member in joining order becomes the leader (§5.6).
    fn elect_joined_leader(&mut self, handle: GroupHandle) -> bool {
        let group = &mut self.groups[handle];
        let has_joined = |member: &MemberHandle| self.members[*member].awaits_join();
        if group.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        match group.joined.values().find(|member| has_joined(member)) {
            Some(member) => {
                group.leader = Some(*member);
                true
            }
            None => false,
        }
    }

    fn become_empty(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        let group = &mut self.groups[handle];
        group.protocol_name = None;
        group.subscribed_topics = subscribed_topics(group, &[]);
        group.enter(State::Empty, step.now);
        group.rebalance_settled(step);
        let group_id = Arc::clone(&group.id);
        let value = Some(group.empty_record());
        let record = Record::Group { group_id: Arc::clone(&group_id), value };
        self.append(step, group_id, Purpose::Unattended, vec![record]);
    }

    fn begin_generation(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        let group = &self.groups[handle];
        let members: Vec<MemberHandle> = group.joined.values().copied().collect();
        let states: Vec<&Member> = members.iter().map(|member| &self.members[*member]).collect();
        // A join is only accepted if a common protocol remains, so one exists. A group loaded from a record keeps its
        // own.
        let protocol =
            vote::select(&group.support, states.iter().copied()).expect("members of a group have a protocol in common");
        let group = &mut self.groups[handle];
        group.protocol_name = Some(protocol);
        group.subscribed_topics = subscribed_topics(group, &states);
        group.enter(State::CompletingRebalance, step.now);
        let wait_ms = self.longest_rebalance_timeout(handle);
        let parked: Vec<(MemberHandle, ParkedJoin)> =
            members.iter().filter_map(|member| Some((*member, self.take_parked_join(*member)?))).collect();
        for member in &members {
            self.end_session(*member);
            self.members[*member].is_new = false;
            self.refresh_session(step.now, *member);
            self.set_owes_sync(*member, true);
        }
        for (member, parked) in parked {
            self.answer_join(step, member, parked, JoinTerms::default());
        }
        let deadline = step.now.after_timeout(wait_ms);
        self.groups[handle].sync_deadline = Some(self.purgatory.watch(deadline, &[], Operation::Sync(handle)));
    }

    /// Takes a member's parked join and updates the count of parked joins (S21).
    pub(crate) fn take_parked_join(&mut self, handle: MemberHandle) -> Option<ParkedJoin> {
        let member = &mut self.members[handle];
        let parked = member.take_join()?;
        self.groups[member.group].awaiting_join -= 1;
        Some(parked)
    }

    /// Marks whether a member's `SyncGroup` is missing. The sync deadline ends with the last missing one (§6.5).
    pub(crate) fn set_owes_sync(&mut self, handle: MemberHandle, owes: bool) {
        let member = &mut self.members[handle];
        if member.owes_sync == owes {
            return;
        }
        member.owes_sync = owes;
        let group = &mut self.groups[member.group];
        if owes {
            group.owing_sync += 1;
            return;
        }
        group.owing_sync -= 1;
        if group.owing_sync == 0
            && let Some(operation) = group.sync_deadline.take()
        {
            self.purgatory.complete(operation);
        }
    }

    fn clear_owed_syncs(&mut self, handle: GroupHandle) {
        let members: Vec<MemberHandle> = self.groups[handle].joined.values().copied().collect();
        for member in members {
            self.set_owes_sync(member, false);
        }
        if let Some(operation) = self.groups[handle].sync_deadline.take() {
            self.purgatory.complete(operation);
        }
    }

    /// Answers a completed join. The leader gets the list of members (S9).
    pub(crate) fn answer_join(
        &self,
        step: &mut Step<'_>,
        handle: MemberHandle,
        parked: ParkedJoin,
        terms: JoinTerms<'_>,
    ) {
        let member = &self.members[handle];
        let group = &self.groups[member.group];
        let leads = group.leader == Some(handle) && !terms.without_list;
        let leader = group.leader.expect("a group with a member has a leader");
        let protocol = group.protocol_name.as_deref().unwrap_or("");
        let members: Vec<JoinedMember<'_>> = if leads {
            group.joined.values().map(|member| joined_member(&self.members[*member], protocol)).collect()
        } else {
            Vec::new()
        };
        step.sink.answer(
            parked.ticket,
            Answer::JoinGroup(JoinAnswer {
                error: ErrorCode::None,
                generation: group.generation,
                protocol_type: group.protocol_type.as_deref(),
                protocol_name: group.protocol_name.as_deref(),
                leader: terms.leader.unwrap_or(&self.members[leader].id),
                skip_assignment: terms.skip_assignment,
                member_id: &member.id,
                members: &members,
            }),
        );
    }
}

/// Differences of a join answer for static replacements (§9.3).
#[derive(Clone, Copy, Default)]
pub(crate) struct JoinTerms<'a> {
    /// The leader in the answer, instead of the group's.
    pub leader: Option<&'a str>,
    /// Leaves out the leader's list of members.
    pub without_list: bool,
    /// Tells the leader to skip computing an assignment.
    pub skip_assignment: bool,
}

fn joined_member<'a>(member: &'a Member, protocol: &str) -> JoinedMember<'a> {
    JoinedMember {
        member_id: &member.id,
        instance_id: member.client.instance_id.as_deref(),
        metadata: member.metadata_bytes(protocol),
    }
}

/// Returns the topics that a consumer group's members subscribe to; `None` for other types and unreadable metadata
/// (§13.2).
pub(crate) fn subscribed_topics(group: &Group, members: &[&Member]) -> Option<BTreeSet<Arc<str>>> {
    if !group.is_consumer() {
        return None;
    }
    let protocol = group.protocol_name.as_deref().unwrap_or("");
    let mut topics = BTreeSet::new();
    for member in members {
        topics.extend(embedded::topics(member.metadata_bytes(protocol))?.into_iter().map(Arc::from));
    }
    Some(topics)
}
