//! The operating system's file system.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::{Access, Entry, File, Files, Lock, LockedHere, platform};

/// The files that this process has locked. Closing any descriptor of a file releases the lock that a process has for
/// Kafka, so a second attempt must not open it.
static LOCKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A place in [`LOCKED`].
struct Locked(PathBuf);

impl Locked {
    fn take(path: &Path) -> io::Result<Locked> {
        // The file may not exist yet, but its directory does.
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let path = fs::canonicalize(dir)?.join(path.file_name().unwrap_or_default());
        let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
        if !locked.insert(path.clone()) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, LockedHere));
        }
        Ok(Locked(path))
    }
}

/// A locked file.
struct Held {
    file: fs::File,
    process_id: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A copy of this process has the descriptor, too, and closing this one leaves its lock. The copy does not unlock.
        if std::process::id() == self.process_id {
            let _closed = self.file.unlock();
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCKED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

impl Files for DiskFiles {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Read).create(access == Access::Create);
        Ok(Arc::new(DiskFile(options.open(path)?)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            created => created,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // Names that are not UTF-8 are not ours.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        platform::sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let locked = Locked::take(path)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        platform::lock_as_kafka(&file)?;
        // Closed in this order.
        Ok(Box::new((Held { file, process_id: std::process::id() }, locked)))
    }
}

#[derive(Debug)]
struct DiskFile(fs::File);

impl File for DiskFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        platform::read_at(&self.0, bytes, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        platform::write_at(&self.0, bytes, position)
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.0.set_len(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn modified_ms(&self) -> io::Result<i64> {
        let since = self.0.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_once_until_the_lock_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let lock = DiskFiles.lock(&path).unwrap();
        let again = DiskFiles.lock(&dir.path().join(".").join(".lock"));
        assert_eq!(again.err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        drop(lock);
        drop(DiskFiles.lock(&path).unwrap());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_attempt_to_lock_a_file_again_does_not_release_the_lock_that_a_broker_of_kafka_sees() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let lock = DiskFiles.lock(&path).unwrap();
        let file = format!(":{} ", platform::file_number(&fs::metadata(&path).unwrap()));
        let process = format!(" {} ", std::process::id());
        let is_locked = || {
            let locks = fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|line| line.contains("POSIX") && line.contains(&file) && line.contains(&process))
        };
        assert!(is_locked());
        assert!(DiskFiles.lock(&path).is_err());
        assert!(is_locked());
        drop(lock);
        assert!(!is_locked());
    }
}
