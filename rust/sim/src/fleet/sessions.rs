//! Checks that no member is unknown too early: not within a session that the coordinator has just restarted (S20, S30,
//! docs/protocol.md §7).

use std::collections::{BTreeMap, BTreeSet};

use rota_core::ErrorCode;
use rota_member::{Answer, Request};

use super::{
    promises::{Broken, Waiting},
    shape::Timeouts,
};

/// The last answers to a member, by its node's clock.
#[derive(Clone, Copy, Default)]
struct LastAnswers {
    epoch: u32,
    /// Whether it has its assignment of the current generation.
    has_plan: bool,
    /// Time of the last successful answer; `None` after it left or was replaced.
    well_ms: Option<u64>,
}

/// All members of a world.
#[derive(Default)]
pub struct Sessions {
    heard: BTreeMap<String, LastAnswers>,
    /// Current member id of each instance.
    of_instance: BTreeMap<(usize, String), String>,
    /// Members that were ever in a generation.
    known: BTreeSet<String>,
    /// Number of answers with `UNKNOWN_MEMBER_ID`.
    pub looked: u64,
}

impl Sessions {
    /// Forgets all members: the engine went back.
    pub fn forget(&mut self) {
        self.heard.clear();
        self.of_instance.clear();
    }

    /// Whether this is the first join of a dynamic member.
    pub fn is_new(&self, body: &Request) -> bool {
        matches!(body, Request::JoinGroup { member_id, instance_id: None, .. } if !self.known.contains(member_id))
    }

    /// Checks an answer, at the time of the coordinator's clock.
    pub fn answered(&mut self, to: &Waiting, answer: &Answer, timeouts: &Timeouts, now_ms: u64) -> Result<(), Broken> {
        let epoch = to.place.epoch;
        match (&*to.asked.body, answer) {
            (Request::JoinGroup { instance_id, .. }, Answer::JoinGroup { error: ErrorCode::None, member_id, .. }) => {
                self.known.insert(member_id.clone());
                self.heard.insert(member_id.clone(), LastAnswers { epoch, has_plan: false, well_ms: None });
                if let Some(instance_id) = instance_id {
                    let of = (to.asked.group, instance_id.clone());
                    if let Some(old) = self.of_instance.insert(of, member_id.clone()).filter(|old| old != member_id) {
                        self.heard.remove(&old);
                    }
                }
            }
            (Request::SyncGroup { member_id, .. }, Answer::SyncGroup { error: ErrorCode::None, .. }) => {
                if let Some(heard) = self.heard.get_mut(member_id) {
                    *heard = LastAnswers { epoch, has_plan: true, well_ms: None };
                }
            }
            (Request::LeaveGroup { member_id, .. }, _) => {
                self.heard.remove(member_id);
            }
            // Not commits: their answers come after the append, long after the session restarted.
            (Request::Heartbeat { member_id, instance_id, .. }, Answer::Heartbeat(error)) => {
                let Some(heard) = self.heard.get_mut(member_id).filter(|heard| heard.has_plan && heard.epoch == epoch)
                else {
                    return Ok(());
                };
                if *error == ErrorCode::None {
                    heard.well_ms = Some(now_ms);
                }
                if *error == ErrorCode::UnknownMemberId
                    && let Some(well_ms) = heard.well_ms
                {
                    self.looked += 1;
                    // A join phase may have begun at once. It removes absent dynamic members; static ones then miss a
                    // sync.
                    let phases = if instance_id.is_some() { 2 } else { 1 };
                    let least_ms = u64::from(timeouts.session_ms.min(phases * timeouts.rebalance_ms));
                    if now_ms < well_ms + least_ms {
                        let words = format!("{member_id} is unknown {} ms after all was well", now_ms - well_ms);
                        return Err(("S20", words));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Records that a process leaves, or another one joins with its instance id: it may be removed.
    pub fn asked(&mut self, body: &Request, group: usize) {
        match body {
            Request::JoinGroup { member_id, instance_id: Some(instance_id), .. } => {
                if let Some(now) = self.of_instance.get(&(group, instance_id.clone()))
                    && now != member_id
                {
                    self.heard.remove(now);
                }
            }
            // It takes the place of a classic member.
            Request::ConsumerGroupHeartbeat(heartbeat) if heartbeat.epoch == 0 => {
                let instance = heartbeat.instance_id.clone();
                if let Some(now) = instance.and_then(|instance| self.of_instance.get(&(group, instance))) {
                    self.heard.remove(now);
                }
            }
            Request::LeaveGroup { member_id, .. } | Request::JoinGroup { member_id, .. } => {
                self.heard.remove(member_id);
            }
            _ => {}
        }
    }
}
