//! Which revisions may be forgotten: etcd keeps every value that a key ever had until it compacts.

use std::collections::VecDeque;

use rota_engine::Revision;

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

#[cfg(test)]
mod tests {
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
}
