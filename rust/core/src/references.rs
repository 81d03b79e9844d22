//! Checks references in both directions: deadlines and their owners (S19, L7), members and their groups (S21). A
//! damaged snapshot fails here before it is used.

use std::sync::Arc;

use crate::{
    consumer_group::group::ConsumerMember,
    coordinator::{Coordinator, Phase},
    group::{Group, GroupHandle, MemberHandle, is_native},
    in_flight::Purpose,
    invariants::Violation,
    operations::Operation,
    purgatory::OpId,
};

/// Limit for counters in a snapshot, so that counting on from them cannot overflow.
const COUNTED_MAX: u64 = u64::MAX / 2;

impl Coordinator {
    pub(crate) fn check_references(&self) -> Result<(), Violation> {
        let broken = |id, group_id: &str, detail: &str| Violation {
            id,
            group_id: group_id.to_owned(),
            detail: detail.to_owned(),
        };
        if !self.groups.is_sound() || !self.members.is_sound() {
            return Err(broken("S21", "", "the free slots are not the slots that are free"));
        }
        if self.next_append.0 > COUNTED_MAX {
            return Err(broken("S21", "", "more appends were counted than there can have been"));
        }
        if let Some(detail) = self.pending_offsets.broken() {
            return Err(broken("T4", "", &detail));
        }
        for (group_id, handle) in &self.group_ids {
            let group = self.groups.get(*handle).filter(|group| group.id == *group_id);
            let group = group.ok_or_else(|| broken("S21", group_id, "the table names another group"))?;
            self.check_group_references(*handle, group).map_err(|detail| broken("S21", group_id, detail))?;
        }
        let enlisted: usize = self.group_ids.values().map(|group| self.groups[*group].joined.len()).sum();
        if self.groups.full() != self.group_ids.len() || self.members.full() != enlisted {
            return Err(broken("S21", "", "a group or member is in no table"));
        }
        let cleans =
            self.cleaner.deadline.is_some_and(|timer| matches!(self.purgatory.get(timer), Some(Operation::Cleaner)));
        if cleans != (self.phase == Phase::Active) || self.cleaner.deadline.is_some() != cleans {
            return Err(broken("S19", "", "the cleaner has a timer if and only if the coordinator is active"));
        }
        for (operation, _, what) in self.purgatory.iter() {
            if !self.is_owned(operation, what) {
                return Err(broken("S19", "", &format!("the deadline of {what:?} has no owner")));
            }
        }
        for (append_id, append) in &self.appends {
            let armed = append.deadline.is_none_or(|deadline| self.is_append_deadline(deadline, *append_id));
            if !armed || *append_id >= self.next_append {
                return Err(broken("S19", &append.group_id, "an append in flight has another owner's deadline"));
            }
            self.check_purpose(*append_id, &append.purpose)
                .map_err(|detail| broken("S21", &append.group_id, detail))?;
        }
        Ok(())
    }

    fn check_group_references(&self, handle: GroupHandle, group: &Group) -> Result<(), &'static str> {
        if !group.joined.is_sound(&self.members) {
            return Err("the joining order names a member twice, or a member has another place");
        }
        for member in group.joined.values() {
            let state = self.members.get(*member).ok_or("the joining order names a dead member")?;
            let found = self.member_of(handle, &state.id) == Some(*member);
            if state.group != handle || !found {
                return Err("a member is in another's place, or in another group's");
            }
        }
        let is_indexed = |(member_id, member): (&Arc<str>, &MemberHandle)| {
            let named =
                self.members.get(*member).is_some_and(|state| state.group == handle && *state.id == **member_id);
            named && !is_native(member_id, *member)
        };
        if !group.members_by_id.iter().all(is_indexed) {
            return Err("the table of ids names a member whose id holds its place");
        }
        if group.leader.is_some_and(|leader| !self.belongs(handle, leader)) {
            return Err("the leader is no member");
        }
        let assigned = group.assigning.iter().flat_map(|assigning| &assigning.plan);
        if assigned.into_iter().any(|(member, _)| !self.belongs(handle, *member)) {
            return Err("the plan names an id that is no member");
        }
        if group.pending.values().any(|pending| !self.members.is_reserved(pending.slot)) {
            return Err("a pending id has no slot");
        }
        Ok(())
    }

    fn belongs(&self, group: GroupHandle, member: MemberHandle) -> bool {
        self.members.get(member).is_some_and(|member| member.group == group)
    }

    fn check_purpose(&self, append_id: crate::AppendId, purpose: &Purpose) -> Result<(), &'static str> {
        let ends =
            |handle: &GroupHandle| self.groups.get(*handle).is_some_and(|group| group.deleting == Some(append_id));
        let replacement = match purpose {
            Purpose::Delete(group, _) if !ends(group) => return Err("a deletion and its group do not know each other"),
            Purpose::Retention(groups) if !groups.iter().all(ends) => {
                return Err("the cleaner and a group that it ends do not know each other");
            }
            Purpose::Replacement(replacement) => replacement,
            _ => return Ok(()),
        };
        // A predecessor that returns after a failed append was stored without a parked request or session.
        if replacement.predecessor.is_parked() || replacement.predecessor.session.is_some() {
            return Err("who was replaced waits for an answer, or has a session");
        }
        // Once the new member is gone, its position does not matter.
        let Some(member) = self.members.get(replacement.member) else { return Ok(()) };
        let fits = *member.id == *replacement.member_id && member.group == replacement.predecessor.group;
        let same_place = member.client.instance_id == replacement.predecessor.client.instance_id;
        if fits && same_place { Ok(()) } else { Err("a replacement and its predecessor are in different places") }
    }

    fn is_append_deadline(&self, deadline: OpId, append_id: crate::AppendId) -> bool {
        matches!(self.purgatory.get(deadline), Some(Operation::Append(owner)) if *owner == append_id)
    }

    /// Whether the owner of a deadline refers to it.
    fn is_owned(&self, operation: OpId, what: &Operation) -> bool {
        let group = |handle: &GroupHandle| self.groups.get(*handle);
        match what {
            Operation::Session(member) | Operation::NewMember(member) => {
                self.members.get(*member).is_some_and(|member| member.session == Some(operation))
            }
            Operation::Pending(named) => {
                let pending = group(&named.0).and_then(|group| group.pending.get(&named.1));
                pending.is_some_and(|pending| pending.expiry == operation)
            }
            Operation::InitialDelay(handle) | Operation::Join(handle) => {
                group(handle).is_some_and(|group| group.join_deadline == Some(operation))
            }
            Operation::Sync(handle) => group(handle).is_some_and(|group| group.sync_deadline == Some(operation)),
            Operation::Append(append_id) => {
                self.appends.get(append_id).is_some_and(|append| append.deadline == Some(operation))
            }
            Operation::StableFetch(_) | Operation::AfterDeletion(_) => true,
            Operation::Cleaner => self.cleaner.deadline == Some(operation),
            Operation::ConsumerSession(name) => {
                self.is_deadline_of(&name.0, &name.1, |member| member.session, operation)
            }
            Operation::ConsumerJoin(name) => self.is_deadline_of(&name.0, &name.1, |member| member.join, operation),
            Operation::ConsumerSync(name) => self.is_deadline_of(&name.0, &name.1, |member| member.sync, operation),
            Operation::ConsumerRebalance(name) => {
                self.is_deadline_of(&name.0, &name.1, |member| member.rebalance, operation)
            }
            Operation::ConsumerPatterns(group_id) => {
                let group = self.consumer_groups.get::<str>(group_id);
                group.is_some_and(|group| group.resolution == Some(operation))
            }
            Operation::ConsumerWait(wait) => {
                let group = self.consumer_groups.get(&wait.0);
                group.is_some_and(|group| group.waiting.iter().any(|waiting| waiting.deadline == Some(operation)))
            }
        }
    }

    /// Whether a member of a consumer group has this deadline.
    fn is_deadline_of(
        &self,
        group_id: &str,
        member_id: &str,
        of: fn(&ConsumerMember) -> Option<OpId>,
        operation: OpId,
    ) -> bool {
        let member = self.consumer_groups.get(group_id).and_then(|group| group.member(member_id));
        member.is_some_and(|member| of(member) == Some(operation))
    }
}
