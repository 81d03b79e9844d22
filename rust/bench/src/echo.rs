//! The floor of every server: one thread that waits for readable sockets, reads, answers every frame with the bytes of
//! a successful heartbeat, and writes once.

use std::{
    io::ErrorKind,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mio::{Events, Interest, Poll, Token, net::TcpListener};
use rustls::ServerConfig;

use crate::{
    BenchError, Doing,
    frames::CORRELATION_AT,
    line::{Filled, Line},
};

const LISTENER: Token = Token(usize::MAX);
const READ_BYTES: usize = 64 * 1024;
/// Interval of checks for a stop while idle.
const STOP_EVERY: Duration = Duration::from_millis(100);
/// Correlation id, throttle time, error.
const ANSWER_BYTES: usize = 4 + 4 + 2;

struct Client {
    line: Line,
    read: Vec<u8>,
    write: Vec<u8>,
}

/// Listens. Returns the address with the port.
pub fn listen(address: SocketAddr) -> Result<(Echo, SocketAddr), BenchError> {
    let what = || format!("listening at {address}");
    let listener = TcpListener::bind(address).doing(what)?;
    let local = listener.local_addr().doing(what)?;
    Ok((Echo { listener, tls: None }, local))
}

/// A listening echo server.
pub struct Echo {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
}

impl Echo {
    /// Speaks TLS.
    #[must_use]
    pub fn secured(self, tls: Arc<ServerConfig>) -> Echo {
        Echo { tls: Some(tls), ..self }
    }
}

/// Answers until `stop` is set.
pub fn serve(Echo { mut listener, tls }: Echo, stop: &AtomicBool) -> Result<(), BenchError> {
    let what = || "the echo's event loop".to_owned();
    let mut poll = Poll::new().doing(what)?;
    let mut events = Events::with_capacity(1_024);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).doing(what)?;
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut scratch = vec![0; READ_BYTES];
    while !stop.load(Ordering::Relaxed) {
        match poll.poll(&mut events, Some(STOP_EVERY)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            done => done.doing(what)?,
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut socket, _)) = listener.accept() {
                    socket.set_nodelay(true).doing(what)?;
                    let both = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut socket, Token(clients.len()), both).doing(what)?;
                    let line = Line::accepted(socket, tls.as_ref()).doing(what)?;
                    clients.push(Some(Client { line, read: Vec::new(), write: Vec::new() }));
                }
            } else if let Some(client) = &mut clients[event.token().0]
                && !client.turn(&mut scratch)
            {
                clients[event.token().0] = None;
            }
        }
    }
    Ok(())
}

impl Client {
    /// Reads and answers all available frames; false when the client is gone.
    fn turn(&mut self, scratch: &mut [u8]) -> bool {
        if !matches!(self.line.fill(scratch, &mut self.read), Ok(Filled::Open)) {
            return false;
        }
        let mut at = 0;
        while let Some(length) = self.read.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes) {
            let end = at + 4 + length as usize;
            if end > self.read.len() || length < 8 {
                break;
            }
            self.write.extend_from_slice(&(ANSWER_BYTES as u32).to_be_bytes());
            self.write.extend_from_slice(&self.read[at + CORRELATION_AT..at + CORRELATION_AT + 4]);
            self.write.extend_from_slice(&[0; ANSWER_BYTES - 4]);
            at = end;
        }
        self.read.drain(..at);
        self.line.flush(&mut self.write).is_ok()
    }
}
