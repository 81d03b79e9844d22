//! The requests of the protocol, one file each: what a request compares, what it writes, what it answers.
//!
//! Each request is one transaction of the engine. All comparisons are made before any write; a request whose comparison
//! fails writes nothing and answers with what it found.

pub mod accept_loss;
pub mod append;
pub mod beat;
pub mod check;
pub mod chunk;
pub mod claim;
pub mod head;
pub mod note;
pub mod read;
pub mod register;
pub mod release;
pub mod sweep;
pub mod trim;
pub mod usage;

pub use accept_loss::AcceptLoss;
pub use append::{Append, Appended};
pub use beat::{Beaten, PutBeat};
pub use check::Check;
pub use chunk::PutChunk;
pub use claim::{Claim, Claimed, Silence};
pub use head::{HeadPut, PutHead};
pub use note::{NotePut, PutNote};
pub use read::{Contents, Read};
pub use register::{Register, Registered};
pub use release::Release;
pub use sweep::Sweep;
pub use trim::Trim;
pub use usage::{Usage, Used};

use crate::{
    ids::{HistoryId, PartitionId, Revision},
    store::Store,
    view::{Meta, Part, Token},
};

/// A request, with the history that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Compared first. Nothing else is looked at in another history.
    pub history: HistoryId,
    /// What is asked.
    pub body: Body,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// A process begins.
    Register(Register),
    /// A node lives.
    Beat(PutBeat),
    /// A node takes a partition.
    Claim(Claim),
    /// An owner adds to its log.
    Append(Append),
    /// An owner loads.
    Read(Read),
    /// An owner asks whether it still is.
    Check(Check),
    /// An owner writes a part of a snapshot.
    Chunk(PutChunk),
    /// An owner makes a snapshot count.
    Head(PutHead),
    /// An owner deletes entries that the snapshot has.
    Trim(Trim),
    /// An owner deletes chunks that no head names.
    Sweep(Sweep),
    /// An owner gives a partition up.
    Release(Release),
    /// A node asks how full the engine is.
    Usage(Usage),
    /// A node writes a small key that all nodes see.
    Note(PutNote),
    /// An operator begins a new history.
    AcceptLoss(AcceptLoss),
}

/// What an engine says about a request that it carried out, at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The engine's revision after the request.
    pub revision: Revision,
    /// The answer's content.
    pub content: Content,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The engine has another history; nothing was done.
    OtherHistory(Meta),
    /// To [`Register`].
    Registered(Registered),
    /// To [`PutBeat`].
    Beaten(Beaten),
    /// To [`Claim`].
    Claimed(Claimed),
    /// To [`Append`].
    Appended(Appended),
    /// To [`Read`].
    Contents(Box<Contents>),
    /// To [`Check`], [`PutChunk`], [`Trim`], [`Sweep`] and [`Release`].
    Fence(Fence),
    /// To [`PutHead`].
    HeadPut(HeadPut),
    /// To [`Usage`].
    Used(Used),
    /// To [`PutNote`].
    NotePut(NotePut),
    /// To [`AcceptLoss`].
    HistoryBegun,
}

/// What a request that only the owner may make comes back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fence {
    /// The owner was the partition's; the request is done.
    Held,
    /// It was not; nothing was done. The partition's owner, if it ever had one.
    Refused(Option<Part>),
}

/// How an attempt to send a request ends, as its sender sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The engine answered.
    Answered(Answer),
    /// Anything else: timeout, lost connection, overload. The request took effect, or will, or never does.
    Unknown,
    /// The engine says that its space is exhausted. It may say so of a request that took effect, so nothing is known.
    SpaceExhausted,
}

impl Request {
    /// Carries the request out.
    pub fn apply(&self, store: &mut Store) -> Answer {
        let content = if self.history == store.view.meta.history || matches!(self.body, Body::AcceptLoss(_)) {
            self.body.apply(store)
        } else {
            Content::OtherHistory(store.view.meta)
        };
        Answer { revision: store.view.revision, content }
    }
}

impl Body {
    fn apply(&self, store: &mut Store) -> Content {
        match self {
            Body::Register(request) => Content::Registered(request.apply(store)),
            Body::Beat(request) => Content::Beaten(request.apply(store)),
            Body::Claim(request) => Content::Claimed(request.apply(store)),
            Body::Append(request) => Content::Appended(request.apply(store)),
            Body::Read(request) => Content::Contents(Box::new(request.apply(store))),
            Body::Check(request) => Content::Fence(request.apply(store)),
            Body::Chunk(request) => Content::Fence(request.apply(store)),
            Body::Head(request) => Content::HeadPut(request.apply(store)),
            Body::Trim(request) => Content::Fence(request.apply(store)),
            Body::Sweep(request) => Content::Fence(request.apply(store)),
            Body::Release(request) => Content::Fence(request.apply(store)),
            Body::Usage(request) => Content::Used(request.apply(store)),
            Body::Note(request) => Content::NotePut(request.apply(store)),
            Body::AcceptLoss(request) => request.apply(store),
        }
    }

    /// The partition and the owner of a request that only the owner may make.
    pub fn fenced_by(&self) -> Option<(PartitionId, &Token)> {
        match self {
            Body::Append(request) => Some((request.partition, &request.token)),
            Body::Check(request) => Some((request.partition, &request.token)),
            Body::Chunk(request) => Some((request.partition, &request.token)),
            Body::Head(request) => Some((request.partition, &request.token)),
            Body::Trim(request) => Some((request.partition, &request.token)),
            Body::Sweep(request) => Some((request.partition, &request.token)),
            Body::Release(request) => Some((request.partition, &request.token)),
            Body::Register(_)
            | Body::Beat(_)
            | Body::Claim(_)
            | Body::Read(_)
            | Body::Usage(_)
            | Body::Note(_)
            | Body::AcceptLoss(_) => None,
        }
    }
}

/// What the fence says of a request.
fn fence(store: &Store, partition: PartitionId, token: &Token) -> Fence {
    if store.is_held(partition, token) { Fence::Held } else { Fence::Refused(store.part(partition)) }
}
