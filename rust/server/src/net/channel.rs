//! The task of one connection: bytes in, requests in order, answers out (docs/protocol.md §17.1).
//!
//! Requests are handled one at a time. Behind a parked one nothing is handled until it is answered, though up to
//! [`AHEAD_BYTES_MAX`] are read, so that the end of the connection is noticed. Everything that is there is handled
//! before anything is written, though after [`TURN_HEARTBEATS`] the other connections have their turns in between.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
};

use bytes::{Buf, BytesMut};
use rota_wire::{
    WireError,
    frame::{LENGTH_BYTES, frame_length},
    versions,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
    select,
};

use super::{connection::Connection, event_loop::EventLoop};
use crate::{
    apis::{self, Handled, fetch::FetchWait},
    client::{Client, Ending},
    faults::Disturbance,
    node::heartbeats::{self, Taken},
};

/// What is read behind a parked request.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Answers are written when so much has gathered, even if more requests are there.
const WRITE_BYTES: usize = 256 * 1024;

/// So many heartbeats of one connection are handled, and then the requests of others: what somebody waits for whose
/// request comes while many send without pause. docs/limits.md has what other numbers cost.
const TURN_HEARTBEATS: u32 = 64;

/// How many heartbeats any other request counts for: about as many take as long as a commit of a new group.
const REQUEST_HEARTBEATS: u32 = 8;

/// How many heartbeats the request in a frame counts for.
fn heartbeats_in(frame: &[u8]) -> u32 {
    if frame.starts_with(&versions::HEARTBEAT.to_be_bytes()) { 1 } else { REQUEST_HEARTBEATS }
}

/// Buffers above this size are not kept while a connection is quiet.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// What a connection does when all it could handle is handled.
enum Next {
    /// Read more.
    Read,
    /// Let others have their turns, then handle more of what is there.
    Turn,
    /// Write, let others have their turns, then handle more of what is there.
    Write,
    /// Wait for the answer of a parked request.
    Parked,
    /// Wait until the member is heard again.
    Paused,
    /// Wait for data to fetch.
    Fetch(Box<FetchWait>),
    /// Write later, or close, as a test wants the network to do.
    Disturbed(Disturbance),
    /// Write, then close.
    Close,
}

/// The task of one connection.
pub struct Channel {
    pub(super) event_loop: Rc<EventLoop>,
    connection: Rc<Connection>,
    pub(super) client: Rc<Client>,
    pub(super) stream: TcpStream,
    /// How late the answer of the parked request is to be.
    pub(super) late: Cell<Option<Disturbance>>,
    /// Bytes that were read and not handled: an unfinished frame, or what came behind a parked request.
    buffered: BytesMut,
    end_of_stream: bool,
    /// Bytes of a fetch that waits.
    waiting_bytes: usize,
    /// Requests since others had their turns, in heartbeats.
    turn_heartbeats: u32,
    /// The last read took all that one read may take: others have their turns before the next.
    has_more: bool,
}

impl Channel {
    /// A channel over an accepted stream.
    pub fn new(event_loop: Rc<EventLoop>, connection: Rc<Connection>, stream: TcpStream) -> Channel {
        let client = Rc::clone(&connection.client);
        Channel {
            event_loop,
            connection,
            client,
            stream,
            late: Cell::new(None),
            buffered: BytesMut::new(),
            end_of_stream: false,
            waiting_bytes: 0,
            turn_heartbeats: 0,
            has_more: false,
        }
    }

    /// Serves until either side closes.
    pub async fn serve(mut self) {
        // An error of the socket ends the connection like a close: there is nobody to tell.
        let _ended = self.run().await;
    }

    async fn run(&mut self) -> io::Result<()> {
        let mut next = self.handle_when_heard().await?;
        loop {
            if let Next::Disturbed(disturbance) = next {
                self.suffer(disturbance).await?;
            }
            let goes_on = matches!(next, Next::Turn) && self.client.ending() == Ending::No;
            if !goes_on {
                self.write().await?;
            }
            if goes_on || self.has_more || matches!(next, Next::Write) {
                self.turn_heartbeats = 0;
                tokio::task::yield_now().await;
            }
            match next {
                Next::Close => return Ok(()),
                Next::Turn if goes_on => {}
                Next::Write | Next::Disturbed(_) => {}
                _ if self.client.ending() != Ending::No => return Ok(()),
                Next::Parked => {
                    self.wait_for_answer().await?;
                    self.suffer_what_is_left().await?;
                }
                Next::Turn | Next::Paused => {}
                Next::Fetch(wait) => {
                    self.wait_for_data(*wait).await?;
                    self.suffer_what_is_left().await?;
                }
                Next::Read if self.end_of_stream => return Ok(()),
                Next::Read => {
                    if let Some(after) = poll_fn(|context| self.poll_read(context)).await? {
                        next = after;
                        continue;
                    }
                }
            }
            next = self.handle_when_heard().await?;
        }
    }

    /// Handles what is there, but nothing while its member is paused.
    async fn handle_when_heard(&mut self) -> io::Result<Next> {
        if self.client.is_paused() {
            self.wait_while(Client::is_paused).await?;
        }
        Ok(self.handle_buffered())
    }

    fn handle_buffered(&mut self) -> Next {
        let mut heartbeats = self.turn_heartbeats;
        let (handled, next) = self.handle(&self.buffered, &mut heartbeats);
        self.turn_heartbeats = heartbeats;
        if handled == self.buffered.len() {
            self.buffered.clear();
            if self.buffered.capacity() > KEPT_BYTES_MAX {
                self.buffered = BytesMut::new();
            }
        } else {
            self.buffered.advance(handled);
        }
        self.account();
        next
    }

    /// Waits for bytes, reads once, and handles them where they are if none are kept from before. `None`: it has been
    /// woken.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Next>>> {
        // Whoever paused it may have been heard while it wrote.
        if self.client.is_paused() || self.client.wake().poll(context).is_ready() {
            return Poll::Ready(Ok(None));
        }
        let event_loop = Rc::clone(&self.event_loop);
        let scratch = &mut *event_loop.scratch.borrow_mut();
        let mut bytes = ReadBuf::new(scratch);
        // Unlike `try_read`, it knows from a short read that there is no more, and does not ask again.
        match Pin::new(&mut self.stream).poll_read(context, &mut bytes) {
            Poll::Ready(read) => read?,
            Poll::Pending => {
                // The others have their turns now.
                self.turn_heartbeats = 0;
                return Poll::Pending;
            }
        }
        let has_more = bytes.remaining() == 0;
        let bytes = bytes.filled();
        self.have_read(bytes.len(), has_more);
        if !self.buffered.is_empty() {
            self.buffered.extend_from_slice(bytes);
            return Poll::Ready(Ok(Some(self.handle_buffered())));
        }
        let mut heartbeats = self.turn_heartbeats;
        let (handled, next) = self.handle(bytes, &mut heartbeats);
        self.turn_heartbeats = heartbeats;
        self.buffered.extend_from_slice(&bytes[handled..]);
        self.account();
        Poll::Ready(Ok(Some(next)))
    }

    /// Handles the frames that `bytes` begins with, and counts them in `heartbeats`; returns how many bytes they took.
    fn handle(&self, bytes: &[u8], heartbeats: &mut u32) -> (usize, Next) {
        let mut handled = 0;
        while !self.client.is_parked() {
            let rest = &bytes[handled..];
            let beats = self.take_heartbeats(rest, TURN_HEARTBEATS.saturating_sub(*heartbeats));
            if beats.count > 0 {
                handled += beats.bytes;
                *heartbeats += beats.count;
                if self.client.out_bytes() >= WRITE_BYTES {
                    return (handled, Next::Write);
                }
                continue;
            }
            let length = match frame_length(rest, self.event_loop.request_max_bytes) {
                Ok(Some(length)) if rest.len() - LENGTH_BYTES >= length => length,
                Ok(_) => return (handled, Next::Read),
                Err(_) => return (handled, Next::Close),
            };
            if *heartbeats >= TURN_HEARTBEATS {
                return (handled, Next::Turn);
            }
            let frame = &rest[LENGTH_BYTES..LENGTH_BYTES + length];
            *heartbeats += heartbeats_in(frame);
            handled += LENGTH_BYTES + length;
            let mut handled_as = apis::handle(&mut self.event_loop.node.borrow_mut(), &self.client, frame);
            if let Ok(Handled::Late(later, disturbance)) = handled_as {
                self.late.set(Some(disturbance));
                handled_as = Ok(*later);
            }
            match handled_as {
                Ok(Handled::Answered) if self.client.out_bytes() >= WRITE_BYTES => {
                    return (handled, Next::Write);
                }
                Ok(Handled::Answered) => {}
                Ok(Handled::Parked) => break,
                // It stays where it is, and is looked at again later.
                Ok(Handled::Paused) => return (handled - LENGTH_BYTES - length, Next::Paused),
                Ok(Handled::Fetch(wait)) => return (handled, Next::Fetch(wait)),
                Ok(Handled::Disturbed(disturbance)) => return (handled, Next::Disturbed(disturbance)),
                Err(WireError::Panicked) => {
                    self.event_loop.panicked(&self.client);
                    return (handled, Next::Close);
                }
                Ok(Handled::Close | Handled::Late(..)) | Err(_) => return (handled, Next::Close),
            }
        }
        (handled, Next::Parked)
    }

    /// The heartbeats that `bytes` begins with and that can take the fast path.
    fn take_heartbeats(&self, bytes: &[u8], max: u32) -> Taken {
        let node = &mut self.event_loop.node.borrow_mut();
        heartbeats::take(node, &self.client, bytes, self.event_loop.request_max_bytes, max)
    }

    /// Waits while `holds` says so of its client and the connection goes on.
    async fn wait_while(&mut self, holds: impl Fn(&Client) -> bool) -> io::Result<()> {
        let client = Rc::clone(&self.client);
        while holds(&client) && client.ending() == Ending::No {
            self.read_ahead_until(client.wake().told()).await?;
        }
        Ok(())
    }

    /// Waits for `event`. Meanwhile it reads as much as it may, so that the end of the connection is noticed.
    pub(super) async fn read_ahead_until<T>(&mut self, event: impl Future<Output = T>) -> io::Result<T> {
        let mut event = pin!(event);
        loop {
            let ahead = self.may_read_ahead();
            select! {
                output = &mut event => return Ok(output),
                ready = self.stream.readable(), if ahead => {
                    ready?;
                    self.read_ready()?;
                }
            }
        }
    }

    fn may_read_ahead(&self) -> bool {
        !self.end_of_stream && self.buffered.len() < AHEAD_BYTES_MAX
    }

    fn read_ready(&mut self) -> io::Result<()> {
        let event_loop = Rc::clone(&self.event_loop);
        let mut scratch = event_loop.scratch.borrow_mut();
        let count = match self.stream.try_read(&mut scratch) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        self.have_read(count, count == scratch.len());
        self.buffered.extend_from_slice(&scratch[..count]);
        self.account();
        Ok(())
    }

    /// So many bytes have been read; perhaps there are more.
    fn have_read(&mut self, count: usize, has_more: bool) {
        self.end_of_stream = count == 0;
        self.has_more = has_more;
        self.client.set_gone(self.end_of_stream);
        self.connection.has_moved.set(true);
    }

    /// Waits until the parked request is answered. A client that closes meanwhile changes nothing for its member, and
    /// whole requests that it sent before are handled in their turn.
    async fn wait_for_answer(&mut self) -> io::Result<()> {
        self.client.set_awaiting(true);
        let result = self.wait_while(Client::is_parked).await;
        self.client.set_awaiting(false);
        result
    }

    /// Waits until there is enough to fetch, or time is up, and answers.
    async fn wait_for_data(&mut self, wait: FetchWait) -> io::Result<()> {
        self.waiting_bytes = wait.size_bytes();
        self.account();
        let result = self.watch_until_finished(&wait).await;
        self.waiting_bytes = 0;
        result
    }

    async fn watch_until_finished(&mut self, wait: &FetchWait) -> io::Result<()> {
        loop {
            let watch = wait.watch(&mut self.event_loop.node.borrow_mut());
            let waited = self.read_ahead_until_woken(wait).await;
            let node = &mut self.event_loop.node.borrow_mut();
            FetchWait::unwatch(node, watch);
            waited?;
            let over = self.client.ending() != Ending::No;
            if wait.finish(node, over) {
                return Ok(());
            }
        }
    }

    /// Bytes that come meanwhile are no reason to look at the partitions again.
    async fn read_ahead_until_woken(&mut self, wait: &FetchWait) -> io::Result<()> {
        let client = Rc::clone(&self.client);
        let woken = async {
            select! {
                () = client.data().notified() => {}
                () = tokio::time::sleep_until(wait.until) => {}
                () = client.wake().told() => {}
            }
        };
        self.read_ahead_until(woken).await
    }

    /// Writes everything that is answered.
    async fn write(&mut self) -> io::Result<()> {
        loop {
            let mut out = std::mem::take(&mut *self.client.out());
            if out.is_empty() {
                if out.capacity() <= KEPT_BYTES_MAX {
                    *self.client.out() = out;
                }
                return Ok(());
            }
            self.write_all(&mut out).await?;
            if self.client.out_bytes() == 0 {
                out.clear();
                *self.client.out() = out;
            }
            self.account();
        }
    }

    async fn write_all(&mut self, out: &mut BytesMut) -> io::Result<()> {
        while !out.is_empty() {
            match self.stream.try_write(out) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    out.advance(count);
                    self.connection.has_moved.set(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    select! {
                        ready = self.stream.writable() => ready?,
                        () = self.client.wake().told() => {}
                    }
                }
                Err(error) => return Err(error),
            }
            if self.client.ending() == Ending::Now {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        Ok(())
    }

    fn account(&self) {
        let held = self.buffered.len() + self.client.out_bytes() + self.waiting_bytes;
        self.event_loop.hold(&self.connection, held);
    }
}

/// However its task ends, by a panic too, nobody counts on the connection any more.
impl Drop for Channel {
    fn drop(&mut self) {
        self.client.set_ended();
        if std::thread::panicking() {
            self.event_loop.panicked(&self.client);
        }
        self.event_loop.forget(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use std::{panic, sync::Arc};

    use super::*;

    /// A channel of a new node. The runtime lives as long as its stream.
    fn a_channel() -> (tokio::runtime::Runtime, Channel) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let event_loop = crate::net::event_loop::tests::of_a_new_node();
        let channel = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (peer, local) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
            let connection = Rc::new(Connection::new(1, Client::new(peer, local, None)));
            event_loop.remember(&connection);
            Channel::new(event_loop, connection, stream)
        });
        (runtime, channel)
    }

    #[test]
    fn of_many_requests_at_once_only_a_turn_is_handled_before_others_have_theirs() {
        let (_runtime, mut channel) = a_channel();
        // Heartbeat v0 of member `m` in group `g`, and the length of its answer.
        let (request, answer_bytes) = (b"\0\0\0\x14\0\x0c\0\0\0\0\0\x07\xff\xff\0\x01g\0\0\0\0\0\x01m", 10);
        let turn = TURN_HEARTBEATS as usize;
        channel.buffered.extend_from_slice(&request.repeat(2 * turn + 1));
        for turns in 1..=2 {
            assert!(matches!(channel.handle_buffered(), Next::Turn));
            assert_eq!(channel.client.out_bytes(), turns * turn * answer_bytes);
            // Until others have had their turns, it handles nothing more.
            assert!(matches!(channel.handle_buffered(), Next::Turn));
            assert_eq!(channel.client.out_bytes(), turns * turn * answer_bytes);
            channel.turn_heartbeats = 0;
        }
        assert!(matches!(channel.handle_buffered(), Next::Read));
        assert_eq!(channel.client.out_bytes(), (2 * turn + 1) * answer_bytes);
    }

    #[test]
    fn a_turn_has_fewer_of_the_requests_that_take_longer() {
        let (_runtime, mut channel) = a_channel();
        // ApiVersions v0, which any connection may ask.
        channel.buffered.extend_from_slice(&b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff".repeat(20));
        let handled = |channel: &Channel| 20 - channel.buffered.len() / 14;
        for turns in 1..=2 {
            assert!(matches!(channel.handle_buffered(), Next::Turn));
            assert_eq!(handled(&channel), turns * (TURN_HEARTBEATS / REQUEST_HEARTBEATS) as usize);
            channel.turn_heartbeats = 0;
        }
        assert!(matches!(channel.handle_buffered(), Next::Read));
    }

    #[test]
    fn behind_a_request_that_waits_only_so_much_is_read() {
        let (_runtime, mut channel) = a_channel();
        channel.buffered.extend_from_slice(&vec![0; AHEAD_BYTES_MAX - 1]);
        assert!(channel.may_read_ahead());
        channel.buffered.extend_from_slice(b"0");
        assert!(!channel.may_read_ahead());
    }

    #[test]
    fn a_panic_while_a_request_is_handled_is_counted_and_forgets_the_connection() {
        let (_runtime, channel) = a_channel();
        let event_loop = Rc::clone(&channel.event_loop);
        let shared = Arc::clone(&event_loop.shared);
        let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let _serving = channel;
            panic!("as a handler would");
        }));
        assert!(outcome.is_err());
        assert_eq!(shared.panics(), 1);
        assert_eq!(event_loop.connection_count(), 0);
    }
}
