//! Notes of the engine: what all servers of a cluster know, besides groups and transactions.

use std::{
    fmt,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use rota_engine::{Revision, requests::PutNote};

/// A change waits so long for the engine. The node serves nothing else meanwhile.
const WAIT: Duration = Duration::from_secs(2);

type Put = Box<dyn Fn(Vec<PutNote>) -> Receiver<Result<Revision, String>> + Send + Sync>;

/// The way to change notes.
pub struct Notes(Put);

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notes")
    }
}

impl Notes {
    /// Notes that `put` writes.
    pub fn new(put: Put) -> Notes {
        Notes(put)
    }

    /// Changes all these notes, or none. Returns the revision that has them. Errors: why they are not written, or may not be.
    pub fn write(&self, notes: Vec<PutNote>) -> Result<Revision, String> {
        match (self.0)(notes).recv_timeout(WAIT) {
            Ok(written) => written,
            Err(RecvTimeoutError::Timeout) => Err("the engine does not answer".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("the server stops".to_owned()),
        }
    }
}
