//! An engine that goes back: an operator restores a backup, or a failover loses the newest writes, while nodes run
//! (docs/engine-protocol.md §8).
//!
//! What was written after the copy is lost, also what was acknowledged to clients. An owner that was there before may answer from what
//! it knows until it notices, or until its session ends: its answers are not checked, only what it acknowledges. The
//! operator accepts the loss a while later, and from then on no node of the lost history answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_core::ErrorCode;
use rota_engine::{
    CallId, HistoryId, Incarnation, Memory, Outcome, PartitionId, Prev, Request, Store, View,
    node::{Phase, Stop},
    requests::{AcceptLoss, Append, Appended, Beaten, Body, Content, append::Verdict},
};
use rota_member::Answer;

use super::{
    Fleet, Happening, Planted,
    engine::{Engine, Link, TTL_MS},
    faults::{Fault, Kind},
    guard::error_of,
    heal::slowly,
    log::{self, AppendNumber},
    promises::{Place, Waiting},
};

/// How old the copy is to which the engine goes back: a failover that loses the last writes, or a backup.
const AGES_MS: [u64; 4] = [5, 300, 3_000, 20_000];

/// A copy of the engine, and what the partitions really had then.
struct Copy {
    store: Store,
    logs: Vec<log::Copy>,
}

/// The returns of an engine.
#[derive(Default)]
pub struct Returns {
    /// By time and subject of the fault.
    copies: BTreeMap<(u64, usize), Copy>,
    /// Number of returns so far.
    pub count: u32,
    /// Time of the last one.
    at_ms: u64,
    /// Whether an operator has yet to accept the loss.
    is_open: bool,
    /// When an operator accepted a loss last.
    accepted_ms: Option<u64>,
    /// What each process knows of each partition: what it loaded, and its appends.
    known: BTreeMap<(PartitionId, Incarnation), Vec<AppendNumber>>,
}

impl Returns {
    /// Whether owners of the time before the last return may still answer.
    fn is_recent(&self, now_ms: u64) -> bool {
        self.count > 0 && now_ms < self.at_ms + slowly(TTL_MS)
    }
}

/// When the copy is made to which the engine goes back.
fn copied_ms(fault: &Fault) -> u64 {
    fault.at_ms.saturating_sub(AGES_MS[fault.whom % AGES_MS.len()])
}

impl Fleet {
    /// Schedules the copies to which the engine will go back.
    pub(super) fn begin_copies(&mut self) {
        for (at, fault) in self.faults.iter().enumerate().filter(|(_, fault)| fault.kind == Kind::EngineBack) {
            self.queue.push(copied_ms(fault), Happening::BackUp(at));
        }
    }

    pub(super) fn back_up(&mut self, fault: usize) {
        let fault = self.faults[fault];
        let Some(engine) = &mut self.engine else { return };
        let logs = self.logs.iter().map(log::Log::copy).collect();
        let copy = Copy { store: engine.memory.store().clone(), logs };
        engine.returns.copies.insert((fault.at_ms, fault.whom), copy);
    }

    /// The engine goes back to its copy. An operator accepts the loss after the fault's time.
    pub(super) fn go_back(&mut self, fault: Fault) {
        let Fleet { engine: Some(engine), logs, promises, shape, now_ms, .. } = self else { return };
        let Some(copy) = engine.returns.copies.remove(&(fault.at_ms, fault.whom)) else { return };
        let store = engine.memory.store();
        // Nothing was written meanwhile, or the copy is of a history that is over.
        if store.view.revision == copy.store.view.revision || store.view.meta.history != copy.store.view.meta.history {
            return;
        }
        let returns = &mut engine.returns;
        (returns.count, returns.at_ms, returns.is_open) = (returns.count + 1, *now_ms, true);
        for (partition, (log, of)) in logs.iter_mut().zip(copy.logs).enumerate() {
            let id = PartitionId(partition as i32);
            let has_lost = log.go_back(of);
            if has_lost || store.part(id) != copy.store.part(id) {
                log.era = returns.count;
            }
            if has_lost {
                let groups = shape.groups.iter().map(|group| &group.id);
                let here = |id: &&Arc<str>| shape.partition_of(id) == partition;
                let groups: BTreeSet<Arc<str>> = groups.filter(here).cloned().collect();
                promises.went_back(&groups, |number| log.is_stored(number));
            }
        }
        engine.memory = Memory::with(copy.store, Vec::new(), None);
        self.effective(Kind::EngineBack);
        self.show();
        self.queue.push(self.now_ms + fault.for_ms, Happening::AcceptLoss);
    }

    /// An operator accepts what was lost, if anything was: nodes begin anew.
    pub(super) fn accept_loss(&mut self) {
        let now_ms = self.now_ms;
        let Some(engine) = self.engine.as_mut().filter(|engine| engine.returns.is_open) else { return };
        let lost = engine.memory.store().view.meta.history;
        engine.histories += 1;
        let begin = HistoryId(engine.histories);
        engine.memory.call(&Request { history: lost, body: Body::AcceptLoss(AcceptLoss { lost, begin }) });
        (engine.returns.is_open, engine.returns.accepted_ms) = (false, Some(now_ms));
        self.show();
    }

    /// A node has stopped. Its process waits until the history is another one, and begins anew.
    pub(super) fn stopped(&mut self, node: usize, stop: Stop) {
        self.look("E6");
        let Some(engine) = &mut self.engine else { return };
        let (now, link) = (engine.memory.store().view.meta.history, &mut engine.links[node]);
        let of = link.machine.as_ref().map(|machine| machine.inspect().history);
        let is_called_for = match stop {
            // After a return the engine may know an earlier process of the node.
            Stop::WentBack | Stop::Replaced => link.era < engine.returns.count,
            Stop::OtherHistory(_) => of != Some(now),
        };
        let until_ms = std::mem::take(&mut link.until_ms);
        *link = Link::of(link.silence);
        (link.waits_for_other, link.until_ms) = (of, until_ms);
        if !is_called_for {
            return self.violated("E6", format!("node {node} stops: {stop:?}"));
        }
        // What is under way does not reach the process that begins.
        self.nodes[node].life += 1;
        self.begin_turns(node);
    }

    /// Whether a node's process waits for an operator.
    pub(super) fn waits_for_operator(&self, node: usize) -> bool {
        let waits =
            |engine: &Engine| engine.links[node].waits_for_other == Some(engine.memory.store().view.meta.history);
        self.engine.as_ref().is_some_and(waits)
    }

    /// Whether a coordinator knows of its partition what the engine has lost.
    pub(super) fn is_stale(&self, node: usize, partition: usize) -> bool {
        self.nodes[node].eras[partition] < self.logs[partition].era
    }

    /// Whether a node's process lived through the last return, and may not have noticed it yet.
    pub(super) fn is_survivor(&self, node: usize) -> bool {
        let Some(engine) = &self.engine else { return false };
        engine.links[node].era < engine.returns.count && engine.returns.is_recent(self.now_ms)
    }

    /// The era of what a node has just loaded: an earlier one if the engine has lost it since.
    pub(super) fn era_of_load(&self, node: usize, partition: usize, found: &[AppendNumber]) -> u32 {
        let Some(engine) = &self.engine else { return 0 };
        let id = PartitionId(partition as i32);
        let token =
            engine.links[node].machine.as_ref().and_then(|machine| match machine.inspect().partitions.get(&id) {
                Some(Phase::Serving(serving)) => Some(serving.token.part()),
                _ => None,
            });
        let is_of_now = token == engine.memory.store().part(id) && found == self.logs[partition].written_numbers();
        if is_of_now || !self.is_survivor(node) {
            engine.returns.count
        } else {
            self.logs[partition].era.saturating_sub(1)
        }
    }

    /// The process of a node knows this of a partition.
    pub(super) fn knows(
        &mut self,
        node: usize,
        partition: usize,
        loaded: Option<&[AppendNumber]>,
        more: &[AppendNumber],
    ) {
        let Some(engine) = &mut self.engine else { return };
        let process = (PartitionId(partition as i32), engine.links[node].incarnation);
        let known = engine.returns.known.entry(process).or_default();
        if let Some(loaded) = loaded {
            *known = loaded.to_vec();
        }
        known.extend(more);
    }

    /// Checks that who writes knows what the log has before it: an owner that has lost something does not write behind it.
    pub(super) fn check_writer(&mut self, append: &Append) {
        let Some(engine) = &self.engine else { return };
        let known = engine.returns.known.get(&(append.partition, append.token.incarnation));
        let before = self.logs[append.partition.0 as usize].written_numbers();
        let known = known.and_then(|known| known.get(..append.base_offset as usize));
        if known != Some(&before) {
            let words = format!("at {} of partition {} follows {before:?}", append.base_offset, append.partition.0);
            self.violated("E1", format!("an entry {words}, and its writer knows {known:?}"));
        }
    }

    /// Checks that a node that answers is the owner: no other one has claimed the partition while it answers.
    pub(super) fn check_owner(&mut self, to: &Waiting, answer: &Answer) {
        let Some(engine) = &self.engine else { return };
        if matches!(error_of(answer), ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress) {
            return;
        }
        let Place { node, partition, epoch, .. } = to.place;
        let (now_ms, now) = (self.now_ms, self.logs[partition].epoch);
        let part = engine.memory.store().part(PartitionId(partition as i32));
        let is_owner = epoch == now && part.is_some_and(|part| part.node.0 as usize == node);
        let is_over = engine
            .returns
            .accepted_ms
            .is_some_and(|accepted_ms| accepted_ms >= engine.returns.at_ms && accepted_ms + slowly(TTL_MS) <= now_ms);
        self.look("E5");
        if self.waits_for_operator(node) {
            let words = format!("node {node} answers, and no operator has accepted the loss that it has noticed");
            self.violated("E6", words);
        } else if !(is_owner || self.is_survivor(node) && self.is_stale(node, partition)) {
            self.violated("E5", format!("node {node} answers for epoch {epoch} of partition {partition}, not {now}"));
        } else if self.is_stale(node, partition) && is_over {
            let words =
                format!("node {node} answers for partition {partition} what was lost, though that was accepted");
            self.violated("E5", words);
        }
    }

    /// A coordinator begins with what the engine has since it went back. What was promised of its groups before may be lost.
    pub(super) fn begin_again(&mut self, partition: usize) {
        let log = &mut self.logs[partition];
        if std::mem::replace(&mut log.told_era, log.era) == log.era {
            return;
        }
        self.sessions.forget();
        for group in 0..self.shape.groups.len() {
            let id = self.shape.groups[group].id.clone();
            if self.shape.partition_of(&id) == partition {
                let (log, now_ms) = (&self.logs[partition], self.now_ms);
                self.promises.begin_again(group, |generation| log.plan_epoch(&id, generation, now_ms).is_some());
                self.crowd.deleted(group);
                self.ledgers[group].life += 1;
            }
        }
    }

    /// Planted bug: what would show that the engine went back is not looked at.
    pub(super) fn unnoticed(&self, node: usize, call: CallId, outcome: &mut Outcome) {
        let Some(engine) = &self.engine else { return };
        let (Some(machine), Outcome::Answered(answer)) = (&engine.links[node].machine, outcome) else { return };
        let Some(sent) = machine.inspect().calls.get(&call) else { return };
        answer.revision = answer.revision.max(sent.floor);
        match (&sent.request.body, &mut answer.content) {
            (_, Content::Beaten(Beaten::Alive(parts))) => {
                let tokens = machine.inspect().partitions.iter();
                parts.extend(tokens.filter_map(|(partition, phase)| Some((*partition, phase.token()?.part()))));
            }
            (Body::Append(append), Content::Appended(appended)) if append.verdict(appended) == Verdict::WentBack => {
                *appended = Appended::Written(answer.revision);
            }
            _ => {}
        }
    }

    /// The same of a view.
    pub(super) fn unnoticed_view(&self, node: usize, view: &mut View) {
        let Some(machine) = self.engine.as_ref().and_then(|engine| engine.links[node].machine.as_ref()) else { return };
        let tokens = machine.inspect().partitions.iter();
        view.parts.extend(tokens.filter_map(|(partition, phase)| Some((*partition, phase.token()?.part()))));
    }
}

/// Planted bug: an append whose predecessor is lost, as one that follows the newest entry.
pub fn behind_a_hole(engine: &Engine, append: &Append) -> Option<Append> {
    let log = engine.of(append.partition)?;
    let newest = log.entries.last_key_value()?;
    let Prev::Entry(base_offset, revision) = append.prev else { return None };
    if log.entries.get(&base_offset).is_some_and(|entry| entry.revision == revision) {
        return None;
    }
    Some(Append { prev: Prev::Entry(*newest.0, newest.1.revision), ..append.clone() })
}

impl Planted {
    /// Whether a node looks away from what shows that the engine went back.
    pub(super) fn looks_away(planted: Option<Planted>) -> bool {
        planted == Some(Planted::ReturnUnnoticed)
    }
}
