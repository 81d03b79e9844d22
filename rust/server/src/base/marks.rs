//! Notices that a file has changed.

use std::{fs, path::Path, time::SystemTime};

use rota_log::files::platform;

/// What a change of a file changes: time, size, and the number of the file, which a replaced file does not keep. `None`:
/// it cannot be looked at.
pub type Mark = Option<(SystemTime, u64, u64)>;

/// Looks at a file.
pub fn mark(path: &Path) -> Mark {
    let found = fs::metadata(path).ok()?;
    let number = platform::file_number(&found);
    Some((found.modified().ok()?, found.len(), number))
}
