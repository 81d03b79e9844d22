//! Offsets that expire (docs/protocol.md §13): none does while a member who reads it is there (S25).
//!
//! Whether a group had members is known only from what those were told: an offset that is missing is lost when somebody
//! who joined before it was acknowledged is told afterwards that all is well.

use std::collections::BTreeMap;

use rota_core::ErrorCode;
use rota_member::{Answer, Request};

use super::promises::{Broken, Waiting};

/// An offset that a fetch did not find.
pub struct Missing {
    pub group: usize,
    pub acknowledged_ms: u64,
    pub seen_ms: u64,
    pub words: String,
}

/// Who has been in which group since when, and what was not found meanwhile.
#[derive(Default)]
pub struct Keeping {
    members: BTreeMap<(usize, String), u64>,
    missing: Vec<Missing>,
}

impl Keeping {
    pub fn miss(&mut self, missing: Missing) {
        self.missing.push(missing);
    }

    /// Members that leave are not there any more.
    pub fn asked(&mut self, group: usize, body: &Request) {
        if let Request::LeaveGroup { member_id, .. } = body {
            self.members.remove(&(group, member_id.clone()));
        }
    }

    /// Looks at an answer.
    pub fn answered(&mut self, to: &Waiting, answer: &Answer, now_ms: u64) -> Result<(), Broken> {
        let group = to.asked.group;
        match (&*to.asked.body, answer) {
            (_, Answer::JoinGroup { error: ErrorCode::None, member_id, .. }) => {
                self.members.entry((group, member_id.clone())).or_insert(now_ms);
            }
            (Request::Heartbeat { member_id, .. }, Answer::Heartbeat(ErrorCode::None)) if !to.place.is_fenced => {
                let Some(since_ms) = self.members.get(&(group, member_id.clone())) else { return Ok(()) };
                let is_lost = |one: &&Missing| one.group == group && *since_ms <= one.acknowledged_ms;
                if let Some(lost) = self.missing.iter().find(is_lost) {
                    let words = format!("{} at {} ms, though {member_id} is a member", lost.words, lost.seen_ms);
                    return Err(("S25", words));
                }
            }
            (
                Request::Heartbeat { member_id, .. }
                | Request::JoinGroup { member_id, .. }
                | Request::SyncGroup { member_id, .. },
                Answer::Heartbeat(error) | Answer::JoinGroup { error, .. } | Answer::SyncGroup { error, .. },
            ) if matches!(error, ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId) => {
                self.members.remove(&(group, member_id.clone()));
            }
            _ => {}
        }
        Ok(())
    }
}
