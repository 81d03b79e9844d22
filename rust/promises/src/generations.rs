//! S4: generations do not go back, and each has one assignment.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{finding::Found, recent::Recent, version::Version};

/// What is remembered of a group's records in its life.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Generations {
    /// The greatest generation, and its offset.
    greatest: Option<(i32, i64)>,
    shares: Recent<i32, HashMap<Arc<str>, Share>>,
}

/// The assignment of a member or an instance.
#[derive(Debug, Deserialize, Serialize)]
struct Share {
    digest: u64,
    offset: i64,
    /// Whether another assignment was found.
    is_reused: bool,
}

impl Generations {
    /// The group's life ended.
    pub(crate) fn end(&mut self) {
        self.greatest = None;
        self.shares.clear();
    }

    /// The group's life is known from this offset on, where it has this generation.
    pub(crate) fn begin(&mut self, generation: i32, offset: i64) {
        self.greatest = Some((generation, offset));
    }

    /// Whether there was a later generation.
    pub(crate) fn has_later(&self, generation: i32) -> bool {
        self.greatest.is_some_and(|(greatest, _)| generation < greatest)
    }

    pub(crate) fn of_version(&mut self, version: &Version, found: &mut Found) {
        let (at, generation) = (version.at(), version.generation.unwrap_or_default());
        match self.greatest {
            Some((greatest, offset)) if generation < greatest => {
                let witness = format!("generation {generation} after {greatest}");
                found.push(at.since(offset, "generation back", Vec::new(), witness));
            }
            Some((greatest, _)) if generation == greatest => {}
            _ => self.greatest = Some((generation, version.offset)),
        }
        if self.shares.get(&generation).is_none() {
            self.shares.insert(generation, HashMap::new(), found.extent.generations());
        }
        let Some(shares) = self.shares.get_mut(&generation) else { return };
        for member in &version.members {
            let (digest, offset) = (member.share, version.offset);
            let Some(share) = shares.get_mut(member.who()) else {
                shares.insert(Arc::clone(member.who()), Share { digest, offset, is_reused: false });
                continue;
            };
            if share.digest != digest && !share.is_reused {
                share.is_reused = true;
                let witness = format!("2 assignments for {}", member.who());
                found.push(at.since(share.offset, "generation reused", vec![Arc::clone(&member.name)], witness));
            }
        }
    }
}
