//! Heartbeats through the coordinator without sockets: bytes of a request in, bytes of its answer out, and the same by
//! handle, as arrays of members take it.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rota_core::{Answer, AppendId, Coordinator, Entropy, Now, PREFETCHED, Record, Request, Sink, Ticket};
use rota_wire::{
    answers,
    beat::FramedBeat,
    header::RequestHeader,
    requests::read_heartbeat,
    write::{Writer, begin_answer, end_answer},
};

use crate::{BenchError, crowd::Seat, stage::Stage};

const GROUP_MEMBERS: usize = 100;
/// Requests that are handled between two looks at the clock.
const BATCH: usize = 64;
/// How much time passes for the coordinator with each batch.
const BATCH_MS: u64 = 1;
/// An odd multiplier, so that a walk by it visits every member of any even count once, far from the one before.
const STRIDE: usize = 0x9e37_79b1;

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub struct Beats {
    /// Heartbeats.
    pub count: u64,
    /// How long they took.
    pub elapsed: Duration,
}

/// Stable groups of a hundred members each, and their heartbeats in shuffled order.
pub struct Crowd {
    members: Members,
    frames: Vec<u8>,
    /// Where each frame begins and ends.
    spans: Vec<(u64, u64)>,
    handles: Vec<u64>,
    generations: Vec<i32>,
    codes: Vec<i16>,
}

/// Who is asked, and when.
struct Members {
    coordinator: Coordinator,
    now: Now,
}

/// Writes answers to heartbeats, as a connection does.
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
    /// `members` in groups of a hundred. Takes about 5 us and 1 KiB a member.
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
            // A frame without its length, as the server has it when it handles it.
            let start = crowd.frames.len() as u64;
            crowd.frames.extend_from_slice(&seat.heartbeat()[4..]);
            crowd.spans.push((start, crowd.frames.len() as u64));
            let handle = crowd.members.coordinator.member_handle(&seat.group, &seat.member_id);
            crowd.handles.push(handle.ok_or_else(|| BenchError("a member is missing".to_owned()))?);
            crowd.generations.push(seat.generation);
        }
        Ok(crowd)
    }

    /// Requests as bytes in, answers as bytes out, for about so long: as a connection has them on which many are in
    /// flight, so that the coordinator gets them in batches.
    pub fn requests(&mut self, duration: Duration) -> Result<Beats, BenchError> {
        self.answered(duration, |members, frames, out| {
            frames.chunks(PREFETCHED).try_fold(0, |errors, frames| Ok(errors + members.batch(frames, out)?))
        })
    }

    /// The same, one at a time.
    pub fn requests_singly(&mut self, duration: Duration) -> Result<Beats, BenchError> {
        self.answered(duration, |members, frames, out| {
            frames.iter().try_fold(0, |errors, frame| Ok(errors + members.batch(&[frame], out)?))
        })
    }

    /// The same the long way, as any other request goes.
    pub fn requests_submitted(&mut self, duration: Duration) -> Result<Beats, BenchError> {
        self.answered(duration, Members::submitted)
    }

    fn answered(
        &mut self,
        duration: Duration,
        batch: impl Fn(&mut Members, &[&[u8]], &mut BytesMut) -> Result<u64, BenchError>,
    ) -> Result<Beats, BenchError> {
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
        all_good(Beats { count, elapsed: began.elapsed() }, errors)
    }

    /// Whole arrays of handles, for about so long.
    pub fn handles(&mut self, duration: Duration) -> Result<Beats, BenchError> {
        let (began, mut count, mut errors) = (Instant::now(), 0, 0);
        while began.elapsed() < duration {
            let Members { coordinator, now } = &mut self.members;
            now.mono_ms += BATCH_MS;
            coordinator.heartbeats_by_handle(*now, &self.handles, &self.generations, &mut self.codes);
            count += self.codes.len() as u64;
            errors += self.codes.iter().filter(|code| **code != 0).count() as u64;
        }
        all_good(Beats { count, elapsed: began.elapsed() }, errors)
    }
}

impl Members {
    /// Reads frames, at most [`PREFETCHED`] of them, and answers them; how many of the answers were errors.
    fn batch(&mut self, frames: &[&[u8]], out: &mut BytesMut) -> Result<u64, BenchError> {
        let mut batch = [None; PREFETCHED];
        for (frame, framed) in frames.iter().zip(&mut batch) {
            *framed = FramedBeat::read(frame);
        }
        let batch = &batch[..frames.len()];
        if batch.iter().any(Option::is_none) {
            return self.submitted(frames, out);
        }
        let mut errors = 0;
        let beats =
            batch.iter().map(|framed| framed.as_ref().expect("all were read")).map(|framed| (framed.beat(), framed));
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

/// Heartbeats that are refused are cheaper: they would not be worth measuring.
fn all_good(beats: Beats, errors: u64) -> Result<Beats, BenchError> {
    if errors == 0 {
        return Ok(beats);
    }
    Err(BenchError(format!("{errors} of {} heartbeats were refused", beats.count)))
}
