//! The request trace: one line per request and answer.
//!
//! A traced connection has a [`ConnectionTrace`]; any other one costs a check of an empty option. The node's thread
//! formats lines, and a separate thread writes them from a queue of [`LINES_WAITING_MAX`]. A slow reader loses lines,
//! which a later line counts, but never delays a request.

use std::{
    cell::Cell,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

pub use rota_wire::line::Layout;
use rota_wire::{RequestHeader, WireError, line::Line, show, versions::Api};

use crate::base::place::Place;

/// Maximum lines that wait to be written. Further lines are dropped.
pub const LINES_WAITING_MAX: usize = 4_096;

/// The sending side of a trace, cloned for every connection.
#[derive(Clone)]
pub struct Trace {
    layout: Layout,
    lines: SyncSender<Option<String>>,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Trace").field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// The thread that writes the trace.
#[derive(Debug)]
pub struct TraceWriter {
    lines: SyncSender<Option<String>>,
    ending: Arc<AtomicBool>,
    ended: Mutex<Receiver<()>>,
}

impl TraceWriter {
    /// Writes all earlier lines and ends the thread, within `timeout`.
    pub fn finish(&self, timeout: Duration) {
        self.ending.store(true, Ordering::Release);
        // If the queue is full, the thread is awake and will check whether to end.
        let _awake = self.lines.try_send(None);
        // The thread disconnects the channel however it ends.
        let _ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(timeout);
    }
}

/// Starts a trace. `write` gets each line, without line break.
pub fn begin(layout: Layout, mut write: impl FnMut(&str) + Send + 'static) -> std::io::Result<(Trace, TraceWriter)> {
    let (lines, waiting) = sync_channel::<Option<String>>(LINES_WAITING_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let trace = Trace { layout, lines: lines.clone(), dropped: Arc::clone(&dropped) };
    let (end, ended) = sync_channel::<()>(0);
    let ending = Arc::new(AtomicBool::new(false));
    let is_ending = Arc::clone(&ending);
    thread::Builder::new().name("rota-trace".to_owned()).spawn(move || {
        let _ends_with_the_thread = end;
        loop {
            let next = match waiting.try_recv() {
                Err(TryRecvError::Empty) if is_ending.load(Ordering::Acquire) => break,
                Err(TryRecvError::Empty) => {
                    told(layout, &dropped).inspect(|line| write(line));
                    waiting.recv().ok()
                }
                taken => taken.ok(),
            };
            match next {
                Some(Some(line)) => write(&line),
                Some(None) => {}
                None => break,
            }
        }
        told(layout, &dropped).inspect(|line| write(line));
    })?;
    Ok((trace, TraceWriter { lines, ending, ended: Mutex::new(ended) }))
}

/// Returns a line about dropped lines, if any were dropped since the last one.
fn told(layout: Layout, dropped: &AtomicU64) -> Option<String> {
    let count = dropped.swap(0, Ordering::Relaxed);
    (count > 0).then(|| about_dropped(layout, count))
}

fn about_dropped(layout: Layout, count: u64) -> String {
    let mut line = Line::new(layout);
    match layout {
        Layout::Text => line.literal(&format!("{count} lines were dropped: the trace is read too slowly")),
        Layout::Json => {
            line.name("dropped");
            line.plain(count);
        }
    }
    line.finish()
}

impl Trace {
    fn send(&self, line: Line) {
        let missing = self.dropped.swap(0, Ordering::Relaxed);
        let told = missing == 0 || self.lines.try_send(Some(about_dropped(self.layout, missing))).is_ok();
        let untold = if told { 0 } else { missing };
        let sent = told && !matches!(self.lines.try_send(Some(line.finish())), Err(TrySendError::Full(_)));
        self.dropped.fetch_add(untold + u64::from(!sent), Ordering::Relaxed);
    }

    /// Returns the trace of one connection to the node at `place`.
    pub fn of(&self, place: &Place, id: u64, peer: SocketAddr) -> ConnectionTrace {
        let node_id = place.node_id;
        let name = if place.nodes > 1 { format!("{node_id}#{id}") } else { format!("#{id}") };
        ConnectionTrace {
            trace: self.clone(),
            name,
            node_id,
            id,
            peer,
            current: Cell::new(None),
            paused: Cell::new(false),
        }
    }
}

/// The trace of one connection, which has one current request.
#[derive(Debug)]
pub struct ConnectionTrace {
    trace: Trace,
    /// `#` and the connection number; with several nodes, after the node id.
    name: String,
    node_id: i32,
    id: u64,
    peer: SocketAddr,
    current: Cell<Option<Current>>,
    /// Whether the current request was shown and will be handled again.
    paused: Cell<bool>,
}

/// The request without an answer so far.
#[derive(Clone, Copy, Debug)]
struct Current {
    api: &'static Api,
    version: i16,
    since: Instant,
}

impl ConnectionTrace {
    /// Traces a request.
    pub fn request(&self, header: &RequestHeader<'_>, body: &[u8]) {
        if self.paused.replace(false) {
            return;
        }
        let RequestHeader { api, version, correlation_id, client_id } = *header;
        let mut line = self.line("->", "request");
        about(&mut line, api, version, correlation_id);
        line.name(if line.layout() == Layout::Json { "client_id" } else { "client" });
        line.str(client_id);
        fields(&mut line, |line| {
            // `ApiVersions` answers versions that it does not serve, and cannot decode their bodies.
            if api.serves(version) {
                show::request(line, header, body);
            }
        });
        self.trace.send(line);
        self.current.set(Some(Current { api, version, since: Instant::now() }));
    }

    /// Records that a test holds the request back, to be handled again.
    pub fn paused(&self) {
        self.paused.set(true);
    }

    /// Traces the answer of the last request: its frame without the length.
    pub fn answer(&self, frame: &[u8]) {
        const UNSERVED_LAYOUT: i16 = 0;
        let Some(Current { api, version, since }) = self.current.take() else { return };
        let layout_version = if api.serves(version) { version } else { UNSERVED_LAYOUT };
        let Some((correlation_id, rest)) = frame.split_first_chunk::<4>() else { return };
        let body = if api.tagged_answer_header(layout_version) { rest.get(1..).unwrap_or_default() } else { rest };
        let mut line = self.line("<-", "answer");
        about(&mut line, api, version, i32::from_be_bytes(*correlation_id));
        after(&mut line, since.elapsed());
        fields(&mut line, |line| show::answer(line, api, layout_version, body));
        self.trace.send(line);
    }

    /// Traces that the connection is closed instead of answered.
    pub fn closed(&self, reason: Option<WireError>) {
        let mut line = self.line("--", "closed");
        if let Some(Current { api, version, .. }) = self.current.take() {
            line.name("api");
            line.str(api.name);
            line.name("version");
            line.plain(version);
        }
        line.name("reason");
        match reason {
            Some(error) => line.str(&error.to_string()),
            None => line.str("there is no answer to this request"),
        }
        self.trace.send(line);
    }

    /// Starts a line with the common fields.
    fn line(&self, arrow: &str, event: &str) -> Line {
        let mut line = Line::new(self.trace.layout);
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        if line.layout() == Layout::Text {
            line.literal(&format!("{} {} {arrow}", time_of_day(now_ms), self.name));
            return line;
        }
        line.name("time");
        line.str(&format!("{}T{}Z", date(now_ms), time_of_day(now_ms)));
        line.name("node");
        line.plain(self.node_id);
        line.name("connection");
        line.plain(self.id);
        line.name("peer");
        line.str(&self.peer.to_string());
        line.name("event");
        line.str(event);
        line
    }
}

fn about(line: &mut Line, api: &Api, version: i16, correlation_id: i32) {
    if line.layout() == Layout::Text {
        line.literal(&format!(" {} v{version} ({correlation_id})", api.name));
        return;
    }
    line.name("api");
    line.str(api.name);
    line.name("version");
    line.plain(version);
    line.name("correlation_id");
    line.plain(correlation_id);
}

fn after(line: &mut Line, elapsed: Duration) {
    let (ms, tenths) = (elapsed.as_millis(), elapsed.subsec_micros() / 100 % 10);
    if line.layout() == Layout::Text {
        line.literal(&format!(" after {ms}.{tenths} ms:"));
    } else {
        line.name("duration_ms");
        line.plain(format_args!("{ms}.{tenths}"));
    }
}

/// Adds the fields of the message; in JSON in their own object, to avoid name collisions.
fn fields(line: &mut Line, show: impl FnOnce(&mut Line)) {
    if line.layout() == Layout::Text {
        return show(line);
    }
    line.name("fields");
    line.open('{');
    show(line);
    line.close('}');
}

const MS_PER_DAY: u128 = 86_400_000;

/// Formats `HH:MM:SS.mmm` in UTC.
fn time_of_day(unix_ms: u128) -> String {
    let ms = unix_ms % MS_PER_DAY;
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
}

/// Formats `YYYY-MM-DD` in UTC.
fn date(unix_ms: u128) -> String {
    let leap = |year: u128| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut days) = (1970, unix_ms / MS_PER_DAY);
    while days >= 365 + u128::from(leap(year)) {
        days -= 365 + u128::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u128::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rota_wire::versions;

    use super::*;

    #[test]
    fn a_time_is_written_in_utc() {
        // From `date --utc --date=@...`.
        assert_eq!((date(0), time_of_day(0)), ("1970-01-01".to_owned(), "00:00:00.000".to_owned()));
        assert_eq!(date(951_782_400_000), "2000-02-29");
        assert_eq!(date(4_107_542_400_000), "2100-03-01");
        assert_eq!(
            (date(1_798_761_599_999), &*time_of_day(1_798_761_599_999)),
            ("2026-12-31".to_owned(), "23:59:59.999")
        );
    }

    #[test]
    fn a_reader_that_is_too_slow_loses_lines_and_is_told_how_many() {
        let (go, wait) = channel::<()>();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&seen);
        let (trace, writer) = begin(Layout::Json, move |line| {
            // Until the sender is gone, which lets every later line through.
            let _gone = wait.recv();
            lines.lock().unwrap().push(line.to_owned());
        })
        .unwrap();
        let place = Place { cluster_id: String::new(), node_id: 1, nodes: 1, listeners: Arc::default() };
        let connection = trace.of(&place, 1, ([127, 0, 0, 1], 9).into());
        let api = versions::find(versions::HEARTBEAT).unwrap();
        let header = RequestHeader { api, version: 0, correlation_id: 1, client_id: "c" };
        let sent = LINES_WAITING_MAX + 1_000;
        for _ in 0..sent {
            connection.request(&header, b"");
        }
        drop(go);
        writer.finish(Duration::from_secs(10));
        let seen = seen.lock().unwrap();
        let dropped: usize = seen
            .iter()
            .filter_map(|line| line.strip_prefix("{\"dropped\":")?.strip_suffix('}')?.parse::<usize>().ok())
            .sum();
        let written = seen.iter().filter(|line| line.contains("Heartbeat")).count();
        assert!((LINES_WAITING_MAX..=LINES_WAITING_MAX + 1).contains(&written), "{written}");
        assert_eq!(written + dropped, sent);
    }
}
