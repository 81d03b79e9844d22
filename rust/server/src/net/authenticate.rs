//! The authentication of a connection with SASL, before its first other request.

use std::{io, time::Duration};

use bytes::BytesMut;
use rota_security::{
    principal, random,
    sasl::{Asked, Authentication, Moment, Reaction, SASL_AUTHENTICATION_FAILED, Sasl, UNSUPPORTED_SASL_MECHANISM},
    token::BadToken,
};
use rota_wire::{
    RequestHeader,
    frame::{LENGTH_BYTES, frame_length},
    sasl::{self, Authenticated},
    versions,
};
use tokio::{select, time::sleep};

use super::channel::{Channel, is_tls_handshake};
use crate::{
    apis::{self, Handled, api_versions},
    base::refusals::Refusal,
    client::Ending,
};

/// Time from the first byte that may come to the end of the authentication.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a request before the authentication. Messages of SASL are far smaller. Kafka allows 512 KiB
/// (`sasl.server.max.receive.size`), which unknown clients could use to fill the memory of the buffers.
const FRAME_BYTES_MAX: usize = 64 * 1024;

const OUT_OF_ORDER: &str = "SaslAuthenticate request received out of order";

/// What follows a request.
enum After {
    GoOn,
    Authenticated,
    Close(Refusal),
    /// A fault of a test closes the connection.
    Abort,
}

impl Channel {
    /// Authenticates the client. Returns whether the connection goes on.
    pub(super) async fn authenticate(&mut self, sasl: &Sasl) -> bool {
        self.authenticate_from(sasl, Authentication::default()).await
    }

    /// Authenticates the client again, as the same user with the same mechanism. Returns whether the connection goes on.
    pub(super) async fn authenticate_again(&mut self) -> bool {
        let (Some(sasl), Some(login)) = (self.event_loop.shared.sasl(), self.login.clone()) else {
            return false;
        };
        let goes_on = self.authenticate_from(&sasl, Authentication::again(login)).await;
        if goes_on {
            self.event_loop.shared.count_reauthentication();
        }
        goes_on
    }

    async fn authenticate_from(&mut self, sasl: &Sasl, mut state: Authentication) -> bool {
        // The delay of a failure does not count.
        let timeout = AUTHENTICATION_TIMEOUT + self.event_loop.shared.settings().failed_authentication_delay();
        let refusal = select! {
            ended = self.exchange(sasl, &mut state) => match ended {
                Ok(None) => return true,
                Ok(Some(refusal)) => refusal,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => Refusal::of_handshake(&error),
                Err(_) => Refusal::ClosedByClient,
            },
            () = sleep(timeout) => Refusal::AuthenticationTimedOut,
        };
        let refusal = match (refusal, state.bad_token()) {
            // kafkajs takes a token that is refused for one that is accepted, and sends its next request.
            (Refusal::NotAuthenticated | Refusal::ClosedByClient | Refusal::NoSasl, Some(reason)) => {
                Refusal::BadToken(reason)
            }
            (Refusal::NoSasl, None) if self.login.is_some() => Refusal::ReauthenticationInterrupted,
            // A client that closes its connection has changed its mind: there is no line.
            (refusal, _) => refusal,
        };
        if refusal == Refusal::BadToken(BadToken::UnknownKey) {
            self.event_loop.shared.users().key_demand().make();
        }
        self.event_loop.refused(&self.client, refusal);
        false
    }

    /// Handles requests until the client is authenticated, or returns why it is not.
    async fn exchange(&mut self, sasl: &Sasl, state: &mut Authentication) -> io::Result<Option<Refusal>> {
        loop {
            let frame = match self.next_frame().await? {
                Ok(frame) => frame,
                Err(refusal) => return Ok(Some(refusal)),
            };
            let after = self.react(state, sasl, &frame).await;
            self.write().await?;
            match after {
                After::GoOn => {}
                After::Authenticated => return Ok(None),
                After::Close(refusal) => return Ok(Some(refusal)),
                After::Abort => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
    }

    /// Waits for a whole frame, or returns what the bytes are instead.
    async fn next_frame(&mut self) -> io::Result<Result<BytesMut, Refusal>> {
        loop {
            match frame_length(&self.buffered, FRAME_BYTES_MAX) {
                Ok(Some(length)) if self.buffered.len() - LENGTH_BYTES >= length => {
                    let frame = BytesMut::from(&self.buffered[LENGTH_BYTES..LENGTH_BYTES + length]);
                    self.pass(LENGTH_BYTES + length);
                    return Ok(Ok(frame));
                }
                Ok(_) if self.end_of_stream || self.client.ending() != Ending::No => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(_) => {}
                Err(_) => {
                    let is_tls = is_tls_handshake(&self.buffered);
                    return Ok(Err(if is_tls { Refusal::TlsOnPlaintext } else { Refusal::NoSasl }));
                }
            }
            let client = std::rc::Rc::clone(&self.client);
            select! {
                ready = self.stream.readable() => ready?,
                () = client.notify().notified() => continue,
            }
            self.read_ready()?;
        }
    }

    /// Handles one request, and writes its answer to the client's buffer.
    async fn react(&mut self, state: &mut Authentication, sasl: &Sasl, frame: &[u8]) -> After {
        let Ok((header, body)) = RequestHeader::read(frame) else { return After::Close(Refusal::NoSasl) };
        let asked = match header.api.key {
            versions::API_VERSIONS => {
                let is_served = api_versions::is_served(&self.event_loop.node.borrow(), &header, body);
                Ok(Asked::ApiVersions { is_served })
            }
            versions::SASL_HANDSHAKE => sasl::read_handshake(body).map(|name| Asked::Handshake(header.version, name)),
            versions::SASL_AUTHENTICATE => sasl::read_authenticate(header.flexible(), body).map(Asked::Authenticate),
            _ => Ok(Asked::Other),
        };
        let (Ok(asked), Some(nonce)) = (asked, random::nonce()) else { return After::Close(Refusal::NoSasl) };
        let moment = Moment { nonce: &nonce, now_ms: self.event_loop.shared.clock().now().wall_ms };
        let reaction = {
            // Some thousands of digests may be computed, so other connections have their turn in between.
            let _turn = self.event_loop.handshakes.acquire().await;
            let reaction = state.ask(asked, sasl, moment);
            tokio::task::yield_now().await;
            reaction
        };
        let client = &self.client;
        match reaction {
            Reaction::Versions => {
                let handled = apis::handle(&mut self.event_loop.node.borrow_mut(), client, frame);
                match handled {
                    Ok(Handled::Answered) => After::GoOn,
                    Ok(Handled::Disturbed(disturbance)) => {
                        if self.disturb_answers(disturbance).await.is_ok() {
                            After::GoOn
                        } else {
                            After::Abort
                        }
                    }
                    _ => After::Close(Refusal::NoSasl),
                }
            }
            Reaction::Mechanisms => {
                apis::sasl::handshake(client, &header, 0, &sasl.mechanisms);
                After::GoOn
            }
            Reaction::Continue(bytes) => {
                apis::sasl::authenticate(client, &header, Authenticated { bytes: &bytes, ..Authenticated::default() });
                After::GoOn
            }
            Reaction::Done(bytes) => {
                self.begin_session(state, &header, &bytes);
                After::Authenticated
            }
            Reaction::NoSuchMechanism => {
                self.delay_failure().await;
                apis::sasl::handshake(&self.client, &header, UNSUPPORTED_SASL_MECHANISM, &sasl.mechanisms);
                After::Close(Refusal::NotAuthenticated)
            }
            Reaction::Failed(message) => {
                self.delay_failure().await;
                let error = SASL_AUTHENTICATION_FAILED;
                let answer = Authenticated { error, message: &message, ..Authenticated::default() };
                apis::sasl::authenticate(&self.client, &header, answer);
                After::Close(Refusal::NotAuthenticated)
            }
            Reaction::Illegal => {
                apis::sasl::illegal(client, &header, OUT_OF_ORDER);
                After::Close(Refusal::NoSasl)
            }
            Reaction::Close => After::Close(Refusal::NoSasl),
        }
    }

    /// Answers that the client is authenticated, and for how long.
    fn begin_session(&mut self, state: &Authentication, header: &RequestHeader<'_>, bytes: &[u8]) {
        let (client, shared) = (&self.client, &self.event_loop.shared);
        let (now, login) = (shared.clock().now(), state.login());
        let of_token =
            login.and_then(|login| login.expires_ms).map(|at_ms| at_ms.saturating_sub(now.wall_ms).max(0) as u64);
        // The earlier end counts.
        let lifetime_ms = shared.settings().max_reauthentication_ms().into_iter().chain(of_token).min();
        client.session().set_lifetime(now.mono_ms, lifetime_ms);
        let lifetime_ms = lifetime_ms.map_or(0, |lifetime_ms| i64::try_from(lifetime_ms).unwrap_or(i64::MAX));
        apis::sasl::authenticate(client, header, Authenticated { bytes, lifetime_ms, ..Authenticated::default() });
        client.set_principal(&principal::of_user(login.map_or("", |login| &login.user)));
        self.login = login.cloned();
    }

    /// Delays the answer of a failure, at most until the server ends the connection.
    async fn delay_failure(&self) {
        let delay = sleep(self.event_loop.shared.settings().failed_authentication_delay());
        tokio::pin!(delay);
        while self.client.ending() == Ending::No {
            select! {
                () = &mut delay => return,
                () = self.client.notify().notified() => {}
            }
        }
    }
}
