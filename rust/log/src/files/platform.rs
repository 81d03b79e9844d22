//! What differs between operating systems: reads and writes at a position, owners, what makes names and locks durable, and
//! the clock that goes on while the machine sleeps.
//! Nothing else in the workspace calls an operating system's own interface (`tests/checks/test_platforms.py`).

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    path::Path,
};

/// Reads at a position, and returns how many bytes.
#[cfg(unix)]
pub fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, position)
}

/// Writes at a position, and returns how many bytes.
#[cfg(unix)]
pub fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, position)
}

/// Makes names in a directory durable.
#[cfg(unix)]
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Lets only the owner of new files read them.
#[cfg(unix)]
pub fn keep_private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

/// Gives an open file the owner, group and permissions of another.
#[cfg(unix)]
pub fn keep_owner(file: &File, before: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let now = file.metadata()?;
    let owner = (before.uid(), before.gid());
    if (now.uid(), now.gid()) != owner {
        fchown(file, Some(owner.0), Some(owner.1))?;
    }
    file.set_permissions(before.permissions())
}

/// Returns the number of a file, which another in its place does not have.
#[cfg(unix)]
pub fn file_number(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(file)
}

/// Takes the lock that a Kafka broker takes on the same file: on Unix it does not conflict with that of `File::try_lock`.
#[cfg(unix)]
pub fn lock_as_kafka(file: &File) -> io::Result<()> {
    rustix::fs::fcntl_lock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        if error == rustix::io::Errno::ACCESS { io::ErrorKind::WouldBlock.into() } else { io::Error::from(error) }
    })
}

/// Returns the milliseconds of a clock that never falls, and goes on while the machine sleeps.
#[cfg(unix)]
pub fn boot_time_ms() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    // On macOS this one goes on, too.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

/// Reads at a position, and returns how many bytes.
#[cfg(windows)]
pub fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    match std::os::windows::fs::FileExt::seek_read(file, bytes, position) {
        // A read that begins at the end is an error there.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

/// Writes at a position, and returns how many bytes.
#[cfg(windows)]
pub fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, position)
}

/// Does nothing: Windows cannot sync a directory, and NTFS logs changes of names itself.
/// Makes names in a directory durable.
#[cfg(windows)]
pub fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Does nothing: on Windows a Kafka broker and `File::try_lock` take the same kind of lock.
/// Lets only the owner of new files read them.
#[cfg(windows)]
pub fn keep_private(_options: &mut OpenOptions) {}

/// Gives an open file the owner, group and permissions of another.
#[cfg(windows)]
pub fn keep_owner(file: &File, before: &Metadata) -> io::Result<()> {
    file.set_permissions(before.permissions())
}

/// Returns the number of a file, which another in its place does not have.
#[cfg(windows)]
pub fn file_number(_file: &Metadata) -> u64 {
    0
}

/// Takes the lock that a Kafka broker takes on the same file: on Unix it does not conflict with that of `File::try_lock`.
#[cfg(windows)]
pub fn lock_as_kafka(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Returns the milliseconds of a clock that never falls, and goes on while the machine sleeps: since the first call.
#[cfg(windows)]
pub fn boot_time_ms() -> u64 {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_clock_of_the_machine_never_falls() {
        let times = [(); 100].map(|()| boot_time_ms());
        assert!(times.is_sorted(), "{times:?}");
    }

    #[test]
    fn permissions_are_kept_and_a_file_in_the_place_of_another_has_another_number() {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = (dir.path().join("before"), dir.path().join("after"));
        fs::write(&before, "").unwrap();
        let mut permissions = fs::metadata(&before).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&before, permissions).unwrap();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        keep_private(&mut options);
        let file = options.open(&after).unwrap();
        assert!(!file.metadata().unwrap().permissions().readonly());
        keep_owner(&file, &fs::metadata(&before).unwrap()).unwrap();
        assert!(file.metadata().unwrap().permissions().readonly());
        let numbers = [&before, &after].map(|path| file_number(&fs::metadata(path).unwrap()));
        assert!(numbers[0] != numbers[1] || numbers[0] == 0);
    }
}
