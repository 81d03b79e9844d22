//! What the node owns, tries to own and gives up, and what the serving thread and operators see of it.

use std::{collections::BTreeMap, sync::Arc};

use rota_engine::{
    Body, Chunk, Entry, Epoch, Event, NodeId, Outcome, PartitionId, Request, View, node::Phase, requests::PutNote,
};
use tokio::sync::oneshot;

use super::{Leaving, Running, appends::Feed};
use crate::{
    log::Loaded,
    messages::Report,
    notes::{self, NodeState, Plan},
    planner::Situation,
    session::Change,
    stats::Handover,
    table::{ClusterTable, NodeRow, PartitionRow, Standing},
};

/// Partitions that a node loads at a time.
const LOADS_MAX: usize = 4;
/// A partition is given up with an append under way after this time.
const YIELD_MS: u64 = 100;
/// A node that leaves waits so long for a plan without it.
const LEAVE_MS: u64 = 300;
/// Partitions move for balance so many TTLs after a node came or went.
const SETTLED_TTLS: u64 = 3;

impl Running<'_> {
    /// Keeps what was loaded until the serving thread has read it.
    pub(super) fn loaded(
        &mut self,
        partition: PartitionId,
        epoch: Epoch,
        upto: i64,
        chunks: Vec<Chunk>,
        entries: Vec<(i64, Entry)>,
    ) {
        let snapshot_bytes = chunks.iter().map(Vec::len).sum();
        let tail_bytes = entries.iter().map(|(_, entry)| entry.bytes.len()).sum();
        self.feeds.insert(partition, Feed::new(epoch, tail_bytes, entries.len(), snapshot_bytes));
        let end = entries.last().map_or(upto, |(base_offset, entry)| upto.max(base_offset + entry.count));
        let chunks = chunks.into_iter().map(|chunk| (first_offset(&chunk), chunk));
        let entries = entries.into_iter().map(|(base_offset, entry)| (base_offset, entry.bytes));
        self.shared.shelf.put(partition, epoch, Loaded { end, parts: chunks.chain(entries).collect() });
    }

    /// The serving thread has unloaded a partition: its session was over on its clock.
    pub(super) fn dropped(&mut self, partition: PartitionId, epoch: Epoch) {
        if self.served.get(&partition) == Some(&epoch) {
            self.step(Event::Release(partition));
        }
    }

    /// Tells the serving thread what the node owns now, and until when it answers.
    pub(super) fn follow_node(&mut self) {
        let (mut changes, mut forgotten) = (Vec::new(), Vec::new());
        if !self.owned().eq(self.served.iter().map(|(partition, epoch)| (*partition, *epoch))) {
            self.is_published = false;
            let owned: BTreeMap<PartitionId, Epoch> = self.owned().collect();
            let lost = self.served.iter().filter(|(partition, epoch)| owned.get(partition) != Some(epoch));
            changes.extend(lost.map(|(partition, epoch)| Change::Lose(*partition, *epoch)));
            let taken = owned.iter().filter(|(partition, epoch)| self.served.get(partition) != Some(epoch));
            changes.extend(taken.map(|(partition, epoch)| Change::Take(*partition, *epoch)));
            for change in &changes {
                self.shared.count(|stats| stats.handed(self.handover(*change)));
                if let Change::Lose(partition, epoch) = change {
                    self.forget(*partition, *epoch);
                    forgotten.push((*partition, *epoch));
                }
            }
            self.served = owned;
        }
        self.tell_ended();
        let until_ms = self.node.inspect().valid_until_ms.unwrap_or(0);
        self.shared.session.post(changes, until_ms);
        // A thread that reads it now finds nothing more, and the reason in its mail.
        for (partition, epoch) in forgotten {
            self.shared.shelf.remove(partition, epoch);
        }
        self.settle_opens();
        // Not for each append.
        if !std::mem::replace(&mut self.is_published, true) {
            self.publish(self.standing());
        }
    }

    fn owned(&self) -> impl Iterator<Item = (PartitionId, Epoch)> {
        let epoch = |phase: &Phase| match phase {
            Phase::Loading(token) => Some(token.epoch),
            Phase::Serving(serving) => Some(serving.token.epoch),
            Phase::Claiming(_) | Phase::Releasing(_) => None,
        };
        let owned = self.node.inspect().partitions.iter();
        owned.filter_map(move |(partition, phase)| Some((*partition, epoch(phase)?)))
    }

    fn handover(&self, change: Change) -> Handover {
        match change {
            Change::Take(..) => Handover::Taken,
            Change::Lose(partition, _) => match self.node.inspect().partitions.get(&partition) {
                Some(Phase::Releasing(_)) => Handover::GivenUp,
                _ => Handover::Lost,
            },
        }
    }

    fn forget(&mut self, partition: PartitionId, epoch: Epoch) {
        self.end_load(partition);
        // It may have been claimed and loaded again already.
        if self.feeds.get(&partition).is_some_and(|feed| feed.epoch == epoch) {
            self.drop_feed(partition);
        }
        self.yielding.remove(&partition);
    }

    /// Plans if it is this node's turn, claims what the plan gives it and gives up what it does not.
    pub(super) fn govern(&mut self) {
        let now_ms = self.now_ms();
        self.count_silence(now_ms);
        if !self.is_valid(now_ms) {
            return;
        }
        self.members.look(now_ms, self.cluster.ttl_ms);
        let view = self.node.inspect().view.clone();
        let members = self.candidates(&view);
        self.write_plan(now_ms, &view, &members);
        self.acquire_planned(&view);
        self.release_unplanned(now_ms, &members);
        self.release_strays(&view);
        self.introduce_again(&view);
        self.go_on_leaving(now_ms, &view, &members);
    }

    pub(super) fn is_valid(&self, now_ms: u64) -> bool {
        self.node.inspect().valid_until_ms.is_some_and(|until_ms| now_ms < until_ms)
    }

    /// After an outage of the engine the silence was everybody's.
    fn count_silence(&mut self, now_ms: u64) {
        let answered_ms = self.node.inspect().answered_ms;
        if answered_ms.saturating_sub(self.answered_ms) > self.cluster.ttl_ms / 2 {
            self.members.count_anew(now_ms);
        }
        self.answered_ms = answered_ms;
    }

    /// Nodes that live and want partitions.
    fn candidates(&self, view: &View) -> Vec<NodeId> {
        let infos = notes::nodes(view);
        let wants = |node: &NodeId| infos.get(node).is_some_and(|info| info.state == NodeState::Serving);
        let alive = self.members.alive().iter().copied();
        alive.filter(|node| wants(node) && !notes::is_drained(view, *node)).collect()
    }

    fn write_plan(&mut self, now_ms: u64, view: &View, members: &[NodeId]) {
        // The lowest node plans. Two that both take themselves for it do no harm.
        if members.first() != Some(&self.config.node) || self.is_putting_note || !self.is_fresh(view) {
            return;
        }
        let holders = view.parts.keys().filter_map(|partition| Some((*partition, holder_of(view, *partition)?)));
        let (holders, pins) = (holders.collect(), notes::pins(view));
        let settled_ms = self.members.changed_ms() + SETTLED_TTLS * self.cluster.ttl_ms;
        let (is_settled, partitions) = (now_ms >= settled_ms, self.cluster.partitions);
        let situation = Situation { members, plan: &self.plan, holders: &holders, pins: &pins, is_settled, partitions };
        let next = situation.planned();
        if next != self.plan {
            self.put_note(view, notes::PLAN.to_owned(), Some(next.written()));
        }
    }

    /// Whether the view shows this node's last answered beat, or the one before. In one that stands still all others are
    /// silent, and a plan without them would take their partitions.
    fn is_fresh(&self, view: &View) -> bool {
        let answered = self.node.inspect().shown.map_or(0, |(_, counter)| counter);
        let own = view.beats.get(&self.config.node).filter(|beat| beat.incarnation == self.incarnation);
        own.map_or(0, |beat| beat.counter) + 1 >= answered
    }

    /// Writes a note over what the view shows. The view shows whether it was written.
    pub(super) fn put_note(&mut self, view: &View, name: String, value: Option<Vec<u8>>) {
        self.is_putting_note = true;
        let seen = view.notes.get(&name).cloned();
        let body = Body::Note(PutNote { name, seen, value });
        let request = Request { history: view.meta.history, body };
        let (engine, reports) = (Arc::clone(&self.engine), self.reports.clone());
        let mut views = self.views.clone();
        tokio::task::spawn_local(async move {
            if let Outcome::Answered(answer) = engine.call(&request).await {
                // The next decision looks at what was written.
                let seen =
                    |view: &Option<Arc<View>>| view.as_ref().is_some_and(|view| view.revision >= answer.revision);
                let wait = std::time::Duration::from_secs(1);
                let _stalled = tokio::time::timeout(wait, views.wait_for(seen)).await;
            }
            // The node may have ended.
            let _gone = reports.send(Report::NoteEnded);
        });
    }

    fn acquire_planned(&mut self, view: &View) {
        if self.leaving.is_some() {
            return;
        }
        for partition in self.cluster.partitions.all() {
            let is_mine = self.plan.node_of(partition) == Some(self.config.node);
            if !is_mine || self.node.inspect().partitions.contains_key(&partition) {
                continue;
            }
            let phases = self.node.inspect().partitions.values();
            if phases.filter(|phase| matches!(phase, Phase::Claiming(_) | Phase::Loading(_))).count() >= LOADS_MAX {
                return;
            }
            // A partition that its holder is giving up is not claimed from it.
            if !self.is_held_by_living(view, partition) && !self.damaged.contains_key(&partition) {
                self.step(Event::Acquire(partition));
            }
        }
    }

    /// Whether another node that lives holds a partition.
    pub(super) fn is_held_by_living(&self, view: &View, partition: PartitionId) -> bool {
        let holder = holder_of(view, partition).filter(|node| *node != self.config.node);
        holder.is_some_and(|node| self.members.is_alive(node))
    }

    /// Gives up what the plan gives to another node that lives, as soon as nothing is under way.
    fn release_unplanned(&mut self, now_ms: u64, members: &[NodeId]) {
        for partition in self.served.keys().copied() {
            let planned = self.plan.node_of(partition);
            let goes = planned.is_some_and(|node| node != self.config.node && members.contains(&node));
            if goes {
                self.yielding.entry(partition).or_insert(now_ms + YIELD_MS);
            } else if self.leaving.is_none() {
                self.yielding.remove(&partition);
            }
        }
        self.yield_due();
    }

    pub(super) fn yield_due(&mut self) {
        let now_ms = self.now_ms();
        let is_idle = |partition: &PartitionId| self.feeds.get(partition).is_none_or(Feed::is_idle);
        let due = self.yielding.iter().filter(|(partition, until_ms)| **until_ms <= now_ms || is_idle(partition));
        let due: Vec<PartitionId> = due.map(|(partition, _)| *partition).collect();
        for partition in due {
            self.yielding.remove(&partition);
            self.step(Event::Release(partition));
        }
    }

    /// Releases what the view shows as this process's although it serves nothing: a claim that came late.
    fn release_strays(&mut self, view: &View) {
        for (partition, part) in &view.parts {
            let is_mine = part.held && part.node == self.config.node && part.incarnation == self.incarnation;
            let is_planned = self.plan.node_of(*partition) == Some(self.config.node) && self.leaving.is_none();
            let is_known = self.node.inspect().partitions.contains_key(partition);
            if is_mine && !is_known && (!is_planned || self.damaged.contains_key(partition)) {
                self.step(Event::Release(*partition));
            }
        }
    }

    /// An operator may have forgotten this node while it was silent.
    fn introduce_again(&mut self, view: &View) {
        let name = notes::node(self.config.node);
        if self.leaving.is_none() && !self.is_putting_note && !view.notes.contains_key(&name) {
            self.put_note(view, name, Some(self.info.written()));
        }
    }

    pub(super) fn leave(&mut self, done: oneshot::Sender<()>) {
        self.is_published = false;
        let until_ms = self.now_ms() + LEAVE_MS;
        self.info.state = NodeState::Leaving;
        self.leaving = Some(Leaving { done: Some(done), until_ms });
        let view = self.node.inspect().view.clone();
        self.put_note(&view, notes::node(self.config.node), Some(self.info.written()));
    }

    /// A node that leaves waits for a plan without it, gives everything up, and says so.
    fn go_on_leaving(&mut self, now_ms: u64, view: &View, members: &[NodeId]) {
        let Some(leaving) = &self.leaving else { return };
        let is_planned = self.plan.0.contains(&Some(self.config.node));
        let others = members.iter().any(|node| *node != self.config.node);
        if is_planned && others && now_ms < leaving.until_ms {
            return;
        }
        for partition in self.served.keys().copied() {
            self.yielding.entry(partition).or_insert(now_ms + YIELD_MS);
        }
        self.yield_due();
        let owns_nothing = self.node.inspect().partitions.is_empty();
        if owns_nothing && !self.is_putting_note && self.info.state == NodeState::Leaving {
            self.info.state = NodeState::Left;
            self.put_note(view, notes::node(self.config.node), Some(self.info.written()));
        }
    }

    fn standing(&self) -> Standing {
        if self.leaving.is_some() { Standing::Leaving } else { Standing::Member }
    }

    /// Shows operators and the serving thread the cluster, if it has changed.
    pub(super) fn publish(&mut self, standing: Standing) {
        let (view, now_ms) = (&self.node.inspect().view, self.config.clock.now_ms());
        let infos = notes::nodes(view);
        let row = |(id, info): (&NodeId, &notes::NodeInfo)| {
            let is_alive = self.members.is_alive(*id) && info.state != NodeState::Left;
            NodeRow { id: *id, info: info.clone(), is_alive, is_drained: notes::is_drained(view, *id) }
        };
        let nodes: Vec<NodeRow> = infos.iter().map(row).collect();
        let mut partitions = Vec::with_capacity(self.cluster.partitions.count() as usize);
        for partition in self.cluster.partitions.all() {
            let mut row = partition_row(view, &self.plan, &nodes, partition);
            let is_there =
                row.is_held && row.owner == row.coordinator && row.planned.is_none_or(|it| Some(it) == row.owner);
            if is_there {
                self.moving.remove(&partition);
            } else {
                row.moving_since_ms = Some(*self.moving.entry(partition).or_insert(now_ms));
            }
            partitions.push(row);
        }
        let table = ClusterTable {
            engine: self.engine.name(),
            history: Some(view.meta.history),
            settings: Some(self.cluster.clone()),
            partitions,
            nodes,
            topics: notes::topics(view),
            groups: notes::groups(view),
            standing,
            trouble: self.engine.trouble(),
            warning: self.engine.warning(),
            damaged: self.damaged.iter().map(|(partition, damage)| (*partition, damage.clone())).collect(),
        };
        let mut shown = self.shared.table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.shared.must_show(view) || **shown != table {
            if let Some(warning) = table.warning.as_ref().filter(|_| shown.warning != table.warning) {
                eprintln!("rota: engine {}: {warning}", table.engine);
            }
            *shown = Arc::new(table);
            let shown = Arc::clone(&shown);
            (self.config.on_table)(&shown, view.revision);
        }
    }
}

fn partition_row(view: &View, plan: &Plan, nodes: &[NodeRow], partition: PartitionId) -> PartitionRow {
    let part = view.parts.get(&partition);
    let planned = plan.node_of(partition);
    let lives = |node: &NodeId| nodes.iter().any(|row| row.id == *node && row.is_alive);
    let owner = holder_of(view, partition).filter(lives);
    PartitionRow {
        owner: part.map(|part| part.node),
        epoch: part.map_or(0, |part| part.epoch.0),
        is_held: part.is_some_and(|part| part.held),
        planned,
        coordinator: owner.or(planned.filter(lives)),
        moving_since_ms: None,
    }
}

/// The node whose running process holds the partition. An earlier process of a node holds nothing any more.
fn holder_of(view: &View, partition: PartitionId) -> Option<NodeId> {
    let part = view.parts.get(&partition).filter(|part| part.held)?;
    view.nodes.get(&part.node).filter(|known| known.incarnation == part.incarnation).map(|_| part.node)
}

/// The offset of the first batch of a chunk.
fn first_offset(chunk: &[u8]) -> i64 {
    rota_log::BatchHeader::read(chunk).map_or(0, |header| header.base_offset)
}
