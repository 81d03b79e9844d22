//! Static replacement (§9.3).

use std::sync::Arc;

use rota_core::{
    ErrorCode, Record, Sink, State,
    request::JoinGroup,
    response::{Answer, JoinAnswer},
};

use super::{
    Naive, Parked, Purpose, Replaced, Text, answer_join_error, answer_sync_error,
    joining::{offers, rebalance_timeout},
    wait_of,
};

/// From this version on a replaced leader is told the list, and to skip computing a plan.
const FIRST_VERSION_WITH_SKIP: i16 = 9;

impl Naive {
    pub(super) fn replace(
        &mut self,
        id: &Text,
        place: u64,
        new_id: Text,
        parked: Parked,
        join: &JoinGroup<'_>,
        sink: &mut dyn Sink,
    ) {
        let clock_ms = self.clock.mono_ms;
        let group = self.group_mut(id);
        let leader_before = group.leader.clone().expect("a group with members has a leader");
        if group.leads(&group.members[&place].id) {
            group.leader = Some(Arc::clone(&new_id));
        }
        let member = group.members.get_mut(&place).expect("its member");
        let mut before = member.clone();
        member.id = Arc::clone(&new_id);
        member.session_timeout_ms = join.session_timeout_ms;
        member.rebalance_timeout_ms = rebalance_timeout(join);
        member.protocols = offers(join);
        member.join = Some(parked);
        member.sync = None;
        member.is_new = false;
        (member.session, member.newcomer) = (None, None);
        let (state, vote_stands) = (group.state, group.elect() == group.protocol_name);
        if let Some(parked) = before.join.take() {
            answer_join_error(parked.ticket, ErrorCode::FencedInstanceId, &before.id, sink);
        }
        if let Some(parked) = before.sync.take() {
            answer_sync_error(parked.ticket, ErrorCode::FencedInstanceId, sink);
        }
        if state != State::Stable || !vote_stands {
            self.rebalance_or_test(id, sink);
            return;
        }
        let record = self.groups[id].record(id, None);
        let replaced = Replaced {
            id: new_id,
            session_ends_ms: clock_ms.saturating_add(wait_of(before.session_timeout_ms)),
            before,
            leader_before,
            is_undone: false,
            stands: false,
        };
        self.append(id, vec![record], Purpose::Replacement(Box::new(replaced)), sink);
    }

    /// A rebalance begins while replacements are being written: they stand (D3).
    pub(super) fn overtake_replacements(&mut self, id: &Text, sink: &mut dyn Sink) {
        let mut overtaken = Vec::new();
        for (append_id, append) in self.appends.iter_mut().filter(|(_, append)| append.group_id == *id) {
            if let Purpose::Replacement(replaced) = &mut append.purpose
                && !replaced.is_undone
                && !replaced.stands
            {
                replaced.stands = true;
                overtaken.push((*append_id, Arc::clone(&replaced.id)));
            }
        }
        let mut answered: Vec<u64> = Vec::new();
        for (append_id, name) in overtaken {
            self.appends.get_mut(&append_id).expect("it is in flight").deadline = None;
            answered.extend(self.groups[id].place_of(&name));
        }
        answered.sort_unstable();
        for place in answered {
            let member = self.group_mut(id).members.get_mut(&place).expect("its member");
            if let Some(parked) = member.join.take() {
                answer_join_error(parked.ticket, ErrorCode::RebalanceInProgress, "", sink);
                self.arm_session(id, place);
            }
        }
    }

    /// The record of a replacement is durable.
    pub(super) fn replacement_durable(&mut self, id: &Text, replaced: &Replaced, sink: &mut dyn Sink) {
        if replaced.is_undone {
            if self.groups.get(id).is_some_and(|group| group.state == State::Stable) {
                let record = self.groups[id].record(id, None);
                self.append(&Text::from(""), vec![record], Purpose::Nobody, sink);
            }
            return;
        }
        let Some(place) = self.groups.get(id).and_then(|group| group.place_of(&replaced.id)) else { return };
        if replaced.stands {
            return;
        }
        let member = self.group_mut(id).members.get_mut(&place).expect("its member");
        let Some(parked) = member.join.take() else { return };
        self.answer_replacement(id, place, &parked, &replaced.leader_before, sink);
        if replaced.session_ends_ms > self.clock.mono_ms {
            let session = self.alarm(replaced.session_ends_ms - self.clock.mono_ms);
            self.member_mut(id, place).session = Some(session);
        } else {
            self.arm_session(id, place);
        }
    }

    fn answer_replacement(&self, id: &Text, place: u64, parked: &Parked, leader_before: &str, sink: &mut dyn Sink) {
        let group = &self.groups[id];
        let member = &group.members[&place];
        let is_told_to_lead = group.leads(&member.id) && parked.version >= FIRST_VERSION_WITH_SKIP;
        let listed = if is_told_to_lead { group.listed() } else { Vec::new() };
        let leader = group.leader.as_deref().unwrap_or("");
        let answer = JoinAnswer {
            error: ErrorCode::None,
            generation: group.generation,
            protocol_type: group.protocol_type.as_deref(),
            protocol_name: group.protocol_name.as_deref(),
            leader: if parked.version < FIRST_VERSION_WITH_SKIP && group.leads(&member.id) {
                leader_before
            } else {
                leader
            },
            skip_assignment: is_told_to_lead,
            member_id: &member.id,
            members: &listed,
        };
        sink.answer(parked.ticket, Answer::JoinGroup(answer));
    }

    /// The record failed, or took too long: the old member is back.
    pub(super) fn undo_replacement(
        &mut self,
        id: &Text,
        (append_id, replaced): (u64, &Replaced),
        error: ErrorCode,
        sink: &mut dyn Sink,
    ) {
        if replaced.stands || replaced.is_undone {
            return;
        }
        // Whoever replaced the newcomer meanwhile would now go back to the one before it.
        for append in self.appends.values_mut().filter(|append| append.group_id == *id) {
            if let Purpose::Replacement(newer) = &mut append.purpose
                && newer.before.id == replaced.id
            {
                newer.before = replaced.before.clone();
            }
        }
        let Some(place) = self.groups.get(id).and_then(|group| group.place_of(&replaced.id)) else { return };
        let group = self.group_mut(id);
        if group.leads(&replaced.id) {
            group.leader = Some(Arc::clone(&replaced.before.id));
        }
        let member = group.members.get_mut(&place).expect("its member");
        let parked = member.join.take();
        member.id = Arc::clone(&replaced.before.id);
        member.session_timeout_ms = replaced.before.session_timeout_ms;
        member.rebalance_timeout_ms = replaced.before.rebalance_timeout_ms;
        member.protocols.clone_from(&replaced.before.protocols);
        if let Some(parked) = parked {
            let group = &self.groups[id];
            let answer = JoinAnswer {
                error,
                generation: group.generation,
                protocol_type: group.protocol_type.as_deref(),
                protocol_name: group.protocol_name.as_deref(),
                leader: &replaced.leader_before,
                skip_assignment: false,
                member_id: "",
                members: &[],
            };
            sink.answer(parked.ticket, Answer::JoinGroup(answer));
        }
        self.member_mut(id, place).session = None;
        self.arm_session(id, place);
        // A newer record that is on its way names the newcomer.
        let speaks = |record: &Record| matches!(record, Record::Group { group_id, .. } if group_id == id);
        if self.appends.range(append_id + 1..).any(|(_, append)| append.records.iter().any(speaks)) {
            let record = self.groups[id].record(id, None);
            self.append(&Text::from(""), vec![record], Purpose::Nobody, sink);
        }
    }
}
