//! Counts of a node's work, for metrics. A node counts on its own thread without a lock. Heartbeats that succeed are
//! not counted.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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

/// The counts of one node, or the sum of several.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Rebalances of classic groups by cause.
    pub rebalances: BTreeMap<&'static str, u64>,
    /// Rebalances of consumer groups, each a new group epoch, by cause.
    pub consumer_rebalances: BTreeMap<&'static str, u64>,
    /// Durations from a new group epoch until the consumer group is Stable or Empty.
    pub reconciliations: Histogram,
    /// Durations from the start of a rebalance to the end of its join phase.
    pub join_phases: Histogram,
    /// Durations from the end of the join phase until the group is Stable or Empty.
    pub sync_phases: Histogram,
    /// Expired deadlines by name of the timer.
    pub expiries: BTreeMap<&'static str, u64>,
    /// Durations from a `JoinGroup` to its answer.
    pub joins: Histogram,
    /// Durations from a `SyncGroup` to its answer.
    pub syncs: Histogram,
    /// Committed partition offsets, without those of transactions, which count for nothing until the transaction commits.
    pub commits: u64,
    /// Errors that coordinators answered, by API and error. An answer about several partitions counts one per
    /// partition.
    pub refusals: BTreeMap<(&'static str, &'static str), u64>,
    /// Durations from an append to `__consumer_offsets` to its completion.
    pub appends: Histogram,
    /// Failed appends.
    pub failed_appends: u64,
    /// Syncs of the write-ahead file, which all nodes share. Only the sum of all nodes has them.
    pub fsyncs: Histogram,
    /// Waiting joins and syncs with their start in monotonic milliseconds.
    waiting: HashMap<Ticket, u64>,
    /// Waiting commits of transactions, whose answer is that of an `OffsetCommit`.
    transactional: HashSet<Ticket>,
}

impl Metrics {
    /// Counts a request that is submitted to a coordinator.
    pub fn asked(&mut self, ticket: Ticket, request: &Request<'_>, now_ms: u64) {
        if matches!(request, Request::JoinGroup(_) | Request::SyncGroup(_)) {
            self.waiting.insert(ticket, now_ms);
        }
        if matches!(request, Request::TxnOffsetCommit(_)) {
            self.transactional.insert(ticket);
        }
    }

    /// Counts the answer of a request.
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
            Answer::OffsetCommit(commit) => self.committed(ticket, commit.topics),
            // Up to version 2 the error of the only member is the answer's.
            Answer::LeaveGroup(leave) if leave.error != ErrorCode::None => self.refused("LeaveGroup", leave.error),
            Answer::LeaveGroup(leave) => {
                leave.members.iter().for_each(|member| self.refused("LeaveGroup", member.error));
            }
            Answer::OffsetFetch(fetch) => self.refused("OffsetFetch", fetch.error),
            Answer::DescribeGroup(described) => self.refused("DescribeGroups", described.error),
            Answer::ListGroups(listed) => self.refused("ListGroups", listed.error),
            Answer::DeleteGroup(deleted) => self.refused("DeleteGroups", deleted.error),
            Answer::OffsetDelete(deleted) => self.refused("OffsetDelete", deleted.error),
            Answer::ConsumerGroupHeartbeat(heartbeat) => self.refused("ConsumerGroupHeartbeat", heartbeat.error),
            Answer::ConsumerGroupDescribe(described) => self.refused("ConsumerGroupDescribe", described.error),
            Answer::WriteTxnMarker(error) => self.refused("WriteTxnMarkers", *error),
        }
    }

    fn committed(&mut self, ticket: Ticket, topics: &[CommittedTopic]) {
        let is_transactional = self.transactional.remove(&ticket);
        let api = if is_transactional { "TxnOffsetCommit" } else { "OffsetCommit" };
        for (_, error) in topics.iter().flat_map(|topic| &topic.partitions) {
            self.commits += u64::from(*error == ErrorCode::None && !is_transactional);
            self.refused(api, *error);
        }
    }

    /// Counts an error of an answer, unless it is `NONE`.
    pub fn refused(&mut self, api: &'static str, error: ErrorCode) {
        if error != ErrorCode::None {
            *self.refusals.entry((api, error.name())).or_default() += 1;
        }
    }

    /// Counts an expired deadline.
    pub fn fired(&mut self, timer: &'static str) {
        *self.expiries.entry(timer).or_default() += 1;
    }

    /// Counts a step of a rebalance.
    pub fn rebalanced(&mut self, moment: Moment, rebalance: &Rebalance) {
        let Rebalance { began_ms, joined_ms, settled_ms, .. } = *rebalance;
        match moment {
            Moment::Began => *self.rebalances.entry(rebalance.cause.name()).or_default() += 1,
            Moment::Joined => self.join_phases.observe(elapsed(began_ms, joined_ms.unwrap_or(began_ms))),
            Moment::EpochBumped => *self.consumer_rebalances.entry(rebalance.cause.name()).or_default() += 1,
            Moment::Reconciled => self.reconciliations.observe(elapsed(began_ms, settled_ms.unwrap_or(began_ms))),
            Moment::Settled => {
                let (Some(joined_ms), Some(settled_ms)) = (joined_ms, settled_ms) else { return };
                self.sync_phases.observe(elapsed(joined_ms, settled_ms));
            }
        }
    }

    /// Adds the counts of another node, without its waiting requests.
    pub fn add(&mut self, other: &Metrics) {
        fn add_all<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, count) in from {
                *to.entry(*key).or_default() += count;
            }
        }
        add_all(&mut self.rebalances, &other.rebalances);
        add_all(&mut self.consumer_rebalances, &other.consumer_rebalances);
        self.reconciliations.add(&other.reconciliations);
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
    use rota_core::{
        explain::Cause,
        request::{SyncGroup, TxnOffsetCommit},
        response::{CommitAnswer, LeaveAnswer, LeftMember, SyncAnswer},
    };

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
        let mut metrics = Metrics::default();
        metrics.rebalanced(Moment::Began, &rebalance(None, None));
        assert_eq!(metrics.rebalances, BTreeMap::from([("MemberLeft", 1)]));
        assert_eq!(metrics.join_phases, Histogram::default());
        metrics.rebalanced(Moment::Joined, &rebalance(Some(3_000), None));
        assert!((metrics.join_phases.sum_seconds - 2.0).abs() < 1e-9);
        assert_eq!(metrics.sync_phases, Histogram::default());
        metrics.rebalanced(Moment::Settled, &rebalance(Some(3_000), Some(3_500)));
        assert!((metrics.sync_phases.sum_seconds - 0.5).abs() < 1e-9);
    }

    #[test]
    fn rebalances_of_consumer_groups_are_counted_apart() {
        let mut metrics = Metrics::default();
        metrics.rebalanced(Moment::EpochBumped, &rebalance(None, None));
        metrics.rebalanced(Moment::Reconciled, &rebalance(Some(1_000), Some(4_000)));
        let mut both = metrics.clone();
        both.add(&metrics);
        assert_eq!(both.consumer_rebalances, BTreeMap::from([("MemberLeft", 2)]));
        assert!((both.reconciliations.sum_seconds - 6.0).abs() < 1e-9);
        assert_eq!((both.rebalances, both.sync_phases), (BTreeMap::new(), Histogram::default()));
    }

    #[test]
    fn offsets_of_a_transaction_are_no_commits() {
        let mut metrics = Metrics::default();
        let request = TxnOffsetCommit {
            version: 3,
            group_id: Some("g"),
            producer_id: 7,
            producer_epoch: 0,
            generation: -1,
            member_id: "",
            instance_id: None,
            topics: &[],
        };
        metrics.asked(Ticket(7), &Request::TxnOffsetCommit(request), 1_000);
        let partitions = vec![(0, ErrorCode::None), (1, ErrorCode::InvalidProducerEpoch)];
        let topics = [CommittedTopic { name: "t".into(), topic_id: 0, partitions }];
        for ticket in [Ticket(7), Ticket(8)] {
            metrics.answered(ticket, &Answer::OffsetCommit(CommitAnswer { topics: &topics }), 1_000);
        }
        assert_eq!(metrics.commits, 1);
        let error = "INVALID_PRODUCER_EPOCH";
        assert_eq!(metrics.refusals, BTreeMap::from([(("OffsetCommit", error), 1), (("TxnOffsetCommit", error), 1)]));
        assert!(metrics.transactional.is_empty());
    }

    #[test]
    fn a_leave_that_is_refused_counts_once_in_every_version() {
        let error = ErrorCode::UnknownMemberId;
        let members = [LeftMember { member_id: "m", instance_id: None, error }];
        // Up to version 2 the answer has the error of its only member, from 3 on each member its own.
        for of_request in [error, ErrorCode::None] {
            let mut metrics = Metrics::default();
            let answer = Answer::LeaveGroup(LeaveAnswer { error: of_request, members: &members });
            metrics.answered(Ticket(7), &answer, 1_000);
            assert_eq!(metrics.refusals, BTreeMap::from([(("LeaveGroup", error.name()), 1)]), "{of_request:?}");
        }
    }

    #[test]
    fn a_sync_is_timed_from_its_request_and_counted_with_the_other_nodes() {
        let mut metrics = Metrics::default();
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
        metrics.asked(Ticket(7), &Request::SyncGroup(request), 1_000);
        let answer = Answer::SyncGroup(SyncAnswer {
            error: ErrorCode::RebalanceInProgress,
            protocol_type: None,
            protocol_name: None,
            assignment: &[],
        });
        metrics.answered(Ticket(7), &answer, 31_000);
        metrics.answered(Ticket(8), &Answer::Heartbeat(ErrorCode::None), 31_000);
        let mut both = metrics.clone();
        both.add(&metrics);
        assert!((both.syncs.sum_seconds - 60.0).abs() < 1e-9);
        assert_eq!(both.refusals, BTreeMap::from([(("SyncGroup", "REBALANCE_IN_PROGRESS"), 2)]));
        assert!(metrics.waiting.is_empty());
    }
}
