//! Processes and ownerships over time, for drawings and figures.

use rota_member::Partition;

use super::{Fleet, ledger::Process};

/// One process, from start to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its seat and life.
    pub process: Process,
    /// Its client id.
    pub name: String,
    /// Index of the group.
    pub group: usize,
    /// Start in milliseconds.
    pub from_ms: u64,
    /// End of the process or the world in milliseconds.
    pub to_ms: u64,
}

/// An ownership, from one assignment to the next or to the revocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The process.
    pub process: Process,
    /// The partition.
    pub partition: Partition,
    /// The generation of the assignment.
    pub generation: i32,
    /// Start in milliseconds.
    pub from_ms: u64,
    /// End in milliseconds.
    pub to_ms: u64,
}

/// All processes and ownerships of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Processes by start.
    pub lives: Vec<Life>,
    /// Ownerships by group, then by end.
    pub owned: Vec<Owned>,
}

impl Fleet {
    pub(super) fn born(&mut self, seat: usize) {
        let one = &self.seats[seat];
        let (name, group) = (one.name().to_owned(), self.shape.seats[one.shape].group);
        let life = Life { process: (seat, one.life), name, group, from_ms: self.now_ms, to_ms: u64::MAX };
        self.lives.push(life);
    }

    pub(super) fn died(&mut self, seat: usize) {
        let process = (seat, self.seats[seat].life);
        if let Some(life) = self.lives.iter_mut().rev().find(|life| life.process == process) {
            life.to_ms = self.now_ms;
        }
    }

    /// Returns the timeline at the end of the world.
    pub(super) fn timeline(&mut self) -> Timeline {
        let now_ms = self.now_ms;
        let mut lives = std::mem::take(&mut self.lives);
        for life in &mut lives {
            life.to_ms = life.to_ms.min(now_ms);
        }
        let owned = self.ledgers.iter_mut().flat_map(|ledger| ledger.close(now_ms)).collect();
        Timeline { lives, owned }
    }
}
