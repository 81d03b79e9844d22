//! A connection to another server: with TLS, and authenticated, as its listener demands.

use std::{io, time::Duration};

use rota_security::{client_tls::ClientTlsFiles, random, sasl::client};
use rota_wire::between_servers::{authenticate_answer, handshake_answer, sasl_authenticate, sasl_handshake};
use rustls::{AlertDescription, CertificateError, Error as TlsError, InvalidMessage};
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

use super::question::{Answered, Question};
use crate::base::between_servers::{BetweenServers, Login};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: u32 = 16 << 20;

/// After something that only an operator can change, the server is left alone for this time.
const QUIET: Duration = Duration::from_secs(1);

/// So many connections in a row that end before the first answer are no end of the server: it refuses this one.
const ENDS_MAX: u32 = 3;

/// Why there are no codes.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server is not there, or does not answer in time. It is asked again.
    Away,
    /// The connection ended.
    Closed,
    /// What an operator has to change.
    Wrong(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
            return Failure::Wrong(reason(tls));
        }
        match error.kind() {
            UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted => Failure::Closed,
            _ => Failure::Away,
        }
    }
}

fn wrong(reason: &str) -> Failure {
    Failure::Wrong(reason.to_owned())
}

fn unreadable<E>(_: E) -> Failure {
    wrong("its answer cannot be read: is it a server of this version?")
}

/// Returns what an error of TLS says of the other server, and what to do.
fn reason(error: &TlsError) -> String {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
    };
    match error {
        TlsError::InvalidCertificate(Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }) => {
            "its certificate is not valid today: renew it".to_owned()
        }
        TlsError::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "its certificate does not name the host that it advertises: issue one that does".to_owned()
        }
        TlsError::InvalidCertificate(_) => {
            format!("its certificate is not from a CA in --peer-ca (by default --tls-client-ca): add that CA ({error})")
        }
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it answers without TLS: give the listener the same protocol at all servers".to_owned()
        }
        TlsError::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate,
        ) => format!(
            "it refuses this server's certificate ({error}): give --peer-cert, one of a CA in its --tls-client-ca"
        ),
        error => format!("TLS fails: {error}"),
    }
}

/// A stream to a server.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A connection to a server, while there is one.
#[derive(Default)]
pub struct Connection {
    stream: Option<Box<dyn Stream>>,
    correlation_id: i32,
    quiet_until: Option<Instant>,
    /// Connections in a row that have ended before the first answer.
    ends: u32,
}

impl Connection {
    /// Asks, and returns the codes of all partitions. Errors: there is no answer, or none that can be used; `None`: as the
    /// last time, and too soon for another attempt.
    pub async fn ask<Q: Question>(
        &mut self,
        address: &(String, u16),
        between: &BetweenServers,
        limit: Duration,
        batch: &[Q],
    ) -> Result<Vec<i16>, Option<Failure>> {
        if self.quiet_until.is_some_and(|until| Instant::now() < until) {
            return Err(None);
        }
        let was_open = self.stream.is_some();
        let mut answer = self.attempt(address, between, limit, batch).await;
        if was_open && answer == Err(Failure::Closed) {
            // It was idle for too long, its session is over, or the server has started again.
            answer = self.attempt(address, between, limit, batch).await;
        }
        self.ends = if answer == Err(Failure::Closed) { self.ends.saturating_add(1) } else { 0 };
        if self.ends >= ENDS_MAX {
            answer = Err(wrong("it closes each connection before it answers: its standard error says why"));
        }
        let is_wrong = matches!(answer, Err(Failure::Wrong(_)));
        self.quiet_until = is_wrong.then(|| Instant::now() + QUIET);
        answer.map_err(Some)
    }

    async fn attempt<Q: Question>(
        &mut self,
        address: &(String, u16),
        between: &BetweenServers,
        limit: Duration,
        batch: &[Q],
    ) -> Result<Vec<i16>, Failure> {
        // A connection on which something failed is closed: an answer would be taken for that of the next request.
        let mut open = self.stream.take();
        let asked = async {
            let mut stream = match open.take() {
                Some(stream) => stream,
                None => self.connect(address, between).await?,
            };
            let correlation_id = self.next_correlation_id();
            let answer = exchange(&mut *stream, &Q::request(batch, correlation_id)).await?;
            self.stream = Some(stream);
            match Q::codes(&answer, correlation_id).map_err(unreadable)? {
                Answered::Codes(codes) => Ok(codes),
                Answered::NotAllowed => Err(wrong(
                    "this server's principal may not ask it: allow it CLUSTER_ACTION on the cluster there, or add it to \
                     `super.users`",
                )),
            }
        };
        timeout(limit, asked).await.unwrap_or(Err(Failure::Away))
    }

    fn next_correlation_id(&mut self) -> i32 {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.correlation_id
    }

    async fn connect(
        &mut self,
        (host, port): &(String, u16),
        between: &BetweenServers,
    ) -> Result<Box<dyn Stream>, Failure> {
        let connected = TcpStream::connect((host.as_str(), *port)).await?;
        connected.set_nodelay(true)?;
        let mut stream: Box<dyn Stream> = match &between.tls {
            None => Box::new(connected),
            Some(files) => encrypted(files, host, connected).await?,
        };
        if let Some(login) = &between.login {
            self.authenticate(&mut *stream, login).await?;
        }
        Ok(stream)
    }

    async fn authenticate(&mut self, stream: &mut dyn Stream, login: &Login) -> Result<(), Failure> {
        let Login { mechanism, user, password } = login;
        let password = password.read().map_err(Failure::Wrong)?;
        let correlation_id = self.next_correlation_id();
        let answer = exchange(stream, &sasl_handshake(correlation_id, mechanism.name())).await?;
        let (error, offered) = handshake_answer(&answer, correlation_id).map_err(unreadable)?;
        if error != 0 {
            return Err(Failure::Wrong(format!(
                "it does not have the mechanism {}, but {}: give all servers the same --sasl, or \
                 `sasl.mechanism.inter.broker.protocol`",
                mechanism.name(),
                offered.join(", ")
            )));
        }
        let nonce = random::nonce().ok_or(Failure::Away)?;
        let mut client = client::Client::new(*mechanism, user, &password, &nonce);
        let mut from_server = Vec::new();
        while let Some(message) = client
            .next(&from_server)
            .map_err(|_| wrong("it does not prove that it knows this server's user: is it a server of this cluster?"))?
        {
            let correlation_id = self.next_correlation_id();
            let answer = exchange(stream, &sasl_authenticate(correlation_id, &message)).await?;
            let answer = authenticate_answer(&answer, correlation_id).map_err(unreadable)?;
            if answer.error != 0 {
                return Err(Failure::Wrong(format!(
                    "it refuses the user `{user}`: check --peer-user, the password in --peer-password-file and its \
                     --users ({})",
                    answer.message
                )));
            }
            from_server = answer.bytes.to_vec();
        }
        Ok(())
    }
}

/// Begins TLS to a host.
async fn encrypted<S: Stream + 'static>(
    files: &ClientTlsFiles,
    host: &str,
    socket: S,
) -> Result<Box<dyn Stream>, Failure> {
    let config = files.load(&[]).map_err(|error| Failure::Wrong(error.to_string()))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| wrong("no certificate can name the host that it advertises: advertise another one"))?;
    Ok(Box::new(TlsConnector::from(config).connect(name, socket).await?))
}

async fn exchange(stream: &mut dyn Stream, request: &[u8]) -> Result<Vec<u8>, Failure> {
    stream.write_all(request).await?;
    // Within TLS the bytes may wait for it.
    stream.flush().await?;
    let size = stream.read_u32().await?;
    if size > ANSWER_BYTES_MAX {
        return Err(unreadable(size));
    }
    let mut answer = vec![0; size as usize];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::BytesMut;
    use rota_security::{
        authority::{Authority, Issued},
        pem::Source,
        sasl::{
            Asked, Authentication, Mechanism, Moment, Reaction, Sasl,
            scram::{Credential, Hash},
            users::Users,
        },
        tls::{ClientAuth, TlsFiles},
        token::Verifier,
    };
    use rota_wire::{RequestHeader, Writer, sasl, versions};
    use tokio::{io::DuplexStream, runtime::Builder, task::LocalSet};
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::base::between_servers::Password;

    const HOST: &str = "kafka.test";

    /// Runs both ends of a connection, and returns what this server's end results in.
    fn between<T>(own: impl AsyncFnOnce(DuplexStream) -> T, other: impl AsyncFnOnce(DuplexStream) + 'static) -> T {
        let (here, there) = tokio::io::duplex(1 << 16);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let other = tokio::task::spawn_local(async move { other(there).await });
            let found = own(here).await;
            other.abort();
            found
        })
    }

    fn inline(text: &str) -> Source {
        Source::Inline("pem", text.to_owned())
    }

    /// What a server with these files makes of a connection of one with `client` as its certificate.
    fn shaken(files: TlsFiles, ca: &str, client: Option<&Issued>) -> Result<Box<dyn Stream>, Failure> {
        let identity = client.map(|issued| (inline(&issued.certificate), inline(&issued.key)));
        let own = ClientTlsFiles { ca: inline(ca), identity };
        between(
            async move |socket| {
                let mut stream = encrypted(&own, HOST, socket).await?;
                // Only then TLS 1.3 says that a certificate is refused.
                stream.read_u32().await?;
                Ok(stream)
            },
            async move |socket| {
                if let Ok(mut stream) = TlsAcceptor::from(files.load().unwrap().config).accept(socket).await {
                    stream.write_u32(0).await.unwrap();
                    stream.flush().await.unwrap();
                    std::future::pending::<()>().await;
                }
            },
        )
    }

    fn said(found: Result<Box<dyn Stream>, Failure>) -> String {
        match found {
            Err(Failure::Wrong(reason)) => reason,
            Err(other) => panic!("{other:?}"),
            Ok(_) => String::new(),
        }
    }

    #[test]
    fn each_wrong_certificate_is_refused_with_what_to_do() {
        let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
        let issued = |host: &str, is_expired| authority.issue(&[host.to_owned()], "rota", is_expired).unwrap();
        let files = |issued: &Issued, client_auth| TlsFiles {
            chain: inline(&issued.certificate),
            key: inline(&issued.key),
            client_ca: Some(inline(&authority.certificate())),
            client_auth,
        };
        let right = issued(HOST, false);
        let shaken =
            |issued: &Issued, auth, client| said(shaken(files(issued, auth), &authority.certificate(), client));
        assert_eq!(shaken(&right, ClientAuth::None, None), "");
        assert_eq!(shaken(&right, ClientAuth::Required, Some(&right)), "");
        let foreign = other.issue(&[HOST.to_owned()], "rota", false).unwrap();
        for (issued, auth, client, reason) in [
            (&issued(HOST, true), ClientAuth::None, None, "is not valid today"),
            (&issued("other.test", false), ClientAuth::None, None, "does not name the host"),
            (&foreign, ClientAuth::None, None, "is not from a CA in --peer-ca"),
            (&right, ClientAuth::Required, None, "refuses this server's certificate"),
            (&right, ClientAuth::Required, Some(&foreign), "refuses this server's certificate"),
            (&right, ClientAuth::Required, Some(&issued(HOST, true)), "refuses this server's certificate"),
        ] {
            let found = shaken(issued, auth, client);
            assert!(found.contains(reason), "{found}: {reason}");
        }
    }

    #[test]
    fn a_server_without_tls_is_recognized() {
        let ca = Authority::new().unwrap();
        let own = ClientTlsFiles { ca: inline(&ca.certificate()), identity: None };
        let answer = async |mut socket: DuplexStream| {
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            std::future::pending::<()>().await;
        };
        let found = between(async |socket| encrypted(&own, HOST, socket).await, answer);
        assert!(said(found).contains("answers without TLS"));
    }

    /// A server that has PLAIN and SCRAM-SHA-256, and the user `rota` with the password `secret`.
    async fn authenticates(mut socket: DuplexStream) {
        let mut users = Users::new([1; 32]);
        users.add("rota", Credential::of(Hash::Sha256, "secret", vec![1; 16], 4_096));
        let mechanisms = vec![Mechanism::Plain, Mechanism::Scram(Hash::Sha256)];
        let server = Sasl { mechanisms, users: Arc::new(users), tokens: Verifier::default() };
        let mut state = Authentication::default();
        while let Ok(size) = socket.read_u32().await {
            let mut frame = vec![0; size as usize];
            socket.read_exact(&mut frame).await.unwrap();
            let (header, body) = RequestHeader::read(&frame).unwrap();
            let is_handshake = header.api.key == versions::SASL_HANDSHAKE;
            let asked = if is_handshake {
                Asked::Handshake(header.version, sasl::read_handshake(body).unwrap())
            } else {
                Asked::Authenticate(sasl::read_authenticate(false, body).unwrap())
            };
            let mut answer = BytesMut::from(&header.correlation_id.to_be_bytes()[..]);
            let mut out = Writer::new(&mut answer, false);
            let authenticated = |error, message: &str, bytes: &[u8], out: &mut Writer<'_>| {
                sasl::authenticate(out, 1, sasl::Authenticated { error, message, bytes, lifetime_ms: 0 });
            };
            match state.ask(asked, &server, Moment { nonce: "server-nonce", now_ms: 0 }) {
                Reaction::Mechanisms => sasl::handshake(&mut out, 0, &["PLAIN", "SCRAM-SHA-256"]),
                Reaction::NoSuchMechanism => sasl::handshake(&mut out, 33, &["PLAIN", "SCRAM-SHA-256"]),
                Reaction::Continue(bytes) | Reaction::Done(bytes) => authenticated(0, "", &bytes, &mut out),
                Reaction::Failed(message) => authenticated(58, &message, &[], &mut out),
                reaction => panic!("{reaction:?}"),
            }
            socket.write_u32(answer.len() as u32).await.unwrap();
            socket.write_all(&answer).await.unwrap();
        }
    }

    fn logged_in(mechanism: Mechanism, user: &str, password: &str) -> Result<(), Failure> {
        let (user, password) = (user.to_owned(), Password::Text(password.to_owned()));
        let login = Login { mechanism, user, password };
        between(async move |mut socket| Connection::default().authenticate(&mut socket, &login).await, authenticates)
    }

    #[test]
    fn a_server_authenticates_with_its_password_and_no_other() {
        for mechanism in [Mechanism::Plain, Mechanism::Scram(Hash::Sha256)] {
            assert_eq!(logged_in(mechanism, "rota", "secret"), Ok(()));
            for (user, password) in [("rota", "Secret"), ("eve", "secret")] {
                let Err(Failure::Wrong(reason)) = logged_in(mechanism, user, password) else { panic!("{user}") };
                assert!(reason.starts_with(&format!("it refuses the user `{user}`: check --peer-user")), "{reason}");
            }
        }
        let Err(Failure::Wrong(reason)) = logged_in(Mechanism::Scram(Hash::Sha512), "rota", "secret") else { panic!() };
        assert!(
            reason.starts_with("it does not have the mechanism SCRAM-SHA-512, but PLAIN, SCRAM-SHA-256"),
            "{reason}"
        );
    }

    #[test]
    fn a_server_that_ends_says_nothing_and_one_that_is_not_there_is_away() {
        let login = Login { mechanism: Mechanism::Plain, user: String::new(), password: Password::Text(String::new()) };
        let found = between(
            async move |mut socket| Connection::default().authenticate(&mut socket, &login).await,
            async |socket| drop(socket),
        );
        assert_eq!(found, Err(Failure::Closed));
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::ConnectionRefused)), Failure::Away);
    }
}
