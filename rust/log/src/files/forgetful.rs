//! A file system in memory for tests of crashes and faults. A crash keeps only what is durable; tests inject failures
//! and skipped operations.
//!
//! Bytes are kept in pages. A page written since the last sync of its file survives a crash or not, independently of
//! others, and so does a name created, renamed or removed since the last sync of its directory. One page of a file may
//! survive up to any byte. A failed sync forgets the pages that it would have written; the next one succeeds without
//! them, as in real operating systems.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Component, Path},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Access, Entry, File, Files, Lock};

/// Operations that change the file system, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`Files::open`] that creates, and [`Files::create_dir`].
    Create,
    /// [`File::write_at`].
    Write,
    /// [`File::truncate`].
    Truncate,
    /// [`File::sync`].
    Sync,
    /// [`Files::rename`].
    Rename,
    /// [`Files::remove`] and [`Files::remove_dir`].
    Remove,
    /// [`Files::sync_dir`].
    SyncDir,
}

/// What fails at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A crash: a write stores half of its bytes, and every later operation fails.
    Crash,
    /// A write stores half of its bytes and reports that.
    ShortWrite,
    /// A full disk: a write stores half of its bytes. This operation and the given number of later ones that need space
    /// fail.
    NoSpace(u64),
    /// The device fails.
    Io,
    /// The device fails for this number of operations.
    IoFor(u64),
}

/// What survives a crash besides durable data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing, as after a power failure before any write-back.
    Nothing,
    /// Everything, as after a killed process. It is still not durable.
    Everything,
    /// A part, chosen by a seed.
    Some(u64),
}

/// How a planted bug changes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Executes it.
    Do,
    /// Reports success without executing it.
    Skip,
    /// Truncates to this size instead.
    TruncateTo(u64),
}

type Bug = Arc<dyn Fn(Operation, &str, u64) -> Answer + Send + Sync>;

#[derive(Clone, Default)]
struct Inode {
    name: String,
    bytes: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// Whether the next sync makes the size durable, too.
    size_dirty: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    File(usize),
    Dir(usize),
}

#[derive(Clone)]
enum Change {
    Set(String, Target),
    Unset(String),
    Rename(String, String, Target),
}

type Names = BTreeMap<String, Target>;

#[derive(Clone, Default)]
struct Dir {
    names: Names,
    durable: Names,
    pending: Vec<Change>,
}

impl Dir {
    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.pending.push(change);
    }
}

fn apply(names: &mut Names, change: &Change) {
    match change {
        Change::Set(name, target) => {
            names.insert(name.clone(), *target);
        }
        Change::Unset(name) => {
            names.remove(name);
        }
        Change::Rename(from, to, target) => {
            names.remove(from);
            names.insert(to.clone(), *target);
        }
    }
}

struct State {
    page_bytes: usize,
    inodes: Vec<Inode>,
    /// Directories; the first is the root.
    dirs: Vec<Dir>,
    history: Vec<(Operation, String)>,
    fault: Option<(u64, Fault)>,
    crashed: bool,
    locked: BTreeSet<String>,
    bug: Option<Bug>,
}

/// A file system in memory. Clones share it.
#[derive(Clone)]
pub struct ForgetfulFiles(Arc<Mutex<State>>);

impl fmt::Debug for ForgetfulFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        write!(f, "ForgetfulFiles({} operations, crashed: {})", state.history.len(), state.crashed)
    }
}

impl ForgetfulFiles {
    /// Creates an empty root directory. Files consist of pages of `page_bytes`, at least 1.
    pub fn new(page_bytes: usize) -> ForgetfulFiles {
        ForgetfulFiles(Arc::new(Mutex::new(State {
            page_bytes,
            inodes: Vec::new(),
            dirs: vec![Dir::default()],
            history: Vec::new(),
            fault: None,
            crashed: false,
            locked: BTreeSet::new(),
            bug: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Injects `fault` at operation number `at`, counted over the life of this file system.
    pub fn fail_at(&self, at: u64, fault: Fault) {
        self.state().fault = Some((at, fault));
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.state().history.len() as u64
    }

    /// Returns the operations with their names.
    pub fn history(&self) -> Vec<(Operation, String)> {
        self.state().history.clone()
    }

    /// Whether an injected crash has happened.
    pub fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Calls `bug` for each operation with the name of its file or directory, and the size of a truncation.
    pub fn plant(&self, bug: impl Fn(Operation, &str, u64) -> Answer + Send + Sync + 'static) {
        self.state().bug = Some(Arc::new(bug));
    }

    /// Changes durable bytes, as a failing disk does.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.state();
        let Some(Target::File(inode)) = state.target(path)? else { return Err(io::ErrorKind::NotFound.into()) };
        let inode = &mut state.inodes[inode];
        change(&mut inode.bytes);
        inode.durable.clone_from(&inode.bytes);
        inode.dirty.clear();
        Ok(())
    }

    /// Returns the file system after a restart, without faults and planted bugs.
    #[must_use]
    pub fn after_crash(&self, survival: Survival) -> ForgetfulFiles {
        let state = self.state();
        let after = ForgetfulFiles::new(state.page_bytes);
        if survival == Survival::Everything {
            (after.state().inodes, after.state().dirs) = (state.inodes.clone(), state.dirs.clone());
            return after;
        }
        let mut random = Random(match survival {
            Survival::Some(seed) => seed,
            Survival::Nothing | Survival::Everything => 0,
        });
        let inodes = state.inodes.iter().map(|inode| surviving(inode, survival, state.page_bytes, &mut random));
        let inodes: Vec<Inode> = inodes.collect();
        let dirs = state.dirs.iter().map(|dir| {
            let mut names = dir.durable.clone();
            for change in &dir.pending {
                if survival != Survival::Nothing && random.coin() {
                    apply(&mut names, change);
                }
            }
            Dir { durable: names.clone(), names, pending: Vec::new() }
        });
        let dirs = dirs.collect();
        (after.state().inodes, after.state().dirs) = (inodes, dirs);
        after
    }
}

fn surviving(inode: &Inode, survival: Survival, page_bytes: usize, random: &mut Random) -> Inode {
    let bytes = match survival {
        Survival::Nothing | Survival::Everything => inode.durable.clone(),
        Survival::Some(_) => {
            let (durable, newest) = (inode.durable.len(), inode.bytes.len());
            let size = match random.below(4) {
                _ if !inode.size_dirty => durable,
                0 => durable,
                1 => durable.min(newest) + random.below(durable.abs_diff(newest) + 1),
                _ => newest,
            };
            let mut bytes = inode.durable.clone();
            bytes.resize(size, 0);
            for page in &inode.dirty {
                let start = page * page_bytes;
                let end = ((page + 1) * page_bytes).min(size).min(newest);
                let kept = match random.below(4) {
                    0 => start,
                    1 if end > start => start + random.below(end - start + 1),
                    _ => end,
                };
                if kept > start {
                    bytes[start..kept].copy_from_slice(&inode.bytes[start..kept]);
                }
            }
            bytes
        }
    };
    Inode { name: inode.name.clone(), durable: bytes.clone(), bytes, dirty: BTreeSet::new(), size_dirty: false }
}

/// A small generator (xorshift), so that a seed determines the crash.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0.wrapping_add(0x9e37_79b9_7f4a_7c15) << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

fn crashed() -> io::Error {
    io::Error::other("the machine has crashed")
}

/// The outcome chosen for an operation.
enum Course {
    Whole,
    Half,
    HalfThen(io::Error),
    Instead(Answer),
}

impl State {
    /// Counts an operation and chooses its outcome.
    fn begin(&mut self, operation: Operation, name: &str, size: u64) -> io::Result<Course> {
        if self.crashed {
            return Err(crashed());
        }
        let at = self.history.len() as u64;
        self.history.push((operation, name.to_owned()));
        if let Some(bug) = &self.bug {
            match bug(operation, name, size) {
                Answer::Do => {}
                answer => return Ok(Course::Instead(answer)),
            }
        }
        let Some((fault_at, fault)) = self.fault else { return Ok(Course::Whole) };
        let is_write = operation == Operation::Write;
        match fault {
            Fault::Crash if at == fault_at => {
                self.crashed = true;
                Ok(Course::HalfThen(crashed()))
            }
            Fault::ShortWrite if at == fault_at && is_write => Ok(Course::Half),
            Fault::NoSpace(times) if (fault_at..fault_at + times).contains(&at) => match operation {
                Operation::Write | Operation::Create | Operation::Rename => {
                    Ok(Course::HalfThen(io::ErrorKind::StorageFull.into()))
                }
                _ => Ok(Course::Whole),
            },
            Fault::Io if at == fault_at => Ok(Course::HalfThen(io::Error::from_raw_os_error(5))),
            Fault::IoFor(times) if (fault_at..fault_at + times).contains(&at) => {
                Ok(Course::HalfThen(io::Error::from_raw_os_error(5)))
            }
            _ => Ok(Course::Whole),
        }
    }

    /// Like [`State::begin`] for an atomic operation. False: the operation is skipped.
    fn begin_whole(&mut self, operation: Operation, name: &str) -> io::Result<bool> {
        match self.begin(operation, name, 0)? {
            Course::Whole | Course::Half => Ok(true),
            Course::HalfThen(error) => Err(error),
            Course::Instead(_) => Ok(false),
        }
    }

    fn dir_at(&self, path: &Path) -> io::Result<usize> {
        if self.crashed {
            return Err(crashed());
        }
        let mut at = 0;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            match self.dirs[at].names.get(name.to_str().unwrap_or_default()) {
                Some(Target::Dir(dir)) => at = *dir,
                _ => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        Ok(at)
    }

    /// Returns the directory of `path`, and the name in it.
    fn place<'p>(&self, path: &'p Path) -> io::Result<(usize, &'p str)> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.dir_at(path.parent().unwrap_or(Path::new("")))?, name))
    }

    fn target(&self, path: &Path) -> io::Result<Option<Target>> {
        let (dir, name) = self.place(path)?;
        Ok(self.dirs[dir].names.get(name).copied())
    }

    fn write(&mut self, inode: usize, bytes: &[u8], position: u64) {
        let (page_bytes, inode) = (self.page_bytes, &mut self.inodes[inode]);
        let start = position as usize;
        let end = start + bytes.len();
        let from = start.min(inode.bytes.len());
        if end > inode.bytes.len() {
            inode.bytes.resize(end, 0);
            inode.size_dirty = true;
        }
        inode.bytes[start..end].copy_from_slice(bytes);
        inode.dirty.extend(from / page_bytes..end.div_ceil(page_bytes));
    }
}

impl Files for ForgetfulFiles {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let (dir, name) = state.place(path)?;
        let inode = match state.dirs[dir].names.get(name) {
            Some(Target::File(inode)) => *inode,
            Some(Target::Dir(_)) => return Err(io::ErrorKind::IsADirectory.into()),
            None if access == Access::Create => {
                state.begin_whole(Operation::Create, name)?;
                let inode = state.inodes.len();
                state.inodes.push(Inode { name: name.to_owned(), ..Inode::default() });
                state.dirs[dir].change(Change::Set(name.to_owned(), Target::File(inode)));
                inode
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(ForgetfulFile { files: self.clone(), inode }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (dir, name) = state.place(path)?;
        match state.dirs[dir].names.get(name) {
            Some(Target::Dir(_)) => Ok(()),
            Some(Target::File(_)) => Err(io::ErrorKind::AlreadyExists.into()),
            None => {
                state.begin_whole(Operation::Create, name)?;
                let created = state.dirs.len();
                state.dirs.push(Dir::default());
                state.dirs[dir].change(Change::Set(name.to_owned(), Target::Dir(created)));
                Ok(())
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (dir, from) = state.place(from)?;
        let (to_dir, to) = state.place(to)?;
        let target = state.dirs[dir].names.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
        if dir != to_dir {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        if state.begin_whole(Operation::Rename, to)? {
            state.dirs[dir].change(Change::Rename(from.to_owned(), to.to_owned(), target));
            if let Target::File(inode) = target {
                to.clone_into(&mut state.inodes[inode].name);
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (dir, name) = state.place(path)?;
        if !matches!(state.dirs[dir].names.get(name), Some(Target::File(_))) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.begin_whole(Operation::Remove, name)? {
            state.dirs[dir].change(Change::Unset(name.to_owned()));
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (dir, name) = state.place(path)?;
        let Some(Target::Dir(removed)) = state.dirs[dir].names.get(name).copied() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if !state.dirs[removed].names.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        if state.begin_whole(Operation::Remove, name)? {
            state.dirs[dir].change(Change::Unset(name.to_owned()));
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let state = self.state();
        let names = &state.dirs[state.dir_at(dir)?].names;
        let entry =
            |(name, target): (&String, &Target)| Entry { name: name.clone(), is_dir: matches!(target, Target::Dir(_)) };
        Ok(names.iter().map(entry).collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        let at = state.dir_at(dir)?;
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if state.begin_whole(Operation::SyncDir, &name)? {
            let dir = &mut state.dirs[at];
            dir.durable.clone_from(&dir.names);
            dir.pending.clear();
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        drop(self.open(path, Access::Create)?);
        let name = path.to_string_lossy().into_owned();
        if !self.state().locked.insert(name.clone()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Locked { files: self.clone(), name }))
    }
}

struct Locked {
    files: ForgetfulFiles,
    name: String,
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.files.state().locked.remove(&self.name);
    }
}

#[derive(Debug)]
struct ForgetfulFile {
    files: ForgetfulFiles,
    inode: usize,
}

impl File for ForgetfulFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.files.state();
        if state.crashed {
            return Err(crashed());
        }
        let content = &state.inodes[self.inode].bytes;
        let from = &content[(position as usize).min(content.len())..];
        let read = from.len().min(bytes.len());
        bytes[..read].copy_from_slice(&from[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut state = self.files.state();
        let name = state.inodes[self.inode].name.clone();
        let half = bytes.len().div_ceil(2);
        match state.begin(Operation::Write, &name, 0)? {
            Course::Whole => state.write(self.inode, bytes, position),
            Course::Half => {
                state.write(self.inode, &bytes[..half], position);
                return Ok(half);
            }
            Course::HalfThen(error) => {
                state.write(self.inode, &bytes[..half], position);
                return Err(error);
            }
            Course::Instead(_) => {}
        }
        Ok(bytes.len())
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        let mut state = self.files.state();
        let name = state.inodes[self.inode].name.clone();
        let size = match state.begin(Operation::Truncate, &name, size_bytes)? {
            Course::Whole | Course::Half => size_bytes as usize,
            Course::HalfThen(error) => return Err(error),
            Course::Instead(Answer::TruncateTo(size_bytes)) => size_bytes as usize,
            Course::Instead(_) => return Ok(()),
        };
        let (page_bytes, inode) = (state.page_bytes, &mut state.inodes[self.inode]);
        if size != inode.bytes.len() {
            let from = size.min(inode.bytes.len()) / page_bytes;
            inode.bytes.resize(size, 0);
            inode.size_dirty = true;
            inode.dirty.extend(from..size.div_ceil(page_bytes));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.files.state();
        let name = state.inodes[self.inode].name.clone();
        let course = state.begin(Operation::Sync, &name, 0)?;
        let (page_bytes, inode) = (state.page_bytes, &mut state.inodes[self.inode]);
        match course {
            Course::Whole | Course::Half => {}
            Course::Instead(_) => return Ok(()),
            Course::HalfThen(error) => {
                inode.dirty.clear();
                return Err(error);
            }
        }
        inode.durable.resize(inode.bytes.len(), 0);
        for page in std::mem::take(&mut inode.dirty) {
            let start = (page * page_bytes).min(inode.bytes.len());
            let end = ((page + 1) * page_bytes).min(inode.bytes.len());
            inode.durable[start..end].copy_from_slice(&inode.bytes[start..end]);
        }
        inode.size_dirty = false;
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        let state = self.files.state();
        if state.crashed { Err(crashed()) } else { Ok(state.inodes[self.inode].bytes.len() as u64) }
    }
}
