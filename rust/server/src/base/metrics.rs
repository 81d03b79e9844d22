//! What a node counts while it works, for metrics. Whatever is counted is counted on the node's own thread, without a
//! lock; a heartbeat that is answered without an error is not counted at all.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use rota_core::{
    effects::Moment,
    error::ErrorCode,
    explain::Rebalance,
    request::{Request, Ticket},
    response::{Answer, CommittedTopic},
};
use rota_log::Histogram;

/// The counts of one node, or of several together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Rebalances that have begun, by cause.
    pub rebalances: BTreeMap<&'static str, u64>,
    /// From the beginning of a rebalance to the end of its join phase.
    pub join_phases: Histogram,
    /// From there until the group was Stable, or Empty.
    pub sync_phases: Histogram,
    /// Deadlines that have passed, by the name of the timer.
    pub expiries: BTreeMap<&'static str, u64>,
    /// From a `JoinGroup` to its answer.
    pub joins: Histogram,
    /// From a `SyncGroup` to its answer.
    pub syncs: Histogram,
    /// Offsets of partitions that were committed.
    pub commits: u64,
    /// Errors that the coordinators answered, by API and error: of a commit and the like one for each partition.
    pub refusals: BTreeMap<(&'static str, &'static str), u64>,
    /// From an append to `__consumer_offsets` to its end.
    pub appends: Histogram,
    /// Those that failed.
    pub failed_appends: u64,
    /// Syncs of the write-ahead file, which all nodes share: only the counts of all together have them.
    pub fsyncs: Histogram,
    /// Joins and syncs that wait for their answer, and since when.
    waiting: HashMap<Ticket, u64>,
}

impl Tally {
    /// A request is handed to a coordinator.
    pub fn asked(&mut self, ticket: Ticket, request: &Request<'_>, now_ms: u64) {
        if matches!(request, Request::JoinGroup(_) | Request::SyncGroup(_)) {
            self.waiting.insert(ticket, now_ms);
        }
    }

    /// A request is answered.
    pub fn answered(&mut self, ticket: Ticket, answer: &Answer<'_>, now_ms: u64) {
        match answer {
            Answer::Heartbeat(error) => self.refused("Heartbeat", *error),
            Answer::JoinGroup(join) => {
                let since_ms = self.waiting.remove(&ticket);
                since_ms.inspect(|since_ms| self.joins.observe(elapsed(*since_ms, now_ms)));
                self.refused("JoinGroup", join.error);
            }
            Answer::SyncGroup(sync) => {
                let since_ms = self.waiting.remove(&ticket);
                since_ms.inspect(|since_ms| self.syncs.observe(elapsed(*since_ms, now_ms)));
                self.refused("SyncGroup", sync.error);
            }
            Answer::OffsetCommit(commit) => self.committed(commit.topics),
            Answer::LeaveGroup(leave) => {
                self.refused("LeaveGroup", leave.error);
                leave.members.iter().for_each(|member| self.refused("LeaveGroup", member.error));
            }
            Answer::OffsetFetch(fetch) => self.refused("OffsetFetch", fetch.error),
            Answer::DescribeGroup(described) => self.refused("DescribeGroups", described.error),
            Answer::ListGroups(listed) => self.refused("ListGroups", listed.error),
            Answer::DeleteGroup(deleted) => self.refused("DeleteGroups", deleted.error),
            Answer::OffsetDelete(deleted) => self.refused("OffsetDelete", deleted.error),
            Answer::ConsumerGroupHeartbeat(heartbeat) => self.refused("ConsumerGroupHeartbeat", heartbeat.error),
            Answer::ConsumerGroupDescribe(described) => self.refused("ConsumerGroupDescribe", described.error),
        }
    }

    fn committed(&mut self, topics: &[CommittedTopic]) {
        for (_, error) in topics.iter().flat_map(|topic| &topic.partitions) {
            self.commits += u64::from(*error == ErrorCode::None);
            self.refused("OffsetCommit", *error);
        }
    }

    /// An answer says so, unless the error is none.
    pub fn refused(&mut self, api: &'static str, error: ErrorCode) {
        if error != ErrorCode::None {
            *self.refusals.entry((api, error.name())).or_default() += 1;
        }
    }

    /// A deadline has passed.
    pub fn fired(&mut self, timer: &'static str) {
        *self.expiries.entry(timer).or_default() += 1;
    }

    /// Something has happened to a rebalance.
    pub fn rebalanced(&mut self, moment: Moment, rebalance: &Rebalance) {
        let Rebalance { began_ms, joined_ms, settled_ms, .. } = *rebalance;
        match moment {
            Moment::Began => *self.rebalances.entry(rebalance.cause.name()).or_default() += 1,
            Moment::Joined => self.join_phases.observe(elapsed(began_ms, joined_ms.unwrap_or(began_ms))),
            Moment::Settled => {
                let (Some(joined_ms), Some(settled_ms)) = (joined_ms, settled_ms) else { return };
                self.sync_phases.observe(elapsed(joined_ms, settled_ms));
            }
        }
    }

    /// Adds the counts of another node; what waits there is its own.
    pub fn add(&mut self, other: &Tally) {
        fn add_all<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, count) in from {
                *to.entry(*key).or_default() += count;
            }
        }
        add_all(&mut self.rebalances, &other.rebalances);
        add_all(&mut self.expiries, &other.expiries);
        add_all(&mut self.refusals, &other.refusals);
        self.join_phases.add(&other.join_phases);
        self.sync_phases.add(&other.sync_phases);
        self.joins.add(&other.joins);
        self.syncs.add(&other.syncs);
        self.appends.add(&other.appends);
        self.commits += other.commits;
        self.failed_appends += other.failed_appends;
    }
}

fn elapsed(since_ms: u64, now_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(since_ms))
}

#[cfg(test)]
mod tests {
    use rota_core::{explain::Cause, request::SyncGroup, response::SyncAnswer};

    use super::*;

    fn rebalance(joined_ms: Option<u64>, settled_ms: Option<u64>) -> Rebalance {
        Rebalance {
            cause: Cause::MemberLeft,
            member_id: "m".into(),
            reason: "".into(),
            from_generation: 1,
            to_generation: joined_ms.map(|_| 2),
            began_ms: 1_000,
            began_wall_ms: 0,
            joined_ms,
            settled_ms,
            departures: Vec::new(),
        }
    }

    #[test]
    fn phases_are_counted_when_they_end_and_a_rebalance_when_it_begins() {
        let mut tally = Tally::default();
        tally.rebalanced(Moment::Began, &rebalance(None, None));
        assert_eq!(tally.rebalances, BTreeMap::from([("MemberLeft", 1)]));
        assert_eq!(tally.join_phases, Histogram::default());
        tally.rebalanced(Moment::Joined, &rebalance(Some(3_000), None));
        assert!((tally.join_phases.sum_seconds - 2.0).abs() < 1e-9);
        assert_eq!(tally.sync_phases, Histogram::default());
        tally.rebalanced(Moment::Settled, &rebalance(Some(3_000), Some(3_500)));
        assert!((tally.sync_phases.sum_seconds - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_sync_is_timed_from_its_request_and_counted_with_the_other_nodes() {
        let mut tally = Tally::default();
        let request = SyncGroup {
            version: 3,
            group_id: None,
            generation: 1,
            member_id: "m",
            instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: &[],
        };
        tally.asked(Ticket(7), &Request::SyncGroup(request), 1_000);
        let answer = Answer::SyncGroup(SyncAnswer {
            error: ErrorCode::RebalanceInProgress,
            protocol_type: None,
            protocol_name: None,
            assignment: &[],
        });
        tally.answered(Ticket(7), &answer, 31_000);
        tally.answered(Ticket(8), &Answer::Heartbeat(ErrorCode::None), 31_000);
        let mut both = tally.clone();
        both.add(&tally);
        assert!((both.syncs.sum_seconds - 60.0).abs() < 1e-9);
        assert_eq!(both.refusals, BTreeMap::from([(("SyncGroup", "REBALANCE_IN_PROGRESS"), 2)]));
        assert!(tally.waiting.is_empty());
    }
}
