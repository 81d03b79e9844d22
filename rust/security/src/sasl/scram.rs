//! The server's side of SCRAM (RFC 5802, RFC 7677), and stored credentials. The caller gives nonces.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

/// The iterations of new credentials, and the fewest that are accepted.
pub const ITERATIONS_MIN: u32 = 4_096;

/// The most iterations that are accepted, as in Kafka.
pub const ITERATIONS_MAX: u32 = 16_384;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;

/// Base 36 digits of the salts that Kafka's tools make: those of a number of 130 bits.
const KAFKAS_SALT_DIGITS: std::ops::RangeInclusive<usize> = 20..=26;

/// What anyone sees of a credential, but for the salt itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Look {
    salt: SaltLook,
    iterations: u32,
}

/// What salts look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SaltLook {
    /// So many bytes.
    Bytes(usize),
    /// One of Kafka's tools.
    Kafkas,
}

/// That of rota's own credentials.
impl Default for Look {
    fn default() -> Look {
        Look { salt: SaltLook::Bytes(SALT_BYTES), iterations: ITERATIONS_MIN }
    }
}

/// A hash function of SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Every hash function.
    pub const ALL: [Hash; 2] = [Hash::Sha256, Hash::Sha512];

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha512 => hmac::HMAC_SHA512,
        }
    }

    pub(super) fn sign(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac(), key), text).as_ref().to_vec()
    }

    pub(super) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes).as_ref().to_vec()
    }

    pub(super) fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Hash::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let mut salted = vec![0; self.bytes()];
        let rounds = std::num::NonZeroU32::new(iterations).unwrap_or(std::num::NonZeroU32::MIN);
        pbkdf2::derive(algorithm, rounds, salt, password, &mut salted);
        salted
    }

    /// Returns the length of a digest in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha512 => 64,
        }
    }
}

/// What the server keeps of a password: not enough to log in with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The hash function.
    pub hash: Hash,
    /// The iterations of PBKDF2.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

/// Without the keys.
impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Credential").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Credential {
    /// Derives the credential of a password.
    pub fn of(hash: Hash, password: &str, salt: Vec<u8>, iterations: u32) -> Credential {
        let salted = hash.salted(password.as_bytes(), &salt, iterations);
        Credential::of_salted(hash, &salted, salt, iterations)
    }

    /// Derives the credential of what PBKDF2 made of a password.
    pub fn of_salted(hash: Hash, salted: &[u8], salt: Vec<u8>, iterations: u32) -> Credential {
        let stored_key = hash.digest(&hash.sign(salted, b"Client Key"));
        let server_key = hash.sign(salted, b"Server Key");
        Credential { hash, iterations, salt, stored_key, server_key }
    }

    /// Returns what anyone sees of the credential.
    pub(super) fn look(&self) -> Look {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
        let is_kafkas = KAFKAS_SALT_DIGITS.contains(&self.salt.len()) && self.salt.iter().all(is_digit);
        let salt = if is_kafkas { SaltLook::Kafkas } else { SaltLook::Bytes(self.salt.len()) };
        Look { salt, iterations: self.iterations }
    }

    /// Returns a number of a user who does not exist, by which the look of the credential is chosen.
    pub(super) fn place_of_unknown_user(hash: Hash, secret: &[u8], user: &str) -> u64 {
        let signed = hash.sign(&hash.sign(secret, b"look"), user.as_bytes());
        signed.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Returns a credential that no password has, for a user who does not exist. The same name always gets the same
    /// salt, so that an attempt does not tell whether the user exists.
    pub(super) fn of_unknown_user(hash: Hash, secret: &[u8], user: &str, look: Look) -> Credential {
        let mut random = hash.sign(secret, user.as_bytes());
        let salt = match look.salt {
            SaltLook::Kafkas => kafkas_salt(&random),
            SaltLook::Bytes(count) => {
                while random.len() < count {
                    let more = hash.sign(secret, &random);
                    random.extend(more);
                }
                random.truncate(count);
                random
            }
        };
        let stored_key = hash.sign(secret, &salt);
        Credential { hash, iterations: look.iterations, salt, server_key: stored_key.clone(), stored_key }
    }

    /// Returns the stored key.
    pub(super) fn stored_key(&self) -> &[u8] {
        &self.stored_key
    }

    /// Whether this is the credential of `password`.
    pub fn is_of(&self, password: &str) -> bool {
        let own = Credential::of(self.hash, password, self.salt.clone(), self.iterations);
        own.stored_key.ct_eq(&self.stored_key).into()
    }

    /// Returns the credential as text: iterations, salt, stored key and server key.
    pub fn text(&self) -> String {
        let [salt, stored, server] = [&self.salt, &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        format!("{}:{salt}:{stored}:{server}", self.iterations)
    }

    /// Parses [`Credential::text`].
    pub fn parse(hash: Hash, text: &str) -> Option<Credential> {
        let parts: Vec<&str> = text.split(':').collect();
        let [iterations, salt, stored, server] = parts[..] else { return None };
        let iterations = iterations.parse().ok().filter(|count| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(count))?;
        let [salt, stored_key, server_key] = [salt, stored, server].map(|part| BASE64.decode(part).ok());
        let credential = Credential { hash, iterations, salt: salt?, stored_key: stored_key?, server_key: server_key? };
        let lengths = [credential.stored_key.len(), credential.server_key.len()];
        (!credential.salt.is_empty() && lengths == [hash.bytes(); 2]).then_some(credential)
    }
}

/// Writes the first 130 of these bits in base 36, as Kafka's tools make a salt.
fn kafkas_salt(random: &[u8]) -> Vec<u8> {
    let mut left = random[..17].to_vec();
    left[0] &= 3;
    let mut digits = Vec::new();
    while left.iter().any(|byte| *byte != 0) {
        let mut digit = 0;
        for byte in &mut left {
            let above = digit << 8 | u32::from(*byte);
            *byte = (above / 36) as u8;
            digit = above % 36;
        }
        digits.extend(char::from_digit(digit, 36).map(|digit| digit as u8));
    }
    digits.reverse();
    digits
}

/// A message of the client does not follow the grammar, or its proof is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The first message of the client.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientFirst {
    /// The user name, unescaped.
    pub user: String,
    /// The part about channel binding, which the last message repeats.
    header: String,
    bare: String,
    nonce: String,
}

impl ClientFirst {
    /// Parses `n,[a=authzid],n=user,r=nonce[,extensions]`. Channel binding is not supported. An authorization id must
    /// be the user.
    pub fn parse(message: &[u8]) -> Result<ClientFirst, Refused> {
        // As in Kafka, names are ASCII.
        let text = std::str::from_utf8(message).ok().filter(|text| text.is_ascii()).ok_or(Refused)?;
        let rest = text.strip_prefix("n,").ok_or(Refused)?;
        let (authzid, bare) = rest.split_once(',').ok_or(Refused)?;
        let mut fields = bare.split(',');
        let user = fields.next().and_then(|field| field.strip_prefix("n=")).and_then(unescaped).ok_or(Refused)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).filter(is_nonce).ok_or(Refused)?;
        // Extensions are ignored, except tokens, which this server has not.
        if fields.any(|extension| !is_attribute(extension) || extension == "tokenauth=true") {
            return Err(Refused);
        }
        if !authzid.is_empty() && authzid.strip_prefix("a=").and_then(unescaped).as_ref() != Some(&user) {
            return Err(Refused);
        }
        let header = text[..text.len() - bare.len()].to_owned();
        Ok(ClientFirst { user, header, bare: bare.to_owned(), nonce: nonce.to_owned() })
    }
}

fn is_nonce(nonce: &&str) -> bool {
    !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_attribute(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, value)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic()) && !value.is_empty()
    })
}

/// Replaces `=2C` and `=3D`; `None` if the name is empty or has another `=`.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut user = parts.next()?.to_owned();
    for part in parts {
        let (sign, rest) =
            if let Some(rest) = part.strip_prefix("2C") { (',', rest) } else { ('=', part.strip_prefix("3D")?) };
        user.push(sign);
        user.push_str(rest);
    }
    (!user.is_empty()).then_some(user)
}

/// An exchange after the first message.
#[derive(Clone, Debug)]
pub struct Exchange {
    credential: Credential,
    header: String,
    /// The first messages of client and server.
    messages: String,
    nonce: String,
}

impl Exchange {
    /// Answers the first message. `server_nonce` must be unpredictable.
    pub fn begin(first: &ClientFirst, credential: Credential, server_nonce: &str) -> (Exchange, Vec<u8>) {
        let nonce = format!("{}{server_nonce}", first.nonce);
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&credential.salt), credential.iterations);
        let messages = format!("{},{server_first}", first.bare);
        (Exchange { credential, header: first.header.clone(), messages, nonce }, server_first.into_bytes())
    }

    /// Returns the hash function.
    pub fn hash(&self) -> Hash {
        self.credential.hash
    }

    /// Verifies the last message of the client, `c=biws,r=nonce[,extensions],p=proof`. Returns the server's.
    pub fn finish(self, message: &[u8]) -> Result<Vec<u8>, Refused> {
        let text = std::str::from_utf8(message).map_err(|_| Refused)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Refused)?;
        let mut fields = without_proof.split(',');
        let binding = fields.next().and_then(|field| field.strip_prefix("c=")).ok_or(Refused)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or(Refused)?;
        let header = BASE64.decode(binding).map_err(|_| Refused)?;
        if header != self.header.as_bytes() || nonce != self.nonce || !fields.all(is_attribute) {
            return Err(Refused);
        }
        let Credential { hash, stored_key, server_key, .. } = &self.credential;
        let signed = format!("{},{without_proof}", self.messages);
        let signature = hash.sign(stored_key, signed.as_bytes());
        let proof = BASE64.decode(proof).ok().filter(|proof| proof.len() == hash.bytes()).ok_or(Refused)?;
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        if !bool::from(hash.digest(&client_key).ct_eq(stored_key)) {
            return Err(Refused);
        }
        Ok(format!("v={}", BASE64.encode(hash.sign(server_key, signed.as_bytes()))).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3: the user `user` with the password `pencil`.
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn pencil() -> Credential {
        Credential::of(Hash::Sha256, "pencil", BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(), 4_096)
    }

    fn exchange() -> Exchange {
        Exchange::begin(&ClientFirst::parse(FIRST).unwrap(), pencil(), SERVER_NONCE).0
    }

    #[test]
    fn the_example_of_rfc_7677_succeeds() {
        let first = ClientFirst::parse(FIRST).unwrap();
        assert_eq!(first.user, "user");
        let (exchange, answer) = Exchange::begin(&first, pencil(), SERVER_NONCE);
        assert_eq!(answer, SERVER_FIRST);
        assert_eq!(exchange.finish(FINAL.as_bytes()).unwrap(), SERVER_FINAL);
    }

    #[test]
    fn any_changed_bit_of_the_last_message_is_refused() {
        let message = FINAL.as_bytes();
        for at in 0..message.len() {
            for bit in 0..8 {
                let mut changed = message.to_vec();
                changed[at] ^= 1 << bit;
                assert!(exchange().finish(&changed).is_err(), "{at} {bit}");
            }
        }
    }

    #[test]
    fn a_message_of_another_exchange_is_refused() {
        let first = ClientFirst::parse(FIRST).unwrap();
        let (other, _) = Exchange::begin(&first, pencil(), "another-nonce");
        assert!(other.finish(FINAL.as_bytes()).is_err());
    }

    #[test]
    fn names_are_unescaped_and_wrong_first_messages_refused() {
        let user = |message: &str| ClientFirst::parse(message.as_bytes()).map(|first| first.user).ok();
        assert_eq!(user("n,,n=a=2Cb=3Dc,r=x").as_deref(), Some("a,b=c"));
        assert_eq!(user("n,a=ana,n=ana,r=x,ext=1").as_deref(), Some("ana"));
        for wrong in [
            "",
            "n",
            "n,",
            "n,,",
            "n,,n=ana",
            "n,,n=ana,r=",
            "n,,n=,r=x",
            "y,,n=ana,r=x",
            "p=tls-unique,,n=ana,r=x",
            "n,,n=a=b,r=x",
            "n,,n=a=,r=x",
            "n,a=bob,n=ana,r=x",
            "n,bob,n=ana,r=x",
            "n,,r=x,n=ana",
            "n,,n=änne,r=x",
            "n,,m=1,n=ana,r=x",
            "n,,n=ana,r=x,tokenauth=true",
            "n,,n=ana,r=x,nonsense",
            "n,,n=ana,r=a b",
        ] {
            assert_eq!(user(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_credential_survives_as_text_and_wrong_texts_do_not() {
        for hash in Hash::ALL {
            let credential = Credential::of(hash, "secret", vec![7; SALT_BYTES], ITERATIONS_MIN);
            let text = credential.text();
            assert_eq!(Credential::parse(hash, &text), Some(credential.clone()));
            assert!(credential.is_of("secret") && !credential.is_of("Secret"));
            assert!(!text.contains("secret") && !format!("{credential:?}").contains(&text[5..]));
            let few = text.replacen("4096", "4095", 1);
            for wrong in ["", "4096", "4096:::", &few, &text[..text.len() - 8], &format!("{text}:x")] {
                assert_eq!(Credential::parse(hash, wrong), None, "{wrong}");
            }
        }
        let short = Credential::of(Hash::Sha256, "secret", vec![7], ITERATIONS_MIN).text();
        assert_eq!(Credential::parse(Hash::Sha512, &short), None);
    }

    #[test]
    fn a_user_who_does_not_exist_has_a_steady_salt_and_no_password() {
        let unknown = |user| Credential::of_unknown_user(Hash::Sha512, b"secret", user, Look::default());
        assert_eq!(unknown("eve"), unknown("eve"));
        assert_ne!(unknown("eve").salt, unknown("ana").salt);
        assert_eq!(unknown("eve").salt.len(), SALT_BYTES);
        assert!(!unknown("eve").is_of(""));
        let salt = |count| {
            let look = Look { salt: SaltLook::Bytes(count), ..Look::default() };
            Credential::of_unknown_user(Hash::Sha256, b"secret", "eve", look).salt
        };
        assert_eq!([1, 32, 33, 100].map(|count| salt(count).len()), [1, 32, 33, 100]);
    }
}
