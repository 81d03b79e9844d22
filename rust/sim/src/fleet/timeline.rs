//! Who ran when, and who had what: for drawings, and for figures of time.

use rota_member::Partition;

use super::{Fleet, ledger::Process};

/// One process, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its place, and which life there.
    pub process: Process,
    /// Its client id.
    pub name: String,
    /// The group, by its number.
    pub group: usize,
    /// When it started.
    pub from_ms: u64,
    /// When it was gone, or the world ended.
    pub to_ms: u64,
}

/// A process had a partition, from one assignment to the next, or until it gave it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Who.
    pub process: Process,
    /// What.
    pub partition: Partition,
    /// By the assignment of this generation.
    pub generation: i32,
    /// Since when.
    pub from_ms: u64,
    /// Until when.
    pub to_ms: u64,
}

/// All of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// By start.
    pub lives: Vec<Life>,
    /// By group, then by end.
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

    /// What is known at the end of the world, when everything ends.
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
