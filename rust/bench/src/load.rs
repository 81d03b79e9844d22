//! Heartbeats over many connections from one thread, one or more in flight on each.
//!
//! *Closed loop*: the next heartbeat goes out when an answer has come; what is measured is how long answers take at the
//! rate that the server itself allows. *Open loop*: heartbeats are due at a steady rate, whatever the answers do, and the
//! time of each is counted from when it was due, so that a pause of the server counts for everyone who would have
//! asked meanwhile (coordinated omission).

use std::{
    collections::VecDeque,
    io::ErrorKind,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;

use crate::{
    BenchError, Doing,
    crowd::Seat,
    frames::CORRELATION_AT,
    line::{Filled, Line},
};

const READ_BYTES: usize = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);
const SHORTEST_SLEEP: Duration = Duration::from_millis(2);
/// Maximum distinguished time in nanoseconds.
const LONGEST_NS: u64 = 120_000_000_000;
const DIGITS: u8 = 3;

/// The plan of a load.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Number of connections.
    pub connections: usize,
    /// Heartbeats in flight per connection, in a closed loop.
    pub depth: usize,
    /// Warm-up, without measurement.
    pub warm_up: Duration,
    /// Duration of the measurement.
    pub duration: Duration,
    /// Heartbeats per second in an open loop; `None`: closed loop.
    pub rate: Option<f64>,
    /// TLS, and the name of the broker in its certificate; `None`: plain sockets.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// Number of counted answers.
    pub answers: u64,
    /// Number of those with an error code.
    pub errors: u64,
    /// Duration of the measurement.
    pub elapsed: Duration,
    /// Nanoseconds per heartbeat.
    pub took_ns: Histogram<u64>,
    /// In an open loop, nanoseconds between the due time and the sending of each heartbeat: the delay of the load's own
    /// thread, not of the server. `took_ns` includes it.
    pub late_ns: Histogram<u64>,
}

/// Returns (share, nanoseconds) along a distribution: the usual percentiles and points between them.
pub fn points(ns: &Histogram<u64>) -> Vec<(f64, u64)> {
    let between = ns.iter_quantiles(5).map(|point| (point.quantile_iterated_to(), point.value_iterated_to()));
    let named = [0.5, 0.9, 0.99, 0.999, 0.9999].map(|share| (share, ns.value_at_quantile(share)));
    let mut points: Vec<(f64, u64)> = between.chain(named).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points.dedup();
    points
}

struct Caller {
    line: Line,
    frames: Vec<Vec<u8>>,
    next: usize,
    read: Vec<u8>,
    write: Vec<u8>,
    /// Send or due times of heartbeats in flight.
    since: VecDeque<Instant>,
    correlation_id: u32,
    expected_id: u32,
}

impl Caller {
    fn ask(&mut self, since: Instant) {
        let frame = &self.frames[self.next];
        self.next = (self.next + 1) % self.frames.len();
        let start = self.write.len() + CORRELATION_AT;
        self.write.extend_from_slice(frame);
        self.write[start..start + 4].copy_from_slice(&self.correlation_id.to_be_bytes());
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.since.push_back(since);
    }

    /// Reads all answers, and calls `each` with the start and error of each.
    fn receive(&mut self, scratch: &mut [u8], mut each: impl FnMut(Instant, u16)) -> Result<usize, BenchError> {
        if self.line.fill(scratch, &mut self.read).doing(|| "reading answers".to_owned())? == Filled::Closed {
            return Err(BenchError("the broker has closed a connection".to_owned()));
        }
        let (mut at, mut answers) = (0, 0);
        while let Some(length) = self.read.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes) {
            let end = at + 4 + length as usize;
            let Some(answer) = self.read.get(at + 4..end) else { break };
            let [c0, c1, c2, c3, _, _, _, _, e0, e1] = *answer else {
                return Err(BenchError(format!("an answer to a heartbeat has {} bytes, not 10", answer.len())));
            };
            let correlation_id = u32::from_be_bytes([c0, c1, c2, c3]);
            let since = self.since.pop_front().filter(|_| correlation_id == self.expected_id);
            let Some(since) = since else {
                return Err(BenchError(format!(
                    "an answer to request {correlation_id} came where {} was due",
                    self.expected_id
                )));
            };
            self.expected_id = self.expected_id.wrapping_add(1);
            each(since, u16::from_be_bytes([e0, e1]));
            answers += 1;
            at = end;
        }
        self.read.drain(..at);
        Ok(answers)
    }
}

/// Runs the load. Seats are dealt to the connections in turn.
pub fn run(broker: SocketAddr, seats: &[Seat], plan: &LoadPlan) -> Result<LoadResult, BenchError> {
    let what = || "the load's event loop".to_owned();
    let mut poll = Poll::new().doing(what)?;
    let mut events = Events::with_capacity(1_024);
    let mut callers = connect(broker, seats, plan, &poll)?;
    let mut scratch = vec![0; READ_BYTES];
    let histogram = || Histogram::new_with_max(LONGEST_NS, DIGITS).map_err(|error| BenchError(error.to_string()));
    let (took_ns, late_ns) = (histogram()?, histogram()?);
    let mut measured = LoadResult { answers: 0, errors: 0, elapsed: Duration::ZERO, took_ns, late_ns };
    let began = Instant::now();
    let (counted_from, until) = (began + plan.warm_up, began + plan.warm_up + plan.duration);
    let mut pace = plan.rate.map(|rate| Pace { began, every: Duration::from_secs_f64(1.0 / rate), asked: 0 });
    if pace.is_none() {
        for caller in &mut callers {
            (0..plan.depth).for_each(|_| caller.ask(began));
            caller.line.flush(&mut caller.write).doing(|| "sending heartbeats".to_owned())?;
        }
    }
    let (mut now, mut heard) = (began, began);
    while now < until {
        let wait = pace.as_mut().map_or(PATIENCE, |pace| {
            pace.ask_what_is_due(&mut callers, until, |since, now| {
                if since >= counted_from {
                    measured.late_ns.saturating_record(now.duration_since(since).as_nanos() as u64);
                }
            })
        });
        if pace.is_some() {
            send_all(&mut callers)?;
        }
        match poll.poll(&mut events, Some(wait.min(until - now))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => done.doing(what)?,
        }
        now = Instant::now();
        for event in &events {
            let caller = &mut callers[event.token().0];
            let answers = caller.receive(&mut scratch, |since, error| {
                if now >= counted_from {
                    measured.answers += 1;
                    measured.errors += u64::from(error != 0);
                    measured.took_ns.saturating_record(now.duration_since(since).as_nanos() as u64);
                }
            })?;
            if answers > 0 {
                heard = now;
            }
            if pace.is_none() {
                (0..answers).for_each(|_| caller.ask(now));
            }
            caller.line.flush(&mut caller.write).doing(|| "sending heartbeats".to_owned())?;
        }
        if now.duration_since(heard) > PATIENCE {
            return Err(BenchError(format!("no answer from {broker} in {PATIENCE:?}")));
        }
    }
    measured.elapsed = now - counted_from;
    Ok(measured)
}

fn connect(broker: SocketAddr, seats: &[Seat], plan: &LoadPlan, poll: &Poll) -> Result<Vec<Caller>, BenchError> {
    let what = || format!("connecting to {broker}");
    let mut callers = Vec::with_capacity(plan.connections);
    for at in 0..plan.connections {
        let socket = std::net::TcpStream::connect_timeout(&broker, PATIENCE).doing(what)?;
        socket.set_nodelay(true).doing(what)?;
        let mut line = Line::connected(socket, plan.tls.as_ref()).doing(what)?;
        poll.registry().register(line.socket(), Token(at), Interest::READABLE | Interest::WRITABLE).doing(what)?;
        // With fewer seats than connections, some seats use several connections.
        let first = at % seats.len();
        let frames = seats[first..].iter().step_by(plan.connections).map(Seat::heartbeat).collect();
        let (read, write, since) = (Vec::new(), Vec::new(), VecDeque::new());
        callers.push(Caller { line, frames, next: 0, read, write, since, correlation_id: 0, expected_id: 0 });
    }
    Ok(callers)
}

fn send_all(callers: &mut [Caller]) -> Result<(), BenchError> {
    for caller in callers.iter_mut().filter(|caller| !caller.write.is_empty()) {
        caller.line.flush(&mut caller.write).doing(|| "sending heartbeats".to_owned())?;
    }
    Ok(())
}

/// The steady rate of an open loop.
struct Pace {
    began: Instant,
    every: Duration,
    asked: u64,
}

impl Pace {
    fn due(&self) -> Instant {
        self.began + Duration::from_nanos((self.every.as_nanos() as u64).saturating_mul(self.asked))
    }

    /// Asks for everything that is due, connection by connection, and calls `each` with when it was and the time now; how
    /// long to wait for the next one. Nothing is asked that is due after the end, however late it is. The poll sleeps in
    /// whole milliseconds, so what is due sooner is waited for awake.
    fn ask_what_is_due(
        &mut self,
        callers: &mut [Caller],
        until: Instant,
        mut each: impl FnMut(Instant, Instant),
    ) -> Duration {
        let now = Instant::now();
        while self.due() <= now.min(until) {
            let at = self.asked as usize % callers.len();
            callers[at].ask(self.due());
            each(self.due(), now);
            self.asked += 1;
        }
        self.due().saturating_duration_since(now).saturating_sub(SHORTEST_SLEEP)
    }
}
