//! The bytes of a connection: plain, or protected by TLS. A plain one costs a branch more than its socket.

use std::{
    io,
    net::Shutdown,
    pin::Pin,
    task::{Context, Poll},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};

use super::tls_stream::TlsStream;

/// The transport of a connection.
pub enum Transport {
    /// Bytes as they are.
    Plain(TcpStream),
    /// TLS.
    Tls(Box<TlsStream>),
}

impl Drop for Transport {
    /// Ends the connection also if a copy of this process has its descriptor, which closing would leave open.
    fn drop(&mut self) {
        let socket = match self {
            Transport::Plain(stream) => SockRef::from(&*stream),
            Transport::Tls(stream) => SockRef::from(stream.socket()),
        };
        // The client may have ended it.
        let _ended = socket.shutdown(Shutdown::Both);
    }
}

impl Transport {
    /// Reads into `bytes` at most once from the socket; nothing at the end of the stream.
    pub fn poll_read(&mut self, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            // Unlike `try_read`, this recognizes from a short read that no more is available, and does not ask again.
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, bytes),
            Transport::Tls(stream) => stream.poll_read(context, bytes),
        }
    }

    /// Reads what is available; 0 at the end of the stream. Error `WouldBlock`: nothing is.
    pub fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.try_read(bytes),
            Transport::Tls(stream) => stream.try_read(bytes),
        }
    }

    /// Writes what the transport takes. Error `WouldBlock`: nothing.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.try_write(bytes),
            Transport::Tls(stream) => stream.try_write(bytes),
        }
    }

    /// Whether bytes that `try_write` took are not in the socket yet.
    pub fn has_unsent(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.has_unsent(),
        }
    }

    /// Sends what `try_write` took. Error `WouldBlock`: not all of it.
    pub fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            Transport::Tls(stream) => stream.try_flush(),
        }
    }

    /// Waits until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.readable().await,
            Transport::Tls(stream) => stream.readable().await,
        }
    }

    /// Waits until the socket may take more.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.writable().await,
            Transport::Tls(stream) => stream.writable().await,
        }
    }
}
