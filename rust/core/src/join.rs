//! JoinGroup (docs/protocol.md §4): the guards in order, then the cases.

use std::sync::Arc;

use crate::{
    coordinator::Coordinator,
    effects::Step,
    error::ErrorCode,
    group::{
        Client, Group, GroupHandle, Member, MemberHandle, OwnedProtocol, Parked, ParkedJoin, PendingMember, distinct,
    },
    history::Cause,
    ids,
    in_flight::Purpose,
    member_id::MemberId,
    operations::{Asked, Deferred, DeferredJoin, Operation},
    rebalance::JoinTerms,
    records::Record,
    request::{Entropy, JoinGroup, Ticket},
    response::{Answer, JoinAnswer},
    states::State,
    vote,
};

/// The first version that answers a join without a member id with `MEMBER_ID_REQUIRED` (§4.6).
const FIRST_VERSION_WITH_MEMBER_ID_REQUIRED: i16 = 4;

/// A refused join. Every other field of the answer has its null value (§4.9).
pub(crate) struct JoinRefusal<'a> {
    pub error: ErrorCode,
    /// The id in the answer: echoed, minted, or "".
    pub member_id: &'a str,
}

impl JoinRefusal<'_> {
    pub fn answer(&self, step: &mut Step<'_>, ticket: Ticket) {
        step.sink.answer(
            ticket,
            Answer::JoinGroup(JoinAnswer {
                error: self.error,
                generation: -1,
                protocol_type: None,
                protocol_name: None,
                leader: "",
                skip_assignment: false,
                member_id: self.member_id,
                members: &[],
            }),
        );
    }
}

impl Coordinator {
    pub(crate) fn join_group(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        entropy: Entropy,
        request: &JoinGroup<'_>,
    ) {
        let is_new = request.member_id.is_empty();
        if let Some(group_id) = request.group_id.filter(|group_id| self.consumer_groups.contains_key(*group_id)) {
            if let Err((error, member_id)) = self.join_consumer_group(step, ticket, entropy, group_id, request) {
                refuse(step, ticket, error, &member_id);
            }
            return;
        }
        let group = match self.find_group(request.group_id.unwrap_or("")) {
            Some(group) => group,
            None if is_new => self.create_group(step, request.group_id.unwrap_or("")),
            None => return refuse(step, ticket, ErrorCode::UnknownMemberId, request.member_id),
        };
        if let Some(deletion) = self.groups[group].deleting {
            let asked = Asked::Join(Box::new(DeferredJoin::new(entropy, request)));
            let group_id = Arc::clone(&self.groups[group].id);
            return self.defer(step, deletion, Deferred { ticket, group_id, asked });
        }
        if !self.has_room(group, request.member_id) {
            return self.refuse_for_capacity(step, ticket, group, request.member_id);
        }
        let names = request.protocols.iter().map(|protocol| protocol.name);
        if !vote::acceptable(&self.groups[group], request.protocol_type, names) {
            return refuse(step, ticket, ErrorCode::InconsistentGroupProtocol, request.member_id);
        }
        if is_new {
            self.join_without_id(step, ticket, entropy, group, request);
        } else {
            self.join_with_id(step, ticket, group, request);
        }
    }

    /// Creates a group. The first join without a member id creates it, even if that join is then refused (§4.10).
    fn create_group(&mut self, step: &mut Step<'_>, group_id: &str) -> GroupHandle {
        let group_id: Arc<str> = group_id.into();
        let group = Group::new(Arc::clone(&group_id), step.now);
        let value = Some(group.empty_record());
        let handle = self.groups.insert(group);
        self.group_ids.insert(Arc::clone(&group_id), handle);
        let record = Record::Group { group_id: Arc::clone(&group_id), value };
        let append_id = self.append(step, group_id, Purpose::NewGroup(handle), vec![record]);
        self.groups[handle].creating = Some(append_id);
        handle
    }

    /// Whether the group has room for this sender (§4.4). INVARIANT: S24.
    fn has_room(&self, handle: GroupHandle, member_id: &str) -> bool {
        let group = &self.groups[handle];
        let member = self.member_of(handle, member_id).map(|member| &self.members[member]);
        let limit = self.config.group_max_size as usize;
        match group.state {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                member.is_some_and(Member::awaits_join) || (group.awaiting_join as usize) < limit
            }
            State::CompletingRebalance | State::Stable => member.is_some() || group.joined.len() < limit,
        }
    }

    /// Refuses a join for lack of room and removes its sender. The group may have waited for that sender only (L6).
    fn refuse_for_capacity(&mut self, step: &mut Step<'_>, ticket: Ticket, group: GroupHandle, member_id: &str) {
        refuse(step, ticket, ErrorCode::GroupMaxSizeReached, "");
        let member = self.member_of(group, member_id);
        if let Some(member) = member {
            self.remove_member(member);
        }
        if self.remove_pending(group, member_id) || member.is_some() {
            self.complete_join_unless_initial(step, group);
        }
    }

    fn join_without_id(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        entropy: Entropy,
        group: GroupHandle,
        request: &JoinGroup<'_>,
    ) {
        let slot = self.members.reserve();
        let prefix = request.instance_id.unwrap_or(request.client_id);
        let member_id = ids::mint(prefix, entropy, slot.index());
        let predecessor = request.instance_id.and_then(|instance| self.groups[group].instances.get(instance).copied());
        if let Some(predecessor) = predecessor {
            self.replace_static_member(step, ticket, predecessor, slot, &member_id, request);
        } else if request.instance_id.is_none() && request.version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED {
            self.require_member_id(step, ticket, group, slot, &member_id, request);
        } else {
            self.add_member(step, ticket, group, slot, &member_id, request);
        }
    }

    /// Hands out a member id that the client must rejoin with (§4.6).
    fn require_member_id(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        group: GroupHandle,
        slot: MemberHandle,
        member_id: &Arc<str>,
        request: &JoinGroup<'_>,
    ) {
        if self.groups[group].pending.len() >= self.config.group_max_pending_members as usize {
            self.members.release(slot);
            return refuse(step, ticket, ErrorCode::GroupMaxSizeReached, "");
        }
        let deadline = step.now.after_timeout(request.session_timeout_ms);
        let pending = Box::new((group, Arc::clone(member_id)));
        let expiry = self.purgatory.watch(deadline, &[], Operation::Pending(pending));
        self.groups[group].pending.insert(Arc::clone(member_id), PendingMember { slot, expiry });
        refuse(step, ticket, ErrorCode::MemberIdRequired, member_id);
    }

    /// Adds a member, parks its request, and rebalances (§4.7).
    fn add_member(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        handle: GroupHandle,
        slot: MemberHandle,
        member_id: &Arc<str>,
        request: &JoinGroup<'_>,
    ) {
        // The previous member often has the same client and protocols. Then both share the memory.
        let last = self.groups[handle].joined.values().next_back().map(|member| &self.members[*member]);
        let protocols = owned_protocols(request, last);
        let instance_id: Option<Arc<str>> = request.instance_id.map(Arc::from);
        let client = Client::like(last, request.client_id, request.client_host, instance_id);
        let group = &mut self.groups[handle];
        if group.initial.is_some() {
            group.new_member_added = true;
        }
        if group.joined.is_empty() {
            group.protocol_type = Some(request.protocol_type.into());
        }
        group.leader.get_or_insert(slot);
        group.count_protocols(&protocols, true);
        group.enlist(member_id, slot, &mut self.members);
        if let Some(instance_id) = &client.instance_id {
            group.instances.insert(Arc::clone(instance_id), slot);
        }
        group.awaiting_join += 1;
        self.members.fill(
            slot,
            Member {
                id: MemberId::from(&**member_id),
                group: handle,
                session: None,
                session_timeout_ms: request.session_timeout_ms,
                rebalance_timeout_ms: rebalance_timeout_ms(request),
                owes_sync: false,
                is_new: true,
                parked: Some(Parked::Join { ticket, version: request.version }),
                client,
                protocols,
                assignment: Arc::default(),
            },
        );
        self.begin_new_member(step.now, slot);
        self.rebalance_or_complete(step, handle, Cause::MemberJoined, member_id, request.reason.unwrap_or(""));
    }

    fn join_with_id(&mut self, step: &mut Step<'_>, ticket: Ticket, handle: GroupHandle, request: &JoinGroup<'_>) {
        if let Some(pending) = self.groups[handle].pending.get(request.member_id) {
            if request.instance_id.is_some() {
                // An id handed out to a dynamic member cannot become a static member (row J15).
                return refuse(step, ticket, ErrorCode::UnknownServerError, "");
            }
            let slot = pending.slot;
            let pending = self.groups[handle].pending.remove_entry(request.member_id);
            let (member_id, pending) = pending.expect("it was found above");
            self.purgatory.complete(pending.expiry);
            return self.add_member(step, ticket, handle, slot, &member_id, request);
        }
        let group_id = request.group_id.unwrap_or("");
        let member = match self.identify(group_id, request.member_id, request.instance_id) {
            Ok(member) => member,
            Err(error) => return refuse(step, ticket, error, request.member_id),
        };
        let parked = ParkedJoin { ticket, version: request.version };
        let same = self.members[member].offers_the_same(request.protocols);
        let group = &self.groups[handle];
        let leads = group.leader == Some(member);
        let cause = if same { Cause::LeaderRejoined } else { Cause::MetadataChanged };
        match group.state {
            State::CompletingRebalance if same => self.answer_join(step, member, parked, JoinTerms::default()),
            // The replacement of this member is in flight. This request takes the place of the parked one, or of one that a
            // refused conversion has answered.
            State::Stable if same && self.is_being_written(member) => {
                self.update_member(step, member, parked, request);
            }
            State::Stable if same && !leads => self.answer_join(step, member, parked, JoinTerms::default()),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                self.rejoin(step, member, parked, cause, request);
            }
            State::Empty | State::Dead => refuse(step, ticket, ErrorCode::UnknownMemberId, request.member_id),
        }
    }

    /// Parks the request of a member, with its new protocols (§4.7).
    fn rejoin(
        &mut self,
        step: &mut Step<'_>,
        member: MemberHandle,
        parked: ParkedJoin,
        cause: Cause,
        request: &JoinGroup<'_>,
    ) {
        let group = self.members[member].group;
        if self.groups[group].state == State::CompletingRebalance {
            // INVARIANT: S18, a member has one parked request. Parked syncs are answered before this join takes the
            // place of one: the assignment will not arrive.
            self.answer_parked_syncs_with(step, group, ErrorCode::RebalanceInProgress);
        }
        self.update_member(step, member, parked, request);
        let member_id = self.members[member].id.shared();
        self.rebalance_or_complete(step, group, cause, &member_id, request.reason.unwrap_or(""));
    }

    /// Replaces a member's protocols, timeouts and parked request. Its session does not run while it is parked.
    pub(crate) fn update_member(
        &mut self,
        step: &mut Step<'_>,
        handle: MemberHandle,
        parked: ParkedJoin,
        request: &JoinGroup<'_>,
    ) {
        let protocols = owned_protocols(request, Some(&self.members[handle]));
        let member = &mut self.members[handle];
        let group = &mut self.groups[member.group];
        group.count_protocols(&member.protocols, false);
        group.count_protocols(&protocols, true);
        member.protocols = protocols;
        member.session_timeout_ms = request.session_timeout_ms;
        member.rebalance_timeout_ms = rebalance_timeout_ms(request);
        match member.parked.replace(parked.into()) {
            // A request that a newer one of the same member supersedes is answered, too (S18, departure D1).
            Some(Parked::Join { ticket, .. }) => {
                JoinRefusal { error: ErrorCode::NotCoordinator, member_id: &member.id }.answer(step, ticket);
            }
            Some(Parked::Sync { .. }) => unreachable!("parked syncs are answered before a member rejoins"),
            None => group.awaiting_join += 1,
        }
        if !member.is_new {
            self.end_session(handle);
        }
    }

    /// Begins or completes a rebalance after a member was added or updated (§4.7).
    fn rebalance_or_complete(
        &mut self,
        step: &mut Step<'_>,
        group: GroupHandle,
        cause: Cause,
        member_id: &Arc<str>,
        reason: &str,
    ) {
        if self.groups[group].state.can_rebalance() {
            self.begin_rebalance(step, group, cause, member_id, reason);
        } else {
            self.complete_join_unless_initial(step, group);
        }
    }

    /// Removes a member that leaves or whose session expired, and answers its parked request (departure D2).
    pub(crate) fn expel_member(&mut self, step: &mut Step<'_>, handle: MemberHandle) -> Member {
        let removed = self.remove_member(handle);
        match removed.parked {
            Some(Parked::Join { ticket, .. }) => refuse(step, ticket, ErrorCode::UnknownMemberId, ""),
            Some(Parked::Sync { ticket }) => Self::answer_sync_error(step, ticket, ErrorCode::UnknownMemberId),
            None => {}
        }
        removed
    }

    /// Removes a member from its group with its deadlines and votes; the lead passes on. Returns the member with its
    /// parked request.
    pub(crate) fn remove_member(&mut self, handle: MemberHandle) -> Member {
        self.end_session(handle);
        self.set_owes_sync(handle, false);
        let member = self.members.release(handle).expect("only a live member is removed");
        let group = &mut self.groups[member.group];
        group.count_protocols(&member.protocols, false);
        group.members_by_id.remove(&*member.id);
        group.joined.remove(handle, &mut self.members);
        if let Some(instance_id) = &member.client.instance_id {
            group.instances.remove(instance_id);
        }
        if member.awaits_join() {
            group.awaiting_join -= 1;
        }
        if group.leader == Some(handle) {
            // INVARIANT: S3; the first member in joining order becomes the leader (§5.6).
            group.leader = group.joined.values().next().copied();
        }
        member
    }
}

fn refuse(step: &mut Step<'_>, ticket: Ticket, error: ErrorCode, member_id: &str) {
    JoinRefusal { error, member_id }.answer(step, ticket);
}

/// Returns the rebalance timeout. Version 0 has none and uses the session timeout (§4.1).
fn rebalance_timeout_ms(request: &JoinGroup<'_>) -> i32 {
    if request.version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms }
}

/// Returns the protocols of a request; shares the memory of the member's own if they are equal.
fn owned_protocols(request: &JoinGroup<'_>, other: Option<&Member>) -> Arc<[OwnedProtocol]> {
    if let Some(other) = other.filter(|other| other.offers_the_same(request.protocols)) {
        return Arc::clone(&other.protocols);
    }
    distinct(request.protocols)
        .into_iter()
        .map(|protocol| OwnedProtocol { name: protocol.name.into(), metadata: protocol.metadata.into() })
        .collect()
}
