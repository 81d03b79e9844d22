//! What gives etcd's space back.
//!
//! When the quota is used up, an alarm makes etcd refuse what would make it grow, until the alarm is disarmed. Deletes go on.
//! So the order is: delete, compact, defragment each member, disarm.

use std::time::Duration;

use rota_cluster::Endpoint;
use rota_engine::Revision;
use tokio::time::timeout;

use crate::{
    compaction,
    engine::EtcdEngine,
    grpc::Failure,
    proto::{AlarmAction, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse},
    space::{self, Member},
};

/// Defragmentation rewrites the file.
const REWRITE: Duration = Duration::from_mins(2);

/// What etcd raised an alarm for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The quota is used up.
    NoSpace,
    /// Members differ.
    Corrupt,
}

impl EtcdEngine {
    /// All members and their space.
    pub async fn members(&self) -> Vec<Member> {
        space::members(self.shared()).await
    }

    /// Forgets what keys had before a revision. Their present values stay. Returns after the space is free for new
    /// pages; the file does not shrink.
    pub async fn compact(&self, revision: Revision) -> Result<(), Failure> {
        compaction::compact(self.control(), revision).await
    }

    /// Shrinks a member's file. The member answers nothing meanwhile.
    pub async fn defragment(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        let shared = self.shared();
        let (connection, _) = shared.connect(endpoint).await?;
        let path = "/etcdserverpb.Maintenance/Defragment";
        let defragmented = timeout(REWRITE, shared.unary(&connection, path, &DefragmentRequest {})).await;
        defragmented.unwrap_or(Err(Failure::Timeout)).map(|DefragmentResponse {}| ())
    }

    /// Alarms, with the ids of the members that raised them.
    pub async fn alarms(&self) -> Result<Vec<(u64, Alarm)>, Failure> {
        let answer = self.alarm(AlarmAction::Get, 0, AlarmType::None).await?;
        let alarms = answer.alarms.iter().filter_map(|alarm| match AlarmType::try_from(alarm.alarm) {
            Ok(AlarmType::NoSpace) => Some((alarm.member_id, Alarm::NoSpace)),
            Ok(AlarmType::Corrupt) => Some((alarm.member_id, Alarm::Corrupt)),
            Ok(AlarmType::None) | Err(_) => None,
        });
        Ok(alarms.collect())
    }

    /// Lets etcd write again after it raised an alarm for space. A member that still is above its quota raises it anew.
    /// Alarms of members that differ stay: an operator has to replace the member.
    pub async fn disarm(&self) -> Result<(), Failure> {
        for (member, alarm) in self.alarms().await? {
            if alarm == Alarm::NoSpace {
                self.alarm(AlarmAction::Deactivate, member, AlarmType::NoSpace).await?;
            }
        }
        Ok(())
    }

    async fn alarm(&self, action: AlarmAction, member_id: u64, alarm: AlarmType) -> Result<AlarmResponse, Failure> {
        let request = AlarmRequest { action: action as i32, member_id, alarm: alarm as i32 };
        self.control().unary("/etcdserverpb.Maintenance/Alarm", &request).await
    }

    /// Gives space back: forgets everything before `revision`, defragments one member after the other, the leader last,
    /// and disarms. `tell` hears of each step. Where a member cannot be defragmented, the others are, and alarms are
    /// disarmed all the same: what was compacted has room in its file.
    pub async fn mend(&self, revision: Revision, mut tell: impl FnMut(&str)) -> Result<(), Failure> {
        self.compact(revision).await?;
        tell(&format!("compacted revisions before {}", revision.0));
        let mut members = self.members().await;
        members.sort_by_key(|member| member.status.as_ref().is_ok_and(|status| status.leads));
        let mut result = Ok(());
        for member in members {
            let before = match member.status {
                Ok(status) => status.used.file_bytes,
                Err(failure) => {
                    tell(&format!("left {} alone: {failure}", member.endpoint));
                    continue;
                }
            };
            match self.shrunk(&member.endpoint).await {
                Ok(after) => tell(&format!("defragmented {}: {before} to {after} bytes", member.endpoint)),
                Err(failure) => {
                    tell(&format!("could not defragment {}: {failure}", member.endpoint));
                    result = result.and(Err(failure));
                }
            }
        }
        self.disarm().await?;
        tell("disarmed alarms for space");
        result
    }

    /// Defragments a member. Returns the bytes of its file.
    async fn shrunk(&self, endpoint: &Endpoint) -> Result<u64, Failure> {
        self.defragment(endpoint).await?;
        Ok(space::of_member(self.shared(), endpoint).await?.used.file_bytes)
    }
}
