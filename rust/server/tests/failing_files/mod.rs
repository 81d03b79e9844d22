//! The machine's disk, with failures where a test wants them.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rota_log::files::{Access, DiskFiles, Entry, File, Files, Lock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Sync,
}

/// What is to fail: which operation, of files whose path has this in it, how, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub operation: Operation,
    pub named: &'static str,
    /// So many go well before.
    pub after: u64,
    pub times: u64,
    pub errno: i32,
}

/// The machine's disk, which fails on request.
#[derive(Clone, Debug, Default)]
pub struct FailingFiles {
    /// Syncs wait while this is locked.
    pub syncing: Arc<Mutex<()>>,
    rule: Arc<Mutex<Option<Rule>>>,
    /// Operations that were asked for.
    pub asked: Arc<AtomicU64>,
    pub failed: Arc<AtomicU64>,
    pub read_bytes: Arc<AtomicU64>,
}

impl FailingFiles {
    pub fn fail(&self, rule: Option<Rule>) {
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = rule;
    }

    fn check(&self, operation: Operation, path: &Path) -> io::Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut rule = self.rule.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(met) = rule.as_mut() else { return Ok(()) };
        if met.operation != operation || !path.display().to_string().contains(met.named) || met.times == 0 {
            return Ok(());
        }
        if met.after > 0 {
            met.after -= 1;
            return Ok(());
        }
        met.times -= 1;
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(io::Error::from_raw_os_error(met.errno))
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Arc<dyn File>,
    path: std::path::PathBuf,
    disk: FailingFiles,
}

impl File for FailingFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.disk.check(Operation::Read, &self.path)?;
        let read = self.file.read_at(bytes, position)?;
        self.disk.read_bytes.fetch_add(read as u64, Ordering::SeqCst);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.disk.check(Operation::Write, &self.path)?;
        self.file.write_at(bytes, position)
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.file.truncate(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        drop(self.disk.syncing.lock().unwrap_or_else(PoisonError::into_inner));
        self.disk.check(Operation::Sync, &self.path)?;
        self.file.sync()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }
}

impl Files for FailingFiles {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let file = DiskFiles.open(path, access)?;
        Ok(Arc::new(FailingFile { file, path: path.to_owned(), disk: self.clone() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DiskFiles.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
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
        self.check(Operation::Sync, dir)?;
        DiskFiles.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        DiskFiles.lock(path)
    }
}
