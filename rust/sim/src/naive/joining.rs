//! `JoinGroup` (§4).

use std::sync::Arc;

use rota_core::{Entropy, ErrorCode, Sink, State, Ticket, config::NEW_MEMBER_JOIN_TIMEOUT_MS, request::JoinGroup};

use super::{Group, Member, Naive, Parked, Purpose, Text, answer_join_error, wait_of};

/// From this version on a dynamic member joins with an id that it was given first.
const FIRST_VERSION_WITH_REQUIRED_ID: i16 = 4;

impl Naive {
    /// §4.2, line by line.
    pub(super) fn join(&mut self, ticket: Ticket, entropy: Entropy, join: &JoinGroup<'_>, sink: &mut dyn Sink) {
        let id = self.shared(join.group_id);
        if !self.groups.contains_key(&id) {
            if !join.member_id.is_empty() {
                answer_join_error(ticket, ErrorCode::UnknownMemberId, join.member_id, sink);
                return;
            }
            self.create(&id, sink);
        }
        if !self.has_room(&id, join) {
            self.refuse_for_room(&id, ticket, join.member_id, sink);
            return;
        }
        if !accepts(&self.groups[&id], join) {
            answer_join_error(ticket, ErrorCode::InconsistentGroupProtocol, join.member_id, sink);
            return;
        }
        let parked = Parked { ticket, version: join.version };
        if join.member_id.is_empty() {
            self.join_without_id(&id, parked, entropy, join, sink);
        } else if self.groups[&id].pending.contains_key(join.member_id) {
            if join.instance_id.is_some() {
                answer_join_error(ticket, ErrorCode::UnknownServerError, "", sink);
            } else {
                self.add_member(&id, &join.member_id.into(), parked, join, sink);
            }
        } else {
            match self.validate(&id, join.member_id, join.instance_id) {
                Ok(place) => self.rejoin(&id, place, parked, join, sink),
                Err(error) => answer_join_error(ticket, error, join.member_id, sink),
            }
        }
    }

    /// §4.10
    fn create(&mut self, id: &Text, sink: &mut dyn Sink) {
        let group = Group::new(self.clock.mono_ms, self.clock.wall_ms);
        let record = group.record(id, None);
        self.groups.insert(Arc::clone(id), group);
        let append_id = self.append(id, vec![record], Purpose::Creation, sink);
        self.group_mut(id).creating = Some(append_id);
    }

    /// §4.4
    fn has_room(&self, id: &Text, join: &JoinGroup<'_>) -> bool {
        let group = &self.groups[id];
        let max = self.config.group_max_size as usize;
        let member = group.members.values().find(|member| *member.id == *join.member_id);
        match group.state {
            State::PreparingRebalance => {
                member.is_some_and(|member| member.join.is_some()) || group.parked_joins() < max
            }
            State::CompletingRebalance | State::Stable => member.is_some() || group.members.len() < max,
            _ => true,
        }
    }

    fn refuse_for_room(&mut self, id: &Text, ticket: Ticket, member_id: &str, sink: &mut dyn Sink) {
        if let Some(place) = self.groups[id].place_of(member_id) {
            self.remove_member(id, place, sink);
        }
        self.forget_pending(id, member_id);
        answer_join_error(ticket, ErrorCode::GroupMaxSizeReached, "", sink);
        self.test_all_joined(id, false, sink);
    }

    pub(super) fn forget_pending(&mut self, id: &Text, member_id: &str) -> bool {
        self.group_mut(id).pending.remove(member_id).is_some()
    }

    fn join_without_id(
        &mut self,
        id: &Text,
        parked: Parked,
        entropy: Entropy,
        join: &JoinGroup<'_>,
        sink: &mut dyn Sink,
    ) {
        let new_id = self.mint(join.instance_id.unwrap_or(join.client_id), entropy);
        if let Some(instance) = join.instance_id {
            match self.groups[id].place_of_instance(instance) {
                Some(place) => self.replace(id, place, new_id, parked, join, sink),
                None => self.add_member(id, &new_id, parked, join, sink),
            }
        } else if join.version < FIRST_VERSION_WITH_REQUIRED_ID {
            self.add_member(id, &new_id, parked, join, sink);
        } else if self.groups[id].pending.len() >= self.config.group_max_pending_members as usize {
            answer_join_error(parked.ticket, ErrorCode::GroupMaxSizeReached, "", sink);
        } else {
            let deadline = self.alarm(wait_of(join.session_timeout_ms));
            self.group_mut(id).pending.insert(Arc::clone(&new_id), deadline);
            answer_join_error(parked.ticket, ErrorCode::MemberIdRequired, &new_id, sink);
        }
    }

    /// §4.7
    fn add_member(&mut self, id: &Text, name: &Text, parked: Parked, join: &JoinGroup<'_>, sink: &mut dyn Sink) {
        self.forget_pending(id, name);
        let place = self.next_place;
        self.next_place += 1;
        let newcomer = self.alarm(NEW_MEMBER_JOIN_TIMEOUT_MS);
        let group = self.group_mut(id);
        if group.state == State::PreparingRebalance && group.was_empty {
            group.newcomer_in_delay = true;
        }
        if group.members.is_empty() {
            group.protocol_type = Some(join.protocol_type.into());
        }
        group.leader.get_or_insert_with(|| Arc::clone(name));
        let member = Member {
            id: Arc::clone(name),
            instance: join.instance_id.map(Text::from),
            client_id: join.client_id.into(),
            client_host: join.client_host.into(),
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: rebalance_timeout(join),
            protocols: offers(join),
            assignment: Arc::from([]),
            join: Some(parked),
            sync: None,
            owes_sync: false,
            is_new: true,
            session: None,
            newcomer: Some(newcomer),
        };
        group.members.insert(place, member);
        self.rebalance_or_test(id, sink);
    }

    /// Lines 15 to 17.
    fn rejoin(&mut self, id: &Text, place: u64, parked: Parked, join: &JoinGroup<'_>, sink: &mut dyn Sink) {
        let group = &self.groups[id];
        let member = &group.members[&place];
        let is_unchanged = member.protocols.iter().map(|(name, bytes)| (&**name, &**bytes)).eq(distinct(join));
        let settled = group.state != State::PreparingRebalance;
        if settled && is_unchanged && member.join.is_some() {
            // The newcomer of a replacement that is being written (§4.8).
            self.update_member(id, place, parked, join, sink);
        } else if settled && is_unchanged && !(group.state == State::Stable && group.leads(&member.id)) {
            self.answer_join(id, place, parked, sink);
        } else {
            self.update_member(id, place, parked, join, sink);
            self.rebalance_or_test(id, sink);
        }
    }

    fn supersede_join(&mut self, id: &Text, place: u64, parked: Parked, sink: &mut dyn Sink) {
        let member = self.group_mut(id).members.get_mut(&place).expect("its member");
        member.session = None;
        if let Some(before) = member.join.replace(parked) {
            answer_join_error(before.ticket, ErrorCode::NotCoordinator, &member.id, sink);
        }
    }

    fn update_member(&mut self, id: &Text, place: u64, parked: Parked, join: &JoinGroup<'_>, sink: &mut dyn Sink) {
        self.supersede_join(id, place, parked, sink);
        let member = self.group_mut(id).members.get_mut(&place).expect("its member");
        member.session_timeout_ms = join.session_timeout_ms;
        member.rebalance_timeout_ms = rebalance_timeout(join);
        member.protocols = offers(join);
    }

    /// Instance first, then the member id (§9.1).
    pub(super) fn validate(&self, id: &str, member_id: &str, instance: Option<&str>) -> Result<u64, ErrorCode> {
        let group = &self.groups[id];
        if let Some(instance) = instance {
            let holder = group.place_of_instance(instance).ok_or(ErrorCode::UnknownMemberId)?;
            if *group.members[&holder].id != *member_id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        group.place_of(member_id).ok_or(ErrorCode::UnknownMemberId)
    }
}

/// §4.3
fn accepts(group: &Group, join: &JoinGroup<'_>) -> bool {
    if group.state == State::Empty {
        return !join.protocol_type.is_empty() && !join.protocols.is_empty();
    }
    group.protocol_type.as_deref() == Some(join.protocol_type)
        && join.protocols.iter().any(|offer| group.is_common(offer.name))
}

/// What a member offers, in order of preference; a name that is listed twice counts once (D4).
fn distinct<'a>(join: &JoinGroup<'a>) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let listed = join.protocols;
    let is_first = |at: usize, name: &str| listed[..at].iter().all(|before| *before.name != *name);
    let first = listed.iter().enumerate().filter(move |(at, offer)| is_first(*at, offer.name));
    first.map(|(_, offer)| (offer.name, offer.metadata))
}

/// The same, to be kept.
pub(super) fn offers(join: &JoinGroup<'_>) -> Vec<(Text, Arc<[u8]>)> {
    distinct(join).map(|(name, metadata)| (name.into(), metadata.into())).collect()
}

/// §4.1
pub(super) fn rebalance_timeout(join: &JoinGroup<'_>) -> i32 {
    if join.version == 0 { join.session_timeout_ms } else { join.rebalance_timeout_ms }
}
