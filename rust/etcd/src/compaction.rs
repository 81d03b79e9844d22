//! Forgets old revisions: etcd keeps every value that a key ever had until it compacts.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

use rota_engine::{Beat, NodeId, Revision, View};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    grpc::Failure,
    line::{Line, Shared},
    proto::{CompactionRequest, CompactionResponse},
};

/// A compaction, which reads all live keys.
const COMPACT: Duration = Duration::from_mins(2);
/// Compactions in the time that revisions are kept. The more there are, the less each has to do, and the less etcd's file
/// has that is older: an eighth of the time at most.
const SHARES: u64 = 8;
/// A node that beats does so within this share of the time.
const SHARES_OF_BEATS: u64 = 4;
/// Looks at the view between two compactions.
const LOOKS: u32 = 3;
/// No node has this id.
const NO_NODE: i32 = -1;

/// Remembers when revisions were seen. A compaction reads all live keys, so it is due only now and then.
#[derive(Clone, Debug)]
pub struct CompactionSchedule {
    keep_ms: u64,
    interval_ms: u64,
    seen: VecDeque<(u64, Revision)>,
    last_ms: Option<u64>,
}

impl CompactionSchedule {
    /// Keeps what is younger than `keep_ms`, and compacts no more often than every `interval_ms`.
    pub fn new(keep_ms: u64, interval_ms: u64) -> CompactionSchedule {
        CompactionSchedule { keep_ms, interval_ms, seen: VecDeque::new(), last_ms: None }
    }

    /// The engine was at this revision at this time. Returns the revision to compact, if one is due.
    pub fn see(&mut self, now_ms: u64, revision: Revision) -> Option<Revision> {
        if self.seen.back().is_none_or(|(_, last)| *last < revision) {
            self.seen.push_back((now_ms, revision));
        } else if self.seen.back().is_some_and(|(_, last)| *last > revision) {
            // The engine went back: what was seen says nothing.
            self.seen.clear();
            self.seen.push_back((now_ms, revision));
        }
        if self.last_ms.is_some_and(|last_ms| now_ms < last_ms + self.interval_ms) {
            return None;
        }
        let mut old = None;
        while let Some((seen_ms, revision)) = self.seen.front().copied()
            && seen_ms + self.keep_ms <= now_ms
        {
            old = Some(revision);
            self.seen.pop_front();
        }
        self.last_ms = old.map(|_| now_ms).or(self.last_ms);
        old
    }
}

/// Which node compacts: the one with the lowest id of those that beat. Two that compact do no harm.
#[derive(Clone, Debug, Default)]
pub struct Beating {
    /// By node: its last beat, and since when it is seen.
    seen: BTreeMap<NodeId, (Beat, u64)>,
}

impl Beating {
    /// The first node whose beat has changed within `within_ms`.
    pub fn first(&mut self, now_ms: u64, within_ms: u64, view: &View) -> Option<NodeId> {
        let beats = view.beats.iter().map(|(node, beat)| {
            let known = self.seen.get(node).filter(|(known, _)| known == beat);
            (*node, known.copied().unwrap_or((*beat, now_ms)))
        });
        self.seen = beats.collect();
        self.seen.iter().find(|(_, (_, since_ms))| now_ms < since_ms + within_ms).map(|(node, _)| *node)
    }
}

/// The node that an engine works for, as its beats show.
#[derive(Debug)]
pub struct Own(AtomicI32);

impl Default for Own {
    fn default() -> Own {
        Own(AtomicI32::new(NO_NODE))
    }
}

impl Own {
    /// A beat of this node is sent.
    pub fn beats(&self, node: NodeId) {
        self.0.store(node.0, Ordering::Relaxed);
    }

    fn is(&self, node: Option<NodeId>) -> bool {
        node.is_some_and(|node| node.0 == self.0.load(Ordering::Relaxed))
    }
}

/// Compacts for ever, as long as this process has the first node.
pub async fn run(shared: Arc<Shared>, own: Arc<Own>, views: watch::Receiver<Option<Arc<View>>>, keep: Duration) {
    let keep_ms = keep.as_millis() as u64;
    let (mut schedule, mut beating) = (CompactionSchedule::new(keep_ms, keep_ms / SHARES), Beating::default());
    let (line, began) = (Line::new(&shared, 0), Instant::now());
    let mut looks = interval((keep / (SHARES as u32 * LOOKS)).max(Duration::from_millis(1)));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Some(view) = views.borrow().clone() else { continue };
        let now_ms = began.elapsed().as_millis() as u64;
        let first = beating.first(now_ms, keep_ms / SHARES_OF_BEATS, &view);
        let due = schedule.see(now_ms, view.revision);
        if let Some(revision) = due.filter(|_| own.is(first)) {
            // The next one makes up for one that fails, and the line notes why.
            let _failed = compact(&line, revision).await;
        }
    }
}

/// Forgets what keys had before a revision. Returns after the space is free for new pages.
pub async fn compact(line: &Line, revision: Revision) -> Result<(), Failure> {
    let request = CompactionRequest { revision: revision.0 as i64, physical: true };
    match line.unary_within("/etcdserverpb.KV/Compact", &request, COMPACT).await {
        Ok(CompactionResponse {}) => Ok(()),
        // Another compaction was earlier.
        Err(Failure::Status { message, .. }) if message.contains("has been compacted") => Ok(()),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use rota_engine::{HistoryId, Incarnation, Store};

    use super::*;

    #[test]
    fn what_is_young_is_kept() {
        let mut schedule = CompactionSchedule::new(60_000, 15_000);
        assert_eq!(schedule.see(0, Revision(10)), None);
        assert_eq!(schedule.see(30_000, Revision(20)), None);
        assert_eq!(schedule.see(59_999, Revision(30)), None);
        assert_eq!(schedule.see(60_000, Revision(40)), Some(Revision(10)));
        assert_eq!(schedule.see(74_999, Revision(40)), None);
        assert_eq!(schedule.see(90_000, Revision(40)), Some(Revision(20)));
        assert_eq!(schedule.see(120_000, Revision(40)), Some(Revision(40)));
        assert_eq!(schedule.see(180_000, Revision(40)), None);
    }

    #[test]
    fn an_engine_that_went_back_begins_anew() {
        let mut schedule = CompactionSchedule::new(60_000, 15_000);
        assert_eq!(schedule.see(0, Revision(100)), None);
        assert_eq!(schedule.see(50_000, Revision(40)), None);
        assert_eq!(schedule.see(70_000, Revision(41)), None);
        assert_eq!(schedule.see(110_000, Revision(50)), Some(Revision(40)));
    }

    #[test]
    fn the_first_node_that_beats_compacts() {
        let mut view = Store::new(HistoryId(1)).view;
        let mut beating = Beating::default();
        let beat = |view: &mut View, node, counter| {
            view.beats.insert(NodeId(node), Beat { incarnation: Incarnation(1), counter });
        };
        assert_eq!(beating.first(0, 100, &view), None);
        beat(&mut view, 2, 1);
        assert_eq!(beating.first(10, 100, &view), Some(NodeId(2)));
        beat(&mut view, 1, 1);
        assert_eq!(beating.first(20, 100, &view), Some(NodeId(1)));
        beat(&mut view, 2, 2);
        assert_eq!(beating.first(119, 100, &view), Some(NodeId(1)));
        // The first one is silent.
        assert_eq!(beating.first(120, 100, &view), Some(NodeId(2)));
        assert_eq!(beating.first(300, 100, &view), None);
    }
}
