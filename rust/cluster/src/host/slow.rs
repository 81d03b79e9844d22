//! Partitions that this node is to serve and does not, said once on standard error: their groups get no answer meanwhile.

use std::collections::BTreeMap;

use rota_engine::{PartitionId, node::Phase};

use super::Running;

/// A partition that is not served for so long is slow, and for so many TTLs: a claim waits for one.
const SLOW_MS: u64 = 10_000;
const SLOW_TTLS: u64 = 3;

/// What this node does with a partition.
#[derive(Clone, Debug)]
enum Doing {
    Serves,
    /// It is to serve it, and this keeps it from that.
    Waits(String),
    /// Another node serves it or is to, or none can for a reason that is said elsewhere.
    Nothing,
}

/// Since when each partition that the plan gives to this node is not served, and whether that was said.
#[derive(Debug, Default)]
pub(super) struct Slow(BTreeMap<PartitionId, (u64, bool)>);

impl Slow {
    /// Returns what is to be said.
    fn look(&mut self, now_ms: u64, limit_ms: u64, partition: PartitionId, doing: Doing) -> Option<String> {
        let doing = match doing {
            Doing::Serves => {
                let (since_ms, is_said) = self.0.remove(&partition)?;
                return is_said.then(|| format!("is served again, after {} s", (now_ms - since_ms) / 1_000));
            }
            Doing::Nothing => {
                self.0.remove(&partition);
                return None;
            }
            Doing::Waits(doing) => doing,
        };
        let (since_ms, is_said) = self.0.entry(partition).or_insert((now_ms, false));
        let waited_ms = now_ms - *since_ms;
        if waited_ms < limit_ms || std::mem::replace(is_said, true) {
            return None;
        }
        Some(format!("has not been served for {} s: this server {doing}", waited_ms / 1_000))
    }
}

impl Running<'_> {
    /// Says which partitions are slow. Without a session none is served, and `trouble` says why.
    pub(super) fn say_slow(&mut self) {
        let (now_ms, limit_ms) = (self.now_ms(), SLOW_MS.max(SLOW_TTLS * self.cluster.ttl_ms));
        let is_mine = |partition: &PartitionId| self.plan.node_of(*partition) == Some(self.config.node);
        let is_member = self.is_valid(now_ms) && self.leaving.is_none();
        let waits = |doing: &str| Doing::Waits(doing.to_owned());
        for partition in self.cluster.partitions.all() {
            let is_due = is_member && is_mine(&partition) && !self.damaged.contains_key(&partition);
            let doing = match self.node.inspect().partitions.get(&partition) {
                _ if !is_due => Doing::Nothing,
                Some(Phase::Serving(_)) => Doing::Serves,
                Some(Phase::Claiming(_)) => waits("claims it"),
                Some(Phase::Loading(_)) => match self.engine.loaded_bytes(partition) {
                    Some(bytes) => Doing::Waits(format!("reads it from the engine, {bytes} bytes so far")),
                    None => waits("reads it from the engine"),
                },
                Some(Phase::Releasing(_)) => waits("gives it up"),
                None if self.is_held_by_living(&self.node.inspect().view, partition) => Doing::Nothing,
                None => waits("waits until it may claim it"),
            };
            if let Some(words) = self.slow.look(now_ms, limit_ms, partition, doing) {
                let trouble = self.engine.trouble().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
                eprintln!("rota: {} {words}{trouble}", self.cluster.partitions.name(partition));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(doing: &str) -> Doing {
        Doing::Waits(doing.to_owned())
    }

    /// One that has been said to be slow for 10 s, at 15,000 ms.
    fn said() -> (Slow, PartitionId) {
        let (mut slow, p) = (Slow::default(), PartitionId(3));
        assert_eq!(slow.look(5_000, SLOW_MS, p, waits("claims it")), None);
        assert_eq!(slow.look(14_999, SLOW_MS, p, waits("reads it from the engine")), None);
        let said = slow.look(15_000, SLOW_MS, p, waits("reads it from the engine"));
        assert_eq!(said.as_deref(), Some("has not been served for 10 s: this server reads it from the engine"));
        (slow, p)
    }

    #[test]
    fn a_slow_partition_is_said_once_and_so_is_its_end() {
        let (mut slow, p) = said();
        assert_eq!(slow.look(40_000, SLOW_MS, p, waits("claims it")), None);
        assert_eq!(slow.look(95_000, SLOW_MS, p, Doing::Serves).as_deref(), Some("is served again, after 90 s"));
        assert_eq!(slow.look(96_000, SLOW_MS, p, Doing::Serves), None);
        assert_eq!(slow.look(97_000, SLOW_MS, p, waits("claims it")), None);
        assert_eq!(slow.look(98_000, SLOW_MS, p, Doing::Serves), None, "it was not long");
    }

    #[test]
    fn a_partition_that_goes_to_another_node_is_not_said_to_be_served() {
        let (mut slow, p) = said();
        assert_eq!(slow.look(16_000, SLOW_MS, p, Doing::Nothing), None);
        assert_eq!(slow.look(17_000, SLOW_MS, p, Doing::Serves), None);
    }
}
