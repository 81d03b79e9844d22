//! Authentication with SASL: the state of a connection, without IO, clock and randomness. The caller decodes requests,
//! writes answers, delays and closes.

pub mod alteration;
pub mod scram;
pub mod users;

use std::fmt;

use self::{
    scram::{ClientFirst, Exchange, Hash},
    users::Users,
};

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// PLAIN (RFC 4616).
    Plain,
    /// SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).
    Scram(Hash),
}

impl Mechanism {
    /// Every mechanism with its name, in the order of Kafka's answers.
    pub const NAMES: [(&'static str, Mechanism); 3] = [
        ("PLAIN", Mechanism::Plain),
        ("SCRAM-SHA-512", Mechanism::Scram(Hash::Sha512)),
        ("SCRAM-SHA-256", Mechanism::Scram(Hash::Sha256)),
    ];

    /// Returns the mechanism of this name; names are case-sensitive.
    pub fn named(name: &str) -> Option<Mechanism> {
        Mechanism::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mechanism)| *mechanism)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Mechanism::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// How the clients of a server authenticate.
#[derive(Debug)]
pub struct Sasl {
    /// The enabled mechanisms, in the order of Kafka's answers.
    pub mechanisms: Vec<Mechanism>,
    /// The users.
    pub users: Users,
}

/// Kafka's error `ILLEGAL_SASL_STATE`.
pub const ILLEGAL_SASL_STATE: i16 = 34;
/// Kafka's error `UNSUPPORTED_SASL_MECHANISM`.
pub const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
/// Kafka's error `SASL_AUTHENTICATION_FAILED`.
pub const SASL_AUTHENTICATION_FAILED: i16 = 58;

/// The state of a connection.
#[derive(Clone, Debug, Default)]
enum State {
    /// Before the mechanism is chosen.
    #[default]
    Unknown,
    /// The mechanism is chosen.
    Chosen(Mechanism),
    /// The server has answered the first message of SCRAM.
    Answered(String, Box<Exchange>),
    /// The client is this user, by this mechanism.
    Authenticated(String, Mechanism),
    /// The client authenticates again, and has chosen another mechanism than before.
    OtherMechanism,
    /// The authentication failed.
    Failed,
}

/// A request of a client that is not authenticated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked<'r> {
    /// `ApiVersions`.
    ApiVersions {
        /// Whether the server has this version.
        is_served: bool,
    },
    /// `SaslHandshake` of this version, with the name of a mechanism.
    Handshake(i16, &'r str),
    /// `SaslAuthenticate` with these bytes.
    Authenticate(&'r [u8]),
    /// Any other request.
    Other,
}

/// Without the messages of SASL: those of PLAIN have the password.
impl fmt::Debug for Asked<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::ApiVersions { is_served } => write!(out, "ApiVersions(is_served: {is_served})"),
            Asked::Handshake(version, name) => write!(out, "Handshake({version}, {name:?})"),
            Asked::Authenticate(message) => write!(out, "Authenticate({} bytes)", message.len()),
            Asked::Other => out.write_str("Other"),
        }
    }
}

/// What the server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Serves `ApiVersions`, and goes on.
    Versions,
    /// Answers `SaslHandshake` with success and the mechanisms, and goes on.
    Mechanisms,
    /// Answers `SaslHandshake` with `UNSUPPORTED_SASL_MECHANISM` and the mechanisms after the delay, and closes.
    NoSuchMechanism,
    /// Answers `SaslAuthenticate` with these bytes, and goes on.
    Continue(Vec<u8>),
    /// Answers `SaslAuthenticate` with these bytes. The client is authenticated.
    Done(Vec<u8>),
    /// Answers `SASL_AUTHENTICATION_FAILED` with this message after the delay, and closes.
    Failed(String),
    /// Answers `ILLEGAL_SASL_STATE` in the request's own form, and closes.
    Illegal,
    /// Closes without an answer.
    Close,
}

/// The authentication of one connection.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    state: State,
    /// Whether `ApiVersions` was served: it is served once.
    knows_versions: bool,
    /// Who the client has been, if it authenticates again.
    before: Option<(String, Mechanism)>,
}

impl Authentication {
    /// Begins the re-authentication (KIP-368) of a connection, whose user and mechanism must stay.
    pub fn again(user: String, mechanism: Mechanism) -> Authentication {
        Authentication { state: State::Unknown, knows_versions: true, before: Some((user, mechanism)) }
    }

    /// Returns user and mechanism of an authenticated connection.
    pub fn login(&self) -> Option<(&str, Mechanism)> {
        match &self.state {
            State::Authenticated(user, mechanism) => Some((user, *mechanism)),
            _ => None,
        }
    }

    /// Handles the next request. `nonce` is unpredictable text for SCRAM.
    pub fn ask(&mut self, asked: Asked<'_>, enabled: &[Mechanism], users: &Users, nonce: &str) -> Reaction {
        match (std::mem::replace(&mut self.state, State::Failed), asked) {
            // A client that asked in a version that the server does not have asks again.
            (State::Unknown, Asked::ApiVersions { is_served }) if !self.knows_versions => {
                self.knows_versions = is_served;
                self.state = State::Unknown;
                Reaction::Versions
            }
            // Version 0 is followed by messages without headers, which no client of today sends.
            (State::Unknown, Asked::Handshake(1.., name)) => {
                self.choose(Mechanism::named(name).filter(|known| enabled.contains(known)))
            }
            (State::Unknown | State::Authenticated(..) | State::OtherMechanism | State::Failed, _) => Reaction::Close,
            (State::Chosen(Mechanism::Plain), Asked::Authenticate(token)) => match plain(token, users) {
                Ok(user) => self.succeed(user, Mechanism::Plain, Vec::new()),
                Err(message) => Reaction::Failed(message),
            },
            (State::Chosen(Mechanism::Scram(hash)), Asked::Authenticate(token)) => {
                let Ok(first) = ClientFirst::parse(token) else { return bad_scram(hash) };
                let (exchange, answer) = Exchange::begin(&first, users.credential(&first.user, hash), nonce);
                self.state = State::Answered(first.user, Box::new(exchange));
                Reaction::Continue(answer)
            }
            (State::Answered(user, exchange), Asked::Authenticate(token)) => {
                let hash = exchange.hash();
                match exchange.finish(token) {
                    Ok(answer) => self.succeed(user, Mechanism::Scram(hash), answer),
                    Err(_) => bad_scram(hash),
                }
            }
            (State::Chosen(_) | State::Answered(..), _) => Reaction::Illegal,
        }
    }

    /// Goes on with a mechanism; `None`: the server does not have the one that was asked for.
    fn choose(&mut self, found: Option<Mechanism>) -> Reaction {
        match (found, &self.before) {
            (None, None) => Reaction::NoSuchMechanism,
            (None, Some(_)) => Reaction::Close,
            // As in Kafka, what follows is refused.
            (Some(mechanism), Some((_, before))) if mechanism != *before => {
                self.state = State::OtherMechanism;
                Reaction::Mechanisms
            }
            (Some(mechanism), _) => {
                self.state = State::Chosen(mechanism);
                Reaction::Mechanisms
            }
        }
    }

    fn succeed(&mut self, user: String, mechanism: Mechanism, answer: Vec<u8>) -> Reaction {
        if let Some((before, _)) = &self.before
            && *before != user
        {
            return Reaction::Failed(format!(
                "Cannot change principals during re-authentication from User.{before}: User.{user}"
            ));
        }
        self.state = State::Authenticated(user, mechanism);
        Reaction::Done(answer)
    }
}

fn bad_scram(hash: Hash) -> Reaction {
    let mechanism = Mechanism::Scram(hash).name();
    Reaction::Failed(format!(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    ))
}

/// Checks a message of PLAIN, `authzid NUL user NUL password`. Returns the user, or Kafka's message.
fn plain(token: &[u8], users: &Users) -> Result<String, String> {
    let failed = |reason: &str| Err(format!("Authentication failed: {reason}"));
    let parts: Vec<&[u8]> = token.split(|byte| *byte == 0).collect();
    let [authzid, user, password] = parts[..] else {
        return Err(format!("Invalid SASL/PLAIN response: expected 3 tokens, got {}", parts.len()));
    };
    if user.is_empty() {
        return failed("username not specified");
    }
    if password.is_empty() {
        return failed("password not specified");
    }
    let (Ok(name), Ok(password)) = (std::str::from_utf8(user), std::str::from_utf8(password)) else {
        return failed("Invalid username or password");
    };
    if !users.has(name, password) {
        return failed("Invalid username or password");
    }
    if !authzid.is_empty() && authzid != user {
        return failed("Client requested an authorization id that is different from username");
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{scram::Credential, *};

    const ENABLED: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Scram(Hash::Sha256)];

    fn users() -> Users {
        let mut users = Users::new([7; 32]);
        users.add("ana", Credential::of(Hash::Sha256, "secret", vec![1; scram::SALT_BYTES], scram::ITERATIONS_MIN));
        users
    }

    fn ask(state: &mut Authentication, asked: Asked<'_>) -> Reaction {
        state.ask(asked, &ENABLED, &users(), "server-nonce")
    }

    fn chosen(mechanism: &str) -> Authentication {
        let mut state = Authentication::default();
        assert_eq!(ask(&mut state, Asked::Handshake(1, mechanism)), Reaction::Mechanisms);
        state
    }

    const VERSIONS: Asked<'static> = Asked::ApiVersions { is_served: true };

    #[test]
    fn api_versions_are_served_once() {
        let mut state = Authentication::default();
        // A version that the server does not have does not count.
        assert_eq!(ask(&mut state, Asked::ApiVersions { is_served: false }), Reaction::Versions);
        assert_eq!(ask(&mut state, VERSIONS), Reaction::Versions);
        assert_eq!(ask(&mut state, VERSIONS), Reaction::Close);
    }

    #[test]
    fn before_the_handshake_anything_else_closes() {
        for asked in [Asked::Other, Asked::Authenticate(b"\0ana\0secret"), Asked::Handshake(0, "PLAIN")] {
            assert_eq!(ask(&mut Authentication::default(), asked), Reaction::Close, "{asked:?}");
        }
        for name in ["", "plain", "NOPE", "SCRAM-SHA-512"] {
            assert_eq!(ask(&mut Authentication::default(), Asked::Handshake(1, name)), Reaction::NoSuchMechanism);
        }
    }

    #[test]
    fn plain_answers_as_kafka_does() {
        let failed = |reason: &str| Reaction::Failed(format!("Authentication failed: {reason}"));
        let wrong = failed("Invalid username or password");
        let cases: [(&[u8], Reaction); 10] = [
            (b"\0ana\0secret", Reaction::Done(Vec::new())),
            (b"ana\0ana\0secret", Reaction::Done(Vec::new())),
            (b"\0ana\0Secret", wrong.clone()),
            (b"\0eve\0secret", wrong.clone()),
            (b"\0ana\0\xff", wrong),
            (b"bob\0ana\0secret", failed("Client requested an authorization id that is different from username")),
            (b"\0\0secret", failed("username not specified")),
            (b"\0ana\0", failed("password not specified")),
            (b"ana", Reaction::Failed("Invalid SASL/PLAIN response: expected 3 tokens, got 1".to_owned())),
            (b"\0ana\0secret\0", Reaction::Failed("Invalid SASL/PLAIN response: expected 3 tokens, got 4".to_owned())),
        ];
        for (token, expected) in cases {
            let mut state = chosen("PLAIN");
            assert_eq!(ask(&mut state, Asked::Authenticate(token)), expected, "{token:?}");
            let user = (expected == Reaction::Done(Vec::new())).then_some("ana");
            assert_eq!(state.login().map(|(user, _)| user), user);
            // Nothing follows, whatever the outcome.
            assert_eq!(ask(&mut state, Asked::Handshake(1, "PLAIN")), Reaction::Close);
        }
    }

    #[test]
    fn a_remembered_password_does_not_let_another_in() {
        let users = users();
        for (password, is_right) in [("secret", true), ("secret", true), ("Secret", false), ("", false)] {
            assert_eq!(users.has("ana", password), is_right);
        }
        assert!(!users.has("eve", "secret"));
    }

    fn again() -> Authentication {
        Authentication::again("ana".to_owned(), Mechanism::Plain)
    }

    #[test]
    fn a_client_authenticates_again_as_the_same_user_with_the_same_mechanism() {
        let mut users = users();
        users.add("bob", Credential::of(Hash::Sha256, "secret", vec![1; scram::SALT_BYTES], scram::ITERATIONS_MIN));
        let authenticate = |token: &[u8]| {
            let mut state = again();
            assert_eq!(ask(&mut state, Asked::Handshake(1, "PLAIN")), Reaction::Mechanisms);
            state.ask(Asked::Authenticate(token), &ENABLED, &users, "server-nonce")
        };
        assert_eq!(authenticate(b"\0ana\0secret"), Reaction::Done(Vec::new()));
        let changed = "Cannot change principals during re-authentication from User.ana: User.bob";
        assert_eq!(authenticate(b"\0bob\0secret"), Reaction::Failed(changed.to_owned()));
        let wrong = Reaction::Failed("Authentication failed: Invalid username or password".to_owned());
        assert_eq!([authenticate(b"\0ana\0x"), authenticate(b"\0bob\0x")], [wrong.clone(), wrong]);
        let mut state = again();
        assert_eq!(ask(&mut state, Asked::Handshake(1, "SCRAM-SHA-256")), Reaction::Mechanisms);
        assert_eq!(ask(&mut state, Asked::Authenticate(b"n,,n=ana,r=abc")), Reaction::Close);
        for name in ["NOPE", "", "SCRAM-SHA-512"] {
            assert_eq!(ask(&mut again(), Asked::Handshake(1, name)), Reaction::Close);
        }
        let mut state = again();
        assert_eq!(ask(&mut state, Asked::Handshake(1, "PLAIN")), Reaction::Mechanisms);
        assert_eq!(ask(&mut state, Asked::Other), Reaction::Illegal);
    }

    #[test]
    fn between_rounds_other_requests_are_illegal() {
        for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
            for asked in [VERSIONS, Asked::Handshake(1, "PLAIN"), Asked::Other] {
                assert_eq!(ask(&mut chosen(mechanism), asked), Reaction::Illegal);
            }
        }
        let mut state = chosen("SCRAM-SHA-256");
        let first = ask(&mut state, Asked::Authenticate(b"n,,n=ana,r=abc"));
        assert!(matches!(first, Reaction::Continue(_)));
        assert_eq!(ask(&mut state, Asked::Other), Reaction::Illegal);
    }

    #[test]
    fn scram_fails_alike_for_wrong_passwords_and_unknown_users() {
        let failed = bad_scram(Hash::Sha256);
        for user in ["ana", "eve"] {
            let mut state = chosen("SCRAM-SHA-256");
            let first = ask(&mut state, Asked::Authenticate(format!("n,,n={user},r=abc").as_bytes()));
            let Reaction::Continue(first) = first else { panic!("{first:?}") };
            let first = String::from_utf8(first).unwrap();
            assert!(first.starts_with("r=abcserver-nonce,s=") && first.ends_with(",i=4096"), "{first}");
            let proof = "A".repeat(43);
            let last = format!("c=biws,r=abcserver-nonce,p={proof}=");
            assert_eq!(ask(&mut state, Asked::Authenticate(last.as_bytes())), failed);
        }
        assert_eq!(ask(&mut chosen("SCRAM-SHA-256"), Asked::Authenticate(b"nonsense")), failed);
    }

    #[test]
    fn a_users_file_is_read_back_and_wrong_lines_are_numbered() {
        let credential = Credential::of(Hash::Sha512, "secret", vec![1; scram::SALT_BYTES], scram::ITERATIONS_MIN);
        let mut users = Users::new([7; 32]);
        users.read(&format!("# users\n\nana SCRAM-SHA-512 {}\n", credential.text())).unwrap();
        assert!(users.has("ana", "secret"));
        assert_eq!(users.count(), 1);
        for wrong in ["ana", "ana PLAIN x", "ana SCRAM-SHA-512 x", "\u{e4} SCRAM-SHA-512 x"] {
            let error = users.read(&format!("\n{wrong}\n")).unwrap_err();
            assert_eq!(error.line, 2, "{error}");
        }
    }
}
