//! The text files of a data directory: a first line with the number of the format, a line per entry, and a checksum.

use std::{
    fmt::Write as _,
    io,
    path::PathBuf,
    str::Lines,
    sync::{Arc, Weak},
};

use rota_log::{
    LogError, SegmentStore,
    files::{Files, put_in_place, read_file, sync_name},
    store::Store,
};

/// A text file, which is replaced as a whole.
#[derive(Debug)]
pub struct TextFile {
    pub files: Arc<dyn Files>,
    pub path: PathBuf,
    pub is_read_only: bool,
    /// The store of the same directory, which others keep open.
    pub store: Weak<SegmentStore>,
}

impl TextFile {
    /// Reads the file; `None`: there is none.
    pub fn read(&self) -> io::Result<Option<String>> {
        let bytes = read_file(self.files.as_ref(), &self.path)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Replaces the file durably. Errors: nothing has changed, or that is not known, and the store has stopped.
    pub fn replace(&self, text: &str) -> io::Result<()> {
        if self.is_read_only {
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the data directory is only read"));
        }
        put_in_place(self.files.as_ref(), &self.path, text.as_bytes(), true)?;
        sync_name(self.files.as_ref(), &self.path).map_err(|error| self.unsure(&error))
    }

    fn unsure(&self, error: &io::Error) -> io::Error {
        let (file, kind, text) = (self.path.clone(), error.kind(), error.to_string());
        let stop = move |store: &mut Store| store.stop_unsure_of(&file, &io::Error::new(kind, text));
        let stopped: Option<LogError> = self.store.upgrade().and_then(|store| store.inspect(stop));
        io::Error::new(kind, stopped.map_or_else(|| error.to_string(), |stopped| stopped.to_string()))
    }
}

/// Ends a text with its checksum.
pub fn summed(mut text: String) -> String {
    let checksum = crc32c::crc32c(text.as_bytes());
    let _infallible = writeln!(text, "crc32c {checksum:08x}");
    text
}

/// The lines before the checksum, if that is right.
fn checked(text: &str) -> Result<&str, String> {
    let end = text.rfind("crc32c ").ok_or("it has no checksum")?;
    let (body, checksum) = text.split_at(end);
    if checksum.trim_end() != format!("crc32c {:08x}", crc32c::crc32c(body.as_bytes())) {
        return Err("its checksum is wrong".to_owned());
    }
    Ok(body)
}

/// The lines of the entries of a file in a known format.
pub fn entries<'t>(text: &'t str, head: &str, format: u32) -> Result<Lines<'t>, String> {
    let mut lines = checked(text)?.lines();
    if lines.next() != Some(format!("{head}{format}").as_str()) {
        return Err("its first line names no format".to_owned());
    }
    Ok(lines)
}

/// Refuses a whole file of a later format. `head` is the first line up to the number.
pub fn check_format(text: &str, head: &str, known: u32) -> Result<(), String> {
    let body = checked(text).unwrap_or_default();
    let format = body.lines().next().and_then(|line| line.strip_prefix(head)?.parse::<u32>().ok());
    match format {
        Some(format) if format > known => Err(format!(
            "it has format {format}, and this release of rota knows format {known}; use the release that wrote the \
             data directory, or a later one"
        )),
        _ => Ok(()),
    }
}

/// Escapes control characters and `%` as `%` and two digits, so that a value is one line.
pub fn escaped(value: &str) -> String {
    value.chars().fold(String::new(), |mut text, char| {
        if char < ' ' || char == '%' {
            let _infallible = write!(text, "%{:02x}", char as u32);
        } else {
            text.push(char);
        }
        text
    })
}

/// The value that was escaped; `None`: it was not.
pub fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut value = parts.next()?.to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok())?;
        value.push(char::from(code));
        value.push_str(&part[2..]);
    }
    Some(value)
}
