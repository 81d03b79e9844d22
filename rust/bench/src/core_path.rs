//! Measures heartbeats through the coordinator without sockets: from bytes to bytes, and by handle.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rota_core::{Answer, AppendId, Coordinator, Entropy, Now, PREFETCHED, Record, Request, Sink, Ticket};
use rota_wire::{
    answers,
    header::RequestHeader,
    heartbeat_frame::HeartbeatFrame,
    requests::read_heartbeat,
    write::{Writer, begin_answer, end_answer},
};

use crate::{BenchError, crowd::Seat, stage::Stage};

const GROUP_MEMBERS: usize = 100;
/// Requests between two readings of the clock.
const BATCH: usize = 64;
/// Milliseconds that pass for the coordinator with each batch.
const BATCH_MS: u64 = 1;
/// An odd multiplier, so that a walk visits every member of an even number once, in distant steps.
const STRIDE: usize = 0x9e37_79b1;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatRun {
    /// Number of heartbeats.
    pub count: u64,
    /// Their duration.
    pub elapsed: Duration,
}

/// Stable groups of a hundred members each, with their heartbeats in shuffled order.
pub struct Crowd {
    members: Members,
    frames: Vec<u8>,
    /// Start and end of each frame.
    spans: Vec<(u64, u64)>,
    handles: Vec<u64>,
    generations: Vec<i32>,
    codes: Vec<i16>,
}

/// The members, and the clock.
struct Members {
    coordinator: Coordinator,
    now: Now,
}

/// Writes answers to heartbeats, like a connection.
struct Written<'a> {
    out: &'a mut BytesMut,
    correlation_id: i32,
    version: i16,
    errors: u64,
}

impl Sink for Written<'_> {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
        if let Answer::Heartbeat(error) = answer {
            let start = begin_answer(self.out, self.correlation_id, false);
            answers::heartbeat(&mut Writer::new(self.out, false), self.version, error);
            end_answer(self.out, start);
            self.errors += u64::from(error.code() != 0);
        }
    }

    fn append(&mut self, _: AppendId, _: &[Record]) {}
}

impl Crowd {
    /// Creates `members` in groups of a hundred. Takes about 5 us and 1 KiB per member.
    pub fn assemble(members: usize) -> Result<Crowd, BenchError> {
        let mut stage = Stage::new();
        let seats = stage.settle(members, GROUP_MEMBERS)?;
        let Stage { coordinator, now, .. } = stage;
        let count = seats.len();
        let order: Vec<usize> = (0..count).map(|at| at.wrapping_mul(STRIDE) % count).collect();
        let mut crowd = Crowd {
            members: Members { coordinator, now },
            frames: Vec::new(),
            spans: Vec::with_capacity(count),
            handles: Vec::with_capacity(count),
            generations: Vec::with_capacity(count),
            codes: vec![0; count],
        };
        for at in order {
            let seat: &Seat = &seats[at];
            // A frame without its length.
            let start = crowd.frames.len() as u64;
            crowd.frames.extend_from_slice(&seat.heartbeat()[4..]);
            crowd.spans.push((start, crowd.frames.len() as u64));
            let handle = crowd.members.coordinator.member_handle(&seat.group, &seat.member_id);
            crowd.handles.push(handle.ok_or_else(|| BenchError("a member is missing".to_owned()))?);
            crowd.generations.push(seat.generation);
        }
        Ok(crowd)
    }

    /// Runs requests from bytes to answers in bytes for about `duration`, in batches, like a connection with many in
    /// flight.
    pub fn requests(&mut self, duration: Duration) -> Result<HeartbeatRun, BenchError> {
        self.answered(duration, |members, frames, out| {
            frames.chunks(PREFETCHED).try_fold(0, |errors, frames| Ok(errors + members.batch(frames, out)?))
        })
    }

    /// Like [`Crowd::requests`], one request at a time.
    pub fn requests_singly(&mut self, duration: Duration) -> Result<HeartbeatRun, BenchError> {
        self.answered(duration, |members, frames, out| {
            frames.iter().try_fold(0, |errors, frame| Ok(errors + members.batch(&[frame], out)?))
        })
    }

    /// Like [`Crowd::requests`], on the general path of other requests.
    pub fn requests_submitted(&mut self, duration: Duration) -> Result<HeartbeatRun, BenchError> {
        self.answered(duration, Members::submitted)
    }

    fn answered(
        &mut self,
        duration: Duration,
        batch: impl Fn(&mut Members, &[&[u8]], &mut BytesMut) -> Result<u64, BenchError>,
    ) -> Result<HeartbeatRun, BenchError> {
        let mut out = BytesMut::with_capacity(BATCH * 32);
        let (began, mut count, mut errors) = (Instant::now(), 0, 0);
        while began.elapsed() < duration {
            for spans in self.spans.chunks(BATCH) {
                out.clear();
                self.members.now.mono_ms += BATCH_MS;
                let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
                for (span, frame) in spans.iter().zip(&mut frames) {
                    *frame = &self.frames[span.0 as usize..span.1 as usize];
                }
                errors += batch(&mut self.members, &frames[..spans.len()], &mut out)?;
                black_box(&out);
                count += spans.len() as u64;
            }
        }
        all_good(HeartbeatRun { count, elapsed: began.elapsed() }, errors)
    }

    /// Runs heartbeats by arrays of handles for about `duration`.
    pub fn handles(&mut self, duration: Duration) -> Result<HeartbeatRun, BenchError> {
        let (began, mut count, mut errors) = (Instant::now(), 0, 0);
        while began.elapsed() < duration {
            let Members { coordinator, now } = &mut self.members;
            now.mono_ms += BATCH_MS;
            coordinator.heartbeats_by_handle(*now, &self.handles, &self.generations, &mut self.codes);
            count += self.codes.len() as u64;
            errors += self.codes.iter().filter(|code| **code != 0).count() as u64;
        }
        all_good(HeartbeatRun { count, elapsed: began.elapsed() }, errors)
    }
}

impl Members {
    /// Decodes at most [`PREFETCHED`] frames and answers them. Returns the number of errors.
    fn batch(&mut self, frames: &[&[u8]], out: &mut BytesMut) -> Result<u64, BenchError> {
        let mut batch = [None; PREFETCHED];
        for (frame, framed) in frames.iter().zip(&mut batch) {
            *framed = HeartbeatFrame::read(frame);
        }
        let batch = &batch[..frames.len()];
        if batch.iter().any(Option::is_none) {
            return self.submitted(frames, out);
        }
        let mut errors = 0;
        let beats = batch
            .iter()
            .map(|framed| framed.as_ref().expect("all were read"))
            .map(|framed| (framed.heartbeat(), framed));
        self.coordinator.heartbeats(self.now, beats, |framed, error| {
            framed.answer(out, error);
            errors += u64::from(error.code() != 0);
        });
        Ok(errors)
    }

    fn submitted(&mut self, frames: &[&[u8]], out: &mut BytesMut) -> Result<u64, BenchError> {
        let unreadable = |error| BenchError(format!("a heartbeat of our own cannot be read: {error}"));
        frames.iter().try_fold(0, |errors, frame| {
            let (header, body) = RequestHeader::read(frame).map_err(unreadable)?;
            let request = read_heartbeat(header.version, body).map_err(unreadable)?;
            let (correlation_id, version) = (header.correlation_id, header.version);
            let mut sink = Written { out, correlation_id, version, errors: 0 };
            self.coordinator.submit(self.now, Ticket(0), Entropy(0), Request::Heartbeat(request), &mut sink);
            Ok(errors + sink.errors)
        })
    }
}

/// Fails if heartbeats were refused: refusals are cheaper, and their time has no meaning.
fn all_good(beats: HeartbeatRun, errors: u64) -> Result<HeartbeatRun, BenchError> {
    if errors == 0 {
        return Ok(beats);
    }
    Err(BenchError(format!("{errors} of {} heartbeats were refused", beats.count)))
}
