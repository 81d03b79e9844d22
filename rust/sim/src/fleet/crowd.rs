//! Groups that are full: from what was told, nobody is let in above a limit (S24, docs/protocol.md §4.4).

use std::collections::BTreeMap;

use rota_core::ErrorCode;
use rota_member::{Answer, Request};

use super::{
    promises::{Broken, Waiting},
    shape::Limits,
};

/// When an answer was given.
#[derive(Clone, Copy)]
pub struct Moment {
    /// By the coordinator's clock.
    pub clock_ms: u64,
    /// Whatever is answered in one step comes of one event.
    pub step: u64,
    /// The group is in the log: it cannot be undone any more, and its ids with it.
    pub is_durable: bool,
}

/// A generation as it began: all who were waiting for that are told of it in one step. Static members that were away
/// are told later, and come on top.
struct Beginning {
    step: u64,
    joined: usize,
}

/// Who is let in, or may still come in.
#[derive(Default)]
pub struct Crowd {
    /// Ids that were handed out by one incarnation for one group, and until when each is good at least.
    pending: BTreeMap<(u32, usize), Vec<(String, u64)>>,
    /// By incarnation, group and generation.
    begun: BTreeMap<(u32, usize, i32), Beginning>,
    /// How often this was looked at.
    pub looked: u64,
}

impl Crowd {
    /// Somebody came back with an id, or gave it up.
    pub fn asked(&mut self, body: &Request) {
        if let Request::JoinGroup { member_id, .. } | Request::LeaveGroup { member_id, .. } = body {
            for ids in self.pending.values_mut() {
                ids.retain(|(id, _)| id != member_id);
            }
        }
    }

    /// A group is gone, and its ids with it.
    pub fn deleted(&mut self, group: usize) {
        self.pending.retain(|(_, of), _| *of != group);
        self.begun.retain(|(_, of, _), _| *of != group);
    }

    /// Looks at an answer.
    pub fn answered(&mut self, to: &Waiting, answer: &Answer, limits: Limits, at: Moment) -> Result<(), Broken> {
        let (Request::JoinGroup { session_timeout_ms, .. }, Answer::JoinGroup { error, member_id, generation, .. }) =
            (&*to.asked.body, answer)
        else {
            return Ok(());
        };
        let (epoch, group) = (to.place.epoch, to.asked.group);
        match (error, limits.group_size, limits.pending_ids) {
            (ErrorCode::MemberIdRequired, _, Some(limit)) if at.is_durable => {
                let ids = self.pending.entry((epoch, group)).or_default();
                ids.retain(|(_, until_ms)| *until_ms > at.clock_ms);
                ids.push((member_id.clone(), at.clock_ms + *session_timeout_ms as u64));
                within(ids.len(), limit, "ids that nobody has come back with", &mut self.looked)
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
