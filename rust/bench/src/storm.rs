//! A storm of joins: all members of some groups join at once, each on its own connection. Measures the time until every
//! group is Stable with all its members.
//!
//! A member joins, syncs, and then sends heartbeats until its group is complete, since only their answers report a new
//! generation. Connections are open before the measurement.

use std::{
    io::ErrorKind,
    net::SocketAddr,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token, net::TcpStream};

use crate::{
    BenchError, Doing,
    crowd::{self, Seat},
    frames::{self, Answer},
    line::{Filled, fill, flush},
};

const READ_BYTES: usize = 64 * 1024;
const PATIENCE: Duration = Duration::from_mins(1);
/// Minimum time between two heartbeats of all waiting members.
const BETWEEN_BEATS: Duration = Duration::from_micros(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const UNKNOWN_MEMBER_ID: i16 = 25;
const LONGEST_NS: u64 = 120_000_000_000;
const DIGITS: u8 = 3;

/// The plan of a storm.
#[derive(Clone, Debug)]
pub struct StormPlan {
    /// Number of groups.
    pub groups: usize,
    /// Members of each.
    pub group_members: usize,
    /// Session timeout in milliseconds.
    pub session_timeout_ms: i32,
    /// Prefix of the group ids.
    pub prefix: String,
}

/// The results of a storm.
#[derive(Clone, Debug)]
pub struct StormResult {
    /// Time from the first join until the last group was complete.
    pub elapsed: Duration,
    /// Number of answered requests.
    pub requests: u64,
    /// The highest generation of a group.
    pub generations: i32,
    /// Nanoseconds from each join to its answer.
    pub joins_ns: Histogram<u64>,
    /// The seats of all members.
    pub seats: Vec<Seat>,
}

/// The pending request of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Join,
    Sync,
    Heartbeat,
    /// None: the member has its assignment.
    No,
}

struct Member {
    socket: TcpStream,
    read: Vec<u8>,
    write: Vec<u8>,
    waits: Waits,
    since: Instant,
    group: usize,
    seat: Seat,
}

/// A group with the state of its members.
struct Group {
    generation: i32,
    /// Members in the latest generation.
    seated: usize,
}

struct Storm<'p> {
    plan: &'p StormPlan,
    members: Vec<Member>,
    groups: Vec<Group>,
    complete: usize,
    requests: u64,
    joins_ns: Histogram<u64>,
}

/// Runs a storm.
pub fn run(broker: SocketAddr, plan: &StormPlan) -> Result<StormResult, BenchError> {
    let what = || "the storm's event loop".to_owned();
    crowd::await_coordinators(broker, (0..plan.groups).map(|group| format!("{}-{group}", plan.prefix)))?;
    let mut poll = Poll::new().doing(what)?;
    let mut events = Events::with_capacity(1_024);
    let mut storm = Storm::gather(broker, plan, &poll)?;
    let mut scratch = vec![0; READ_BYTES];
    let members = storm.members.len();
    let pause = SHORTEST_PAUSE.max(BETWEEN_BEATS * members as u32);
    let began = Instant::now();
    let mut beaten = began;
    for at in 0..members {
        storm.join(at, began)?;
    }
    while storm.complete < plan.groups {
        match poll.poll(&mut events, Some(pause)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => done.doing(what)?,
        }
        let now = Instant::now();
        for event in &events {
            storm.turn(event.token().0, &mut scratch, now)?;
        }
        if now.duration_since(beaten) >= pause {
            beaten = now;
            storm.beat(now)?;
        }
        if now.duration_since(began) > PATIENCE {
            return Err(BenchError(format!("{} of {} groups settle in {PATIENCE:?}", storm.complete, plan.groups)));
        }
    }
    let elapsed = began.elapsed();
    let generations = storm.groups.iter().map(|group| group.generation).max().unwrap_or(0);
    let seats = storm.members.into_iter().map(|member| member.seat).collect();
    Ok(StormResult { elapsed, requests: storm.requests, generations, joins_ns: storm.joins_ns, seats })
}

impl<'p> Storm<'p> {
    /// Opens all connections.
    fn gather(broker: SocketAddr, plan: &'p StormPlan, poll: &Poll) -> Result<Storm<'p>, BenchError> {
        let what = || format!("connecting to {broker}");
        let mut members = Vec::with_capacity(plan.groups * plan.group_members);
        for at in 0..plan.groups * plan.group_members {
            // Members of all groups in turn.
            let group = at % plan.groups;
            let socket = std::net::TcpStream::connect_timeout(&broker, PATIENCE).doing(what)?;
            socket.set_nodelay(true).doing(what)?;
            socket.set_nonblocking(true).doing(what)?;
            let mut socket = TcpStream::from_std(socket);
            poll.registry().register(&mut socket, Token(at), Interest::READABLE | Interest::WRITABLE).doing(what)?;
            let seat = Seat { group: format!("{}-{group}", plan.prefix), member_id: String::new(), generation: 0 };
            let (read, write, since) = (Vec::new(), Vec::new(), Instant::now());
            members.push(Member { socket, read, write, waits: Waits::No, since, group, seat });
        }
        let groups = (0..plan.groups).map(|_| Group { generation: 0, seated: 0 }).collect();
        let joins_ns = Histogram::new_with_max(LONGEST_NS, DIGITS).map_err(|error| BenchError(error.to_string()))?;
        Ok(Storm { plan, members, groups, complete: 0, requests: 0, joins_ns })
    }

    fn join(&mut self, at: usize, now: Instant) -> Result<(), BenchError> {
        let member = &mut self.members[at];
        member.since = now;
        let frame = frames::join(&member.seat.group, self.plan.session_timeout_ms, &member.seat.member_id);
        member.ask(&frame, Waits::Join)
    }

    /// Sends heartbeats of members whose group is not complete.
    fn beat(&mut self, now: Instant) -> Result<(), BenchError> {
        let width = self.plan.group_members;
        for member in &mut self.members {
            if member.waits == Waits::No && self.groups[member.group].seated < width {
                member.since = now;
                let frame = member.seat.heartbeat();
                member.ask(&frame, Waits::Heartbeat)?;
            }
        }
        Ok(())
    }

    /// Reads the answers of one member and continues it.
    fn turn(&mut self, at: usize, scratch: &mut [u8], now: Instant) -> Result<(), BenchError> {
        let member = &mut self.members[at];
        flush(&mut member.socket, &mut member.write).doing(|| "sending a request".to_owned())?;
        if fill(&mut member.socket, scratch, &mut member.read).doing(|| "reading answers".to_owned())? == Filled::Closed
        {
            return Err(BenchError("the broker has closed a connection".to_owned()));
        }
        let Some(length) = member.read.first_chunk().copied().map(u32::from_be_bytes) else { return Ok(()) };
        let end = 4 + length as usize;
        if member.read.len() < end {
            return Ok(());
        }
        let frame: Vec<u8> = member.read.drain(..end).collect();
        self.answered(at, &mut Answer(&frame[8..]), now)
    }

    /// Handles an answer of one member, after the correlation id.
    fn answered(&mut self, at: usize, answer: &mut Answer<'_>, now: Instant) -> Result<(), BenchError> {
        self.requests += 1;
        let member = &mut self.members[at];
        let waited = std::mem::replace(&mut member.waits, Waits::No);
        if waited == Waits::Join {
            self.joins_ns.saturating_record(now.duration_since(member.since).as_nanos() as u64);
        }
        answer.i32()?;
        match answer.i16()? {
            0 => {}
            code if code == UNKNOWN_MEMBER_ID || crowd::AGAIN.contains(&code) => {
                if code == UNKNOWN_MEMBER_ID {
                    member.seat.member_id.clear();
                }
                self.leave_seat(at, waited);
                return self.join(at, now);
            }
            code => {
                return Err(BenchError(format!("{waited:?} in {} was answered with error {code}", member.seat.group)));
            }
        }
        match waited {
            Waits::Join => {
                member.seat.generation = answer.i32()?;
                answer.text()?;
                answer.text()?;
                member.seat.member_id = answer.text()?;
                let Seat { group, generation, member_id } = &member.seat;
                let (frame, generation) = (frames::sync(group, *generation, member_id), *generation);
                let group = &mut self.groups[member.group];
                if generation > group.generation {
                    *group = Group { generation, seated: 0 };
                }
                member.ask(&frame, Waits::Sync)
            }
            Waits::Sync => {
                let group = &mut self.groups[member.group];
                if member.seat.generation == group.generation {
                    group.seated += 1;
                    self.complete += usize::from(group.seated == self.plan.group_members);
                }
                Ok(())
            }
            Waits::Heartbeat | Waits::No => Ok(()),
        }
    }

    /// Removes a member from the latest generation.
    fn leave_seat(&mut self, at: usize, waited: Waits) {
        let member = &self.members[at];
        let group = &mut self.groups[member.group];
        if waited == Waits::Heartbeat && member.seat.generation == group.generation {
            group.seated -= 1;
        }
    }
}

impl Member {
    fn ask(&mut self, frame: &[u8], waits: Waits) -> Result<(), BenchError> {
        self.write.extend_from_slice(frame);
        self.waits = waits;
        flush(&mut self.socket, &mut self.write).doing(|| "sending a request".to_owned())
    }
}
