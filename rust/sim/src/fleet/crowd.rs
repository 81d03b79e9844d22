//! Groups that are full: from what was told, nobody gets in above a limit (S24, docs/protocol.md §4.4).

use std::collections::{BTreeMap, BTreeSet};

use rota_core::ErrorCode;
use rota_member::{Answer, Request};

use super::{
    promises::{Broken, Waiting},
    shape::Limits,
};

/// Who is in, or may still come in.
#[derive(Default)]
pub struct Crowd {
    /// Ids that were handed out by one incarnation for one group, and until when each is good at least.
    pending: BTreeMap<(u32, usize), Vec<(String, u64)>>,
    /// Who was let into a generation: instances, or members without one.
    joined: BTreeMap<(u32, usize, i32), BTreeSet<String>>,
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

    /// Looks at an answer; the time is that of the coordinator's clock.
    pub fn answered(&mut self, to: &Waiting, answer: &Answer, limits: Limits, now_ms: u64) -> Result<(), Broken> {
        let (
            Request::JoinGroup { instance_id, session_timeout_ms, .. },
            Answer::JoinGroup { error, member_id, generation, .. },
        ) = (&*to.asked.body, answer)
        else {
            return Ok(());
        };
        let (epoch, group) = (to.place.epoch, to.asked.group);
        match (error, limits.group_size, limits.pending_ids) {
            (ErrorCode::MemberIdRequired, _, Some(limit)) => {
                let ids = self.pending.entry((epoch, group)).or_default();
                ids.retain(|(_, until_ms)| *until_ms > now_ms);
                ids.push((member_id.clone(), now_ms + *session_timeout_ms as u64));
                within(ids.len(), limit, "ids that nobody has come back with", &mut self.looked)
            }
            (ErrorCode::None, Some(limit), _) => {
                let joined = self.joined.entry((epoch, group, *generation)).or_default();
                joined.insert(instance_id.clone().unwrap_or_else(|| member_id.clone()));
                within(joined.len(), limit, "members in one generation", &mut self.looked)
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
