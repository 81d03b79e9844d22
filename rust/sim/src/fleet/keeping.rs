//! Checks the expiry of offsets (docs/protocol.md §13): none expires while a member reads it (S25).
//!
//! Answers alone show whether a group had members. A missing offset is lost if a member that joined before its
//! acknowledgement still gets a successful answer.

use std::collections::BTreeMap;

use rota_core::ErrorCode;
use rota_member::{Answer, Request};

use super::promises::{Broken, Waiting};

/// A missing offset in a fetch.
pub struct Missing {
    pub group: usize,
    pub acknowledged_ms: u64,
    pub seen_ms: u64,
    pub words: String,
}

/// Members by group with the time of their join, and missing offsets.
#[derive(Default)]
pub struct Keeping {
    members: BTreeMap<(usize, String), u64>,
    missing: Vec<Missing>,
}

impl Keeping {
    pub fn miss(&mut self, missing: Missing) {
        self.missing.push(missing);
    }

    /// Forgets the members of a group: the engine went back.
    pub fn forget(&mut self, group: usize) {
        self.members.retain(|(of, _), _| *of != group);
    }

    /// Records that members leave.
    pub fn asked(&mut self, group: usize, body: &Request) {
        if let Request::LeaveGroup { member_id, .. } = body {
            self.members.remove(&(group, member_id.clone()));
        }
    }

    /// Checks an answer.
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
