//! Invariants of a single state, each with its id (docs/protocol.md, python/rota/specs/vocabulary.toml).
//!
//! Debug builds and tests check them after every event. Invariants over two states or a history are checked elsewhere:
//! S4 and S5 at state changes, S14 by digests, S18 by the code that issues tickets.

use std::fmt;

use crate::{
    coordinator::{Coordinator, Phase, SelfCheck},
    group::{Group, GroupHandle, Member, MemberHandle},
    in_flight::Purpose,
    operations::Operation,
    states::State,
    vote,
};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The id of the invariant, such as `S3`.
    pub id: &'static str,
    /// The group id.
    pub group_id: String,
    /// The broken condition and the values.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} broken in group `{}`: {}", self.id, self.group_id, self.detail)
    }
}

impl std::error::Error for Violation {}

/// One group as the checks see it.
struct View<'a> {
    coordinator: &'a Coordinator,
    handle: GroupHandle,
    group: &'a Group,
    members: Vec<&'a Member>,
}

type Check = fn(&View<'_>) -> Result<(), String>;

/// Every check with the id of its invariant.
const CHECKS: [(&str, Check); 13] = [
    ("S3", s3_leader_live),
    ("S6", s6_state_shape),
    ("S7", s7_round_membership),
    ("S8", s8_join_barrier),
    ("S10", s10_protocol_common),
    ("S16", s16_static_mirror),
    ("S18", s18_parked_where_answered),
    ("S19", s19_timer_shape),
    ("S21", s21_counters),
    ("S24", s24_bounded),
    ("S29", s29_end_on_its_way),
    ("S33", s33_loading_silent),
    ("L4", l4_parked_is_watched),
];

/// Members and groups that [`SelfCheck::Sampled`] checks after every event. Larger states are checked in a
/// proportionate share of events.
const SAMPLE: usize = 256;

impl Coordinator {
    /// Checks every group, and all references between parts of the state. Returns the first violation.
    pub fn check_invariants(&self) -> Result<(), Violation> {
        self.group_ids.values().try_for_each(|handle| self.check_group(*handle))?;
        self.check_references()?;
        self.check_consumer_groups()
    }

    /// Checks the group of this event if the coordinator checks itself; all groups if the event may have touched
    /// several.
    pub(crate) fn debug_check(&mut self, group_id: Option<&str>) {
        if self.self_check == SelfCheck::Never {
            return;
        }
        let group = group_id.and_then(|group_id| self.find_group(group_id));
        let size = match group {
            Some(handle) => self.groups.get(handle).map_or(0, |group| group.joined.len()),
            None if group_id.is_some() => return,
            None => self.members.full() + self.group_ids.len(),
        };
        if self.self_check == SelfCheck::Sampled {
            self.unchecked = self.unchecked.saturating_add(1);
            if size / SAMPLE > self.unchecked {
                return;
            }
            if size > SAMPLE {
                self.unchecked = 0;
            }
        }
        if let Err(violation) = group.map_or_else(|| self.check_invariants(), |handle| self.check_group(handle)) {
            panic!("{violation}");
        }
    }

    fn check_group(&self, handle: GroupHandle) -> Result<(), Violation> {
        let violation = |id, group_id: &str, detail| Violation { id, group_id: group_id.to_owned(), detail };
        let Some(group) = self.groups.get(handle) else {
            return Err(violation("S21", "", format!("the table names a dead group {handle:?}")));
        };
        let members: Option<Vec<&Member>> = group.joined.values().map(|member| self.members.get(*member)).collect();
        let Some(members) = members else {
            return Err(violation("S21", &group.id, "the joining order names a dead member".to_owned()));
        };
        let view = View { coordinator: self, handle, group, members };
        CHECKS.iter().try_for_each(|(id, check)| check(&view).map_err(|detail| violation(id, &group.id, detail)))
    }
}

fn ensure(holds: bool, detail: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(detail()) }
}

fn s3_leader_live(view: &View<'_>) -> Result<(), String> {
    let leads = view.group.leader.map(|leader| view.group.joined.values().any(|member| *member == leader));
    if view.coordinator.phase == Phase::Loading && leads.is_none() {
        // A record without a leader asks for a rebalance, which begins when loading ends.
        return Ok(());
    }
    ensure(leads == (!view.members.is_empty()).then_some(true), || {
        format!("leader {:?} with {} members", view.group.leader, view.members.len())
    })
}

fn s6_state_shape(view: &View<'_>) -> Result<(), String> {
    let (group, members) = (view.group, view.members.len());
    let fits = match group.state {
        State::Empty => members == 0,
        State::CompletingRebalance | State::Stable => members > 0 && group.protocol_name.is_some(),
        State::PreparingRebalance => true,
        State::Dead => false,
    };
    ensure(fits, || format!("{:?} with {members} members and protocol {:?}", group.state, group.protocol_name))
}

fn s7_round_membership(view: &View<'_>) -> Result<(), String> {
    let settled = matches!(view.group.state, State::CompletingRebalance | State::Stable);
    let stranger = view.members.iter().find(|member| settled && member.is_new);
    ensure(stranger.is_none(), || format!("{:?} never joined a round", stranger.map(|member| &member.id)))
}

fn s8_join_barrier(view: &View<'_>) -> Result<(), String> {
    let group = view.group;
    let over = group.state == State::PreparingRebalance && group.initial.is_none() && group.all_joined();
    ensure(!over || group.join_held, || "everybody has joined and the join phase goes on".to_owned())
}

fn s10_protocol_common(view: &View<'_>) -> Result<(), String> {
    let group = view.group;
    let mut support = std::collections::BTreeMap::new();
    for protocol in view.members.iter().flat_map(|member| &*member.protocols) {
        *support.entry(std::sync::Arc::clone(&protocol.name)).or_insert(0u32) += 1;
    }
    ensure(support == group.support, || format!("counted {support:?}, cached {:?}", group.support))?;
    let elects = view.members.is_empty() || vote::select(&group.support, view.members.iter().copied()).is_some();
    ensure(elects, || "the members have no protocol in common".to_owned())?;
    let settled = matches!(group.state, State::CompletingRebalance | State::Stable);
    let listed =
        |member: &&Member| member.protocols.iter().any(|offer| Some(&offer.name) == group.protocol_name.as_ref());
    ensure(!settled || view.members.iter().all(listed), || {
        format!("{:?} is not in every member's list", group.protocol_name)
    })
}

fn s16_static_mirror(view: &View<'_>) -> Result<(), String> {
    let statics = view.members.iter().filter(|member| member.client.instance_id.is_some()).count();
    let mirrored = view.group.instances.iter().all(|(instance, handle)| {
        let member = view.coordinator.members.get(*handle);
        member.is_some_and(|member| member.client.instance_id.as_ref() == Some(instance) && member.group == view.handle)
    });
    ensure(mirrored && statics == view.group.instances.len(), || {
        format!("{statics} static members, instances {:?}", view.group.instances.keys())
    })
}

fn s18_parked_where_answered(view: &View<'_>) -> Result<(), String> {
    let group = view.group;
    let replacing = |member: &Member| {
        view.coordinator.appends.values().any(|append| match &append.purpose {
            Purpose::Replacement(replacement) => *replacement.member_id == *member.id,
            _ => false,
        })
    };
    for member in &view.members {
        let join_ends = !member.awaits_join()
            || group.state == State::PreparingRebalance
            || group.state == State::Stable && replacing(member);
        ensure(join_ends, || format!("the join of {} is parked in {:?}", member.id, group.state))?;
        let sync_ends = !member.awaits_sync() || group.state == State::CompletingRebalance;
        ensure(sync_ends, || format!("the sync of {} is parked in {:?}", member.id, group.state))?;
    }
    Ok(())
}

fn s19_timer_shape(view: &View<'_>) -> Result<(), String> {
    let (group, purgatory) = (view.group, &view.coordinator.purgatory);
    let join = group.join_deadline.and_then(|operation| purgatory.get(operation));
    let preparing = group.state == State::PreparingRebalance;
    let join_fits = match join {
        Some(Operation::InitialDelay(handle)) => preparing && group.initial.is_some() && *handle == view.handle,
        Some(Operation::Join(handle)) => preparing && group.initial.is_none() && *handle == view.handle,
        Some(_) => false,
        None => group.join_deadline.is_none() && (!preparing || group.join_held),
    };
    ensure(join_fits, || format!("{:?} with join deadline {join:?}, held {}", group.state, group.join_held))?;
    ensure(!group.join_held || preparing && group.creating.is_some(), || {
        format!("a join phase is held in {:?}, creation {:?}", group.state, group.creating)
    })?;
    let sync = group.sync_deadline.is_some_and(|operation| purgatory.get(operation).is_some());
    ensure(sync == (group.owing_sync > 0), || format!("sync deadline {sync} with {} owing", group.owing_sync))?;
    if view.coordinator.phase == Phase::Loading {
        return Ok(());
    }
    for member in &view.members {
        let armed = member.session.and_then(|operation| purgatory.get(operation));
        let is_of = |handle: &MemberHandle| {
            view.coordinator.members.get(*handle).is_some_and(|named| std::ptr::eq(named, *member))
        };
        let fits = match armed {
            Some(Operation::NewMember(handle)) => member.is_new && is_of(handle),
            Some(Operation::Session(handle)) => !member.is_new && !member.is_parked() && is_of(handle),
            Some(_) => false,
            None => member.session.is_none() && !member.is_new && member.is_parked(),
        };
        ensure(fits, || format!("{} (parked {}) has deadline {armed:?}", member.id, member.is_parked()))?;
    }
    let pending = group.pending.values().all(|pending| purgatory.get(pending.expiry).is_some());
    ensure(pending, || "a pending id has no deadline".to_owned())
}

fn s21_counters(view: &View<'_>) -> Result<(), String> {
    let group = view.group;
    let awaiting = view.members.iter().filter(|member| member.awaits_join()).count();
    let owing = view.members.iter().filter(|member| member.owes_sync).count();
    let found = |member_id: &str| view.coordinator.member_of(view.handle, member_id);
    let by_id = view.members.iter().filter(|member| found(&member.id).is_some()).count();
    let disjoint = group.pending.keys().all(|pending| found(pending).is_none());
    let holds = awaiting == group.awaiting_join as usize
        && owing == group.owing_sync as usize
        && by_id == view.members.len()
        && disjoint;
    ensure(holds, || {
        format!(
            "{awaiting} await (cached {}), {owing} owe (cached {}), {} by id, {} by order, pending disjoint {disjoint}",
            group.awaiting_join,
            group.owing_sync,
            by_id,
            view.members.len()
        )
    })
}

fn s24_bounded(view: &View<'_>) -> Result<(), String> {
    let config = &view.coordinator.config;
    let holds = view.group.pending.len() <= config.group_max_pending_members as usize
        && view.group.awaiting_join as usize <= config.group_max_size as usize
        && view.group.rebalances.len() <= config.rebalance_history.max(1) as usize;
    ensure(holds, || {
        format!(
            "{} pending, {} awaiting, limit {}",
            view.group.pending.len(),
            view.group.awaiting_join,
            config.group_max_size
        )
    })
}

/// A group that is being deleted is Empty until the append completes, so that no member is in a deleted group.
fn s29_end_on_its_way(view: &View<'_>) -> Result<(), String> {
    let Some(append_id) = view.group.deleting else { return Ok(()) };
    let ends_it = view.coordinator.appends.get(&append_id).is_some_and(|append| match &append.purpose {
        Purpose::Delete(group, _) => *group == view.handle,
        Purpose::Retention(groups) => groups.contains(&view.handle),
        _ => false,
    });
    ensure(ends_it && view.group.state == State::Empty && view.members.is_empty(), || {
        format!("{:?} with {} members ends with {append_id:?}: {ends_it}", view.group.state, view.members.len())
    })
}

fn s33_loading_silent(view: &View<'_>) -> Result<(), String> {
    let loading = view.coordinator.phase == Phase::Loading;
    let parked = view.members.iter().any(|member| member.is_parked());
    ensure(!loading || !parked && view.coordinator.appends.is_empty(), || {
        "something is parked while loading".to_owned()
    })
}

fn l4_parked_is_watched(view: &View<'_>) -> Result<(), String> {
    let group = view.group;
    let in_flight =
        |append_id| view.coordinator.appends.get(&append_id).is_some_and(|append| append.deadline.is_some());
    let parked = view.members.iter().any(|member| member.is_parked());
    let watched = match group.state {
        State::PreparingRebalance => group.join_deadline.is_some() || group.creating.is_some_and(in_flight),
        State::CompletingRebalance => {
            group.sync_deadline.is_some()
                || group.assigning.as_ref().is_some_and(|assigning| in_flight(assigning.append_id))
                || view.members.iter().any(|member| member.session.is_some())
        }
        State::Stable => true,
        State::Empty | State::Dead => false,
    };
    ensure(!parked || watched, || format!("something is parked in {:?} and nothing watches it", group.state))
}

#[cfg(test)]
mod tests;
