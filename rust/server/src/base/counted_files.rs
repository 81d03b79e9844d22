//! A disk that counts what is done to it, for tests.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rota_log::files::{Access, DiskFiles, Entry, File, Files, Lock};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Read,
    /// Of a segment; counted when it begins.
    Write,
    Sync,
    /// Counted under the new name.
    Rename,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CountedFiles {
    /// Actions with their paths and bytes.
    done: Arc<Mutex<Vec<(Action, PathBuf, usize)>>>,
    /// Writes of segments wait while this is locked.
    pub writing: Arc<Mutex<()>>,
    /// The number of the next writes of segments that find the disk full.
    pub full: Arc<AtomicU64>,
}

impl CountedFiles {
    /// Forgets what was done before.
    pub fn restart(&self) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the sizes of these actions on files whose path has `named` in it.
    pub fn sizes(&self, action: Action, named: &str) -> Vec<usize> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant =
            |done: &&(Action, PathBuf, usize)| done.0 == action && done.1.display().to_string().contains(named);
        done.iter().filter(is_meant).map(|(_, _, bytes)| *bytes).collect()
    }

    fn count(&self, action: Action, path: &Path, bytes: usize) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push((action, path.to_owned(), bytes));
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Arc<dyn File>,
    path: PathBuf,
    disk: CountedFiles,
}

impl File for CountedFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let read = self.file.read_at(bytes, position)?;
        self.disk.count(Action::Read, &self.path, read);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        if self.path.extension().is_some_and(|extension| extension == "log") {
            self.disk.count(Action::Write, &self.path, bytes.len());
            drop(self.disk.writing.lock().unwrap_or_else(PoisonError::into_inner));
            let less = |left: u64| left.checked_sub(1);
            if self.disk.full.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        self.file.write_at(bytes, position)
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.file.truncate(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.count(Action::Sync, &self.path, 0);
        self.file.sync()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }
}

impl Files for CountedFiles {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let file = DiskFiles.open(path, access)?;
        Ok(Arc::new(CountedFile { file, path: path.to_owned(), disk: self.clone() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DiskFiles.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.count(Action::Rename, to, 0);
        DiskFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        DiskFiles.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        DiskFiles.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        DiskFiles.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.count(Action::Sync, dir, 0);
        DiskFiles.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        DiskFiles.lock(path)
    }
}
