//! What a host is asked by other threads, and told by its own tasks.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, mpsc::Sender},
};

use rota_engine::{CallId, Chunk, Epoch, Outcome, PartitionId, Revision, requests::PutNote};
use rota_log::{Completion, Completions, LogError, Operation};
use tokio::sync::oneshot;

/// The partitions that a read needs, with the epochs under which they are served.
pub(crate) type Needed = BTreeSet<(PartitionId, Epoch)>;

/// A record batch to append.
#[derive(Debug)]
pub(crate) struct AppendOrder {
    pub partition: PartitionId,
    pub epoch: Epoch,
    pub id: u64,
    pub count: i64,
    pub bytes: Vec<u8>,
    pub to: Arc<Completions>,
}

impl AppendOrder {
    /// The result of the append, and where it goes.
    pub fn completion(&self, result: Result<i64, LogError>) -> (Arc<Completions>, Completion) {
        let (partition, epoch, operation) = (self.partition.0, self.epoch.0, Operation::Append(self.id));
        (Arc::clone(&self.to), Completion { partition, epoch, operation, result })
    }
}

/// What becomes of notes that a server writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The engine has answered about another one of them.
    One,
    /// The end. All are written, and this node's view shows them: a revision that has them all. Or why one is not written,
    /// or may not be.
    All(Result<Revision, String>),
}

/// A message to the host.
#[derive(Debug)]
pub(crate) enum Message {
    /// Complete when the partition is loaded under this epoch.
    Open(PartitionId, Epoch, Arc<Completions>),
    /// Appends wait in the shelf.
    Appends,
    /// The serving thread has unloaded the partition by itself.
    Dropped(PartitionId, Epoch),
    /// The serving thread cannot read what the engine has of the partition; why, behind "this server".
    Damaged(PartitionId, Epoch, String),
    /// Write notes of the server, and say what becomes of them.
    PutNotes(Vec<PutNote>, Sender<Written>),
    /// Confirm that the node owns the partitions.
    Confirm(Needed, oneshot::Sender<()>),
    /// The server needs producer ids.
    MoreProducerIds,
    /// Give everything up, and answer when that is done.
    Leave(oneshot::Sender<()>),
    /// End at once, as a killed process does.
    End,
}

/// What a task of a node tells it. The reports of tasks that outlive the node are dropped: the next node of the host numbers
/// its calls anew.
#[derive(Debug)]
pub(crate) enum Report {
    /// A call has ended.
    Ended(CallId, Outcome),
    /// Calls of a lane have ended.
    LaneEnded(usize, Vec<(CallId, Outcome)>),
    /// A note was written or refused, or its outcome is unknown.
    NoteEnded,
    /// The engine was asked how full it is.
    Usage(Outcome),
    /// A partition's content is compacted.
    Compacted(PartitionId, Epoch, Result<(i64, Vec<Chunk>), String>),
    /// The engine was asked whether the node owns partitions.
    Checked(Vec<((PartitionId, Epoch), Outcome)>),
    /// A block of producer ids; `None`: the engine did not give one.
    ProducerIds(Option<Range<i64>>),
}
