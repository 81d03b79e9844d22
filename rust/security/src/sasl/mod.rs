//! Authentication with SASL: the state of a connection, without IO, clock and randomness. The caller decodes requests,
//! writes answers, delays and closes.

pub mod alteration;
pub mod client;
pub mod oauthbearer;
pub mod scram;
pub mod users;

use std::{fmt, sync::Arc};

use self::{
    scram::{ClientFirst, Exchange, Hash},
    users::Users,
};
use crate::token::{BadToken, Verifier};

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// PLAIN (RFC 4616).
    Plain,
    /// SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).
    Scram(Hash),
    /// OAUTHBEARER (RFC 7628).
    OauthBearer,
}

impl Mechanism {
    /// Every mechanism with its name, in the order of Kafka's answers.
    pub const NAMES: [(&'static str, Mechanism); 4] = [
        ("PLAIN", Mechanism::Plain),
        ("SCRAM-SHA-512", Mechanism::Scram(Hash::Sha512)),
        ("SCRAM-SHA-256", Mechanism::Scram(Hash::Sha256)),
        ("OAUTHBEARER", Mechanism::OauthBearer),
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
#[derive(Clone, Debug)]
pub struct Sasl {
    /// The enabled mechanisms, in the order of Kafka's answers.
    pub mechanisms: Vec<Mechanism>,
    /// The users.
    pub users: Arc<Users>,
    /// What tokens must have, and the keys of their issuer.
    pub tokens: Verifier,
}

/// What differs from request to request.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'m> {
    /// Unpredictable text, for SCRAM.
    pub nonce: &'m str,
    /// Wall time, for tokens.
    pub now_ms: i64,
}

/// An authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// When its token expires, in milliseconds of wall time; `None`: it has none.
    pub expires_ms: Option<i64>,
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
    /// The server has answered that the token is not valid.
    Refused,
    /// The client is authenticated.
    Authenticated(Login),
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
        /// Whether the answer has the versions, and not an error.
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
    before: Option<Login>,
    /// Why the last token was refused.
    bad_token: Option<BadToken>,
}

impl Authentication {
    /// Begins the re-authentication (KIP-368) of a connection, whose user and mechanism must stay.
    pub fn again(before: Login) -> Authentication {
        Authentication { state: State::Unknown, knows_versions: true, before: Some(before), bad_token: None }
    }

    /// Returns who an authenticated client is.
    pub fn login(&self) -> Option<&Login> {
        match &self.state {
            State::Authenticated(login) => Some(login),
            _ => None,
        }
    }

    /// Returns why the last token was refused.
    pub fn bad_token(&self) -> Option<BadToken> {
        self.bad_token
    }

    /// Handles the next request.
    pub fn ask(&mut self, asked: Asked<'_>, sasl: &Sasl, moment: Moment<'_>) -> Reaction {
        match (std::mem::replace(&mut self.state, State::Failed), asked) {
            // A client whose request was refused, such as for its version, asks again.
            (State::Unknown, Asked::ApiVersions { is_served }) if !self.knows_versions => {
                self.knows_versions = is_served;
                self.state = State::Unknown;
                Reaction::Versions
            }
            // Version 0 is followed by messages without headers, which no client of today sends.
            (State::Unknown, Asked::Handshake(1.., name)) => {
                self.choose(Mechanism::named(name).filter(|known| sasl.mechanisms.contains(known)))
            }
            (State::Unknown | State::Authenticated(_) | State::OtherMechanism | State::Failed, _) => Reaction::Close,
            (State::Chosen(Mechanism::Plain), Asked::Authenticate(token)) => match plain(token, &sasl.users) {
                Ok(user) => self.succeed(user, Mechanism::Plain, Vec::new(), None),
                Err(message) => Reaction::Failed(message),
            },
            (State::Chosen(Mechanism::Scram(hash)), Asked::Authenticate(token)) => {
                let Ok(first) = ClientFirst::parse(token) else { return bad_credentials(Mechanism::Scram(hash)) };
                let credential = sasl.users.credential(&first.user, hash);
                let (exchange, answer) = Exchange::begin(&first, credential, moment.nonce);
                self.state = State::Answered(first.user, Box::new(exchange));
                Reaction::Continue(answer)
            }
            (State::Answered(user, exchange), Asked::Authenticate(token)) => {
                let mechanism = Mechanism::Scram(exchange.hash());
                match exchange.finish(token) {
                    Ok(answer) => self.succeed(user, mechanism, answer, None),
                    Err(_) => bad_credentials(mechanism),
                }
            }
            (State::Refused, Asked::Authenticate(oauthbearer::AFTER_ERROR)) => {
                Reaction::Failed(oauthbearer::INVALID_TOKEN.to_owned())
            }
            (State::Chosen(Mechanism::OauthBearer) | State::Refused, Asked::Authenticate(message)) => {
                self.take_token(message, &sasl.tokens, moment.now_ms)
            }
            (State::Chosen(_) | State::Answered(..) | State::Refused, _) => Reaction::Illegal,
        }
    }

    /// Handles the client's first message of OAUTHBEARER.
    fn take_token(&mut self, message: &[u8], tokens: &Verifier, now_ms: i64) -> Reaction {
        let Some(initial) = oauthbearer::read(message) else {
            self.bad_token = Some(BadToken::Malformed);
            return bad_credentials(Mechanism::OauthBearer);
        };
        match tokens.verify(initial.token, now_ms) {
            Err(reason) => {
                self.bad_token = Some(reason);
                self.state = State::Refused;
                Reaction::Continue(oauthbearer::INVALID_TOKEN.into())
            }
            Ok(bearer) if !initial.authzid.is_empty() && initial.authzid != bearer.name => Reaction::Failed(format!(
                "Authentication failed: Client requested an authorization id ({}) that is different from the token's \
                     principal name ({})",
                initial.authzid, bearer.name
            )),
            Ok(bearer) => self.succeed(bearer.name, Mechanism::OauthBearer, Vec::new(), Some(bearer.expires_ms)),
        }
    }

    /// Goes on with a mechanism; `None`: the server does not have the one that was asked for.
    fn choose(&mut self, found: Option<Mechanism>) -> Reaction {
        match (found, &self.before) {
            (None, None) => Reaction::NoSuchMechanism,
            (None, Some(_)) => Reaction::Close,
            // As in Kafka, what follows is refused.
            (Some(mechanism), Some(before)) if mechanism != before.mechanism => {
                self.state = State::OtherMechanism;
                Reaction::Mechanisms
            }
            (Some(mechanism), _) => {
                self.state = State::Chosen(mechanism);
                Reaction::Mechanisms
            }
        }
    }

    fn succeed(&mut self, user: String, mechanism: Mechanism, answer: Vec<u8>, expires_ms: Option<i64>) -> Reaction {
        if let Some(Login { user: before, .. }) = &self.before
            && *before != user
        {
            return Reaction::Failed(format!(
                "Cannot change principals during re-authentication from User.{before}: User.{user}"
            ));
        }
        self.bad_token = None;
        self.state = State::Authenticated(Login { user, mechanism, expires_ms });
        Reaction::Done(answer)
    }
}

fn bad_credentials(mechanism: Mechanism) -> Reaction {
    let mechanism = mechanism.name();
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
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::{scram::Credential, *};
    use crate::token::Rules;

    const NOW_MS: i64 = 1_000_000_000_000;
    const MOMENT: Moment<'static> = Moment { nonce: "server-nonce", now_ms: NOW_MS };

    fn sasl(users: Users) -> Sasl {
        let mechanisms = vec![Mechanism::Plain, Mechanism::Scram(Hash::Sha256), Mechanism::OauthBearer];
        let rules = Rules { allow_unsecured: true, ..Rules::default() };
        Sasl { mechanisms, users: Arc::new(users), tokens: Verifier { rules, ..Verifier::default() } }
    }

    fn users() -> Users {
        let mut users = Users::new([7; 32]);
        users.add("ana", Credential::of(Hash::Sha256, "secret", vec![1; scram::SALT_BYTES], scram::ITERATIONS_MIN));
        users
    }

    fn ask(state: &mut Authentication, asked: Asked<'_>) -> Reaction {
        state.ask(asked, &sasl(users()), MOMENT)
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
            assert_eq!(state.login().map(|login| login.user.as_str()), user);
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
        let user = "ana".to_owned();
        Authentication::again(Login { user, mechanism: Mechanism::Plain, expires_ms: None })
    }

    #[test]
    fn a_client_authenticates_again_as_the_same_user_with_the_same_mechanism() {
        let mut users = users();
        users.add("bob", Credential::of(Hash::Sha256, "secret", vec![1; scram::SALT_BYTES], scram::ITERATIONS_MIN));
        let authenticate = |token: &[u8]| {
            let mut state = again();
            assert_eq!(ask(&mut state, Asked::Handshake(1, "PLAIN")), Reaction::Mechanisms);
            state.ask(Asked::Authenticate(token), &sasl(users.clone()), MOMENT)
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
        for mechanism in ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"] {
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
        let failed = bad_credentials(Mechanism::Scram(Hash::Sha256));
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

    /// The first message of OAUTHBEARER with an unsecured token.
    fn bearing(authzid: &str, claims: &str) -> Vec<u8> {
        let [header, claims] = [r#"{"alg":"none"}"#, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        format!("n,{authzid},\x01auth=Bearer {header}.{claims}.\x01\x01").into_bytes()
    }

    const OF_ANA: &str = r#"{"sub":"ana","exp":1000000060}"#;

    #[test]
    fn a_token_authenticates_until_it_expires() {
        for authzid in ["", "a=ana"] {
            let mut state = chosen("OAUTHBEARER");
            assert_eq!(ask(&mut state, Asked::Authenticate(&bearing(authzid, OF_ANA))), Reaction::Done(Vec::new()));
            let (user, mechanism) = ("ana".to_owned(), Mechanism::OauthBearer);
            assert_eq!(state.login(), Some(&Login { user, mechanism, expires_ms: Some(NOW_MS + 60_000) }));
        }
    }

    #[test]
    fn a_wrong_token_is_answered_with_an_error_after_which_the_client_gives_up_or_sends_another() {
        let mut state = chosen("OAUTHBEARER");
        let expired = bearing("", r#"{"sub":"ana","exp":999999900}"#);
        let invalid = Reaction::Continue(br#"{"status":"invalid_token"}"#.to_vec());
        assert_eq!(ask(&mut state, Asked::Authenticate(&expired)), invalid);
        assert_eq!(state.bad_token(), Some(BadToken::Expired));
        let mut other = state.clone();
        let failed = Reaction::Failed(r#"{"status":"invalid_token"}"#.to_owned());
        assert_eq!(ask(&mut state, Asked::Authenticate(b"\x01")), failed);
        assert_eq!(ask(&mut state, Asked::Authenticate(b"\x01")), Reaction::Close);
        assert_eq!(ask(&mut other.clone(), Asked::Other), Reaction::Illegal);
        assert_eq!(ask(&mut other, Asked::Authenticate(&bearing("", OF_ANA))), Reaction::Done(Vec::new()));
    }

    #[test]
    fn what_is_not_a_message_of_oauthbearer_fails_at_once() {
        let failed = bad_credentials(Mechanism::OauthBearer);
        for message in [&b""[..], b"\x01", b"n,,\x01auth=Bearer\x01\x01", b"\0ana\0secret"] {
            assert_eq!(ask(&mut chosen("OAUTHBEARER"), Asked::Authenticate(message)), failed, "{message:?}");
        }
        let other = ask(&mut chosen("OAUTHBEARER"), Asked::Authenticate(&bearing("a=bob", OF_ANA)));
        assert!(matches!(&other, Reaction::Failed(text) if text.contains("authorization id (bob)")), "{other:?}");
    }

    #[test]
    fn another_token_of_the_same_principal_prolongs_a_session() {
        let (user, mechanism) = ("ana".to_owned(), Mechanism::OauthBearer);
        let before = Login { user, mechanism, expires_ms: Some(NOW_MS) };
        let authenticate = |claims: &str| {
            let mut state = Authentication::again(before.clone());
            assert_eq!(ask(&mut state, Asked::Handshake(1, "OAUTHBEARER")), Reaction::Mechanisms);
            ask(&mut state, Asked::Authenticate(&bearing("", claims)))
        };
        assert_eq!(authenticate(OF_ANA), Reaction::Done(Vec::new()));
        let changed = "Cannot change principals during re-authentication from User.ana: User.bob";
        assert_eq!(authenticate(&OF_ANA.replace("ana", "bob")), Reaction::Failed(changed.to_owned()));
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
