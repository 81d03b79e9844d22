//! gRPC over one HTTP/2 connection, as far as etcd's API needs it: unary calls, and calls that answer with a stream.

use std::{fmt, sync::Arc, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, client::SendRequest};
use http::{HeaderMap, Request, Uri};
use prost::Message;
use rota_cluster::Endpoint;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// What grpc-go asks for within TLS.
pub const ALPN: &str = "h2";

/// Answers have at most so many bytes. Pages of a load have about 4 MiB if their keys are as large as those before; one that
/// is too large is asked for again as a smaller one.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
const FRAME_HEADER_BYTES: usize = 5;
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// gRPC's names of the status codes that rota looks at.
pub mod code {
    /// A malformed request, and some refusals of credentials.
    pub const INVALID_ARGUMENT: u32 = 3;
    /// The user has no right to the keys.
    pub const PERMISSION_DENIED: u32 = 7;
    /// No space, or too many requests.
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    /// A revision that was compacted, or that is yet to come.
    pub const OUT_OF_RANGE: u32 = 11;
    /// The token is not valid.
    pub const UNAUTHENTICATED: u32 = 16;
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The member cannot be reached, or the connection broke.
    Connection(String),
    /// No answer in time.
    Timeout,
    /// The member answered with an error.
    Status {
        /// One of [`code`], or another one.
        code: u32,
        /// etcd's words.
        message: String,
    },
    /// An answer that is no valid message.
    Malformed(&'static str),
    /// An answer with more bytes than are taken: a smaller page has to be asked for.
    TooLarge(usize),
    /// A version of etcd that rota does not work with.
    Refused(String),
}

impl Failure {
    /// Whether another member would say the same.
    pub fn is_final(&self) -> bool {
        match self {
            Failure::Refused(_) => true,
            Failure::Status { code, message: _ } => {
                matches!(*code, code::INVALID_ARGUMENT | code::PERMISSION_DENIED | code::UNAUTHENTICATED)
            }
            Failure::Connection(_) | Failure::Timeout | Failure::Malformed(_) | Failure::TooLarge(_) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connection(why) => write!(f, "no connection: {why}"),
            Failure::Timeout => write!(f, "no answer in time"),
            Failure::Status { code, message } => write!(f, "{message} (gRPC status {code})"),
            Failure::Malformed(what) => write!(f, "malformed answer: {what}"),
            Failure::TooLarge(bytes) => write!(f, "an answer of {bytes} bytes is too large"),
            Failure::Refused(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Failure {
        Failure::Connection(error.to_string())
    }
}

/// A stream to a member, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection to one member. It ends when it is dropped.
#[derive(Debug)]
pub struct Connection {
    send: SendRequest<Bytes>,
    base: String,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to a member within a time.
    pub async fn open(
        endpoint: &Endpoint,
        tls: Option<&Arc<rustls::ClientConfig>>,
        within: Duration,
    ) -> Result<Connection, Failure> {
        timeout(within, Connection::connect(endpoint, tls)).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn connect(endpoint: &Endpoint, tls: Option<&Arc<rustls::ClientConfig>>) -> Result<Connection, Failure> {
        let lost = |error: std::io::Error| Failure::Connection(format!("{endpoint}: {error}"));
        let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(lost)?;
        tcp.set_nodelay(true).map_err(lost)?;
        let Some(tls) = tls else { return Connection::begin(Box::new(tcp), format!("http://{endpoint}")).await };
        let name = ServerName::try_from(endpoint.host.clone())
            .map_err(|error| Failure::Connection(format!("{endpoint}: {error}")))?;
        let encrypted = TlsConnector::from(Arc::clone(tls)).connect(name, tcp).await.map_err(lost)?;
        Connection::begin(Box::new(encrypted), format!("https://{endpoint}")).await
    }

    /// Boxed: with a type for each, h2 would be compiled twice.
    async fn begin(io: Box<dyn Stream>, base: String) -> Result<Connection, Failure> {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(STREAM_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let (send, connection) = builder.handshake(io).await?;
        let driver = tokio::spawn(async move {
            // Calls see the error as well.
            let _ = connection.await;
        });
        Ok(Connection { send, base, driver })
    }

    /// Whether the connection has ended.
    pub fn is_over(&self) -> bool {
        self.driver.is_finished()
    }

    /// A call with one answer.
    pub async fn unary<Q: Message, A: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        token: Option<&str>,
    ) -> Result<A, Failure> {
        let mut answers = self.stream(path, request, token, true).await?;
        let answer = answers.next().await?.ok_or(Failure::Malformed("no message"))?;
        answers.finish().await?;
        Ok(answer)
    }

    /// A call with a stream of answers. `is_whole`: no request follows the first one.
    pub async fn stream<Q: Message, A: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        token: Option<&str>,
        is_whole: bool,
    ) -> Result<Answers<A>, Failure> {
        let uri: Uri = format!("{}{path}", self.base).parse().map_err(|_| Failure::Malformed("an address"))?;
        let mut head = Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
        if let Some(token) = token {
            head = head.header("token", token);
        }
        let head = head.body(()).map_err(|_| Failure::Malformed("a token"))?;
        let mut send = self.send.clone().ready().await?;
        let (answer, mut body) = send.send_request(head, false)?;
        body.send_data(frame(request)?, is_whole)?;
        let (head, body_in) = answer.await?.into_parts();
        if !head.status.is_success() {
            return Err(Failure::Connection(format!("HTTP status {}", head.status)));
        }
        // An error without a message comes in the head.
        status(&head.headers)?;
        let open = (!is_whole).then_some(body);
        Ok(Answers { body: body_in, open, bytes: BytesMut::new(), answer: std::marker::PhantomData })
    }
}

fn frame<Q: Message>(message: &Q) -> Result<Bytes, Failure> {
    let len = message.encoded_len();
    let mut frame = BytesMut::with_capacity(FRAME_HEADER_BYTES + len);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(len).map_err(|_| Failure::Malformed("a request of 4 GiB"))?);
    message.encode(&mut frame).map_err(|_| Failure::Malformed("a request without space"))?;
    Ok(frame.freeze())
}

/// What a header or trailer says about the call; nothing is no error.
fn status(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(status) = headers.get("grpc-status") else { return Ok(()) };
    let code = status.to_str().ok().and_then(|code| code.parse().ok()).unwrap_or(u32::MAX);
    if code == 0 {
        return Ok(());
    }
    let message = headers.get("grpc-message").map_or_else(String::new, |message| percent_decoded(message.as_bytes()));
    Err(Failure::Status { code, message })
}

fn percent_decoded(text: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(value) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            decoded.push(value);
            rest = &after[2..];
        } else {
            decoded.push(*byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The answers to a call. Dropping them ends the call.
#[derive(Debug)]
pub struct Answers<A> {
    body: RecvStream,
    /// Kept: a watch ends when its client's half ends.
    open: Option<h2::SendStream<Bytes>>,
    bytes: BytesMut,
    answer: std::marker::PhantomData<fn() -> A>,
}

impl<A: Message + Default> Answers<A> {
    /// The next answer; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<A>, Failure> {
        loop {
            if let Some(message) = self.take()? {
                return A::decode(message).map(Some).map_err(|_| Failure::Malformed("not the message of this call"));
            }
            let Some(data) = self.body.data().await else {
                let trailers = self.body.trailers().await?;
                status(&trailers.unwrap_or_default())?;
                return Ok(None);
            };
            let data = data?;
            self.body.flow_control().release_capacity(data.len())?;
            self.bytes.extend_from_slice(&data);
        }
    }

    /// A message that is there completely.
    fn take(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some(header) = self.bytes.get(..FRAME_HEADER_BYTES) else { return Ok(None) };
        let [compressed, a, b, c, d] = *header else { return Ok(None) };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if compressed != 0 {
            return Err(Failure::Malformed("a compressed message"));
        }
        if len > ANSWER_BYTES_MAX {
            return Err(Failure::TooLarge(len));
        }
        if self.bytes.len() < FRAME_HEADER_BYTES + len {
            return Ok(None);
        }
        self.bytes.advance(FRAME_HEADER_BYTES);
        Ok(Some(self.bytes.split_to(len).freeze()))
    }

    /// Waits for the end: an error may follow an answer.
    async fn finish(mut self) -> Result<(), Failure> {
        drop(self.open.take());
        match self.next().await? {
            None => Ok(()),
            Some(_) => Err(Failure::Malformed("more than one message")),
        }
    }
}
