//! The client's side of PLAIN and SCRAM, by which a server authenticates at another one. The caller gives the nonce.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use subtle::ConstantTimeEq;

use super::{
    Mechanism,
    scram::{Hash, ITERATIONS_MAX, ITERATIONS_MIN},
};

/// The server's message is not the one of the mechanism, or shows that it does not know the user's password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadServer;

/// What comes next.
enum State {
    Begin,
    /// The first message of SCRAM was sent, without its header.
    Greeted(Hash, String),
    /// The proof of SCRAM was sent. The server has to prove this.
    Proved(Vec<u8>),
    /// Everything was sent.
    Ended,
}

/// A client that authenticates.
pub struct Client<'c> {
    mechanism: Mechanism,
    user: &'c str,
    password: &'c str,
    nonce: &'c str,
    state: State,
}

impl<'c> Client<'c> {
    /// Begins. `nonce` must be unpredictable, printable ASCII without commas.
    pub fn new(mechanism: Mechanism, user: &'c str, password: &'c str, nonce: &'c str) -> Client<'c> {
        Client { mechanism, user, password, nonce, state: State::Begin }
    }

    /// Returns the next message, after this one of the server, which is empty at first; `None`: the server knows the user.
    pub fn next(&mut self, from_server: &[u8]) -> Result<Option<Vec<u8>>, BadServer> {
        let (message, state) = match (std::mem::replace(&mut self.state, State::Ended), self.mechanism) {
            (State::Begin, Mechanism::Plain) => {
                (format!("\0{}\0{}", self.user, self.password).into_bytes(), State::Ended)
            }
            (State::Begin, Mechanism::Scram(hash)) => {
                let user = self.user.replace('=', "=3D").replace(',', "=2C");
                let bare = format!("n={user},r={}", self.nonce);
                (format!("n,,{bare}").into_bytes(), State::Greeted(hash, bare))
            }
            (State::Greeted(hash, bare), _) => {
                let (message, expected) = self.prove(hash, &bare, from_server).ok_or(BadServer)?;
                (message, State::Proved(expected))
            }
            (State::Proved(expected), _) if bool::from(expected.ct_eq(from_server)) => return Ok(None),
            (State::Ended, Mechanism::Plain) => return Ok(None),
            _ => return Err(BadServer),
        };
        self.state = state;
        Ok(Some(message))
    }

    /// Returns the proof of the password, and what the server has to answer.
    fn prove(&self, hash: Hash, bare: &str, from_server: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let text = std::str::from_utf8(from_server).ok()?;
        let mut fields = text.split(',');
        let mut field = |name| fields.next()?.strip_prefix(name);
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        let iterations = iterations.parse().ok().filter(|count| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(count))?;
        // Otherwise this could be the answer to another client.
        nonce.strip_prefix(self.nonce).filter(|rest| !rest.is_empty())?;
        let salted = hash.salted(self.password.as_bytes(), &BASE64.decode(salt).ok()?, iterations);
        let client_key = hash.sign(&salted, b"Client Key");
        // `biws` is the header `n,,`.
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{bare},{text},{without_proof}");
        let signature = hash.sign(&hash.digest(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        let of_server = hash.sign(&hash.sign(&salted, b"Server Key"), signed.as_bytes());
        let message = format!("{without_proof},p={}", BASE64.encode(proof));
        Some((message.into_bytes(), format!("v={}", BASE64.encode(of_server)).into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        sasl::{
            Asked, Authentication, Moment, Reaction, Sasl,
            scram::{Credential, SALT_BYTES},
            users::Users,
        },
        token::Verifier,
    };

    const USER: &str = "rota=1,2";

    /// Plays a client to the server's side. Returns whether both are satisfied.
    fn authenticates(mechanism: Mechanism, password: &str) -> bool {
        let mut users = Users::new([7; 32]);
        let hash = if let Mechanism::Scram(hash) = mechanism { hash } else { Hash::Sha512 };
        users.add(USER, Credential::of(hash, "secret", vec![1; SALT_BYTES], ITERATIONS_MIN));
        let sasl = Sasl { mechanisms: vec![mechanism], users: Arc::new(users), tokens: Verifier::default() };
        let moment = Moment { nonce: "server-nonce", now_ms: 0 };
        let mut server = Authentication::default();
        assert_eq!(server.ask(Asked::Handshake(1, mechanism.name()), &sasl, moment), Reaction::Mechanisms);
        let mut client = Client::new(mechanism, USER, password, "client-nonce");
        let mut from_server = Vec::new();
        while let Some(message) = client.next(&from_server).unwrap() {
            match server.ask(Asked::Authenticate(&message), &sasl, moment) {
                Reaction::Continue(answer) | Reaction::Done(answer) => from_server = answer,
                Reaction::Failed(_) => return false,
                reaction => panic!("{reaction:?}"),
            }
        }
        server.login().is_some_and(|login| login.user == USER)
    }

    #[test]
    fn the_servers_side_accepts_the_right_password_only() {
        for mechanism in [Mechanism::Plain, Mechanism::Scram(Hash::Sha256), Mechanism::Scram(Hash::Sha512)] {
            assert!(authenticates(mechanism, "secret"), "{mechanism:?}");
            assert!(!authenticates(mechanism, "Secret"), "{mechanism:?}");
        }
    }

    /// The example of RFC 7677.
    #[test]
    fn the_messages_are_those_of_the_standard_and_the_server_has_to_prove_that_it_knows_the_password() {
        let begun = || {
            let mechanism = Mechanism::Scram(Hash::Sha256);
            let mut client = Client::new(mechanism, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
            assert_eq!(client.next(b"").unwrap().unwrap(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
            client
        };
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let first = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let proof = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let proved = || {
            let mut client = begun();
            assert_eq!(client.next(first.as_bytes()).unwrap().unwrap(), proof.as_bytes());
            client
        };
        assert_eq!(proved().next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(None));
        for wrong in [&b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="[..], b"", b"e=invalid-proof"] {
            assert_eq!(proved().next(wrong), Err(BadServer));
        }
        let few = first.replace("4096", "4095");
        let other = first.replace("r=rO", "r=sO");
        for wrong in ["", "r=x", &few, &other, &first.replace(&nonce[20..], ""), &first.replace("W22", "W2")] {
            assert_eq!(begun().next(wrong.as_bytes()), Err(BadServer), "{wrong}");
        }
    }
}
