//! The users of a server and their credentials, in a file of lines `NAME MECHANISM ITERATIONS:SALT:STORED:SERVER`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use ring::hmac;
use subtle::ConstantTimeEq as _;

use super::{
    Mechanism,
    scram::{Credential, Hash, Look},
};

/// Maximum users whose verified password is remembered, for PLAIN.
const VERIFIED_MAX: usize = 10_000;

/// The users of a server.
pub struct Users {
    credentials: BTreeMap<String, BTreeMap<Hash, Credential>>,
    /// A key of this start.
    secret: [u8; 32],
    /// Computed when the first client authenticates.
    unknown: OnceLock<UnknownUser>,
    /// The user and a keyed digest of each password that was right: PLAIN sends it with every connection, and verifying
    /// it costs thousands of digests.
    verified: Mutex<BTreeMap<String, Vec<u8>>>,
}

/// What the credentials of users who do not exist are made of, so that they look like those of users who exist.
struct UnknownUser {
    /// The key of their salts. It is made of the stored keys, so that the salts survive a restart as true ones do.
    key: Vec<u8>,
    /// The most frequent hash.
    hash: Hash,
    /// How credentials with each hash look, with the number of users whose do.
    looks: BTreeMap<Hash, BTreeMap<Look, u64>>,
}

impl UnknownUser {
    fn beside(credentials: &BTreeMap<String, BTreeMap<Hash, Credential>>, secret: &[u8]) -> UnknownUser {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, b"salts of unknown users"));
        let mut looks: BTreeMap<Hash, BTreeMap<Look, u64>> = BTreeMap::new();
        for credential in credentials.values().flat_map(BTreeMap::values) {
            context.update(credential.stored_key());
            *looks.entry(credential.hash).or_default().entry(credential.look()).or_default() += 1;
        }
        // PLAIN takes the first credential of a user.
        let users_of = |hash: &Hash| credentials.values().filter(|own| own.keys().next() == Some(hash)).count();
        let hash = [Hash::Sha256, Hash::Sha512].into_iter().max_by_key(users_of).unwrap_or(Hash::Sha512);
        let key = if credentials.is_empty() { secret.to_vec() } else { context.sign().as_ref().to_vec() };
        UnknownUser { key, hash, looks }
    }

    /// The credential of a name, which looks like that of some user, each as likely as another.
    fn credential(&self, name: &str, hash: Hash) -> Credential {
        let looks = self.looks.get(&hash).into_iter().flatten();
        let users: u64 = looks.clone().map(|(_, users)| users).sum();
        let mut at = Credential::place_of_unknown_user(hash, &self.key, name).checked_rem(users).unwrap_or(0);
        let mut chosen = Look::default();
        for (look, users) in looks {
            chosen = *look;
            match at.checked_sub(*users) {
                Some(rest) => at = rest,
                None => break,
            }
        }
        Credential::of_unknown_user(hash, &self.key, name, chosen)
    }
}

/// Without the memory of verified passwords.
impl Clone for Users {
    fn clone(&self) -> Users {
        Users { credentials: self.credentials.clone(), ..Users::new(self.secret) }
    }
}

/// A credential of a user that is set, or deleted.
#[derive(Clone, Debug)]
pub struct Change {
    /// The user.
    pub name: String,
    /// The mechanism.
    pub hash: Hash,
    /// The new credential; `None`: it is deleted.
    pub credential: Option<Credential>,
}

impl Change {
    fn line(&self) -> Option<String> {
        let credential = self.credential.as_ref()?;
        Some(format!("{} {} {}", self.name, Mechanism::Scram(self.hash).name(), credential.text()))
    }
}

/// Returns the text of a users file with these changes. Other lines stay as they are.
pub fn edited(text: &str, changes: &[Change]) -> String {
    let replaced: BTreeSet<(&str, &str)> =
        changes.iter().map(|change| (change.name.as_str(), Mechanism::Scram(change.hash).name())).collect();
    let is_kept = |line: &&str| {
        let mut words = line.split_whitespace();
        let (name, mechanism) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        line.starts_with('#') || !replaced.contains(&(name, mechanism))
    };
    let kept = text.lines().filter(is_kept).map(str::to_owned);
    kept.chain(changes.iter().filter_map(Change::line)).map(|line| line + "\n").collect()
}

/// Without credentials.
impl fmt::Debug for Users {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.credentials.keys()).finish()
    }
}

/// A line of a users file is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line number, from 1.
    pub line: usize,
    /// The reason.
    pub reason: &'static str,
}

impl fmt::Display for BadLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}; `rota user add` writes such lines", self.line, self.reason)
    }
}

/// A users file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUsers {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for BadUsers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "users file `{}`, {}", self.path.display(), self.reason)
    }
}

/// A mechanism of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strength {
    /// The mechanism.
    pub hash: Hash,
    /// The iterations of its credential.
    pub iterations: u32,
}

/// Whether a user can have this name: printable ASCII without blanks, as SCRAM allows in Kafka.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('#') && name.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Users {
    /// Creates a set without users. `secret` must be unpredictable.
    pub fn new(secret: [u8; 32]) -> Users {
        Users { credentials: BTreeMap::new(), secret, unknown: OnceLock::new(), verified: Mutex::default() }
    }

    /// Reads a users file. `secret` must be unpredictable.
    pub fn of_file(path: &Path, secret: [u8; 32]) -> Result<Users, BadUsers> {
        let bad = |reason| BadUsers { path: path.to_path_buf(), reason };
        let text = fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        Users::of_text(&text, secret).map_err(|error| bad(error.to_string()))
    }

    /// Reads the text of a users file. `secret` must be unpredictable.
    pub fn of_text(text: &str, secret: [u8; 32]) -> Result<Users, BadLine> {
        let mut users = Users::new(secret);
        users.read(text)?;
        Ok(users)
    }

    /// Adds the credentials in the text of a users file. Empty lines and lines that begin with `#` are skipped.
    pub fn read(&mut self, text: &str) -> Result<(), BadLine> {
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |reason| BadLine { line: at + 1, reason };
            let parts: Vec<&str> = line.split_whitespace().collect();
            let [name, mechanism, credential] = parts[..] else {
                return Err(wrong("expected a name, a mechanism and a credential"));
            };
            let Some(Mechanism::Scram(hash)) = Mechanism::named(mechanism) else {
                return Err(wrong("the mechanism is neither SCRAM-SHA-256 nor SCRAM-SHA-512"));
            };
            if !is_name(name) {
                return Err(wrong("the name has characters other than printable ASCII"));
            }
            let credential = Credential::parse(hash, credential).ok_or_else(|| wrong("the credential is malformed"))?;
            self.credentials.entry(name.to_owned()).or_default().insert(hash, credential);
        }
        self.unknown = OnceLock::new();
        Ok(())
    }

    /// Adds a user, or replaces the user's credential for the same mechanism.
    pub fn add(&mut self, name: &str, credential: Credential) {
        self.credentials.entry(name.to_owned()).or_default().insert(credential.hash, credential);
        self.unknown = OnceLock::new();
    }

    /// Applies changes.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) {
        for Change { name, hash, credential } in changes {
            let own = self.credentials.entry(name.clone()).or_default();
            match credential {
                Some(credential) => own.insert(hash, credential),
                None => own.remove(&hash),
            };
            if own.is_empty() {
                self.credentials.remove(&name);
            }
        }
        self.unknown = OnceLock::new();
        self.verified = Mutex::default();
    }

    /// Returns the names of all users.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.credentials.keys().map(String::as_str)
    }

    /// Returns the mechanisms of a user with their iterations; none of one who does not exist.
    pub fn mechanisms(&self, name: &str) -> impl Iterator<Item = Strength> {
        let own = self.credentials.get(name).into_iter().flatten();
        own.map(|(hash, credential)| Strength { hash: *hash, iterations: credential.iterations })
    }

    fn unknown(&self) -> &UnknownUser {
        self.unknown.get_or_init(|| UnknownUser::beside(&self.credentials, &self.secret))
    }

    /// Returns the number of users.
    pub fn count(&self) -> usize {
        self.credentials.len()
    }

    /// Returns the user's credential, or one that no password has.
    pub fn credential(&self, name: &str, hash: Hash) -> Credential {
        // For users who exist, too: the time must not tell.
        let unknown = self.unknown();
        let found = self.credentials.get(name).and_then(|own| own.get(&hash));
        found.cloned().unwrap_or_else(|| unknown.credential(name, hash))
    }

    /// Whether this is the password of a user. For a user who does not exist the same is computed.
    pub fn has(&self, name: &str, password: &str) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let verified = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        // For a user who has not logged in before, and for one who exists, too: the time must not tell.
        let unknown = self.unknown();
        let tag = hmac::sign(&key, password.as_bytes());
        let remembered = verified().get(name).cloned().unwrap_or_default();
        if remembered.ct_eq(tag.as_ref()).into() {
            return true;
        }
        let own = self.credentials.get(name).and_then(|own| own.values().next().cloned());
        let is_right = own.unwrap_or_else(|| unknown.credential(name, unknown.hash)).is_of(password);
        if is_right && verified().len() < VERIFIED_MAX {
            verified().insert(name.to_owned(), tag.as_ref().to_vec());
        }
        is_right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(secret: u8, iterations: &[u32]) -> Users {
        let mut users = Users::new([secret; 32]);
        for (at, iterations) in iterations.iter().enumerate() {
            users.add(&format!("user-{at}"), Credential::of(Hash::Sha512, "secret", vec![1; 16], *iterations));
        }
        users
    }

    #[test]
    fn an_unknown_user_keeps_salt_and_iterations_when_the_server_restarts() {
        let [before, after] = [1, 2].map(|secret| users(secret, &[8_192, 8_192, 4_096]));
        let unknown = |users: &Users| users.credential("eve", Hash::Sha512);
        assert_eq!(unknown(&before), unknown(&after));
        assert_ne!(unknown(&before), unknown(&users(1, &[4_096])));
    }

    #[test]
    fn unknown_users_look_like_users_of_kafkas_tools_and_of_rota_as_often_as_these() {
        let mut users = users(1, &[4_096; 10]);
        for (at, salt) in ["1w9o2mgknkxmhzgmxqhvkk4xbe", "k2xq0mgknkxmhzgmxqhvkk4xz"].repeat(15).iter().enumerate() {
            let credential = Credential::of(Hash::Sha512, "secret", salt.as_bytes().to_vec(), 8_192);
            users.add(&format!("kafkas-{at}"), credential);
        }
        let mut kafkas = 0;
        for at in 0..400 {
            let unknown = users.credential(&format!("unknown-{at}"), Hash::Sha512);
            assert_eq!(unknown, users.credential(&format!("unknown-{at}"), Hash::Sha512));
            let text = String::from_utf8(unknown.salt.clone()).unwrap_or_default();
            if unknown.iterations == 4_096 {
                assert_eq!((unknown.salt.len(), text.len()), (16, 0));
                continue;
            }
            assert_eq!(unknown.iterations, 8_192);
            assert!(text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()), "{text}");
            // 130 bits have at most 26 digits; with 26, the first is 1.
            assert!((20..=25).contains(&text.len()) || text.len() == 26 && text.starts_with('1'), "{text}");
            kafkas += 1;
        }
        assert!((250..350).contains(&kafkas), "{kafkas}");
    }

    #[test]
    fn plain_costs_the_same_for_unknown_users_if_all_have_both_hashes() {
        let mut users = users(1, &[4_096]);
        assert_eq!(users.unknown().hash, Hash::Sha512);
        users.add("user-0", Credential::of(Hash::Sha256, "secret", vec![1; 16], 4_096));
        assert_eq!(users.unknown().hash, Hash::Sha256);
    }

    #[test]
    fn a_password_is_right_again_when_it_was_verified_before() {
        let users = users(1, &[4_096]);
        for _ in 0..2 {
            assert!(users.has("user-0", "secret"));
            assert!(!users.has("user-0", "wrong"));
            assert!(!users.has("eve", ""));
        }
    }

    #[test]
    fn a_file_is_edited_line_by_line() {
        let credential = |password| Credential::of(Hash::Sha256, password, vec![1; 16], 4_096);
        let line = |name: &str, password| format!("{name} SCRAM-SHA-256 {}\n", credential(password).text());
        let text = format!("# ana SCRAM-SHA-256\n\n{}{}", line("ana", "one"), line("bob", "two"));
        let set = |name: &str, password| Change {
            name: name.to_owned(),
            hash: Hash::Sha256,
            credential: Some(credential(password)),
        };
        let gone = Change { name: "bob".to_owned(), hash: Hash::Sha256, credential: None };
        let other = Change { hash: Hash::Sha512, ..gone.clone() };
        let changes = [set("ana", "three"), gone, other, set("cleo", "four")];
        let expected = format!("# ana SCRAM-SHA-256\n\n{}{}", line("ana", "three"), line("cleo", "four"));
        assert_eq!(edited(&text, &changes), expected);
        let mut users = Users::of_text(&text, [1; 32]).unwrap();
        assert!(users.has("ana", "one"));
        users.apply(changes);
        assert_eq!(users.names().collect::<Vec<_>>(), ["ana", "cleo"]);
        assert!(!users.has("ana", "one") && users.has("ana", "three"));
        assert_eq!(users.mechanisms("ana").map(|own| own.iterations).collect::<Vec<_>>(), [4_096]);
    }
}
