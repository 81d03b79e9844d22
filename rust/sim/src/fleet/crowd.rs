//! Checks in full groups, from answers only, that none exceeds its limit (S24, docs/protocol.md §4.4).

use std::collections::BTreeMap;

use rota_core::ErrorCode;
use rota_member::{Answer, Request};

use super::{
    promises::{Broken, Waiting},
    shape::Limits,
};

/// The moment of an answer.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Time of the coordinator's clock in milliseconds.
    pub clock_ms: u64,
    /// Number of the step; all answers of one step have the same cause.
    pub step: u64,
    /// Whether the group is durable, so that it and its ids cannot be undone.
    pub is_durable: bool,
}

/// The start of a generation: one step answers all waiting members. Static members that were away join later, beyond
/// the limit.
struct Beginning {
    step: u64,
    joined: usize,
}

/// Members and pending ids of groups.
#[derive(Default)]
pub struct Crowd {
    /// Ids that one incarnation handed out for one group, with the earliest time of their expiry.
    pending: BTreeMap<(u32, usize), Vec<(String, u64)>>,
    /// Generations by incarnation, group and number.
    begun: BTreeMap<(u32, usize, i32), Beginning>,
    /// Number of checks.
    pub looked: u64,
}

impl Crowd {
    /// Records that an id was used or given up.
    pub fn asked(&mut self, body: &Request) {
        if let Request::JoinGroup { member_id, .. } | Request::LeaveGroup { member_id, .. } = body {
            for ids in self.pending.values_mut() {
                ids.retain(|(id, _)| id != member_id);
            }
        }
    }

    /// Removes the ids of a group that has become a consumer group, which does not remember any.
    pub fn upgraded(&mut self, group: usize) {
        self.pending.retain(|(_, of), _| *of != group);
    }

    /// Removes a deleted group with its ids.
    pub fn deleted(&mut self, group: usize) {
        self.pending.retain(|(_, of), _| *of != group);
        self.begun.retain(|(_, of, _), _| *of != group);
    }

    /// Checks an answer.
    pub fn answered(&mut self, to: &Waiting, answer: &Answer, limits: Limits, at: Moment) -> Result<(), Broken> {
        let (Request::JoinGroup { session_timeout_ms, .. }, Answer::JoinGroup { error, member_id, generation, .. }) =
            (&*to.asked.body, answer)
        else {
            return Ok(());
        };
        if to.by_consumer_group {
            return Ok(());
        }
        let (epoch, group) = (to.place.epoch, to.asked.group);
        match (error, limits.group_size, limits.pending_ids) {
            (ErrorCode::MemberIdRequired, _, Some(limit)) if at.is_durable => {
                let ids = self.pending.entry((epoch, group)).or_default();
                ids.retain(|(_, until_ms)| *until_ms > at.clock_ms);
                ids.push((member_id.clone(), at.clock_ms + *session_timeout_ms as u64));
                within(ids.len(), limit, "ids that no client has come back with", &mut self.looked)
            }
            (ErrorCode::None, Some(limit), _) => {
                let beginning = Beginning { step: at.step, joined: 0 };
                let beginning = self.begun.entry((epoch, group, *generation)).or_insert(beginning);
                if beginning.step != at.step {
                    return Ok(());
                }
                beginning.joined += 1;
                within(beginning.joined, limit, "members with which a generation began", &mut self.looked)
            }
            _ => Ok(()),
        }
    }
}

fn within(count: usize, limit: u32, what: &str, looked: &mut u64) -> Result<(), Broken> {
    *looked += 1;
    if count > limit as usize {
        return Err(("S24", format!("{count} {what}, and the limit is {limit}")));
    }
    Ok(())
}
