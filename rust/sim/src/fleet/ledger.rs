//! Records who reads what, from the processes' own assignments, independently of the coordinators.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_member::Partition;

use super::{promises::Broken, timeline::Owned};

/// A process: its seat, and its life in the seat.
pub type Process = (usize, u32);

/// A process's ownership of a partition.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The last generation that assigned it.
    generation: i32,
    /// The id of its topic: one that is created again is another topic. 0: no coordinator knows topics.
    topic_id: u128,
    /// The life of the group: a deleted group starts again.
    life: u32,
    since_ms: u64,
    /// Whether the process must revoke it, and has not reported so.
    is_ending: bool,
    /// Whether it was no member at some time since.
    is_stale: bool,
}

impl Hold {
    fn owned(self, process: Process, partition: &Partition, now_ms: u64) -> Owned {
        let Hold { generation, since_ms, .. } = self;
        Owned { process, partition: partition.clone(), generation, from_ms: since_ms, to_ms: now_ms }
    }
}

/// What the ledger knows of a process for a comparison with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    pub process: Process,
    pub instance_id: Option<&'a str>,
    /// Epoch and generation of the last successful join.
    pub rejoined: Option<(u32, i32)>,
    /// The life of the group that it joined last.
    pub life: u32,
}

/// What an assignment says: what is new, everything, and the ids of the topics.
pub type Assigned<'a> = (&'a [Partition], &'a [Partition], &'a BTreeMap<Arc<str>, u128>);

/// A process reads a partition.
pub struct Held<'a> {
    pub partition: &'a Partition,
    pub process: Process,
    pub generation: i32,
    pub topic_id: u128,
}

/// The ownerships in one group.
#[derive(Default)]
pub struct Ledger {
    holds: BTreeMap<Partition, BTreeMap<Process, Hold>>,
    /// Past ownerships.
    owned: Vec<Owned>,
    /// Number of partitions that moved to another process.
    pub moved: u64,
    /// Number of deletions of the group.
    pub life: u32,
    last: BTreeMap<Partition, Process>,
    /// The last generation that assigned each partition.
    told: BTreeMap<Partition, i32>,
    assigned: u64,
    /// Number of assignments that follow a revocation by another process.
    handed_over: u64,
}

impl Ledger {
    /// Records a process's assignment in a generation. `others` describes the other processes; `plan_epoch` is the
    /// epoch of the plan, if partitions kept through a rebalance must be revoked first.
    pub fn assigned<'a>(
        &mut self,
        to: Owner<'_>,
        generation: i32,
        (added, all, ids): Assigned<'_>,
        plan_epoch: Option<u32>,
        others: impl Fn(Process) -> Option<Owner<'a>>,
        now_ms: u64,
    ) -> Result<(), Broken> {
        for partition in all {
            self.told.insert(partition.clone(), generation);
            let topic_id = ids.get(&partition.topic).copied().unwrap_or(0);
            let held = self.holds.entry(partition.clone()).or_default();
            self.assigned += 1;
            self.handed_over += u64::from(plan_epoch.is_some() && added.contains(partition));
            let is_same = |hold: &Hold| hold.topic_id == topic_id;
            for (process, hold) in held.iter().filter(|(process, hold)| **process != to.process && is_same(hold)) {
                let Some(other) = others(*process) else { continue };
                // A process that took over an instance reads what its predecessor, which may not know yet, had.
                if other.instance_id.is_some() && other.instance_id == to.instance_id {
                    continue;
                }
                let words = || format!("{partition}: {:?} and {process:?} {hold:?} in {generation}", to.process);
                if hold.generation == generation && hold.life == to.life {
                    return Err(("ownership", words()));
                }
                let knew = plan_epoch.is_some() && other.rejoined == plan_epoch.map(|epoch| (epoch, generation));
                if knew && other.life == to.life && added.contains(partition) {
                    return Err(("S27", words()));
                }
            }
            let now_held =
                Hold { generation, topic_id, life: to.life, since_ms: now_ms, is_ending: false, is_stale: false };
            let before = held.insert(to.process, now_held);
            if let Some(before) = before {
                self.owned.push(before.owned(to.process, partition, now_ms));
            } else if self.last.insert(partition.clone(), to.process).is_some_and(|last| last != to.process) {
                self.moved += 1;
            }
        }
        Ok(())
    }

    /// Records that a process must revoke these partitions; it will report when it has.
    pub fn ending(&mut self, process: Process, partitions: &[Partition]) {
        for partition in partitions {
            if let Some(hold) = self.holds.get_mut(partition).and_then(|held| held.get_mut(&process)) {
                hold.is_ending = true;
            }
        }
    }

    /// Records that a process has revoked what it must.
    pub fn ended(&mut self, process: Process, now_ms: u64) {
        self.remove(process, now_ms, |hold| hold.is_ending);
    }

    /// Records that some processes are no members at this moment.
    pub fn interrupt(&mut self, is_out: impl Fn(Process) -> bool) {
        let life = self.life;
        let mut known: BTreeMap<Process, bool> = BTreeMap::new();
        for held in self.holds.values_mut() {
            for (process, hold) in held.iter_mut().filter(|(_, hold)| !hold.is_stale) {
                hold.is_stale = hold.life != life || *known.entry(*process).or_insert_with(|| is_out(*process));
            }
        }
    }

    /// Returns what each process holds that has been a member ever since, by its name, with topic ids.
    pub fn holders<N>(&self, name: impl Fn(usize) -> N) -> Vec<(N, BTreeSet<(&Partition, u128)>)> {
        let mut holders: BTreeMap<Process, BTreeSet<(&Partition, u128)>> = BTreeMap::new();
        for (partition, held) in &self.holds {
            for (process, hold) in held.iter().filter(|(_, hold)| !hold.is_stale) {
                holders.entry(*process).or_default().insert((partition, hold.topic_id));
            }
        }
        holders.into_iter().map(|((seat, _), held)| (name(seat), held)).collect()
    }

    /// Records that a process ended, or lost these partitions.
    pub fn gone(&mut self, process: Process, now_ms: u64) {
        self.remove(process, now_ms, |_| true);
    }

    fn remove(&mut self, process: Process, now_ms: u64, which: impl Fn(&Hold) -> bool) {
        for (partition, held) in &mut self.holds {
            if let Some(hold) = held.get(&process).copied().filter(&which) {
                self.owned.push(hold.owned(process, partition, now_ms));
                held.remove(&process);
            }
        }
    }

    /// Returns all ownerships, and ends the current ones now.
    pub fn close(&mut self, now_ms: u64) -> Vec<Owned> {
        let mut owned = std::mem::take(&mut self.owned);
        for (partition, held) in &self.holds {
            owned.extend(held.iter().map(|(process, hold)| hold.owned(*process, partition, now_ms)));
        }
        owned
    }

    /// Whether a process may read a partition.
    pub fn may_read(&self, process: Process, partition: &Partition) -> bool {
        self.holds.get(partition).and_then(|held| held.get(&process)).is_some_and(|hold| !hold.is_ending)
    }

    /// Whether this generation assigned a partition.
    pub fn was_told_in(&self, generation: i32, partition: &Partition) -> bool {
        self.told.get(partition) == Some(&generation)
    }

    /// Returns the number of checks by kind.
    pub fn looked(&self) -> [(&'static str, u64); 2] {
        [("ownership", self.assigned), ("S27", self.handed_over)]
    }

    /// Iterates over current ownerships.
    pub fn held(&self) -> impl Iterator<Item = Held<'_>> {
        self.holds.iter().flat_map(|(partition, held)| {
            held.iter().map(move |(process, hold)| {
                let Hold { generation, topic_id, .. } = *hold;
                Held { partition, process: *process, generation, topic_id }
            })
        })
    }

    /// Returns the generations with ownerships.
    pub fn generations(&self) -> BTreeSet<i32> {
        self.held().map(|held| held.generation).collect()
    }
}
