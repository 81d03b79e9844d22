//! Damaged and invented bytes in everything that others write: messages of SASL, PEM, users, ACLs, key sets. Nothing
//! panics, nothing is admitted, and no secret is in an error. `PROPTEST_CASES=1000000` makes it a long run.

use std::sync::{Arc, LazyLock};

use proptest::{collection::vec, prelude::*};
use rota_security::{
    acl::read_lines,
    authority::Authority,
    pem::{self, Source},
    principal::MappingRules,
    sasl::{
        Asked, Authentication, Mechanism, Moment, Reaction, Sasl,
        scram::{Credential, Hash},
        users::Users,
    },
    tls::{ClientAuth, TlsFiles},
    token::{Verifier, keys::Keys},
};

const USER: &str = "ana";
const PASSWORD: &str = "correct=horse,battery";
const MOMENT: Moment<'static> = Moment { nonce: "server-nonce", now_ms: 0 };
/// So many characters of a key in an error would be a leak.
const LEAK_CHARS: usize = 12;

static SASL: LazyLock<Sasl> = LazyLock::new(|| {
    let mut users = Users::new([7; 32]);
    for hash in Hash::ALL {
        users.add(USER, Credential::of(hash, PASSWORD, b"salt-of-the-tests".to_vec(), 4_096));
    }
    let mechanisms = Mechanism::NAMES.map(|(_, mechanism)| mechanism).to_vec();
    Sasl { mechanisms, users: Arc::new(users), tokens: Verifier::default() }
});

/// Certificate with key, and the certificate of the CA.
static PEM: LazyLock<(String, String)> = LazyLock::new(|| {
    let authority = Authority::new().unwrap();
    let issued = authority.issue(&["localhost".to_owned()], "rota", false).unwrap();
    (issued.certificate + &issued.key, authority.certificate())
});

fn mechanism() -> impl Strategy<Value = &'static str> {
    prop::sample::select(Mechanism::NAMES.map(|(name, _)| name).to_vec())
}

/// Messages as clients begin with, and what their parts are made of.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "n,,",
        "y,,",
        "p=tls-unique,,",
        "n,a=ana,",
        "n=ana",
        "n=",
        ",",
        "=",
        "=2C",
        "=3D",
        "r=abc",
        "r=",
        "c=biws",
        "p=AAAA",
        "server-nonce",
        "m=x",
        "tokenauth=true",
        "\u{0}",
        "ana",
        PASSWORD,
        "\u{1}auth=Bearer ",
        "\u{1}\u{1}",
        "eyJhbGciOiJub25lIn0.e30.",
        "é",
        "\u{feff}",
    ]);
    let made = vec(part, 0..12).prop_map(|parts| parts.concat().into_bytes());
    prop_oneof![made, vec(any::<u8>(), 0..200)]
}

/// One of the ways in which bytes are damaged on their way.
fn damaged(whole: &[u8], at: usize, byte: u8, way: u8) -> Vec<u8> {
    let at = at % whole.len();
    let mut damaged = whole.to_vec();
    match way % 4 {
        0 => damaged[at] = byte,
        1 => damaged.truncate(at),
        2 => damaged.insert(at, byte),
        _ => drop(damaged.drain(at..(at + usize::from(byte) + 1).min(whole.len()))),
    }
    damaged
}

fn begun(mechanism: &str) -> Authentication {
    let mut client = Authentication::default();
    assert_eq!(client.ask(Asked::Handshake(1, mechanism), &SASL, MOMENT), Reaction::Mechanisms);
    client
}

/// The error of a file that has a key does not repeat it.
fn repeats_nothing(error: &str, secret: &[u8]) -> bool {
    let error = error.as_bytes();
    secret.windows(LEAK_CHARS).all(|part| !error.windows(LEAK_CHARS).any(|said| said == part))
}

proptest! {
    #[test]
    fn invented_messages_admit_nobody(
        mechanism in mechanism(),
        messages in vec((message(), any::<bool>()), 1..6),
    ) {
        let mut client = begun(mechanism);
        for (message, is_message) in &messages {
            let asked = if *is_message { Asked::Authenticate(message) } else { Asked::Other };
            let reaction = client.ask(asked, &SASL, MOMENT);
            let accepted = [format!("\0{USER}\0{PASSWORD}"), format!("{USER}\0{USER}\0{PASSWORD}")];
            let is_right = mechanism == "PLAIN" && accepted.iter().any(|right| right.as_bytes() == message);
            prop_assert!(is_right || !matches!(reaction, Reaction::Done(_)), "{mechanism} {message:?}");
            if let Reaction::Failed(said) = reaction {
                prop_assert!(!said.contains(PASSWORD), "{said}");
                prop_assert_eq!(client.ask(Asked::Authenticate(message), &SASL, MOMENT), Reaction::Close);
            }
        }
    }

    #[test]
    fn a_damaged_password_admits_nobody(at in 0_usize..100, byte: u8, way: u8) {
        let whole = format!("\0{USER}\0{PASSWORD}").into_bytes();
        let damaged = damaged(&whole, at, byte, way);
        let reaction = begun("PLAIN").ask(Asked::Authenticate(&damaged), &SASL, MOMENT);
        prop_assert_eq!(matches!(reaction, Reaction::Done(_)), damaged == whole, "{:?}", damaged);
    }

    #[test]
    fn a_damaged_message_of_scram_admits_nobody(
        hash in prop::sample::select(vec!["SCRAM-SHA-256", "SCRAM-SHA-512"]),
        first in message(),
        last in message(),
    ) {
        let mut client = begun(hash);
        let opening = client.ask(Asked::Authenticate(b"n,,n=ana,r=abc"), &SASL, MOMENT);
        prop_assert!(matches!(opening, Reaction::Continue(_)));
        prop_assert!(!matches!(client.ask(Asked::Authenticate(&last), &SASL, MOMENT), Reaction::Done(_)));
        let mut client = begun(hash);
        if let Reaction::Continue(_) = client.ask(Asked::Authenticate(&first), &SASL, MOMENT) {
            prop_assert!(!matches!(client.ask(Asked::Authenticate(&last), &SASL, MOMENT), Reaction::Done(_)));
        }
    }

    #[test]
    fn damaged_pem_is_read_or_refused_and_its_key_is_not_repeated(at: usize, byte: u8, way: u8, more: usize) {
        let (store, ca) = &*PEM;
        let once = damaged(store.as_bytes(), at, byte, way);
        let twice = if once.is_empty() { once } else { damaged(&once, more, byte.rotate_left(3), way / 4) };
        let text = String::from_utf8_lossy(&twice).into_owned();
        let key = store.split("PRIVATE KEY-----").nth(1).unwrap().replace('\n', "");
        let source = |text: &str| Source::Inline("ssl.keystore.key", text.to_owned());
        for error in [pem::certificates(&source(&text)).err(), pem::private_key(&source(&text)).err()].iter().flatten() {
            prop_assert!(repeats_nothing(&format!("{error} {error:?}"), key.as_bytes()), "{error}");
        }
        let files = TlsFiles {
            chain: source(&text),
            key: source(&text),
            client_ca: Some(source(if way % 2 == 0 { ca } else { &text })),
            client_auth: ClientAuth::Required,
        };
        if let Err(error) = files.load() {
            prop_assert!(repeats_nothing(&format!("{error} {error:?}"), key.as_bytes()), "{error}");
        }
    }

    #[test]
    fn invented_pem_is_refused(bytes in vec(any::<u8>(), 0..400), kind in "[A-Z ]{0,20}", body in "[A-Za-z0-9+/=\n]{0,200}") {
        let made = format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
        for text in [String::from_utf8_lossy(&bytes).into_owned(), made] {
            let source = || Source::Inline("ssl.keystore.key", text.clone());
            let files = TlsFiles { chain: source(), key: source(), client_ca: None, client_auth: ClientAuth::None };
            prop_assert!(files.load().is_err());
        }
    }

    #[test]
    fn files_of_others_are_read_or_refused(text in "\\PC*", lines in "([A-Za-z:* %0-9=,/.-]{0,40}\n){0,6}") {
        for text in [&text, &lines] {
            let _read = read_lines(text);
            let _read = Users::of_text(text, [0; 32]);
            let _read = MappingRules::read(text);
            prop_assert!(Keys::of_text(text).is_err());
        }
    }
}
