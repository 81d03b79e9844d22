//! The TLS handshake of an accepted connection.
//!
//! A handshake costs about a millisecond of computing. [`STEPS_PER_PASS`] bounds how many an event loop computes before
//! other connections have their turn, so that many reconnecting clients do not delay heartbeats.

use std::{io, time::Duration};

use tokio::{select, sync::Semaphore, time::sleep};

use super::tls_stream::TlsStream;
use crate::{
    base::refusals::Refusal,
    client::{Client, Ending},
};

/// Steps of handshakes in one pass of an event loop.
pub const STEPS_PER_PASS: usize = 1;

/// Time from the accepted connection to the end of its handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Completes the handshake. Errors: it failed, took too long, or the connection was ended.
pub async fn shake_hands(stream: &mut TlsStream, client: &Client, turns: &Semaphore) -> Result<(), Refusal> {
    select! {
        done = complete(stream, client, turns) => {
            let Err(error) = done else { return Ok(()) };
            match Refusal::of_handshake(&error) {
                // Some clients refuse a certificate without an alert.
                Refusal::ClosedByClient if stream.has_sent() && client.ending() == Ending::No => {
                    Err(Refusal::CertificateRefusedByClient)
                }
                refusal => Err(refusal),
            }
        }
        () = sleep(HANDSHAKE_TIMEOUT) => Err(Refusal::HandshakeTimedOut),
    }
}

async fn complete(stream: &mut TlsStream, client: &Client, turns: &Semaphore) -> io::Result<()> {
    while stream.is_handshaking() || stream.has_unsent() {
        select! {
            ready = stream.wait_for_client() => ready?,
            () = client.notify().notified() => {}
        }
        if client.ending() != Ending::No {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let Ok(_turn) = turns.acquire().await else { return Err(io::ErrorKind::ConnectionAborted.into()) };
        stream.step()?;
        // The turn ends when the other tasks of the loop have run.
        tokio::task::yield_now().await;
    }
    Ok(())
}
