//! Static membership: a new process replaces the member with the same `group.instance.id` (docs/protocol.md §9).

use std::{ops::Bound, sync::Arc};

use crate::{
    coordinator::Coordinator,
    effects::{AppendId, Step},
    error::ErrorCode,
    group::{GroupHandle, Member, MemberHandle, Parked, ParkedJoin},
    history::Cause,
    in_flight::{Purpose, RecordKey, Replacement},
    join::JoinRefusal,
    member_id::MemberId,
    operations::Operation,
    rebalance::JoinTerms,
    records::Record,
    request::{JoinGroup, Ticket},
    response::{Answer, JoinAnswer},
    states::State,
    vote,
};

/// The first version whose answer can give a static leader the list and let it skip computing an assignment.
const FIRST_VERSION_WITH_SKIP_ASSIGNMENT: i16 = 9;

impl Coordinator {
    /// Handles a join without a member id whose instance id belongs to a member (§9.3).
    pub(crate) fn replace_static_member(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        predecessor: MemberHandle,
        slot: MemberHandle,
        member_id: &Arc<str>,
        request: &JoinGroup<'_>,
    ) {
        let leader = self.groups[self.members[predecessor].group].leader.expect("a group with a member has a leader");
        let leader_id = self.members[leader].id.shared();
        let mut old = self.exchange(predecessor, slot, |old| Member {
            id: MemberId::from(&**member_id),
            is_new: false,
            parked: None,
            ..old.clone()
        });
        match old.parked.take() {
            Some(Parked::Join { ticket, .. }) => {
                JoinRefusal { error: ErrorCode::FencedInstanceId, member_id: &old.id }.answer(step, ticket);
            }
            Some(Parked::Sync { ticket }) => Self::answer_sync_error(step, ticket, ErrorCode::FencedInstanceId),
            None => {}
        }
        let handle = old.group;
        let session_deadline_ms = step.now.after_timeout(old.session_timeout_ms);
        let parked = ParkedJoin { ticket, version: request.version };
        self.update_member(step, slot, parked, request);
        match self.groups[handle].state {
            State::PreparingRebalance => self.complete_join_unless_initial(step, handle),
            State::Stable if self.keeps_protocol(handle) => {
                let replacement = Replacement {
                    member: slot,
                    member_id: Arc::clone(member_id),
                    predecessor: old,
                    leader_id,
                    session_deadline_ms,
                };
                self.store_replacement(step, handle, replacement);
            }
            _ => {
                let reason = request.reason.unwrap_or("");
                self.begin_rebalance(step, handle, Cause::StaticReplaced, member_id, reason);
            }
        }
    }

    /// Replaces a member: the successor gets its position, leadership, instance id and missing sync (departure D6).
    fn exchange(&mut self, from: MemberHandle, to: MemberHandle, successor: impl FnOnce(&Member) -> Member) -> Member {
        self.end_session(from);
        let old = self.members.release(from).expect("only a live member is replaced");
        let new = successor(&old);
        let group = &mut self.groups[old.group];
        group.count_protocols(&old.protocols, false);
        group.count_protocols(&new.protocols, true);
        group.members_by_id.remove(&*old.id);
        group.joined.replace(from, to, &mut self.members);
        group.name(&new.id, to);
        if let Some(instance_id) = &new.client.instance_id {
            group.instances.insert(Arc::clone(instance_id), to);
        }
        if group.leader == Some(from) {
            group.leader = Some(to);
        }
        if old.awaits_join() {
            group.awaiting_join -= 1;
        }
        self.members.fill(to, new);
        old
    }

    /// Whether the record of this member's replacement is in flight.
    pub(crate) fn is_being_written(&self, member: MemberHandle) -> bool {
        let writes = |purpose: &Purpose| matches!(purpose, Purpose::Replacement(of) if of.member == member);
        let is_static = self.members[member].client.instance_id.is_some();
        is_static && self.appends.values().any(|append| writes(&append.purpose))
    }

    fn keeps_protocol(&self, handle: GroupHandle) -> bool {
        let group = &self.groups[handle];
        let members = group.joined.values().map(|member| &self.members[*member]);
        vote::select(&group.support, members) == group.protocol_name
    }

    /// Appends the group with its generation and assignments unchanged. No rebalance begins.
    fn store_replacement(&mut self, step: &mut Step<'_>, handle: GroupHandle, replacement: Replacement) {
        let group_id = Arc::clone(&self.groups[handle].id);
        let record = self.stable_record(handle);
        self.append(step, group_id, Purpose::Replacement(Box::new(replacement)), vec![record]);
    }

    fn stable_record(&self, handle: GroupHandle) -> Record {
        let group = &self.groups[handle];
        let plan: Vec<(MemberHandle, Arc<[u8]>)> =
            group.joined.values().map(|member| (*member, Arc::clone(&self.members[*member].assignment))).collect();
        Record::Group { group_id: Arc::clone(&group.id), value: Some(self.group_record(handle, &plan)) }
    }

    /// Completes replacements in flight that a rebalance overtakes: they stay whatever the log says, as in any state
    /// but Stable. Their requests are answered so that the clients rejoin (departure D3).
    pub(crate) fn answer_overtaken_replacements(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        let group_id = Arc::clone(&self.groups[handle].id);
        let mut overtaken = Vec::new();
        for append in self.appends.values_mut().filter(|append| append.group_id == group_id) {
            if let Purpose::Replacement(replacement) = &append.purpose {
                overtaken.push(replacement.member);
                append.purpose = Purpose::Abandoned(handle);
                if let Some(deadline) = append.deadline.take() {
                    self.purgatory.complete(deadline);
                }
            }
        }
        // In joining order, as all answers of one step (§21).
        let in_order = self.groups[handle].joined.values().copied().filter(|member| overtaken.contains(member));
        for member in in_order.collect::<Vec<_>>() {
            if let Some(parked) = self.take_parked_join(member) {
                JoinRefusal { error: ErrorCode::RebalanceInProgress, member_id: "" }.answer(step, parked.ticket);
                self.refresh_session(step.now, member);
            }
        }
    }

    /// Handles a record of an undone replacement that became durable: writes the current group, so that the log ends with
    /// it.
    pub(crate) fn abandoned_replacement_ended(
        &mut self,
        step: &mut Step<'_>,
        handle: GroupHandle,
        error: Option<ErrorCode>,
    ) {
        if error.is_none() && self.groups.get(handle).is_some_and(|group| group.state == State::Stable) {
            let record = self.stable_record(handle);
            self.append(step, "".into(), Purpose::Unattended, vec![record]);
        }
    }

    /// Applies the result or the timeout of a replacement's append.
    pub(crate) fn replacement_stored(
        &mut self,
        step: &mut Step<'_>,
        append_id: AppendId,
        replacement: Replacement,
        error: Option<ErrorCode>,
    ) {
        let member = replacement.member;
        if self.members.get(member).is_none() {
            if error.is_some() {
                self.skip_failed_link(replacement);
            }
            return;
        }
        match error {
            None => {
                let Some(parked) = self.take_parked_join(member) else { return };
                // An expiry while the member was parked does not count (§7.3).
                let deadline = match replacement.session_deadline_ms {
                    passed if passed <= step.now.mono_ms => {
                        step.now.after_timeout(self.members[member].session_timeout_ms)
                    }
                    to_come => to_come,
                };
                self.members[member].session = Some(self.purgatory.watch(deadline, &[], Operation::Session(member)));
                self.answer_replacement(step, member, parked, &replacement.leader_id);
            }
            Some(error) => {
                let handle = replacement.predecessor.group;
                self.revert_replacement(step, replacement, error.for_group_append());
                self.write_if_named_later(step, handle, append_id);
            }
        }
    }

    /// A later record of the group in flight names the new member that was just undone. The group is written again, so
    /// that the log does not end with that record (S22).
    fn write_if_named_later(&mut self, step: &mut Step<'_>, handle: GroupHandle, undone: AppendId) {
        let key = RecordKey::Group(Arc::clone(&self.groups[handle].id));
        let mut later = self.appends.range((Bound::Excluded(undone), Bound::Unbounded));
        if later.any(|(_, append)| append.records.iter().any(|record| RecordKey::of(record) == key)) {
            let record = self.stable_record(handle);
            self.append(step, "".into(), Purpose::Unattended, vec![record]);
        }
    }

    /// Handles a failed replacement whose member was replaced meanwhile. If that replacement fails, too, the original
    /// member returns.
    fn skip_failed_link(&mut self, failed: Replacement) {
        for append in self.appends.values_mut() {
            if let Purpose::Replacement(later) = &mut append.purpose
                && *later.predecessor.id == *failed.member_id
            {
                later.predecessor = failed.predecessor;
                return;
            }
        }
    }

    fn answer_replacement(&self, step: &mut Step<'_>, member: MemberHandle, parked: ParkedJoin, leader_id: &str) {
        let leads = self.groups[self.members[member].group].leader == Some(member);
        let terms = if parked.version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT {
            JoinTerms { skip_assignment: leads, ..JoinTerms::default() }
        } else {
            // An older client that reads that it leads would compute an assignment, so its answer names the predecessor
            // as the leader.
            JoinTerms { leader: leads.then_some(leader_id), without_list: true, skip_assignment: false }
        };
        self.answer_join(step, member, parked, terms);
    }

    /// Restores the predecessor with its timeouts and protocols, and answers the new member (S17).
    fn revert_replacement(&mut self, step: &mut Step<'_>, replacement: Replacement, error: ErrorCode) {
        let owes_sync = self.members[replacement.member].owes_sync;
        let restored = self.members.reserve();
        let predecessor = replacement.predecessor;
        // The predecessor has had no parked request and no session since it was replaced. In Stable, no assignment
        // changes.
        let new = self.exchange(replacement.member, restored, |_| Member { owes_sync, ..predecessor });
        self.refresh_session(step.now, restored);
        let Some(parked) = new.parked_join() else { return };
        let group = &self.groups[new.group];
        step.sink.answer(
            parked.ticket,
            Answer::JoinGroup(JoinAnswer {
                error,
                generation: group.generation,
                protocol_type: group.protocol_type.as_deref(),
                protocol_name: group.protocol_name.as_deref(),
                leader: &replacement.leader_id,
                skip_assignment: false,
                member_id: "",
                members: &[],
            }),
        );
    }
}
