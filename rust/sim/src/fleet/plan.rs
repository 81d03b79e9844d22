//! The cost of a deployment: a group with planned restarts, without faults.

use std::{collections::BTreeMap, sync::Arc};

use rota_assign::Assignor;
use rota_member::{ConfigError, Member, TopicMetadata};

use super::{
    Fault, Fleet, Kind, Options, Report,
    protocols::Roll,
    shape::{GroupShape, Limits, SeatShape, Shape, Timeouts},
};
use crate::dice::Rng;

/// A group, with the stops and starts of its processes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of processes.
    pub members: usize,
    /// Number of partitions of the one topic.
    pub partitions: i32,
    /// The assignor.
    pub assignor: Assignor,
    /// Whether the members are static.
    pub is_static: bool,
    /// Timeouts of the members.
    pub timeouts: Timeouts,
    /// The restarts.
    pub restarts: Vec<Restart>,
    /// End of the world in milliseconds.
    pub until_ms: u64,
}

/// One process stops and starts again.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// Index of the process.
    pub member: usize,
    /// Time of the stop in milliseconds.
    pub at_ms: u64,
    /// Time until the start in milliseconds.
    pub down_ms: u64,
    /// Whether the member leaves the group; otherwise the process just ends.
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
            consumer: None,
        };
        Shape {
            nodes: 1,
            partitions: 1,
            topics: BTreeMap::from([(topic.clone(), of)]),
            groups: vec![GroupShape {
                id: "group".into(),
                strategies: vec![self.assignor],
                topics: vec![topic],
                roll: Roll::Never,
            }],
            seats: (0..self.members).map(seat).collect(),
            timeouts: self.timeouts,
            pace: 1,
            limits: Limits::default(),
            newer: None,
            engine: false,
        }
    }

    /// Runs the plan. Only the applications' speed depends on the seed.
    pub fn run(&self, seed: u64) -> Result<Report, ConfigError> {
        let shape = self.shape();
        for seat in 0..self.members {
            Member::new(shape.config(seat, shape.seats[seat].instance_id.clone(), seed, None))?;
        }
        let faults = self.restarts.iter().map(|restart| Fault {
            at_ms: restart.at_ms,
            for_ms: restart.down_ms,
            kind: if restart.closes { Kind::ClientClose } else { Kind::ClientCrash },
            whom: restart.member,
            whence: 0,
        });
        let mut fleet = Fleet::of(Rng::new(seed), shape, faults.collect(), Options::default());
        fleet.begin();
        fleet.go_on(self.until_ms);
        Ok(fleet.report(seed))
    }
}
