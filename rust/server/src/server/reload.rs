//! Reads the server's certificate, key, client CAs, users and keys of tokens again while it runs: on demand, and when
//! their files change. Takes keys that were fetched from a URL.
//!
//! Connections go on; new ones get what was read last. If a file is wrong, what was read before stays in use, and the
//! reason is in [`Reloader::errors`] until the file is right.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rota_security::{
    pem::Source,
    tls::{BadTls, Tls, TlsFiles},
    token::keys::Keys,
};

use crate::{
    base::{
        error::ServerError,
        marks::{Mark, mark},
        settings::KeySource,
    },
    node::shared_state::SharedState,
    server::tokens,
};

/// Interval of the looks at files. A change is read when two looks have found the same, so that a certificate and its
/// key, which are written one after the other, are read together.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum lines that wait to be read; then the oldest are dropped.
const LINES_MAX: usize = 32;

/// Files that are read together.
#[derive(Debug)]
struct Part {
    files: Vec<PathBuf>,
    /// As they were before they were read last.
    read: Vec<Mark>,
    /// As they were at the last look.
    seen: Vec<Mark>,
    error: Option<String>,
}

impl Part {
    fn new(files: Vec<PathBuf>) -> Part {
        let marks: Vec<Mark> = files.iter().map(|path| mark(path)).collect();
        Part { files, read: marks.clone(), seen: marks, error: None }
    }

    /// Whether the files have changed since they were read, and are complete.
    fn is_due(&mut self) -> bool {
        let now: Vec<Mark> = self.files.iter().map(|path| mark(path)).collect();
        let is_due = now != self.read && now == self.seen;
        self.seen = now;
        is_due
    }

    /// Records that the server itself has replaced the file.
    fn is(&mut self, now: Mark) {
        self.read = vec![now];
        self.seen.clone_from(&self.read);
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|path| format!("`{}`", path.display())).collect();
        names.join(", ")
    }
}

/// Lines for the operator, and the files.
#[derive(Debug)]
struct State {
    tls_files: Option<TlsFiles>,
    tls: Part,
    users: Part,
    keys: Part,
    lines: VecDeque<(bool, String)>,
}

/// The files of a running server.
#[derive(Debug)]
pub struct Reloader {
    keys: Option<KeySource>,
    /// How often certificate, key and CAs were read again.
    tls_reads: AtomicU64,
    state: Mutex<State>,
}

impl Reloader {
    /// Looks at the files. It must be created before they are read: a later change is noticed then.
    pub fn new(tls: Option<&TlsFiles>, users: Option<&Path>, keys: Option<&KeySource>) -> Reloader {
        let of_keys = match keys {
            Some(KeySource::File(path)) => vec![path.clone()],
            _ => Vec::new(),
        };
        let of_tls = tls.map(paths).unwrap_or_default();
        let state = State {
            tls_files: tls.cloned(),
            tls: Part::new(of_tls),
            users: Part::new(users.map(Path::to_path_buf).into_iter().collect()),
            keys: Part::new(of_keys),
            lines: VecDeque::new(),
        };
        Reloader { keys: keys.cloned(), tls_reads: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Whether there are files, or keys at a URL.
    pub fn has_files(&self) -> bool {
        let state = self.state();
        self.keys.is_some() || !(state.tls.files.is_empty() && state.users.files.is_empty())
    }

    /// Returns why files could not be read again.
    pub fn errors(&self) -> Vec<String> {
        let state = self.state();
        [&state.tls, &state.users, &state.keys].into_iter().filter_map(|part| part.error.clone()).collect()
    }

    /// Returns how often certificate, key and CAs of clients were read again, without errors.
    pub fn tls_reads(&self) -> u64 {
        self.tls_reads.load(Ordering::Acquire)
    }

    /// Returns whether files were read again, and which or why not, one line for each time since the last call.
    pub fn take_lines(&self) -> Vec<(bool, String)> {
        self.state().lines.drain(..).collect()
    }

    /// Reads the files that have changed.
    pub fn look(&self, shared: &SharedState) {
        let state = &mut *self.state();
        if let Some(own) = shared.users().take_replaced() {
            state.users.is(own);
        }
        let due = [state.tls.is_due(), state.users.is_due(), state.keys.is_due()];
        self.read(state, shared, due);
    }

    /// Reads all files.
    pub fn reload(&self, shared: &SharedState) {
        let state = &mut *self.state();
        self.read(state, shared, [true; 3]);
    }

    fn read(&self, state: &mut State, shared: &SharedState, [tls_is_due, users_are_due, keys_are_due]: [bool; 3]) {
        let State { tls_files, tls, users, keys, lines } = state;
        let again = |part: &mut Part, lines: &mut VecDeque<(bool, String)>, read: &dyn Fn() -> Result<(), String>| {
            if part.files.is_empty() {
                return;
            }
            part.read = part.files.iter().map(|path| mark(path)).collect();
            part.seen.clone_from(&part.read);
            let names = part.names();
            part.error = read().err().map(|reason| format!("what was in {names} before is still used: {reason}"));
            let line = part.error.clone().unwrap_or_else(|| format!("read again: {names}"));
            push(lines, part.error.is_none(), line);
        };
        if tls_is_due {
            again(tls, lines, &|| self.read_tls(shared, tls_files.as_ref()));
        }
        if users_are_due {
            again(users, lines, &|| shared.users().read_again());
        }
        if keys_are_due {
            again(keys, lines, &|| self.read_keys(shared));
        }
    }

    fn read_keys(&self, shared: &SharedState) -> Result<(), String> {
        let Some(KeySource::File(path)) = &self.keys else { return Ok(()) };
        shared.users().set_keys(tokens::keys_of_file(path)?);
        Ok(())
    }

    /// Takes a key set that was fetched from its URL, or why it was not. There is one line for a change, one for the
    /// first failure, and one for the end of failures.
    pub fn take_keys(&self, shared: &SharedState, fetched: Result<&str, String>) {
        let Some(KeySource::Url(url)) = &self.keys else { return };
        let State { keys, lines, .. } = &mut *self.state();
        let had_failed = keys.error.is_some();
        let read = fetched.and_then(|text| Keys::of_text(text).map_err(|error| error.to_string()));
        match read.map(|read| shared.users().set_keys(read)) {
            Err(reason) => {
                let error = format!("what was at `{url}` before is still used: {reason}");
                if !had_failed {
                    push(lines, false, error.clone());
                }
                keys.error = Some(error);
            }
            Ok(is_new) => {
                keys.error = None;
                if is_new || had_failed {
                    push(lines, true, format!("read again: `{url}`"));
                }
            }
        }
    }

    /// Replaces certificate, key and CAs of clients, and their files. Errors: they cannot be used; then nothing has
    /// changed.
    pub fn replace_tls(&self, shared: &SharedState, files: TlsFiles) -> Result<(), BadTls> {
        let state = &mut *self.state();
        let part = Part::new(paths(&files));
        let loaded = files.load()?;
        (state.tls, state.tls_files) = (part, Some(files));
        self.publish_tls(shared, loaded);
        Ok(())
    }

    fn publish_tls(&self, shared: &SharedState, loaded: Tls) {
        shared.set_tls(loaded);
        self.tls_reads.fetch_add(1, Ordering::Release);
    }

    fn read_tls(&self, shared: &SharedState, files: Option<&TlsFiles>) -> Result<(), String> {
        let Some(files) = files else { return Ok(()) };
        self.publish_tls(shared, files.load().map_err(|error| error.to_string())?);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push(lines: &mut VecDeque<(bool, String)>, is_well: bool, line: String) {
    if lines.len() == LINES_MAX {
        lines.pop_front();
    }
    lines.push_back((is_well, line));
}

/// Returns the files of a TLS configuration, each once.
fn paths(files: &TlsFiles) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for source in [Some(&files.chain), Some(&files.key), files.client_ca.as_ref()].into_iter().flatten() {
        if let Source::File(path) = source
            && !found.contains(path)
        {
            found.push(path.clone());
        }
    }
    found
}

/// The thread that looks at the files. It ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread. Errors: the system refuses one.
    pub fn start(reloader: &Arc<Reloader>, shared: &Arc<SharedState>) -> Result<Watch, ServerError> {
        let (stop, stopped): (SyncSender<()>, Receiver<()>) = sync_channel(0);
        let (reloader, shared) = (Arc::clone(reloader), Arc::clone(shared));
        let look = move || {
            while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                reloader.look(&shared);
            }
        };
        let thread = thread::Builder::new().name("rota-reload".to_owned()).spawn(look);
        let thread = thread.map_err(|source| ServerError::CannotRun { source })?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic is on standard error.
            thread.join().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, write};

    use rota_security::{
        authority::{Authority, Issued},
        tls::ClientAuth,
    };

    use super::*;
    use crate::{
        base::{clock::Clock, owners::FIRST_NODE, place::Place, settings::Settings},
        log::users::UserStore,
    };

    struct Scene {
        dir: tempfile::TempDir,
        shared: SharedState,
        reloader: Reloader,
    }

    fn issued() -> Issued {
        Authority::new().unwrap().issue(&["localhost".to_owned()], "rota", false).unwrap()
    }

    fn scene() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let [chain, key] = ["server.pem", "server.key"].map(|name| dir.path().join(name));
        let issued = issued();
        write(&chain, issued.certificate).unwrap();
        write(&key, issued.key).unwrap();
        let files = TlsFiles {
            chain: Source::File(chain),
            key: Source::File(key),
            client_ca: None,
            client_auth: ClientAuth::None,
        };
        let place = Place { cluster_id: String::new(), node_id: FIRST_NODE, nodes: 1, listeners: Arc::default() };
        let shared = SharedState::new(Settings::default(), place, Clock::standing());
        let reloader = Reloader::new(Some(&files), None, None);
        let shared = shared.protected(Some(files.load().unwrap()), UserStore::default());
        Scene { dir, shared, reloader }
    }

    impl Scene {
        fn config(&self) -> Arc<rota_security::tls::Tls> {
            self.shared.tls().unwrap()
        }

        fn write(&self, name: &str, text: &str) {
            write(self.dir.path().join(name), text).unwrap();
        }
    }

    #[test]
    fn a_change_is_read_when_it_is_complete() {
        let scene = scene();
        let first = scene.config();
        let issued = issued();
        scene.reloader.look(&scene.shared);
        scene.write("server.pem", &issued.certificate);
        scene.reloader.look(&scene.shared);
        scene.write("server.key", &format!("{}\n", issued.key));
        scene.reloader.look(&scene.shared);
        assert!(Arc::ptr_eq(&first, &scene.config()));
        scene.reloader.look(&scene.shared);
        assert!(!Arc::ptr_eq(&first, &scene.config()));
        let second = scene.config();
        scene.reloader.look(&scene.shared);
        assert!(Arc::ptr_eq(&second, &scene.config()));
        assert_eq!((scene.reloader.errors(), scene.reloader.take_lines().len()), (Vec::new(), 1));
    }

    #[test]
    fn a_wrong_file_keeps_what_was_read_before_and_is_named_until_it_is_right() {
        let scene = scene();
        let (first, other) = (scene.config(), issued());
        let key = fs::read_to_string(scene.dir.path().join("server.key")).unwrap();
        scene.write("server.key", &format!("{}\n", other.key));
        for _ in 0..4 {
            scene.reloader.look(&scene.shared);
        }
        let [error] = &scene.reloader.errors()[..] else { panic!("no error") };
        assert!(error.contains("server.key` before is still used: the private key in"), "{error}");
        assert_eq!(scene.reloader.take_lines(), [(false, error.clone())]);
        assert!(Arc::ptr_eq(&first, &scene.config()));
        scene.write("server.key", &key);
        scene.reloader.reload(&scene.shared);
        assert_eq!(scene.reloader.errors(), Vec::<String>::new());
        assert!(matches!(&scene.reloader.take_lines()[..], [(true, line)] if line.starts_with("read again: `")));
        assert!(!Arc::ptr_eq(&first, &scene.config()));
    }

    #[test]
    fn a_file_that_is_gone_is_a_wrong_file() {
        let scene = scene();
        fs::remove_file(scene.dir.path().join("server.pem")).unwrap();
        scene.reloader.look(&scene.shared);
        scene.reloader.look(&scene.shared);
        assert!(scene.reloader.errors()[0].contains("cannot read"), "{:?}", scene.reloader.errors());
    }
}
