//! Partitions that this node is to serve and does not: their groups get no answer meanwhile. Each is said once on standard
//! error, and a note shows them to operators.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use rota_engine::{PartitionId, node::Phase};

use super::Running;
use crate::notes::{self, Unserved};

/// A partition that is not served for so long is slow, and for so many TTLs: a claim waits for one.
const SLOW_MS: u64 = 10_000;
const SLOW_TTLS: u64 = 3;
/// Between two changes of the note.
const NOTE_MS: u64 = 1_000;

/// What this node does with a partition.
#[derive(Clone, Debug)]
enum Doing {
    Serves,
    /// It is to serve it, and this keeps it from that; of a load: bytes that it has so far.
    Waits(&'static str, Option<usize>),
    /// It cannot be served. That is said elsewhere.
    Damaged(String),
    /// Another node serves it or is to.
    Nothing,
}

/// A partition that is not served.
#[derive(Debug)]
struct Wait {
    since_ms: u64,
    is_said: bool,
    /// Since when by the time of day, and why, for operators.
    unserved: Unserved,
}

/// The partitions that the plan gives to this node and that are not served.
#[derive(Debug, Default)]
pub(super) struct Slow {
    waits: BTreeMap<PartitionId, Wait>,
    noted_ms: u64,
}

impl Slow {
    /// Returns what is to be said.
    fn look(&mut self, now_ms: u64, limit_ms: u64, partition: PartitionId, doing: Doing) -> Option<String> {
        let (doing, so_far, is_damaged) = match doing {
            Doing::Serves => {
                let Wait { since_ms, is_said, .. } = self.waits.remove(&partition)?;
                return is_said.then(|| format!("is served again, after {} s", (now_ms - since_ms) / 1_000));
            }
            Doing::Nothing => {
                self.waits.remove(&partition);
                return None;
            }
            Doing::Waits(doing, so_far) => (doing.to_owned(), so_far, false),
            Doing::Damaged(damage) => (damage, None, true),
        };
        let wait = self.waits.entry(partition).or_insert_with(|| {
            let wall_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
            let unserved = Unserved { since_ms: wall_ms, reason: String::new() };
            Wait { since_ms: now_ms, is_said: false, unserved }
        });
        wait.is_said |= is_damaged;
        wait.unserved.reason = doing;
        let waited_ms = now_ms - wait.since_ms;
        if waited_ms < limit_ms || std::mem::replace(&mut wait.is_said, true) {
            return None;
        }
        let so_far = so_far.map(|bytes| format!(", {bytes} bytes so far")).unwrap_or_default();
        let doing = &wait.unserved.reason;
        Some(format!("has not been served for {} s: this server {doing}{so_far}", waited_ms / 1_000))
    }

    /// What was said, and has not ended.
    fn unserved(&self) -> BTreeMap<PartitionId, Unserved> {
        let said = self.waits.iter().filter(|(_, wait)| wait.is_said);
        said.map(|(partition, wait)| (*partition, wait.unserved.clone())).collect()
    }
}

impl Running<'_> {
    /// Says which partitions are slow. Without a session none is served, and `trouble` says why.
    pub(super) fn say_slow(&mut self) {
        let (now_ms, limit_ms) = (self.now_ms(), SLOW_MS.max(SLOW_TTLS * self.cluster.ttl_ms));
        let is_member = self.is_valid(now_ms) && self.leaving.is_none();
        for partition in self.cluster.partitions.all() {
            let is_due = is_member && self.plan.node_of(partition) == Some(self.config.node);
            let doing = match self.node.inspect().partitions.get(&partition) {
                _ if !is_due => Doing::Nothing,
                _ if self.damaged.contains_key(&partition) => Doing::Damaged(self.damaged[&partition].clone()),
                Some(Phase::Serving(_)) => Doing::Serves,
                Some(Phase::Claiming(_)) => Doing::Waits("claims it", None),
                Some(Phase::Loading(_)) => {
                    Doing::Waits("reads it from the engine", self.engine.loaded_bytes(partition))
                }
                Some(Phase::Releasing(_)) => Doing::Waits("gives it up", None),
                None if self.is_held_by_living(&self.node.inspect().view, partition) => Doing::Nothing,
                None => Doing::Waits("waits until it may claim it", None),
            };
            if let Some(words) = self.slow.look(now_ms, limit_ms, partition, doing) {
                let trouble = self.engine.trouble().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
                eprintln!("rota: {} {words}{trouble}", self.cluster.partitions.name(partition));
            }
        }
        self.note_unserved(now_ms);
    }

    /// Shows operators what is not served, once the view shows something else.
    fn note_unserved(&mut self, now_ms: u64) {
        if self.is_putting_note || !self.is_valid(now_ms) || now_ms < self.slow.noted_ms + NOTE_MS {
            return;
        }
        let (name, value) = (notes::unserved_by(self.config.node), notes::unserved_written(&self.slow.unserved()));
        if self.node.inspect().view.notes.get(&name) != value.as_ref() {
            self.slow.noted_ms = now_ms;
            let view = self.node.inspect().view.clone();
            self.put_note(&view, name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(doing: &'static str) -> Doing {
        Doing::Waits(doing, None)
    }

    fn loads(bytes: usize) -> Doing {
        Doing::Waits("reads it from the engine", Some(bytes))
    }

    /// One that has been said to be slow for 10 s, at 15,000 ms.
    fn said() -> (Slow, PartitionId) {
        let (mut slow, p) = (Slow::default(), PartitionId(3));
        assert_eq!(slow.look(5_000, SLOW_MS, p, waits("claims it")), None);
        assert_eq!(slow.look(14_999, SLOW_MS, p, loads(7)), None);
        let said = slow.look(15_000, SLOW_MS, p, loads(7));
        assert_eq!(
            said.as_deref(),
            Some("has not been served for 10 s: this server reads it from the engine, 7 bytes so far")
        );
        assert_eq!(slow.unserved()[&p].reason, "reads it from the engine");
        (slow, p)
    }

    #[test]
    fn a_slow_partition_is_said_once_and_so_is_its_end() {
        let (mut slow, p) = said();
        assert_eq!(slow.look(40_000, SLOW_MS, p, waits("claims it")), None);
        assert_eq!(slow.look(95_000, SLOW_MS, p, Doing::Serves).as_deref(), Some("is served again, after 90 s"));
        assert!(slow.unserved().is_empty());
        assert_eq!(slow.look(96_000, SLOW_MS, p, Doing::Serves), None);
        assert_eq!(slow.look(97_000, SLOW_MS, p, waits("claims it")), None);
        assert_eq!(slow.look(98_000, SLOW_MS, p, Doing::Serves), None, "it was not long");
    }

    #[test]
    fn a_damaged_partition_is_shown_at_once() {
        let (mut slow, p) = (Slow::default(), PartitionId(3));
        assert_eq!(slow.look(5_000, SLOW_MS, p, Doing::Damaged("a hole".to_owned())), None);
        assert_eq!(slow.unserved()[&p].reason, "a hole");
    }

    #[test]
    fn a_partition_that_is_found_damaged_while_it_waits_is_shown_at_once_and_not_said_again() {
        let (mut slow, p) = (Slow::default(), PartitionId(3));
        assert_eq!(slow.look(5_000, SLOW_MS, p, loads(7)), None);
        assert_eq!(slow.look(5_100, SLOW_MS, p, Doing::Damaged("finds a hole".to_owned())), None);
        assert_eq!(slow.unserved()[&p].reason, "finds a hole");
        assert_eq!(slow.look(95_000, SLOW_MS, p, Doing::Damaged("finds a hole".to_owned())), None);
    }

    #[test]
    fn a_partition_that_goes_to_another_node_is_not_said_to_be_served() {
        let (mut slow, p) = said();
        assert_eq!(slow.look(16_000, SLOW_MS, p, Doing::Nothing), None);
        assert_eq!(slow.look(17_000, SLOW_MS, p, Doing::Serves), None);
    }
}
