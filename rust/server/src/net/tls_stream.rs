//! TLS over a socket, without waiting: rustls turns bytes into records, and this file moves the records.

use std::{
    io::{self, Read, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::CertificateDer;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};

/// A socket with TLS. Errors of the protocol are of the kind `InvalidData`, with a [`rustls::Error`] inside.
pub struct TlsStream {
    socket: TcpStream,
    tls: ServerConnection,
    /// Decrypted bytes that were not read yet.
    decrypted_bytes: usize,
    /// Whether anything was sent.
    has_sent: bool,
}

/// Reads a socket at most once for a task, which is woken if nothing is there.
struct Polled<'s, 'c, 'w> {
    socket: &'s mut TcpStream,
    context: &'c mut Context<'w>,
}

impl Read for Polled<'_, '_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut bytes = ReadBuf::new(bytes);
        match Pin::new(&mut *self.socket).poll_read(self.context, &mut bytes) {
            Poll::Ready(read) => read.map(|()| bytes.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Reads and writes what a socket has and takes, without waking a task.
struct Available<'s>(&'s TcpStream);

impl Read for Available<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for Available<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl TlsStream {
    /// Creates the server's side of an accepted socket. Nothing is sent before the client's first message.
    pub fn new(socket: TcpStream, config: &Arc<ServerConfig>) -> Result<TlsStream, rustls::Error> {
        let tls = ServerConnection::new(Arc::clone(config))?;
        Ok(TlsStream { socket, tls, decrypted_bytes: 0, has_sent: false })
    }

    /// Returns the socket under it.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the handshake lasts.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns the client's certificate.
    pub fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates()?.first()
    }

    /// Whether the client has got an answer, and so the certificate.
    pub fn has_sent(&self) -> bool {
        self.has_sent
    }

    /// Waits until the client has sent something, or until the socket takes what the handshake has to send.
    pub async fn wait_for_client(&self) -> io::Result<()> {
        if self.has_unsent() { self.socket.writable().await } else { self.socket.readable().await }
    }

    /// Handles the available messages of the handshake, and sends what they call for.
    pub fn step(&mut self) -> io::Result<()> {
        if !self.has_unsent() {
            let count = self.tls.read_tls(&mut Available(&self.socket));
            if would_block(&count) {
                return Ok(());
            }
            if count? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.decrypt()?;
        }
        self.flush_some()
    }

    /// See [`Transport::poll_read`](super::transport::Transport::poll_read).
    pub fn poll_read(&mut self, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let decrypted = loop {
            if self.decrypted_bytes > 0 {
                break self.take_decrypted(bytes.initialize_unfilled());
            }
            let socket = &mut self.socket;
            let count = self.tls.read_tls(&mut Polled { socket, context });
            if would_block(&count) {
                return Poll::Pending;
            }
            match self.have_read(count) {
                Ok(true) => {}
                Ok(false) => break Ok(0),
                Err(error) => break Err(error),
            }
        };
        Poll::Ready(decrypted.map(|count| bytes.advance(count)))
    }

    /// See [`Transport::try_read`](super::transport::Transport::try_read).
    pub fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.decrypted_bytes == 0 {
            let count = self.tls.read_tls(&mut Available(&self.socket));
            if !self.have_read(count)? {
                return Ok(0);
            }
        }
        // One read of the socket, even if its records were empty: a client may send such records without end.
        if self.decrypted_bytes == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.take_decrypted(bytes)
    }

    /// Decrypts after a read of the socket. Returns whether the stream goes on.
    fn have_read(&mut self, count: io::Result<usize>) -> io::Result<bool> {
        // A client that closes its socket without a closing message has ended, too.
        Ok(count? > 0 && !self.decrypt()?)
    }

    /// Decrypts complete records. Returns whether the client has closed its side and everything was read.
    fn decrypt(&mut self) -> io::Result<bool> {
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.decrypted_bytes = state.plaintext_bytes_to_read();
                // An answer to a key update. If the socket is full, it is sent with the next answer.
                self.flush_some()?;
                Ok(state.peer_has_closed() && self.decrypted_bytes == 0)
            }
            Err(error) => {
                // The alert tells the client why. The connection ends with or without it.
                let _unsent = self.flush_some();
                Err(broken(error))
            }
        }
    }

    fn take_decrypted(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.tls.reader().read(bytes)?;
        self.decrypted_bytes = self.decrypted_bytes.saturating_sub(count);
        Ok(count)
    }

    /// See [`Transport::try_write`](super::transport::Transport::try_write).
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.has_unsent() {
            self.try_flush()?;
        }
        let count = self.tls.writer().write(bytes)?;
        self.flush_some()?;
        Ok(count)
    }

    /// Whether records wait for the socket.
    pub fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends all records. Error `WouldBlock`: the socket takes no more.
    pub fn try_flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut Available(&self.socket))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.has_sent = true;
        }
        Ok(())
    }

    /// Sends the records that the socket takes.
    fn flush_some(&mut self) -> io::Result<()> {
        let flushed = self.try_flush();
        if would_block(&flushed) { Ok(()) } else { flushed }
    }

    /// Waits until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        if self.decrypted_bytes > 0 { Ok(()) } else { self.socket.readable().await }
    }

    /// Waits until the socket may take more.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }
}

/// Tells the client that the connection ends, if the socket takes it.
impl Drop for TlsStream {
    fn drop(&mut self) {
        self.tls.send_close_notify();
        let _unsent = self.flush_some();
    }
}
