//! The file system interface of the log, so that tests can replace it.
//!
//! Writing makes nothing durable. [`File::sync`] makes a file's bytes and size durable; [`Files::sync_dir`] makes
//! created, renamed and removed names of a directory durable.

mod disk;
mod forgetful;
mod overlay;
pub mod platform;

use std::{any::Any, fmt, io, path::Path, sync::Arc};

pub use disk::DiskFiles;
pub use forgetful::{Answer, Fault, ForgetfulFiles, Operation, Survival};
pub use overlay::OverlayFiles;

/// The mode of [`Files::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Opens an existing file for reading.
    Read,
    /// Opens an existing file for reading and writing.
    Write,
    /// Like `Write`, and creates a missing file.
    Create,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name without its directory.
    pub name: String,
    /// Whether the entry is a directory.
    pub is_dir: bool,
}

/// Why a file cannot be locked, inside an error of the kind `WouldBlock`: this process has locked it already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedHere;

impl fmt::Display for LockedHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this process has locked the file already")
    }
}

impl std::error::Error for LockedHere {}

/// A lock that is held until it is dropped.
pub type Lock = Box<dyn Any + Send>;

/// A file system, or a replacement in tests.
pub trait Files: Send + Sync + fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Creates a directory if it is missing. Its parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Renames a file within its directory, replacing a file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Lists a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks the file `path`, which is created, against other processes. Errors: `WouldBlock` if another process holds
    /// the lock.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
}

/// An open file. It stays readable after its name is removed.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads into `bytes` from `position`. Returns the number of bytes, 0 at the end of the file.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes from `position`. Returns the number of bytes written, possibly fewer than all.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Truncates to `size_bytes`, or extends with zeros.
    fn truncate(&self, size_bytes: u64) -> io::Result<()>;

    /// Makes bytes and size durable. After an error, everything written since the last success may be lost, and another
    /// sync may succeed without it.
    fn sync(&self) -> io::Result<()>;

    /// Returns the size in bytes.
    fn size_bytes(&self) -> io::Result<u64>;

    /// Returns when the bytes were changed last, in wall milliseconds; `i64::MAX` if that is not kept.
    fn modified_ms(&self) -> io::Result<i64> {
        Ok(i64::MAX)
    }
}

/// Writes all of `bytes`. After an error some of them may have been written.
pub fn write_all_at(file: &dyn File, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                position += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes.
pub fn read_up_to(file: &dyn File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a whole file; `None` if it does not exist.
pub fn read_file(files: &dyn Files, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match files.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; usize::try_from(file.size_bytes()?).map_err(io::Error::other)?];
    let read = read_up_to(file.as_ref(), &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Replaces the file `path` atomically: after a crash it has the old content or the new. With `durable`, it has the new
/// content once this returns. After an error it is not known which one it has after a crash.
pub fn replace_file(files: &dyn Files, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    put_in_place(files, path, bytes, durable)?;
    if durable { sync_name(files, path) } else { Ok(()) }
}

/// The first step of [`replace_file`]. After an error the file has the old content.
pub fn put_in_place(files: &dyn Files, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    let file = files.open(&temporary, Access::Create)?;
    file.truncate(0)?;
    write_all_at(file.as_ref(), bytes, 0)?;
    if durable {
        file.sync()?;
    }
    files.rename(&temporary, path)
}

/// The second step of [`replace_file`]: makes it durable which file has this name.
pub fn sync_name(files: &dyn Files, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| files.sync_dir(dir))
}
