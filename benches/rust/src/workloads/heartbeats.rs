//! Heartbeats of 1,000 members in groups of 100, in shuffled order.

use bytes::BytesMut;
use rota_bench::{
    consumers::{ConsumerCrowd, ConsumerStage},
    stage::Stage,
};
use rota_core::{Answer, AppendId, Entropy, Now, Record, Request, Sink, Ticket};
use rota_wire::{
    answers,
    header::RequestHeader,
    heartbeat_frame::HeartbeatFrame,
    requests::read_heartbeat,
    write::{Writer, begin_answer, end_answer},
};

use crate::{STRIDE, measured};

const GROUPS: usize = 10;
const MEMBERS: usize = 100;
const PASSES: u64 = 20;
/// Of the group that waits for its next target.
const FEW: usize = 4;
const PARTITIONS_EACH: usize = 8_000;

/// Writes answers as a connection does.
struct Written<'a> {
    out: &'a mut BytesMut,
    correlation_id: i32,
    version: i16,
    refused: &'a mut u64,
}

impl Sink for Written<'_> {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
        if let Answer::Heartbeat(error) = answer {
            let start = begin_answer(self.out, self.correlation_id, false);
            answers::heartbeat(&mut Writer::new(self.out, false), self.version, error);
            end_answer(self.out, start);
            *self.refused += u64::from(error.code() != 0);
        }
    }

    fn append(&mut self, _: AppendId, _: &[Record]) {}
}

/// One frame, answered; how many were refused.
type Way = fn(&mut Stage, &[u8], &mut BytesMut) -> u64;

/// From the bytes of the request to those of the answer, as the server's fast path has them.
pub fn by_bytes() -> u64 {
    by_frame(|stage, frame, out| {
        let framed = HeartbeatFrame::read(frame).expect("a heartbeat");
        let error = stage.coordinator.heartbeat(stage.now, framed.heartbeat());
        framed.answer(out, error);
        u64::from(error.code() != 0)
    })
}

/// The same the long way, as any other request goes.
pub fn by_submission() -> u64 {
    by_frame(submitted)
}

fn submitted(stage: &mut Stage, frame: &[u8], out: &mut BytesMut) -> u64 {
    let (header, body) = RequestHeader::read(frame).expect("a header");
    let request = read_heartbeat(header.version, body).expect("a heartbeat");
    let mut refused = 0;
    let (correlation_id, version) = (header.correlation_id, header.version);
    let mut sink = Written { out, correlation_id, version, refused: &mut refused };
    stage.coordinator.submit(stage.now, Ticket(0), Entropy(0), Request::Heartbeat(request), &mut sink);
    refused
}

fn by_frame(way: Way) -> u64 {
    let (mut stage, seats) = Stage::settled(GROUPS, MEMBERS).expect("Stable groups");
    // Without the length in front, as a server has a frame when it handles it.
    let frames: Vec<Vec<u8>> = (0..seats.len())
        .map(|at| seats[at.wrapping_mul(STRIDE) % seats.len()].heartbeat().split_off(size_of::<u32>()))
        .collect();
    let mut out = BytesMut::with_capacity(frames.len() * 32);
    let mut pass = |stage: &mut Stage| -> u64 {
        out.clear();
        stage.now = later(stage.now);
        frames.iter().map(|frame| way(stage, frame, &mut out)).sum()
    };
    let refused = pass(&mut stage) + measured(|| (0..PASSES).map(|_| pass(&mut stage)).sum::<u64>());
    assert!(refused == 0, "{refused} heartbeats were refused");
    PASSES * frames.len() as u64
}

/// By handle, in arrays.
pub fn by_handle() -> u64 {
    let (mut stage, seats) = Stage::settled(GROUPS, MEMBERS).expect("Stable groups");
    let order: Vec<usize> = (0..seats.len()).map(|at| at.wrapping_mul(STRIDE) % seats.len()).collect();
    let handle = |at: &usize| stage.coordinator.member_handle(&seats[*at].group, &seats[*at].member_id);
    let handles: Vec<u64> = order.iter().map(|at| handle(at).expect("a member")).collect();
    let generations: Vec<i32> = order.iter().map(|at| seats[*at].generation).collect();
    let mut codes = vec![0; handles.len()];
    let mut pass = |stage: &mut Stage| {
        stage.now = later(stage.now);
        stage.coordinator.heartbeats_by_handle(stage.now, &handles, &generations, &mut codes);
    };
    pass(&mut stage);
    measured(|| (0..PASSES).for_each(|_| pass(&mut stage)));
    assert!(codes.iter().all(|code| *code == 0), "heartbeats were refused");
    PASSES * handles.len() as u64
}

/// Of consumer groups (KIP-848), from bytes to bytes.
pub fn consumer() -> u64 {
    let mut crowd = ConsumerCrowd::assemble(GROUPS * MEMBERS).expect("groups that have reached their targets");
    let mut out = BytesMut::with_capacity(GROUPS * MEMBERS * 64);
    let mut pass = || crowd.pass(&mut out).expect("heartbeats that change nothing");
    pass();
    measured(|| (0..PASSES).map(|_| pass()).sum())
}

/// Of a consumer group that waits for its next target, of members with many partitions.
pub fn waiting() -> u64 {
    let mut stage = ConsumerStage::new((FEW * PARTITIONS_EACH) as i32);
    let members = stage.waiting("group", FEW).expect("a group that has reached its target but for the last member");
    let mut pass = || {
        stage.pass(1);
        for member in &members {
            stage.beat("group", member).expect("a heartbeat that changes nothing");
        }
    };
    pass();
    measured(|| (0..PASSES).for_each(|_| pass()));
    PASSES * members.len() as u64
}

fn later(now: Now) -> Now {
    Now { mono_ms: now.mono_ms + 1, ..now }
}
