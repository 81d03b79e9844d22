//! The ACLs of a server: one authorizer for all nodes, and its file in the data directory.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rota_security::acl::{AclTable, Authorizer, Binding};

use super::data_dir::DataDir;
use crate::base::{
    error::ServerError,
    text_file::{TextFile, check_format, entries, summed},
};

/// The file in the data directory.
pub const ACLS_FILE: &str = "rota.acls";

/// The first word of the file, before the number of its format.
const HEAD: &str = "rota.acls ";
/// The format that this release writes.
const FORMAT: u32 = 1;

/// The authorizer, which all nodes share.
#[derive(Debug)]
pub struct Acls {
    current: Mutex<Arc<Authorizer>>,
    version: AtomicU64,
    /// `None`: in memory.
    file: Option<TextFile>,
}

impl Acls {
    /// Creates ACLs in memory.
    pub fn in_memory(authorizer: Authorizer) -> Acls {
        Acls { current: Mutex::new(Arc::new(authorizer)), version: AtomicU64::new(1), file: None }
    }

    /// Reads the ACLs of a data directory. A directory without any gets those of `authorizer`. Errors: `BadData`.
    pub fn in_data_dir(authorizer: Authorizer, data: &DataDir) -> Result<Acls, ServerError> {
        let file = data.text_file(ACLS_FILE);
        let unreadable = |reason| data.bad(&format!("has a `{ACLS_FILE}` that cannot be read: {reason}"));
        let stored = match file.read().map_err(|error| unreadable(error.to_string()))? {
            None => None,
            Some(text) => {
                check_format(&text, HEAD, FORMAT).map_err(unreadable)?;
                let table = parse(&text).map_err(|reason| unreadable(format!("{reason}; restore it from a copy")))?;
                Some(Arc::new(table))
            }
        };
        if stored.is_none() && authorizer.table.count() > 0 {
            let written = file.replace(&written(&authorizer.table));
            written.map_err(|error| data.bad(&format!("cannot keep its ACLs: {error}")))?;
        }
        let table = stored.unwrap_or_else(|| Arc::clone(&authorizer.table));
        Ok(Acls { file: Some(file), ..Acls::in_memory(Authorizer { table, ..authorizer }) })
    }

    /// Returns the number of changes.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the authorizer.
    pub fn authorizer(&self) -> Arc<Authorizer> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the ACLs by what `change` makes of them. They are durable when this returns. Errors: why the file could
    /// not be written, see [`TextFile::replace`]; none of them counts then.
    pub fn change(&self, change: impl FnOnce(&AclTable) -> AclTable) -> io::Result<()> {
        let mut published = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let table = change(&published.table);
        if table == *published.table {
            return Ok(());
        }
        if let Some(file) = &self.file {
            file.replace(&written(&table))?;
        }
        *published = Arc::new(Authorizer { table: Arc::new(table), ..Authorizer::clone(&published) });
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// Formats the file: a line per ACL, then the checksum.
fn written(table: &AclTable) -> String {
    let lines = table.iter().map(|binding| binding.line() + "\n");
    summed(format!("{HEAD}{FORMAT}\n") + &lines.collect::<String>())
}

fn parse(text: &str) -> Result<AclTable, String> {
    let wrong = |line: &str, error| format!("the line `{line}` cannot be parsed: {error}");
    entries(text, HEAD, FORMAT)?.map(|line| line.parse::<Binding>().map_err(|error| wrong(line, error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 3] = [
        "ALLOW User:ana * READ TOPIC LITERAL orders",
        "DENY User:CN=a%20b,O=c * ALL GROUP PREFIXED 100%25",
        "ALLOW User:* 10.0.0.1 DESCRIBE CLUSTER LITERAL kafka-cluster",
    ];

    fn table() -> AclTable {
        LINES.iter().map(|line| line.parse::<Binding>().unwrap()).collect()
    }

    #[test]
    fn acls_are_read_as_they_were_written() {
        assert_eq!(parse(&written(&table())).unwrap(), table());
        assert_eq!(parse(&written(&AclTable::default())).unwrap(), AclTable::default());
    }

    #[test]
    fn a_changed_byte_and_a_later_format_are_refused() {
        let text = written(&table());
        assert_eq!(parse(&text.replacen("ana", "bob", 1)).unwrap_err(), "its checksum is wrong");
        let later = summed("rota.acls 2\n".to_owned());
        assert!(check_format(&later, HEAD, FORMAT).unwrap_err().starts_with("it has format 2, and"));
        let wrong = parse(&summed("rota.acls 1\nALLOW\n".to_owned())).unwrap_err();
        assert!(wrong.starts_with("the line `ALLOW` cannot be parsed: expected `PERMISSION"), "{wrong}");
    }

    #[test]
    fn the_version_changes_with_the_acls_only() {
        let acls = Acls::in_memory(Authorizer::default());
        let before = acls.version();
        acls.change(AclTable::clone).unwrap();
        assert_eq!(acls.version(), before);
        acls.change(|_| table()).unwrap();
        assert_eq!((acls.version(), acls.authorizer().table.count()), (before + 1, 3));
    }
}
