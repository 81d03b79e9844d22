//! A consumer as far as it knows, in either protocol.

use std::{collections::BTreeSet, sync::Arc};

use rota_core::{ErrorCode, Ticket, consumer_group::partitions::Partition};

/// A set of partitions.
pub type Partitions = BTreeSet<Partition>;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Speaks {
    /// The newer one.
    #[default]
    Consumer,
    /// The classic one.
    Classic,
}

/// A member in the list of a classic group's leader: its id, and what it reports as owned.
pub type Listed = (Arc<str>, Partitions);

/// How far a classic client is with a rebalance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has to join.
    #[default]
    Out,
    /// It has joined, and sends `SyncGroup` next. The leader knows all members.
    Joined(Vec<Listed>),
    /// It has its assignment.
    Synced,
    /// It has its assignment, and an answer has asked it to join again.
    Asked,
}

/// A request whose answer a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// A heartbeat of this epoch.
    Beat(i32),
    /// `JoinGroup`
    Join,
    /// `SyncGroup`
    Sync,
    /// A classic heartbeat.
    ClassicBeat,
    /// A request after which the client is no member.
    Leave,
}

/// A client.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// What it speaks.
    pub speaks: Speaks,
    /// Which of its two member ids it has: a static client begins anew with the other one.
    pub second_id: bool,
    /// The member id that a coordinator gave it, as a classic member; "": none.
    pub classic_id: Arc<str>,
    /// Its epoch or generation; `None`: it is not a member, or has to join again.
    pub epoch: Option<i32>,
    /// How many of the topics it subscribes to.
    pub topics: usize,
    /// What it processes.
    pub owned: Partitions,
    /// The last assignment that an answer gave it.
    pub told: Partitions,
    /// What the coordinator has counted as held by it since its member had the epoch that it knows.
    pub kept: Partitions,
    /// A downgrade or a join phase without it has made its generation old: its next request is refused.
    pub is_fenced: bool,
    /// Its member was removed or fenced, or its generation is lost, and no answer has said so. It may have joined again under
    /// the same id.
    pub was_removed: bool,
    /// Of a classic client.
    pub phase: Phase,
    /// The request whose answer it waits for.
    pub waits: Option<(Ticket, Asked)>,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// To a heartbeat: error, epoch, assignment.
    Beat(ErrorCode, i32, Option<Partitions>),
    /// To a `JoinGroup`: error, generation, member id; the members, of a leader.
    Join(ErrorCode, i32, Arc<str>, Vec<Listed>),
    /// To a `SyncGroup`: error, assignment.
    Sync(ErrorCode, Partitions),
    /// To something else.
    Other(ErrorCode),
}

impl Said {
    /// Its error.
    pub fn error(&self) -> ErrorCode {
        match self {
            Said::Beat(error, ..) | Said::Join(error, ..) | Said::Sync(error, _) | Said::Other(error) => *error,
        }
    }
}

impl Client {
    /// What it may process: what it owns, and what it was granted.
    pub fn holds(&self) -> Partitions {
        self.owned.union(&self.told).copied().collect()
    }

    /// It gives everything up.
    pub fn lose_all(&mut self) {
        for partitions in [&mut self.owned, &mut self.told, &mut self.kept] {
            partitions.clear();
        }
        self.epoch = None;
        self.is_fenced = false;
        self.was_removed = false;
        self.phase = Phase::Out;
    }

    /// Another process in its place, which speaks this.
    pub fn restart(&mut self, speaks: Speaks, is_static: bool) {
        let second_id = self.second_id != (is_static && speaks == Speaks::Consumer);
        *self = Client { speaks, second_id, ..Client::default() };
    }

    /// What it makes of an answer.
    pub fn hear(&mut self, asked: Asked, said: &Said) {
        match (asked, said) {
            (Asked::Leave, _) => {}
            (_, Said::Beat(ErrorCode::None, epoch, assignment)) => {
                self.epoch = Some(*epoch);
                if let Some(assignment) = assignment {
                    self.told.clone_from(assignment);
                }
            }
            (_, Said::Join(ErrorCode::None, generation, member_id, listed)) => {
                (self.epoch, self.classic_id) = (Some(*generation), Arc::clone(member_id));
                // What it reports may have been given to another in the generation that it has missed.
                self.was_removed |= self.is_fenced;
                self.is_fenced = false;
                self.phase = Phase::Joined(listed.clone());
            }
            (_, Said::Sync(ErrorCode::None, assignment)) => {
                self.told.clone_from(assignment);
                self.owned.clone_from(assignment);
                self.was_removed = false;
                self.phase = Phase::Synced;
            }
            (_, said) => self.hear_error(asked, said.error()),
        }
    }

    fn hear_error(&mut self, asked: Asked, error: ErrorCode) {
        match (asked, error) {
            (_, ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId) => {
                self.lose_all();
                self.classic_id = "".into();
            }
            // A heartbeat of a member to a classic group ends the process. Another one begins in its place.
            (_, ErrorCode::FencedMemberEpoch | ErrorCode::IllegalGeneration | ErrorCode::GroupIdNotFound) => {
                self.lose_all();
            }
            (Asked::ClassicBeat, ErrorCode::RebalanceInProgress) => self.phase = Phase::Asked,
            (Asked::Sync, ErrorCode::RebalanceInProgress) => self.phase = Phase::Out,
            _ => {}
        }
    }
}
