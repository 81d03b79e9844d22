//! The users of a server: one set for all nodes, and its file. A request that changes users replaces the file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use rota_log::files::platform;
use rota_security::{
    random,
    sasl::{
        Sasl,
        users::{Change, Users, edited},
    },
    token::keys::Keys,
};

use crate::base::{
    demand::Demand,
    marks::{Mark, mark},
};

/// The authentication of the listeners with SASL, which all nodes share.
#[derive(Debug, Default)]
pub struct UserStore {
    /// `None`: there are no such listeners.
    current: RwLock<Option<Arc<Sasl>>>,
    /// `None`: in memory.
    file: Option<PathBuf>,
    /// Locked while the file is read or replaced. What the file is since it was replaced, until the reloader knows.
    replaced: Mutex<Option<Mark>>,
    /// Made when a token is signed by an unknown key.
    key_demand: Demand,
}

impl UserStore {
    /// Creates the store of a server, whose users were read from `file`.
    pub fn new(sasl: Option<Sasl>, file: Option<PathBuf>) -> UserStore {
        UserStore { current: RwLock::new(sasl.map(Arc::new)), file, ..UserStore::default() }
    }

    /// Returns the authentication; `None`: there are no listeners with SASL.
    pub fn sasl(&self) -> Option<Arc<Sasl>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again, for connections from now on. Errors: why it cannot be used; then nothing has changed.
    pub fn read_again(&self) -> Result<(), String> {
        let _locked = self.lock();
        let (Some(path), Some(sasl)) = (&self.file, self.sasl()) else { return Ok(()) };
        let users = Users::of_file(path, secret()?).map_err(|error| error.to_string())?;
        self.publish(&sasl, users);
        Ok(())
    }

    /// Replaces all users, for connections from now on. Returns whether it has: users of a file stay.
    pub fn replace_all(&self, users: Users) -> bool {
        let _locked = self.lock();
        let (None, Some(sasl)) = (&self.file, self.sasl()) else { return false };
        self.publish(&sasl, users);
        true
    }

    /// Sets the keys of the issuer of tokens, for connections from now on. Returns whether they are others than before.
    pub fn set_keys(&self, keys: Keys) -> bool {
        let _locked = self.lock();
        let Some(sasl) = self.sasl() else { return false };
        if *sasl.tokens.keys == keys {
            return false;
        }
        let mut new = Sasl::clone(&sasl);
        new.tokens.keys = Arc::new(keys);
        self.set(new);
        true
    }

    /// Returns the demand for new keys.
    pub fn key_demand(&self) -> &Demand {
        &self.key_demand
    }

    /// Returns what the file is, if this has replaced it since the last call.
    pub fn take_replaced(&self) -> Option<Mark> {
        self.lock().take()
    }

    /// Changes what `plan` says of the users in the file, and returns its answer. The users are durable when this
    /// returns, and count for every connection from now on. Errors: why they are not; then nothing has changed.
    pub fn change<R>(&self, plan: impl FnOnce(&Users) -> (Vec<Change>, R)) -> (R, Result<(), String>) {
        let mut replaced = self.lock();
        let Some(sasl) = self.sasl() else {
            return (plan(&Users::new([0; 32])).1, Err("there are no users".to_owned()));
        };
        let read = self.file.as_deref().map(read).transpose();
        let (text, mut users) = match read {
            Ok(None) => (None, Users::clone(&sasl.users)),
            Ok(Some((text, users))) => (Some(text), users),
            Err(reason) => return (plan(&sasl.users).1, Err(reason)),
        };
        let (changes, answer) = plan(&users);
        if changes.is_empty() {
            return (answer, Ok(()));
        }
        if let (Some(path), Some(text)) = (&self.file, text) {
            if let Err(error) = replace(path, &edited(&text, &changes)) {
                return (answer, Err(format!("the users file could not be replaced: {error}")));
            }
            *replaced = Some(mark(path));
        }
        users.apply(changes);
        self.publish(&sasl, users);
        (answer, Ok(()))
    }

    fn publish(&self, sasl: &Sasl, users: Users) {
        self.set(Sasl { users: Arc::new(users), ..sasl.clone() });
    }

    fn set(&self, new: Sasl) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(new));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Mark>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn secret() -> Result<[u8; 32], String> {
    random::bytes().ok_or_else(|| "the system has no random bytes".to_owned())
}

/// Reads the file as it is: it may have changed since it was read last. Errors have no content of the file.
fn read(path: &Path) -> Result<(String, Users), String> {
    let unread = |reason| format!("the users file cannot be read, so it stays: {reason}");
    let text = fs::read_to_string(path).map_err(|error| unread(error.to_string()))?;
    let users = Users::of_text(&text, secret()?).map_err(|error| unread(error.to_string()))?;
    Ok((text, users))
}

/// Replaces a file durably. Its owner and mode stay. Of a symbolic link, the file that it names is replaced.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = path.canonicalize()?;
    let dir = target.parent().unwrap_or(Path::new("/"));
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let number = random::bytes().map_or(0, u64::from_ne_bytes);
    let temporary = dir.join(format!(".{name}.{number:016x}"));
    let written = write_like(&target, &temporary, text).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // The first error counts.
        let _kept = fs::remove_file(&temporary);
    }
    written?;
    platform::sync_dir(dir)
}

fn write_like(like: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    platform::keep_private(&mut options);
    let mut file = options.open(path)?;
    platform::keep_owner(&file, &fs::metadata(like)?)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use rota_security::{
        sasl::{
            Mechanism,
            scram::{Credential, Hash, ITERATIONS_MIN},
        },
        token::Verifier,
    };

    use super::*;

    fn credential(password: &str) -> Credential {
        Credential::of(Hash::Sha256, password, vec![1; 16], ITERATIONS_MIN)
    }

    fn set(name: &str, password: &str) -> Change {
        Change { name: name.to_owned(), hash: Hash::Sha256, credential: Some(credential(password)) }
    }

    fn store(path: &Path) -> UserStore {
        let users = Users::of_file(path, [1; 32]).unwrap();
        let sasl = Sasl { mechanisms: vec![Mechanism::Plain], users: Arc::new(users), tokens: Verifier::default() };
        UserStore::new(Some(sasl), Some(path.to_owned()))
    }

    fn line(name: &str, password: &str) -> String {
        format!("{name} SCRAM-SHA-256 {}\n", credential(password).text())
    }

    #[test]
    fn a_change_is_in_the_file_and_counts_beside_what_others_have_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        fs::write(&path, line("ana", "one")).unwrap();
        let store = store(&path);
        // The server has not read this so far.
        fs::write(&path, line("ana", "one") + "# more\n" + &line("bob", "two")).unwrap();
        let (found, changed) = store.change(|users| (vec![set("cleo", "three")], users.count()));
        assert_eq!((found, changed), (2, Ok(())));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, line("ana", "one") + "# more\n" + &line("bob", "two") + &line("cleo", "three"));
        let sasl = store.sasl().unwrap();
        assert!(sasl.users.has("bob", "two") && sasl.users.has("cleo", "three"));
        assert_eq!((store.take_replaced(), store.take_replaced()), (Some(mark(&path)), None));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_wrong_file_stays_and_so_do_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        fs::write(&path, line("ana", "one")).unwrap();
        let store = store(&path);
        fs::write(&path, "ana PLAIN secret\n").unwrap();
        let ((), changed) = store.change(|_| (vec![set("bob", "two")], ()));
        let reason = changed.unwrap_err();
        assert!(reason.starts_with("the users file cannot be read, so it stays: line 1: the mech"), "{reason}");
        assert!(!reason.contains("secret"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "ana PLAIN secret\n");
        fs::remove_file(&path).unwrap();
        assert!(store.change(|_| (vec![set("bob", "two")], ())).1.is_err());
        assert_eq!(store.sasl().unwrap().users.count(), 1);
        assert_eq!(store.take_replaced(), None);
    }
}
