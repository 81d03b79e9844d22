//! The task of one connection: reads bytes, handles requests in order, writes answers (docs/protocol.md §17.1).
//!
//! Requests are handled one at a time. After a parked request nothing is handled until its answer, but up to
//! [`AHEAD_BYTES_MAX`] are read, to notice the end of the connection. All buffered requests are handled before anything
//! is written; after [`TURN_HEARTBEATS`] other connections have their turn.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::{Buf, BytesMut};
use rota_security::{dn, principal, sasl::Login};
use rota_wire::{
    WireError,
    frame::{LENGTH_BYTES, frame_length},
    versions,
};
use tokio::{io::ReadBuf, select, sync::oneshot};

use super::{connection::Connection, event_loop::EventLoop, handshake::shake_hands, transport::Transport};
use crate::{
    apis::{self, Handled, fetch::FetchWait},
    base::refusals::Refusal,
    client::{Client, Ending},
    faults::Disturbance,
    node::heartbeats::{self, Taken},
};

/// Maximum bytes read after a parked request.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Size of unwritten answers that triggers a write, even if more requests are buffered.
const WRITE_BYTES: usize = 256 * 1024;

/// Heartbeats of one connection handled before other connections have their turn. It bounds the wait of other clients
/// while many send without pause. docs/limits.md has the cost of other values.
const TURN_HEARTBEATS: u32 = 64;

/// The weight of any other request in heartbeats: about as many take as long as a commit of a new group.
const REQUEST_HEARTBEATS: u32 = 8;

/// Requests that may take long although they are small: one reads compressed batches, the other compares a pattern with all
/// ids. Each ends a turn.
const LONG: [i16; 2] = [versions::LIST_OFFSETS, versions::LIST_TRANSACTIONS];

/// Returns the weight of the request in a frame, in heartbeats.
fn heartbeats_in(frame: &[u8]) -> u32 {
    match frame.first_chunk().map(|key| i16::from_be_bytes(*key)) {
        Some(versions::HEARTBEAT) => 1,
        Some(key) if LONG.contains(&key) => TURN_HEARTBEATS,
        _ => REQUEST_HEARTBEATS,
    }
}

/// The first bytes of a TLS handshake: its record type, and the major version. As a frame's length they are too large.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 0x03];

/// Whether bytes that are no frame begin a TLS handshake.
pub(super) fn is_tls_handshake(bytes: &[u8]) -> bool {
    bytes.starts_with(&TLS_HANDSHAKE)
}

/// Maximum size of buffers that an idle connection keeps.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// The next step of a connection after it handled what it could.
enum Next {
    /// Read more.
    Read,
    /// Yield to other connections, then handle more of the buffer.
    Turn,
    /// Write, yield to other connections, then handle more of the buffer.
    Write,
    /// Wait for the answer of a parked request.
    Parked,
    /// Wait until the member is resumed.
    Paused,
    /// Write, then authenticate the client again, beginning with the request at the start of the buffer.
    Authenticate,
    /// Wait until the engine has confirmed what the request at the start of the buffer reads.
    Unconfirmed(oneshot::Receiver<()>),
    /// Wait for data to fetch.
    Fetch(Box<FetchWait>),
    /// Delay the answer or close, as a network fault demands.
    Disturbed(Disturbance),
    /// Write, then close.
    Close,
}

/// The task of one connection.
pub struct Channel {
    pub(super) event_loop: Rc<EventLoop>,
    connection: Rc<Connection>,
    pub(super) client: Rc<Client>,
    pub(super) stream: Transport,
    /// The network fault of the parked request's answer.
    pub(super) late: Cell<Option<Disturbance>>,
    /// Bytes read but not handled: an unfinished frame, or requests after a parked one.
    pub(super) buffered: BytesMut,
    pub(super) end_of_stream: bool,
    /// User and mechanism of an authenticated client.
    pub(super) login: Option<Login>,
    /// Memory of a waiting fetch in bytes.
    waiting_bytes: usize,
    /// Size of the parked request: what it brought is on its way to the disk or another node, or waits with it.
    parked_bytes: Cell<usize>,
    /// Weight of the requests since the last yield, in heartbeats.
    turn_heartbeats: u32,
    /// Whether the last read filled the buffer. Other connections have their turn before the next.
    has_more: bool,
    /// Bytes handled since the read buffer was made, which keeps their memory.
    passed_bytes: usize,
}

impl Channel {
    /// Creates the channel of an accepted stream.
    pub fn new(event_loop: Rc<EventLoop>, connection: Rc<Connection>, stream: Transport) -> Channel {
        let client = Rc::clone(&connection.client);
        Channel {
            event_loop,
            connection,
            client,
            stream,
            late: Cell::new(None),
            buffered: BytesMut::new(),
            end_of_stream: false,
            login: None,
            waiting_bytes: 0,
            parked_bytes: Cell::new(0),
            turn_heartbeats: 0,
            has_more: false,
            passed_bytes: 0,
        }
    }

    /// Serves requests until either side closes.
    pub async fn serve(mut self) {
        if let Transport::Tls(stream) = &mut self.stream {
            let shaken = shake_hands(stream, &self.client, &self.event_loop.handshakes).await;
            if let Err(refusal) = shaken {
                return self.event_loop.refused(&self.client, refusal);
            }
            if let Some(certificate) = stream.client_certificate() {
                let name = dn::subject(certificate).and_then(|subject| self.event_loop.shared.mapping().name(&subject));
                match name {
                    // With SASL the user is the principal. The server may have it on other listeners only.
                    _ if self.client.listener().protocol.has_sasl() => {}
                    Some(name) => self.client.set_principal(&principal::of_user(&name)),
                    None => return self.event_loop.refused(&self.client, Refusal::NoMappingRule),
                }
            }
        }
        if self.client.listener().protocol.has_sasl() {
            // A server with such a listener does not start without users.
            let Some(sasl) = self.event_loop.shared.sasl() else { return };
            if !self.authenticate(&sasl).await {
                return;
            }
        }
        // An error of the socket ends the connection like a close. With TLS 1.3 a client may refuse the server's
        // certificate when the handshake is over for the server.
        if let Err(error) = self.run().await
            && error.kind() == io::ErrorKind::InvalidData
        {
            self.event_loop.refused(&self.client, Refusal::of_handshake(&error));
        }
    }

    async fn run(&mut self) -> io::Result<()> {
        let mut next = self.handle_when_heard().await?;
        loop {
            if let Next::Disturbed(disturbance) = next {
                self.disturb_answers(disturbance).await?;
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
                next if self.client.ending() != Ending::No => return self.write_last(next).await,
                Next::Authenticate if self.authenticate_again().await => {}
                Next::Authenticate => return Ok(()),
                Next::Parked => {
                    self.wait_for_answer().await?;
                    self.disturb_parked_answer().await?;
                }
                Next::Turn | Next::Paused => {}
                Next::Unconfirmed(confirmed) => self.wait_until_confirmed(confirmed).await?,
                Next::Fetch(wait) => {
                    self.wait_for_data(*wait).await?;
                    self.disturb_parked_answer().await?;
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

    /// Writes what came while other connections had their turn, unless the connection ends at once.
    async fn write_last(&mut self, next: Next) -> io::Result<()> {
        if self.client.ending() == Ending::Now {
            return Ok(());
        }
        match next {
            Next::Parked => self.wait_for_answer().await?,
            Next::Fetch(mut wait) => {
                wait.finish(&mut self.event_loop.node.borrow_mut(), true);
            }
            _ => {}
        }
        self.disturb_parked_answer().await?;
        self.write().await
    }

    /// Handles buffered requests; none while the member is paused.
    async fn handle_when_heard(&mut self) -> io::Result<Next> {
        if self.client.is_paused() {
            self.wait_while(|client| client.is_paused() && client.ending() == Ending::No).await?;
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
                self.passed_bytes = 0;
            }
        } else {
            self.pass(handled);
        }
        self.account();
        next
    }

    /// Removes handled bytes from the start of the read buffer, which keeps their memory. It is made anew when they are more
    /// than what is left and than [`KEPT_BYTES_MAX`]: so what is not counted stays small, and what is copied is less than what
    /// was handled.
    pub(super) fn pass(&mut self, handled: usize) {
        self.buffered.advance(handled);
        self.passed_bytes += handled;
        if self.passed_bytes > KEPT_BYTES_MAX.max(self.buffered.len()) {
            self.buffered = BytesMut::from(&self.buffered[..]);
            self.passed_bytes = 0;
        }
    }

    /// Waits for bytes and reads once. Handles requests in the read buffer if none are left from before. Returns `None`
    /// if the task was woken.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Next>>> {
        // The member may have been resumed during the write.
        if self.client.is_paused() || self.client.notify().poll(context).is_ready() {
            return Poll::Ready(Ok(None));
        }
        let event_loop = Rc::clone(&self.event_loop);
        let scratch = &mut *event_loop.scratch.borrow_mut();
        let mut bytes = ReadBuf::new(scratch);
        match self.stream.poll_read(context, &mut bytes) {
            Poll::Ready(read) => read?,
            Poll::Pending => {
                // Other connections have had their turn.
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

    /// Handles the frames at the start of `bytes`, and adds their weight to `heartbeats`. Returns the number of bytes
    /// handled.
    fn handle(&self, bytes: &[u8], heartbeats: &mut u32) -> (usize, Next) {
        let mut handled = 0;
        self.event_loop.check_session();
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
                Err(_) => {
                    if is_tls_handshake(rest) {
                        self.event_loop.refused(&self.client, Refusal::TlsOnPlaintext);
                    }
                    return (handled, Next::Close);
                }
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
                Ok(Handled::Parked) => {
                    self.parked_bytes.set(length);
                    break;
                }
                // The request stays in the buffer, to be handled again.
                Ok(Handled::Authenticate) => return (handled - LENGTH_BYTES - length, Next::Authenticate),
                Ok(Handled::Expired) => {
                    self.event_loop.refused(&self.client, Refusal::SessionExpired);
                    return (handled, Next::Close);
                }
                Ok(Handled::Paused) => return (handled - LENGTH_BYTES - length, Next::Paused),
                Ok(Handled::Unconfirmed(confirmed)) => {
                    return (handled - LENGTH_BYTES - length, Next::Unconfirmed(confirmed));
                }
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

    /// Answers the heartbeats at the start of `bytes` that can take the fast path.
    fn take_heartbeats(&self, bytes: &[u8], max: u32) -> Taken {
        let node = &mut self.event_loop.node.borrow_mut();
        heartbeats::take(node, &self.client, bytes, self.event_loop.request_max_bytes, max)
    }

    /// Waits while `holds`, which changes only with a notification.
    async fn wait_while(&mut self, holds: impl Fn(&Client) -> bool) -> io::Result<()> {
        let client = Rc::clone(&self.client);
        while holds(&client) {
            self.read_ahead_until(client.notify().notified()).await?;
        }
        Ok(())
    }

    /// Waits for the engine. Without its confirmation the request is handled as if it came now.
    async fn wait_until_confirmed(&mut self, confirmed: oneshot::Receiver<()>) -> io::Result<()> {
        let client = Rc::clone(&self.client);
        let is_confirmed = async {
            select! {
                confirmed = confirmed => confirmed.is_ok(),
                () = client.notify().notified() => false,
            }
        };
        if self.read_ahead_until(is_confirmed).await? {
            self.client.confirm();
        }
        Ok(())
    }

    /// Waits for `event`. Meanwhile reads as much as allowed, to notice the end of the connection.
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

    pub(super) fn read_ready(&mut self) -> io::Result<()> {
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

    /// Records a read of `count` bytes.
    fn have_read(&mut self, count: usize, has_more: bool) {
        self.end_of_stream = count == 0;
        self.has_more = has_more;
        self.client.set_gone(self.end_of_stream);
        self.connection.has_moved.set(true);
    }

    /// Waits until the parked request is answered. If the client closes meanwhile, its member is not affected, and
    /// complete requests sent before are still handled.
    async fn wait_for_answer(&mut self) -> io::Result<()> {
        self.client.set_awaiting(true);
        // A server that stops still answers what its disk ends in time.
        let result = self.wait_while(|client| client.is_parked() && client.ending() != Ending::Now).await;
        self.client.set_awaiting(false);
        // The connection is idle from this answer on.
        self.connection.has_moved.set(true);
        result
    }

    /// Waits until there is enough data or the time is up, and answers the fetch.
    async fn wait_for_data(&mut self, mut wait: FetchWait) -> io::Result<()> {
        self.waiting_bytes = wait.size_bytes();
        self.account();
        let result = self.watch_until_finished(&mut wait).await;
        self.waiting_bytes = 0;
        result
    }

    async fn watch_until_finished(&mut self, wait: &mut FetchWait) -> io::Result<()> {
        // Nothing watched while earlier answers were written.
        if wait.finish_if_changed(&mut self.event_loop.node.borrow_mut()) {
            return Ok(());
        }
        let mut watch = wait.watch(&mut self.event_loop.node.borrow_mut());
        loop {
            let waited = self.read_ahead_until_woken(wait).await;
            let node = &mut self.event_loop.node.borrow_mut();
            if waited.is_err() || wait.finish(node, self.client.ending() != Ending::No) {
                FetchWait::unwatch(node, watch);
                return waited;
            }
            watch = wait.keep_watching(node, watch);
        }
    }

    /// Reads ahead until the fetch is notified. Bytes of the client do not repeat the check for data.
    async fn read_ahead_until_woken(&mut self, wait: &FetchWait) -> io::Result<()> {
        let client = Rc::clone(&self.client);
        let woken = async {
            select! {
                () = client.data().notified() => {}
                () = tokio::time::sleep_until(wait.until) => {}
                () = client.notify().notified() => {}
            }
        };
        self.read_ahead_until(woken).await
    }

    /// Writes all answers.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        loop {
            let mut out = std::mem::take(&mut *self.client.out());
            if out.is_empty() {
                if out.capacity() <= KEPT_BYTES_MAX {
                    *self.client.out() = out;
                }
                return Ok(());
            }
            self.write_all(&out).await?;
            if self.client.out_bytes() == 0 {
                out.clear();
                *self.client.out() = out;
            }
            self.account();
        }
    }

    /// Writes `out`, which stays whole: a buffer without its start does not say how large it is.
    async fn write_all(&mut self, out: &[u8]) -> io::Result<()> {
        let mut rest = out;
        while !rest.is_empty() || self.stream.has_unsent() {
            match self.write_some(rest) {
                Ok(count) => {
                    rest = &rest[count..];
                    self.connection.has_moved.set(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    select! {
                        ready = self.stream.writable() => ready?,
                        () = self.client.notify().notified() => {}
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

    /// Writes what the transport takes of `out`, or what it took before. Returns the number of bytes taken.
    fn write_some(&mut self, out: &[u8]) -> io::Result<usize> {
        if out.is_empty() {
            return self.stream.try_flush().map(|()| 0);
        }
        match self.stream.try_write(out)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        }
    }

    fn account(&self) {
        let parked_bytes = if self.client.is_parked() { self.parked_bytes.get() } else { 0 };
        let waiting_bytes = self.waiting_bytes + parked_bytes;
        let held = self.buffered.len() + self.client.out_bytes() + waiting_bytes + self.client.id_bytes();
        self.event_loop.hold(&self.connection, held);
    }
}

/// Releases the connection however its task ends, including by a panic.
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
mod tests;
