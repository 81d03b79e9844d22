//! A socket of a load or of the echo, plain or with TLS, without waiting.

use std::{
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
};

use mio::net::TcpStream;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use rustls_pki_types::ServerName;

/// Whether the peer may send more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Open,
    Closed,
}

/// A socket.
pub(crate) enum Line {
    Plain(TcpStream),
    Tls(Box<Secured>),
}

/// A socket with TLS.
pub(crate) struct Secured {
    socket: TcpStream,
    tls: Connection,
}

/// Reads a socket once, and knows whether it has more.
struct Once<'s> {
    socket: &'s mut TcpStream,
    is_drained: bool,
}

impl Read for Once<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.read(bytes)?;
        self.is_drained = count < bytes.len();
        Ok(count)
    }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Line {
    /// The server's side of an accepted socket. The handshake is a part of filling and flushing.
    pub fn accepted(socket: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Line> {
        let Some(config) = tls else { return Ok(Line::Plain(socket)) };
        let tls = ServerConnection::new(Arc::clone(config)).map_err(broken)?.into();
        Ok(Line::Tls(Box::new(Secured { socket, tls })))
    }

    /// The client's side of a connected socket that waits; after the handshake it does not.
    pub fn connected(
        mut socket: std::net::TcpStream,
        tls: Option<&(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<Line> {
        let secured = tls.map(|(config, name)| {
            let mut tls = ClientConnection::new(Arc::clone(config), name.clone()).map_err(broken)?;
            while tls.is_handshaking() {
                tls.complete_io(&mut socket)?;
            }
            io::Result::Ok(tls)
        });
        let secured = secured.transpose()?;
        socket.set_nonblocking(true)?;
        let socket = TcpStream::from_std(socket);
        Ok(match secured {
            None => Line::Plain(socket),
            Some(tls) => Line::Tls(Box::new(Secured { socket, tls: tls.into() })),
        })
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Line::Plain(socket) => socket,
            Line::Tls(secured) => &mut secured.socket,
        }
    }

    /// Reads all available bytes.
    pub fn fill(&mut self, scratch: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<Filled> {
        match self {
            Line::Plain(socket) => fill(socket, scratch, bytes),
            Line::Tls(secured) => all(|| secured.read(scratch, bytes)),
        }
    }

    /// Writes as many bytes as the socket accepts.
    pub fn flush(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Line::Plain(socket) => flush(socket, bytes),
            Line::Tls(secured) => secured.write(bytes),
        }
    }
}

impl Secured {
    /// Reads the socket once, and decrypts. Returns the number of its bytes, and whether it has no more.
    fn read(&mut self, scratch: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<(usize, bool)> {
        let mut once = Once { socket: &mut self.socket, is_drained: false };
        let count = self.tls.read_tls(&mut once)?;
        let is_drained = once.is_drained;
        let mut left = self.tls.process_new_packets().map_err(broken)?.plaintext_bytes_to_read();
        while left > 0 {
            let decrypted = self.tls.reader().read(scratch)?;
            bytes.extend_from_slice(&scratch[..decrypted]);
            left -= decrypted;
        }
        Ok((count, is_drained))
    }

    fn write(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let taken = if bytes.is_empty() { 0 } else { self.tls.writer().write(bytes)? };
        bytes.drain(..taken);
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads until the socket has no more. A read returns the number of its bytes, and whether it was the last one.
fn all(mut read: impl FnMut() -> io::Result<(usize, bool)>) -> io::Result<Filled> {
    loop {
        match read() {
            Ok((0, _)) => return Ok(Filled::Closed),
            Ok((_, true)) => return Ok(Filled::Open),
            Ok((_, false)) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Filled::Open),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads all available bytes.
pub(crate) fn fill(socket: &mut TcpStream, scratch: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<Filled> {
    all(|| {
        let count = socket.read(scratch)?;
        bytes.extend_from_slice(&scratch[..count]);
        Ok((count, count < scratch.len()))
    })
}

/// Writes as many bytes as the socket accepts.
pub(crate) fn flush(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match socket.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.drain(..written);
    Ok(())
}
