//! What differs between operating systems: reads and writes at a position, and what makes names and locks durable.
//! Nothing else in the workspace calls an operating system's own interface (`tests/checks/test_platforms.py`).

use std::{fs::File, io, path::Path};

#[cfg(unix)]
pub fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, position)
}

#[cfg(unix)]
pub fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, position)
}

/// Makes names in a directory durable.
#[cfg(unix)]
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Takes the lock that a Kafka broker takes on the same file: on Unix it does not conflict with that of `File::try_lock`.
#[cfg(unix)]
pub fn lock_as_kafka(file: &File) -> io::Result<()> {
    rustix::fs::fcntl_lock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        if error == rustix::io::Errno::ACCESS { io::ErrorKind::WouldBlock.into() } else { io::Error::from(error) }
    })
}

#[cfg(windows)]
pub fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    match std::os::windows::fs::FileExt::seek_read(file, bytes, position) {
        // A read that begins at the end is an error there.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

#[cfg(windows)]
pub fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, position)
}

/// Does nothing: Windows cannot sync a directory, and NTFS logs changes of names itself.
#[cfg(windows)]
pub fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Does nothing: on Windows a Kafka broker and `File::try_lock` take the same kind of lock.
#[cfg(windows)]
pub fn lock_as_kafka(_file: &File) -> io::Result<()> {
    Ok(())
}
