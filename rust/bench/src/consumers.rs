//! Heartbeats of consumer groups (KIP-848) through the coordinator without sockets, from bytes to bytes.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rota_core::{
    Answer, AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Receipt, Record, Request, SelfCheck, Sink, Ticket,
    consumer_group::{
        config::ConsumerConfig,
        group::{ConsumerGroup, GroupState},
        topics::TopicMetadata,
    },
    request::{ConsumerGroupHeartbeat, TopicPartitions},
};
use rota_wire::{
    consumer_groups::{self, HeartbeatBody},
    header::RequestHeader,
    repeated::RepeatedRequest,
    write::{Writer, begin_answer, end_answer},
};

use crate::{BenchError, core_path::HeartbeatRun, frames};

const GROUP_MEMBERS: usize = 100;
const TOPIC: &str = "orders";
const TOPIC_ID: u128 = 1;
const REBALANCE_TIMEOUT_MS: i32 = 60_000;
/// A timeout that the request does not change.
const UNCHANGED: i32 = -1;
/// Rounds of heartbeats in which a group must reach its target. Three are enough: revoke, acknowledge, receive.
const ROUNDS_MAX: usize = 10;
/// An assignment interval that does not end.
const NEVER_MS: i32 = i32::MAX;
/// Requests between two readings of the clock.
const BATCH: usize = 64;
/// An odd multiplier, so that a walk visits every member of an even number once, in distant steps.
const STRIDE: usize = 0x9e37_79b1;

/// Consumer groups of a hundred members and a hundred partitions each, which have reached their targets.
pub struct ConsumerCrowd {
    stage: ConsumerStage,
    frames: Vec<u8>,
    /// Start and end of each frame, in shuffled order.
    spans: Vec<(usize, usize)>,
    /// What the connection of each member keeps of its last heartbeat.
    kept: Vec<(RepeatedRequest, Option<Receipt>)>,
    /// The next one to send a heartbeat, so that runs of less than a whole pass visit all members.
    at: usize,
}

/// A coordinator with one topic, whose log keeps every append at once.
pub struct ConsumerStage {
    coordinator: Coordinator,
    now: Now,
}

/// A member while its group is built.
pub struct Joining {
    member_id: String,
    epoch: i32,
    /// The partitions that the coordinator has assigned last.
    assigned: Vec<i32>,
    has_changed: bool,
}

/// What a heartbeat of [`Joining`] is answered.
#[derive(Default)]
struct Received {
    error: Option<ErrorCode>,
    epoch: i32,
    assigned: Option<Vec<i32>>,
    appends: Vec<AppendId>,
}

impl Sink for Received {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
        if let Answer::ConsumerGroupHeartbeat(answer) = answer {
            self.error = Some(answer.error);
            self.epoch = answer.member_epoch;
            self.assigned = answer
                .assignment
                .map(|topics| topics.iter().flat_map(|topic| topic.partitions.iter().copied()).collect());
        }
    }

    fn append(&mut self, id: AppendId, _: &[Record]) {
        self.appends.push(id);
    }
}

/// Writes answers, like a connection.
struct Written<'a> {
    out: &'a mut BytesMut,
    correlation_id: i32,
    errors: u64,
    receipt: Option<Receipt>,
}

impl Sink for Written<'_> {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
        if let Answer::ConsumerGroupHeartbeat(answer) = answer {
            let start = begin_answer(self.out, self.correlation_id, true);
            consumer_groups::heartbeat(&mut Writer::new(self.out, true), &answer);
            end_answer(self.out, start);
            self.errors += u64::from(answer.error != ErrorCode::None);
        }
    }

    fn receipt(&mut self, _: Ticket, receipt: Receipt) {
        self.receipt = Some(receipt);
    }

    fn append(&mut self, _: AppendId, _: &[Record]) {
        // A heartbeat that writes is not what is measured.
        self.errors += 1;
    }
}

impl ConsumerCrowd {
    /// Creates `members` in groups of a hundred.
    pub fn assemble(members: usize) -> Result<ConsumerCrowd, BenchError> {
        let stage = ConsumerStage::new(GROUP_MEMBERS as i32);
        let mut crowd = ConsumerCrowd { stage, frames: Vec::new(), spans: Vec::new(), kept: Vec::new(), at: 0 };
        let mut spans = Vec::with_capacity(members);
        while spans.len() < members {
            let group = format!("group-{}", spans.len() / GROUP_MEMBERS);
            for member in crowd.stage.settled(&group, GROUP_MEMBERS.min(members - spans.len()))? {
                let start = crowd.frames.len();
                // Without its length.
                let frame = frames::consumer_heartbeat(&group, &member.member_id, member.epoch);
                crowd.frames.extend_from_slice(&frame[size_of::<u32>()..]);
                spans.push((start, crowd.frames.len()));
            }
        }
        crowd.kept.resize_with(members, Default::default);
        crowd.spans = (0..members).map(|at| spans[at.wrapping_mul(STRIDE) % members]).collect();
        // Each member has sent one heartbeat since its group changed last: the others equal it.
        crowd.pass(&mut BytesMut::new())?;
        Ok(crowd)
    }

    /// Sends the heartbeats of all members for about `duration`: epochs only, as between two rebalances.
    pub fn requests(&mut self, duration: Duration) -> Result<HeartbeatRun, BenchError> {
        let (began, mut count) = (Instant::now(), 0);
        let mut out = BytesMut::with_capacity(BATCH * 64);
        while began.elapsed() < duration {
            let end = self.spans.len().min(self.at + BATCH);
            self.batch(self.at..end, &mut out)?;
            count += (end - self.at) as u64;
            self.at = if end == self.spans.len() { 0 } else { end };
        }
        Ok(HeartbeatRun { count, elapsed: began.elapsed() })
    }

    /// Sends one heartbeat of every member. Returns their number.
    pub fn pass(&mut self, out: &mut BytesMut) -> Result<u64, BenchError> {
        self.batch(0..self.spans.len(), out)?;
        Ok(self.spans.len() as u64)
    }

    fn batch(&mut self, members: std::ops::Range<usize>, out: &mut BytesMut) -> Result<(), BenchError> {
        out.clear();
        self.stage.pass(1);
        let ConsumerStage { coordinator, now } = &mut self.stage;
        for ((start, end), (kept, receipt)) in self.spans[members.clone()].iter().zip(&mut self.kept[members]) {
            let frame = &self.frames[*start..*end];
            match receipt {
                Some(receipt) if kept.is(frame) && coordinator.repeat_heartbeat(*now, receipt) => {
                    kept.answer(frame, out);
                }
                _ => {
                    let answer_start = out.len();
                    *receipt = submit(coordinator, *now, frame, out)?;
                    kept.keep(frame, &out[answer_start..]);
                }
            }
        }
        black_box(out);
        Ok(())
    }
}

impl ConsumerStage {
    /// The topic has this many partitions.
    pub fn new(partitions: i32) -> ConsumerStage {
        let mut coordinator = Coordinator::new(Config::default(), 0, 0);
        coordinator.check_itself(SelfCheck::Never);
        coordinator.configure_consumer_groups(ConsumerConfig { enabled: true, ..ConsumerConfig::default() });
        let now = Now { mono_ms: 0, wall_ms: 1_700_000_000_000 };
        let topic = TopicMetadata { name: TOPIC.into(), topic_id: TOPIC_ID, partitions, racks: Vec::new() };
        coordinator.topics_changed(&[topic], now);
        coordinator.loaded(now, &mut Received::default());
        ConsumerStage { coordinator, now }
    }

    /// Joins the members of a group at one time: the first one computes a target.
    pub fn joined(&mut self, group: &str, members: usize) -> Result<Vec<Joining>, BenchError> {
        let mut joining: Vec<Joining> = (0..members).map(|at| Joining::new(group, at)).collect();
        joining.iter_mut().try_for_each(|member| self.ask(group, member))?;
        Ok(joining)
    }

    /// Joins the members of a group, and sends heartbeats until none changes anything.
    pub fn settled(&mut self, group: &str, members: usize) -> Result<Vec<Joining>, BenchError> {
        let mut joining = self.joined(group, members)?;
        for _ in 1..ROUNDS_MAX {
            // The target of the members that joined after the first is computed after the interval.
            self.pass(1_000);
            for member in &mut joining {
                self.ask(group, member)?;
            }
            if self.state(group) == Some(GroupState::Stable) && !joining.iter().any(|member| member.has_changed) {
                return Ok(joining);
            }
        }
        Err(BenchError(format!("{group} has not reached its target after {ROUNDS_MAX} rounds")))
    }

    /// The same, and one more member has joined, whose target is never due.
    pub fn waiting(&mut self, group: &str, members: usize) -> Result<Vec<Joining>, BenchError> {
        let joining = self.settled(group, members)?;
        let config = ConsumerConfig { assignment_interval_ms: NEVER_MS, ..self.coordinator.consumer_config().clone() };
        self.coordinator.configure_consumer_groups(config);
        self.ask(group, &mut Joining::new(group, members))?;
        match self.state(group) {
            Some(GroupState::Assigning) => Ok(joining),
            state => Err(BenchError(format!("{group} is {state:?}, not Assigning"))),
        }
    }

    /// Sends a heartbeat that has only an epoch.
    pub fn beat(&mut self, group: &str, member: &Joining) -> Result<(), BenchError> {
        let received = self.submit(ConsumerGroupHeartbeat {
            rebalance_timeout_ms: UNCHANGED,
            subscribed_topic_names: None,
            topic_partitions: None,
            ..member.full(group, &[])
        });
        match received {
            Received { error: Some(ErrorCode::None), assigned: None, .. } => Ok(()),
            Received { error, .. } => Err(BenchError(format!("a member of {group} was answered {error:?}"))),
        }
    }

    /// Time passes.
    pub fn pass(&mut self, ms: u32) {
        self.now.mono_ms += u64::from(ms);
        self.now.wall_ms += i64::from(ms);
    }

    fn state(&self, group: &str) -> Option<GroupState> {
        self.coordinator.consumer_group(group).map(ConsumerGroup::state)
    }

    /// Sends a full heartbeat with all that was assigned, which acknowledges it.
    fn ask(&mut self, group: &str, member: &mut Joining) -> Result<(), BenchError> {
        let owned = [TopicPartitions { topic_id: TOPIC_ID, partitions: &member.assigned }];
        let received = self.submit(member.full(group, if member.assigned.is_empty() { &[] } else { &owned }));
        if received.error != Some(ErrorCode::None) {
            return Err(BenchError(format!("a member of {group} was answered {:?}", received.error)));
        }
        let assigned = received.assigned.unwrap_or_else(|| member.assigned.clone());
        member.has_changed = received.epoch != member.epoch || assigned != member.assigned;
        (member.epoch, member.assigned) = (received.epoch, assigned);
        Ok(())
    }

    fn submit(&mut self, request: ConsumerGroupHeartbeat<'_>) -> Received {
        let mut received = Received::default();
        let request = Request::ConsumerGroupHeartbeat(request);
        self.coordinator.submit(self.now, Ticket(0), Entropy(0), request, &mut received);
        while let Some(id) = received.appends.pop() {
            self.coordinator.appended(id, Ok(0), self.now, &mut received);
        }
        received
    }
}

impl Joining {
    fn new(group: &str, at: usize) -> Joining {
        let member_id = format!("{group}-00000000-0000-4000-8000-{at:012x}");
        Joining { member_id, epoch: 0, assigned: Vec::new(), has_changed: true }
    }

    fn full<'a>(&'a self, group: &'a str, owned: &'a [TopicPartitions<'a>]) -> ConsumerGroupHeartbeat<'a> {
        ConsumerGroupHeartbeat {
            version: 1,
            group_id: group,
            member_id: &self.member_id,
            member_epoch: self.epoch,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            subscribed_topic_names: Some(&[TOPIC]),
            subscribed_topic_regex: None,
            server_assignor: None,
            topic_partitions: Some(owned),
            client_id: "rota-bench",
            client_host: "/127.0.0.1",
        }
    }
}

/// Handles a heartbeat on the general path. Returns its receipt.
fn submit(
    coordinator: &mut Coordinator,
    now: Now,
    frame: &[u8],
    out: &mut BytesMut,
) -> Result<Option<Receipt>, BenchError> {
    let unreadable = |error| BenchError(format!("a heartbeat of our own cannot be read: {error}"));
    let (header, body) = RequestHeader::read(frame).map_err(unreadable)?;
    let body = HeartbeatBody::read(header.version, body).map_err(unreadable)?;
    let mut sink = Written { out, correlation_id: header.correlation_id, errors: 0, receipt: None };
    body.with(header.client_id, "/127.0.0.1", |request| {
        coordinator.submit(now, Ticket(0), Entropy(0), Request::ConsumerGroupHeartbeat(request), &mut sink);
    });
    if sink.errors > 0 {
        return Err(BenchError("a heartbeat was refused, or wrote to the log".to_owned()));
    }
    Ok(sink.receipt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_all_groups_reach_their_targets_and_then_write_nothing() {
        let mut crowd = ConsumerCrowd::assemble(250).expect("groups of 100, 100 and 50");
        assert_eq!(crowd.stage.coordinator.consumer_state_counts()[GroupState::Stable as usize], 3);
        let mut out = BytesMut::new();
        assert_eq!(crowd.pass(&mut out).expect("heartbeats"), 250);
        let first = out.split();
        assert!(!first.is_empty());
        assert!(crowd.kept.iter().all(|(_, receipt)| receipt.is_some()));
        assert_eq!(crowd.pass(&mut out).expect("repeated heartbeats"), 250);
        assert_eq!(first, out);
    }
}
