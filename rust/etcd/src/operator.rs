//! etcd as an operator reaches it, with blocking calls.
//!
//! An operator is no node: it beats nothing and owns nothing. It reads the small keys, and changes notes, which the nodes
//! follow.

use std::{
    fmt, io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rota_cluster::operator::Refused;
use rota_engine::{
    HistoryId, Log, Outcome, PartitionId, Request, View,
    requests::{AcceptLoss, Body, Content, NotePut, PutNote, Read},
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    engine::{EtcdEngine, OpenError, random},
    grpc::Failure,
    mend::Alarm,
    space::Member,
    url::Config,
};

/// A change is decided anew if a note has changed meanwhile, so often.
const DECISIONS: usize = 5;
/// A request of unknown outcome is sent again so often: each attempt goes to another member.
const ATTEMPTS: usize = 4;

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The cluster is not such that it could be.
    Refused(Refused),
    /// The engine failed. A part of the change may have been made.
    Failed(Failure),
    /// The engine does not say whether the change was made.
    Unknown(String),
    /// Others change the same notes all the time.
    Contended,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Refused(refused) => write!(f, "{refused}"),
            ChangeError::Failed(failure) => write!(f, "{failure}"),
            ChangeError::Unknown(why) => {
                write!(f, "{why}; whether the change was made is not known: look and try again")
            }
            ChangeError::Contended => write!(f, "others change the same at this time: try again"),
        }
    }
}

impl std::error::Error for ChangeError {}

impl From<Failure> for ChangeError {
    fn from(failure: Failure) -> ChangeError {
        ChangeError::Failed(failure)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Operator {
    // Before the runtime, which carries its connections.
    engine: EtcdEngine,
    runtime: Mutex<Runtime>,
}

impl Operator {
    /// Connects to the engine of an existing cluster. The outer error: no runtime can be made.
    pub fn connect(mut config: Config, attempt: Duration) -> io::Result<Result<Operator, OpenError>> {
        // Nodes compact.
        (config.keep, config.timeout, config.lanes) = (None, attempt, 1);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let attached = runtime.block_on(EtcdEngine::attach(config));
        Ok(attached.map(|engine| Operator { engine, runtime: Mutex::new(runtime) }))
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).block_on(work)
    }

    /// The engine for operators, without password.
    pub fn name(&self) -> String {
        self.engine.name()
    }

    /// The small keys at present.
    pub fn view(&self) -> Result<View, Failure> {
        self.wait(self.engine.image())
    }

    /// All members of etcd and their space.
    pub fn members(&self) -> Vec<Member> {
        self.wait(self.engine.members())
    }

    /// Alarms, with the ids of the members that raised them.
    pub fn alarms(&self) -> Result<Vec<(u64, Alarm)>, Failure> {
        self.wait(self.engine.alarms())
    }

    /// Gives space back ([`EtcdEngine::mend`]); everything before the present revision is forgotten. Returns the steps.
    pub fn mend(&self, mut tell: impl FnMut(&str)) -> Result<(), Failure> {
        self.wait(async {
            let revision = self.engine.image().await?.revision;
            self.engine.mend(revision, &mut tell).await
        })
    }

    /// Changes notes as `decide` says of the present view, one after the other. Returns how many.
    pub fn change(&self, decide: impl Fn(&View) -> Result<Vec<PutNote>, Refused>) -> Result<usize, ChangeError> {
        self.wait(async {
            for _ in 0..DECISIONS {
                let view = self.engine.image().await?;
                let notes = decide(&view).map_err(ChangeError::Refused)?;
                let count = notes.len();
                if self.write(view.meta.history, notes).await? {
                    return Ok(count);
                }
            }
            Err(ChangeError::Contended)
        })
    }

    /// Whether all were written. One that has changed meanwhile is not, nor those after it.
    async fn write(&self, history: HistoryId, notes: Vec<PutNote>) -> Result<bool, ChangeError> {
        for note in notes {
            match self.ask(&Request { history, body: Body::Note(note) }).await? {
                Content::NotePut(NotePut::Written) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn ask(&self, request: &Request) -> Result<Content, ChangeError> {
        for _ in 0..ATTEMPTS {
            match self.engine.call(request).await {
                Outcome::Answered(answer) => return Ok(answer.content),
                Outcome::Unknown | Outcome::SpaceExhausted => {}
            }
        }
        let trouble = self.engine.trouble().unwrap_or_else(|| "the engine does not answer".to_owned());
        Err(ChangeError::Unknown(trouble))
    }

    /// Begins a new history after the engine went back (docs/engine-protocol.md §8). Returns the lost one and the new
    /// one.
    pub fn accept_loss(&self) -> Result<(HistoryId, HistoryId), ChangeError> {
        self.wait(async {
            let lost = self.engine.image().await?.meta.history;
            let begin = HistoryId(random()?);
            match self.ask(&Request { history: lost, body: Body::AcceptLoss(AcceptLoss { lost, begin }) }).await? {
                Content::HistoryBegun => Ok((lost, begin)),
                // An attempt without an answer may have begun it.
                Content::OtherHistory(meta) if meta.history == begin => Ok((lost, begin)),
                _ => Err(ChangeError::Contended),
            }
        })
    }

    /// What a partition has in the engine. Reads all of it.
    pub fn log(&self, partition: PartitionId) -> Result<Log, ChangeError> {
        self.wait(async {
            let history = self.engine.image().await?.meta.history;
            match self.ask(&Request { history, body: Body::Read(Read { partition }) }).await? {
                Content::Contents(contents) => Ok(contents.log),
                _ => Err(ChangeError::Contended),
            }
        })
    }
}
