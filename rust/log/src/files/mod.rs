//! What the log asks of a file system, so that tests can stand in for it.
//!
//! Nothing is durable because it was written: a file's bytes and size are after [`File::sync`], the creation, renaming
//! or removal of a name after [`Files::sync_dir`] of its directory.

mod disk;
mod forgetful;
mod overlay;

use std::{any::Any, fmt, io, path::Path, sync::Arc};

pub use disk::DiskFiles;
pub use forgetful::{Answer, Fault, ForgetfulFiles, Operation, Survival};
pub use overlay::OverlayFiles;

/// How [`Files::open`] opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An existing file, to be read.
    Read,
    /// An existing file, to be read and written.
    Write,
    /// As `Write`; the file is created if there is none.
    Create,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// What keeps others out for as long as it lives.
pub type Lock = Box<dyn Any + Send>;

/// A file system, or what stands in for one.
pub trait Files: Send + Sync + fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Creates a directory, unless it exists; its parent must.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name in the same directory; a file that had it is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// What is in a directory, by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Keeps other processes out by a lock on the file `path`, which is created. Errors: `WouldBlock` if somebody
    /// holds it.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
}

/// An open file. It stays readable when its name is removed.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads into `bytes` from `position` on; gives how many, 0 at the end.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes from `position` on; gives how many bytes, which may be fewer than all.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Cuts off what is behind `size_bytes`, or fills up with zeros.
    fn truncate(&self, size_bytes: u64) -> io::Result<()>;

    /// Makes bytes and size durable. After an error nothing is known about what was written since the last success,
    /// and asking again may succeed without having written it.
    fn sync(&self) -> io::Result<()>;

    /// Its size.
    fn size_bytes(&self) -> io::Result<u64>;
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

/// Reads until `bytes` is full or the file ends; gives how many.
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

/// A whole file, if it exists.
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

/// Replaces the file `path` as a whole: after a crash it has its old content or the new one. `durable`: the new one,
/// once this has returned.
pub fn replace_file(files: &dyn Files, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    let file = files.open(&temporary, Access::Create)?;
    file.truncate(0)?;
    write_all_at(file.as_ref(), bytes, 0)?;
    if durable {
        file.sync()?;
    }
    files.rename(&temporary, path)?;
    match path.parent() {
        Some(dir) if durable => files.sync_dir(dir),
        _ => Ok(()),
    }
}
