//! SyncGroup (docs/protocol.md §6): the leader's assignment is durable before any member receives it.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    coordinator::Coordinator,
    effects::Step,
    error::ErrorCode,
    group::{Assigning, GroupHandle, MemberHandle, Parked, member_record},
    history::{Cause, Departed},
    in_flight::Purpose,
    records::{GroupValue, Record},
    request::{SyncGroup, Ticket},
    response::{Answer, SyncAnswer},
    states::State,
};

impl Coordinator {
    pub(crate) fn sync_group(&mut self, step: &mut Step<'_>, ticket: Ticket, request: &SyncGroup<'_>) {
        if request.group_id.is_some_and(|group_id| self.consumer_groups.contains_key(group_id)) {
            return self.sync_consumer_group(step, ticket, request);
        }
        let member = match self.may_sync(request) {
            Ok(member) => member,
            Err(error) => return Self::answer_sync_error(step, ticket, error),
        };
        let handle = self.members[member].group;
        match self.groups[handle].state {
            State::Empty | State::Dead => Self::answer_sync_error(step, ticket, ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Self::answer_sync_error(step, ticket, ErrorCode::RebalanceInProgress),
            State::CompletingRebalance => {
                self.park_sync(step, ticket, member);
                // INVARIANT: S2, the first assignment of a generation counts (departure D5).
                if self.groups[handle].leader == Some(member) && self.groups[handle].assigning.is_none() {
                    self.store_plan(step, handle, request);
                }
            }
            State::Stable => {
                self.set_owes_sync(member, false);
                self.answer_sync(step, ticket, member);
            }
        }
    }

    /// Checks a request, in order (§6.1). Type and name are compared only if both sides have one.
    fn may_sync(&self, request: &SyncGroup<'_>) -> Result<MemberHandle, ErrorCode> {
        let member = self.identify(request.group_id.unwrap_or(""), request.member_id, request.instance_id)?;
        let group = &self.groups[self.members[member].group];
        if request.generation != group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |sent: Option<&str>, own: &Option<Arc<str>>| matches!((sent, own), (Some(sent), Some(own)) if *sent != **own);
        if differs(request.protocol_type, &group.protocol_type) || differs(request.protocol_name, &group.protocol_name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(member)
    }

    fn park_sync(&mut self, step: &mut Step<'_>, ticket: Ticket, member: MemberHandle) {
        if let Some(superseded) = self.members[member].take_sync() {
            Self::answer_sync_error(step, superseded, ErrorCode::NotCoordinator);
        }
        self.members[member].parked = Some(Parked::Sync { ticket });
        self.end_session(member);
        self.set_owes_sync(member, false);
    }

    /// Appends the group with the leader's assignment. Members without an entry get empty bytes, unknown ids are
    /// ignored, and the last of repeated ids counts (§6.3).
    fn store_plan(&mut self, step: &mut Step<'_>, handle: GroupHandle, request: &SyncGroup<'_>) {
        let entries: BTreeMap<MemberHandle, &[u8]> = request
            .assignments
            .iter()
            .filter_map(|entry| Some((self.member_of(handle, entry.member_id)?, entry.assignment)))
            .collect();
        let group = &self.groups[handle];
        let plan: Vec<(MemberHandle, Arc<[u8]>)> = group
            .joined
            .values()
            .map(|member| (*member, entries.get(member).copied().map_or_else(Arc::default, Arc::from)))
            .collect();
        let value = self.group_record(handle, &plan);
        let group_id = Arc::clone(&self.groups[handle].id);
        let record = Record::Group { group_id: Arc::clone(&group_id), value: Some(value) };
        let append_id = self.append(step, group_id, Purpose::Assignment(handle), vec![record]);
        self.groups[handle].assigning = Some(Assigning { append_id, plan });
    }

    /// Returns the group with its members as one record.
    pub(crate) fn group_record(&self, handle: GroupHandle, plan: &[(MemberHandle, Arc<[u8]>)]) -> GroupValue {
        let group = &self.groups[handle];
        let protocol = group.protocol_name.as_deref().unwrap_or("");
        let members = plan.iter().map(|(member, bytes)| member_record(&self.members[*member], protocol, bytes));
        GroupValue {
            protocol_name: group.protocol_name.clone(),
            leader: group.leader.map(|leader| self.members[leader].id.shared()),
            members: members.collect(),
            ..group.empty_record()
        }
    }

    /// Applies the result of the assignment's append, if the group still waits for it (§6.4).
    pub(crate) fn plan_stored(&mut self, step: &mut Step<'_>, handle: GroupHandle, error: Option<ErrorCode>) {
        let group = &mut self.groups[handle];
        let assigning = group.assigning.take().expect("the caller found this append");
        if let Some(error) = error {
            self.answer_parked_syncs_with(step, handle, error.for_group_append());
            self.begin_rebalance(step, handle, Cause::AssignmentNotStored, &"".into(), "");
            return;
        }
        group.enter(State::Stable, step.now);
        group.rebalance_settled(step);
        let members: Vec<MemberHandle> = assigning.plan.iter().map(|(member, _)| *member).collect();
        for (member, assignment) in assigning.plan {
            self.members[member].assignment = assignment;
        }
        for member in members {
            if let Some(ticket) = self.members[member].take_sync() {
                self.answer_sync(step, ticket, member);
                self.refresh_session(step.now, member);
            }
        }
    }

    /// Removes every member whose `SyncGroup` is missing at the sync deadline, static members too (§6.5).
    pub(crate) fn sync_deadline_passed(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        let group = &mut self.groups[handle];
        group.sync_deadline = None;
        let late: Vec<MemberHandle> =
            group.joined.values().copied().filter(|member| self.members[*member].owes_sync).collect();
        let removed: Vec<Arc<str>> =
            late.into_iter().map(|member| self.expel_member(step, member).id.shared()).collect();
        let first = removed.first().map_or_else(|| "".into(), Arc::clone);
        self.begin_rebalance(step, handle, Cause::SyncExpired, &first, "");
        let kept = self.config.rebalance_history;
        for other in removed.into_iter().skip(1) {
            self.groups[handle].note_departure(step.now, kept, other, Departed::SyncExpired, "");
        }
    }

    pub(crate) fn drop_assignments(&mut self, handle: GroupHandle) {
        for member in self.groups[handle].joined.values() {
            self.members[*member].assignment = Arc::default();
        }
    }

    /// Answers every parked `SyncGroup` with an error, and restarts the senders' sessions (§7.2).
    pub(crate) fn answer_parked_syncs_with(&mut self, step: &mut Step<'_>, handle: GroupHandle, error: ErrorCode) {
        let members: Vec<MemberHandle> = self.groups[handle].joined.values().copied().collect();
        for member in members {
            if let Some(ticket) = self.members[member].take_sync() {
                Self::answer_sync_error(step, ticket, error);
                self.refresh_session(step.now, member);
            }
        }
    }

    fn answer_sync(&self, step: &mut Step<'_>, ticket: Ticket, member: MemberHandle) {
        let member = &self.members[member];
        let group = &self.groups[member.group];
        step.sink.answer(
            ticket,
            Answer::SyncGroup(SyncAnswer {
                error: ErrorCode::None,
                protocol_type: group.protocol_type.as_deref(),
                protocol_name: group.protocol_name.as_deref(),
                assignment: &member.assignment,
            }),
        );
    }

    pub(crate) fn answer_sync_error(step: &mut Step<'_>, ticket: Ticket, error: ErrorCode) {
        let answer = SyncAnswer { error, protocol_type: None, protocol_name: None, assignment: &[] };
        step.sink.answer(ticket, Answer::SyncGroup(answer));
    }
}
