//! S11: a member gets the assignment that its leader gave.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    finding::{At, Found},
    recent::Recent,
    version::digest,
};

/// What members were given, by generation.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Plans {
    generations: Recent<i32, Plan>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Plan {
    /// Digests of the assignments.
    all: HashSet<u64>,
    of_member: HashMap<Arc<str>, Vec<u64>>,
}

impl Plans {
    /// A leader's share for a member, or what the group's record or state has for it.
    pub(crate) fn gave(&mut self, generation: Option<i32>, member: &str, share: u64, kept: usize) {
        let generation = generation.unwrap_or_default();
        if self.generations.get(&generation).is_none() {
            self.generations.insert(generation, Plan::default(), kept);
        }
        let Some(plan) = self.generations.get_mut(&generation) else { return };
        plan.all.insert(share);
        match plan.of_member.get_mut(member) {
            Some(shares) if shares.contains(&share) => {}
            Some(shares) => shares.push(share),
            None => drop(plan.of_member.insert(member.into(), vec![share])),
        }
    }

    /// A SyncGroup of `member` was answered without an error; `at` has its generation.
    pub(crate) fn of_sync(&self, at: &At, member: &str, payload: Option<&[u8]>, found: &mut Found) {
        let share = digest(payload);
        let Some(plan) = at.generation.and_then(|generation| self.generations.get(&generation)) else { return };
        if share == 0 {
            return;
        }
        let own = plan.of_member.get(member);
        if !plan.all.contains(&share) || own.is_some_and(|shares| !shares.contains(&share)) {
            let mut told = String::from("told ");
            for byte in payload.unwrap_or_default().iter().take(32) {
                write!(told, "{byte:02X}").expect("a string takes it");
            }
            found.push(at.finding("not relayed", vec![member.into()], told));
        }
    }
}
