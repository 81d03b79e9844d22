//! Members in Stable groups of any broker, for a load of heartbeats.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    BenchError, Doing,
    frames::{self, Answer},
};

const PATIENCE: Duration = Duration::from_mins(1);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 128 * 1024;
/// Retriable errors: loading, not available, not coordinator, another generation, rebalance in progress.
pub(crate) const AGAIN: [i16; 5] = [14, 15, 16, 22, 27];
/// Answer to a join without a member id, which contains the id. Some brokers send it in versions without that round,
/// too.
const MEMBER_ID_REQUIRED: i16 = 79;
/// Groups joined at the same time, so that a broker's initial delay counts once for all of them.
const GROUPS_AT_ONCE: usize = 10;
const LEAVING_AT_ONCE: usize = 32;

/// Number and distribution of members.
#[derive(Clone, Debug)]
pub struct CrowdPlan {
    /// Members in all.
    pub members: usize,
    /// Members per group.
    pub group_members: usize,
    /// Session timeout in milliseconds.
    pub session_timeout_ms: i32,
    /// Prefix of the group ids.
    pub prefix: String,
}

/// A member of a Stable group.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The group id.
    pub group: String,
    /// The member id.
    pub member_id: String,
    /// The member's generation.
    pub generation: i32,
}

impl Seat {
    /// Returns the frame of its heartbeat.
    pub fn heartbeat(&self) -> Vec<u8> {
        frames::heartbeat(&self.group, self.generation, &self.member_id)
    }
}

struct Line {
    socket: TcpStream,
    answer: Vec<u8>,
}

impl Line {
    fn open(broker: SocketAddr) -> Result<Line, BenchError> {
        let what = || format!("connecting to {broker}");
        let socket = TcpStream::connect_timeout(&broker, PATIENCE).doing(what)?;
        socket.set_nodelay(true).doing(what)?;
        socket.set_read_timeout(Some(PATIENCE)).doing(what)?;
        Ok(Line { socket, answer: Vec::new() })
    }

    fn send(&mut self, frame: &[u8]) -> Result<(), BenchError> {
        self.socket.write_all(frame).doing(|| "sending a request".to_owned())
    }

    fn receive(&mut self) -> Result<Answer<'_>, BenchError> {
        let what = || "waiting for an answer".to_owned();
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).doing(what)?;
        self.answer.resize(u32::from_be_bytes(length) as usize, 0);
        self.socket.read_exact(&mut self.answer).doing(what)?;
        let body = self.answer.get(4..).ok_or_else(|| BenchError("an answer has no header".to_owned()))?;
        Ok(Answer(body))
    }

    fn ask(&mut self, frame: &[u8]) -> Result<Answer<'_>, BenchError> {
        self.send(frame)?;
        self.receive()
    }
}

/// Waits until the broker has coordinators: a new Kafka broker creates their topic at the first request.
fn await_coordinator(line: &mut Line, group: &str) -> Result<(), BenchError> {
    let began = Instant::now();
    loop {
        let mut answer = line.ask(&frames::find_coordinator(group))?;
        answer.i32()?;
        match answer.i16()? {
            0 => return Ok(()),
            code if began.elapsed() > PATIENCE => {
                return Err(BenchError(format!("no coordinator for {group}: error {code}")));
            }
            _ => thread::sleep(RETRY_PAUSE),
        }
    }
}

/// Waits until the coordinators of all groups are available.
pub(crate) fn await_coordinators(
    broker: SocketAddr,
    mut groups: impl Iterator<Item = String>,
) -> Result<(), BenchError> {
    let mut line = Line::open(broker)?;
    groups.try_for_each(|group| await_coordinator(&mut line, &group))
}

/// Joins and syncs all members. Returns their seats, group by group.
pub fn assemble(broker: SocketAddr, plan: &CrowdPlan) -> Result<Vec<Seat>, BenchError> {
    let width = plan.group_members.clamp(1, plan.members.max(1));
    await_coordinator(&mut Line::open(broker)?, &format!("{}-0", plan.prefix))?;
    let groups: Vec<FormingGroup> = (0..plan.members.div_ceil(width))
        .map(|group| FormingGroup::new(format!("{}-{group}", plan.prefix), width.min(plan.members - group * width)))
        .collect();
    for batch in groups.chunks(GROUPS_AT_ONCE) {
        side_by_side(batch.iter().flat_map(|forming| {
            (0..forming.told.len()).map(move |at| move || forming.attend(broker, at, plan.session_timeout_ms))
        }))?;
    }
    Ok(groups.into_iter().flat_map(FormingGroup::seats).collect())
}

/// Runs functions on a thread each. Returns the first error.
fn side_by_side<W>(works: impl Iterator<Item = W>) -> Result<(), BenchError>
where
    W: FnOnce() -> Result<(), BenchError> + Send,
{
    thread::scope(|scope| {
        let mut working = Vec::new();
        for work in works {
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            working.push(builder.spawn_scoped(scope, work).doing(|| "starting a thread".to_owned())?);
        }
        working.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(BenchError("a member's thread has panicked".to_owned())))
        })
    })
}

/// A group that is becoming Stable, with the last answer of each member.
struct FormingGroup {
    group: String,
    told: Vec<Mutex<Option<Seat>>>,
}

impl FormingGroup {
    fn new(group: String, members: usize) -> FormingGroup {
        FormingGroup { group, told: (0..members).map(|_| Mutex::new(None)).collect() }
    }

    /// Whether all members have the same generation.
    fn is_complete(&self) -> bool {
        let mut generations = self.told.iter().map(|told| locked(told).as_ref().map(|seat| seat.generation));
        let first = generations.next().flatten();
        first.is_some() && generations.all(|generation| generation == first)
    }

    fn seats(self) -> impl Iterator<Item = Seat> {
        self.told.into_iter().filter_map(|told| told.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Joins and syncs one member until all have the same generation.
    fn attend(&self, broker: SocketAddr, at: usize, session_timeout_ms: i32) -> Result<(), BenchError> {
        let (mut line, mut member_id) = (Line::open(broker)?, String::new());
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let joined =
                self.answered(&mut line, "join", &frames::join(&self.group, session_timeout_ms, &member_id))?;
            let Some(mut answer) = joined else { continue };
            let generation = answer.i32()?;
            answer.text()?;
            answer.text()?;
            member_id = answer.text()?;
            if generation < 0 {
                continue;
            }
            if self.answered(&mut line, "sync", &frames::sync(&self.group, generation, &member_id))?.is_none() {
                continue;
            }
            let seat = Seat { group: self.group.clone(), member_id: member_id.clone(), generation };
            let heartbeat = seat.heartbeat();
            *locked(&self.told[at]) = Some(seat);
            while !self.is_complete() {
                if self.answered(&mut line, "heartbeat", &heartbeat)?.is_none() {
                    break;
                }
                thread::sleep(RETRY_PAUSE);
            }
            if self.is_complete() {
                return Ok(());
            }
        }
        Err(BenchError(format!("the group {} does not settle in {PATIENCE:?}", self.group)))
    }

    /// Returns the bytes after the error code of a successful answer, or of one with a new member id, which has no
    /// generation; `None` if a retry is worthwhile.
    fn answered<'l>(&self, line: &'l mut Line, what: &str, frame: &[u8]) -> Result<Option<Answer<'l>>, BenchError> {
        let mut answer = line.ask(frame)?;
        answer.i32()?;
        match answer.i16()? {
            0 | MEMBER_ID_REQUIRED => Ok(Some(answer)),
            code if AGAIN.contains(&code) => {
                thread::sleep(RETRY_PAUSE / 10);
                Ok(None)
            }
            code => Err(BenchError(format!("a {what} in {} was answered with error {code}", self.group))),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all members, over many connections, since a broker may be slow for each.
pub fn dismiss(broker: SocketAddr, seats: &[Seat]) -> Result<(), BenchError> {
    let share = seats.len().div_ceil(LEAVING_AT_ONCE).max(1);
    side_by_side(seats.chunks(share).map(|seats| {
        move || {
            let mut line = Line::open(broker)?;
            seats.iter().try_for_each(|seat| line.ask(&frames::leave(&seat.group, &seat.member_id)).map(|_| ()))
        }
    }))
}
