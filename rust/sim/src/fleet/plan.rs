//! What a deploy costs: one group as somebody describes it, restarts as they are planned, and nothing else goes wrong.

use std::{collections::BTreeMap, sync::Arc};

use rota_assign::Assignor;
use rota_member::{ConfigError, Member, TopicMetadata};

use super::{
    Fault, Fleet, Kind, Options, Report,
    shape::{GroupShape, Limits, SeatShape, Shape, Timeouts},
};
use crate::dice::Dice;

/// One group, and when its processes stop and start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many processes.
    pub members: usize,
    /// Of the one topic.
    pub partitions: i32,
    /// Who divides them.
    pub assignor: Assignor,
    /// Whether processes have an instance id.
    pub is_static: bool,
    /// Their settings.
    pub timeouts: Timeouts,
    /// What happens to whom.
    pub restarts: Vec<Restart>,
    /// When the world ends.
    pub until_ms: u64,
}

/// One process stops, and starts again.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// Which.
    pub member: usize,
    /// When it stops.
    pub at_ms: u64,
    /// How long until it is started.
    pub down_ms: u64,
    /// It closes its member, or it is gone without a word.
    pub closes: bool,
}

impl Plan {
    fn shape(&self) -> Shape {
        let topic: Arc<str> = "topic".into();
        let of = TopicMetadata { partitions: self.partitions, racks: Vec::new() };
        let seat = |at: usize| SeatShape {
            group: 0,
            instance_id: self.is_static.then(|| format!("i{at}")),
            auto_commit: true,
            join_version: 9,
        };
        Shape {
            nodes: 1,
            partitions: 1,
            topics: BTreeMap::from([(topic.clone(), of)]),
            groups: vec![GroupShape { id: "group".into(), strategies: vec![self.assignor], topics: vec![topic] }],
            seats: (0..self.members).map(seat).collect(),
            timeouts: self.timeouts,
            pace: 1,
            limits: Limits::default(),
        }
    }

    /// The world of this plan: applications differ in how fast they are from seed to seed, and nothing else does.
    pub fn run(&self, seed: u64) -> Result<Report, ConfigError> {
        let shape = self.shape();
        for seat in 0..self.members {
            Member::new(shape.config(seat, shape.seats[seat].instance_id.clone(), seed))?;
        }
        let faults = self.restarts.iter().map(|restart| Fault {
            at_ms: restart.at_ms,
            for_ms: restart.down_ms,
            kind: if restart.closes { Kind::ClientClose } else { Kind::ClientCrash },
            whom: restart.member,
            whence: 0,
        });
        let mut fleet = Fleet::of(Dice::new(seed), shape, faults.collect(), Options::default());
        fleet.begin();
        fleet.go_on(self.until_ms);
        Ok(fleet.report(seed))
    }
}
