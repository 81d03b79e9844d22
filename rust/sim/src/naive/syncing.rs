//! `SyncGroup`, Heartbeat and `LeaveGroup` (§6, §7, §8).

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    ErrorCode, Sink, State, Ticket,
    request::{Heartbeat, LeaveGroup, LeaveIdentity, SyncGroup},
    response::{Answer, LeaveAnswer, LeftMember, SyncAnswer},
};

use super::{Naive, Parked, Purpose, Text, answer_sync_error};

/// From this version on `LeaveGroup` is a batch.
const FIRST_VERSION_WITH_BATCH: i16 = 3;

impl Naive {
    /// §6.1
    pub(super) fn sync(&mut self, ticket: Ticket, sync: &SyncGroup<'_>, sink: &mut dyn Sink) {
        let id = self.shared(sync.group_id);
        match self.check_sync(&id, sync) {
            Err(error) => answer_sync_error(ticket, error, sink),
            Ok(place) => {
                let parked = Parked { ticket, version: sync.version };
                self.group_mut(&id).members.get_mut(&place).expect("its member").owes_sync = false;
                self.end_sync_timer_if_settled(&id);
                if self.groups[&id].state == State::Stable {
                    self.answer_sync(&id, place, &parked, sink);
                } else {
                    self.park_sync(&id, place, parked, sync, sink);
                }
            }
        }
    }

    fn check_sync(&self, id: &str, sync: &SyncGroup<'_>) -> Result<u64, ErrorCode> {
        let group = self.groups.get(id).ok_or(ErrorCode::UnknownMemberId)?;
        let place = self.validate(id, sync.member_id, sync.instance_id)?;
        let differs = |sent: Option<&str>, own: &Option<Text>| match (sent, own) {
            (Some(sent), Some(own)) => *sent != **own,
            _ => false,
        };
        if group.generation != sync.generation {
            Err(ErrorCode::IllegalGeneration)
        } else if differs(sync.protocol_type, &group.protocol_type) || differs(sync.protocol_name, &group.protocol_name)
        {
            Err(ErrorCode::InconsistentGroupProtocol)
        } else if group.state == State::PreparingRebalance {
            Err(ErrorCode::RebalanceInProgress)
        } else {
            Ok(place)
        }
    }

    /// §6.2, §6.3
    fn park_sync(&mut self, id: &Text, place: u64, parked: Parked, sync: &SyncGroup<'_>, sink: &mut dyn Sink) {
        let group = self.group_mut(id);
        let member = group.members.get_mut(&place).expect("its member");
        member.session = None;
        if let Some(before) = member.sync.replace(parked) {
            answer_sync_error(before.ticket, ErrorCode::NotCoordinator, sink);
        }
        let group = &self.groups[id];
        if !group.leads(sync.member_id) || group.assigning.is_some() {
            return;
        }
        let mut assignments: BTreeMap<Text, Arc<[u8]>> = BTreeMap::new();
        for part in sync.assignments {
            if group.place_of(part.member_id).is_some() {
                assignments.insert(part.member_id.into(), part.assignment.into());
            }
        }
        let record = group.record(id, Some(&assignments));
        let purpose = Purpose::Plan { generation: group.generation, assignments };
        let append_id = self.append(id, vec![record], purpose, sink);
        self.group_mut(id).assigning = Some(append_id);
    }

    fn answer_sync(&self, id: &Text, place: u64, parked: &Parked, sink: &mut dyn Sink) {
        let group = &self.groups[id];
        let answer = SyncAnswer {
            error: ErrorCode::None,
            protocol_type: group.protocol_type.as_deref(),
            protocol_name: group.protocol_name.as_deref(),
            assignment: &group.members[&place].assignment,
        };
        sink.answer(parked.ticket, Answer::SyncGroup(answer));
    }

    /// Answers whoever is parked in `SyncGroup`, and starts their sessions anew.
    pub(super) fn answer_syncs(&mut self, id: &Text, error: ErrorCode, sink: &mut dyn Sink) {
        for place in self.groups[id].members.keys().copied().collect::<Vec<_>>() {
            let member = self.group_mut(id).members.get_mut(&place).expect("its member");
            let Some(parked) = member.sync.take() else { continue };
            if error == ErrorCode::None {
                self.answer_sync(id, place, &parked, sink);
            } else {
                answer_sync_error(parked.ticket, error, sink);
            }
            self.arm_session(id, place);
        }
    }

    /// §7.1
    pub(super) fn heartbeat(&mut self, ticket: Ticket, heartbeat: &Heartbeat<'_>, sink: &mut dyn Sink) {
        let error = self.beat(&self.shared(heartbeat.group_id), heartbeat).unwrap_or_else(|error| error);
        sink.answer(ticket, Answer::Heartbeat(error));
    }

    fn beat(&mut self, id: &Text, heartbeat: &Heartbeat<'_>) -> Result<ErrorCode, ErrorCode> {
        let group = self.groups.get(id).ok_or(ErrorCode::UnknownMemberId)?;
        let (state, generation) = (group.state, group.generation);
        let place = self.validate(id, heartbeat.member_id, heartbeat.instance_id)?;
        if generation != heartbeat.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.arm_session(id, place);
        Ok(if state == State::PreparingRebalance { ErrorCode::RebalanceInProgress } else { ErrorCode::None })
    }

    /// §8
    pub(super) fn leave(&mut self, ticket: Ticket, leave: &LeaveGroup<'_>, sink: &mut dyn Sink) {
        let id = self.shared(leave.group_id);
        let mut left = Vec::new();
        for identity in leave.members {
            let error = self.leave_one(&id, identity, sink).err().unwrap_or(ErrorCode::None);
            left.push(LeftMember { member_id: identity.member_id, instance_id: identity.instance_id, error });
        }
        if left.iter().any(|left| left.error == ErrorCode::None) && self.groups[&id].state != State::Empty {
            self.rebalance_or_test(&id, sink);
        }
        let alone = leave.version < FIRST_VERSION_WITH_BATCH;
        let error = left.first().filter(|_| alone).map_or(ErrorCode::None, |left| left.error);
        sink.answer(ticket, Answer::LeaveGroup(LeaveAnswer { error, members: &left }));
    }

    /// §8.1
    fn leave_one(&mut self, id: &Text, identity: &LeaveIdentity<'_>, sink: &mut dyn Sink) -> Result<(), ErrorCode> {
        let group = self.groups.get(id).ok_or(ErrorCode::UnknownMemberId)?;
        let place = if identity.member_id.is_empty() {
            let holder = identity.instance_id.and_then(|instance| group.place_of_instance(instance));
            holder.ok_or(ErrorCode::UnknownMemberId)?
        } else if self.forget_pending(id, identity.member_id) {
            return Ok(());
        } else {
            self.validate(id, identity.member_id, identity.instance_id)?
        };
        self.remove_member(id, place, sink);
        Ok(())
    }
}
