//! An engine as an operator reaches it, with blocking calls.
//!
//! An operator is no node: it beats nothing and owns nothing. It reads the small keys, and changes notes, which the nodes
//! follow.

use std::{
    fmt, io,
    sync::{Mutex, PoisonError},
};

use rota_engine::{
    HistoryId, Outcome, PartitionId, Request, View,
    requests::{AcceptLoss, Body, Content, Contents, NotePut, PutNote, Read, Used},
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    engine::{Engine, Pending},
    operator::{Refused, before_history},
};

/// A change is decided anew if a note has changed meanwhile, so often.
const DECISIONS: usize = 5;
/// A request of unknown outcome is sent again so often.
const ATTEMPTS: usize = 4;

/// One process of an engine: a member of etcd, or a host of PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where.
    pub address: String,
    /// What it says, or why it does not answer.
    pub status: Result<MemberStatus, String>,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its id, if the engine gives ids.
    pub id: u64,
    /// Of the engine's software.
    pub version: String,
    /// Whether it leads, or takes writes.
    pub leads: bool,
    /// Space.
    pub used: Used,
    /// Its troubles, in its own words.
    pub errors: Vec<String>,
}

/// What an engine needs beside the requests of nodes.
pub trait Operated: Engine {
    /// `etcd` or `postgresql`.
    fn kind(&self) -> &'static str;

    /// All members.
    fn members(&self) -> Pending<'_, Vec<Member>>;

    /// Alarms by their names, with the ids of the members that raised them.
    fn alarms(&self) -> Pending<'_, Result<Vec<(u64, &'static str)>, String>>;

    /// Gives space back. `tell` hears of each step.
    fn mend<'a>(&'a self, tell: &'a mut (dyn FnMut(&str) + Send)) -> Pending<'a, Result<(), String>>;
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The cluster is not such that it could be.
    Refused(Refused),
    /// The engine failed. A part of the change may have been made.
    Failed(String),
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

/// See the module.
pub struct Operator {
    // Before the runtime, which carries its connections.
    engine: Box<dyn Operated>,
    runtime: Mutex<Runtime>,
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator({})", self.engine.name())
    }
}

impl Operator {
    /// Connects to the engine of an existing cluster. The outer error: no runtime can be made.
    pub fn connect<T: Operated, E>(attach: impl Future<Output = Result<T, E>>) -> io::Result<Result<Operator, E>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let attached = runtime.block_on(attach);
        Ok(attached.map(|engine| Operator { engine: Box::new(engine), runtime: Mutex::new(runtime) }))
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).block_on(work)
    }

    /// The engine for operators, without password.
    pub fn name(&self) -> String {
        self.engine.name()
    }

    /// `etcd` or `postgresql`.
    pub fn kind(&self) -> &'static str {
        self.engine.kind()
    }

    /// The small keys at present.
    pub fn view(&self) -> Result<View, String> {
        self.wait(self.engine.image())
    }

    /// All members of the engine and their space.
    pub fn members(&self) -> Vec<Member> {
        self.wait(self.engine.members())
    }

    /// Alarms, with the ids of the members that raised them.
    pub fn alarms(&self) -> Result<Vec<(u64, &'static str)>, String> {
        self.wait(self.engine.alarms())
    }

    /// Gives space back. `tell` hears of each step.
    pub fn mend(&self, mut tell: impl FnMut(&str) + Send) -> Result<(), String> {
        self.wait(self.engine.mend(&mut tell))
    }

    /// Changes notes as `decide` says of the present view, one after the other. Returns how many.
    pub fn change(&self, decide: impl Fn(&View) -> Result<Vec<PutNote>, Refused>) -> Result<usize, ChangeError> {
        self.wait(async {
            for _ in 0..DECISIONS {
                let view = self.image().await?;
                let notes = decide(&view).map_err(ChangeError::Refused)?;
                let count = notes.len();
                if self.write(view.meta.history, notes).await? {
                    return Ok(count);
                }
            }
            Err(ChangeError::Contended)
        })
    }

    pub(crate) async fn image(&self) -> Result<View, ChangeError> {
        self.engine.image().await.map_err(ChangeError::Failed)
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

    pub(crate) async fn ask(&self, request: &Request) -> Result<Content, ChangeError> {
        for _ in 0..ATTEMPTS {
            match self.engine.call(request).await {
                Outcome::Answered(answer) => return Ok(answer.content),
                Outcome::Unknown | Outcome::SpaceExhausted => {}
            }
        }
        let trouble = self.engine.trouble().unwrap_or_else(|| "the engine does not answer".to_owned());
        Err(ChangeError::Unknown(trouble))
    }

    /// Begins a new history after the engine went back (docs/engine-protocol.md §8). Returns the lost one.
    pub fn accept_loss(&self, begin: HistoryId) -> Result<HistoryId, ChangeError> {
        self.wait(async {
            let view = self.image().await?;
            let lost = view.meta.history;
            if !self.write(lost, before_history(&view, begin)).await? {
                return Err(ChangeError::Contended);
            }
            match self.ask(&Request { history: lost, body: Body::AcceptLoss(AcceptLoss { lost, begin }) }).await? {
                Content::HistoryBegun => Ok(lost),
                // An attempt without an answer may have begun it.
                Content::OtherHistory(meta) if meta.history == begin => Ok(lost),
                _ => Err(ChangeError::Contended),
            }
        })
    }

    /// What a partition has in the engine, and its owner. Reads all of it.
    pub fn contents(&self, partition: PartitionId) -> Result<Contents, ChangeError> {
        self.wait(async {
            let history = self.image().await?.meta.history;
            match self.ask(&Request { history, body: Body::Read(Read { partition }) }).await? {
                Content::Contents(contents) => Ok(*contents),
                _ => Err(ChangeError::Contended),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rota_engine::Incarnation;

    use super::*;
    use crate::{memory::MemoryEngine, producer_ids::reserve};

    #[test]
    fn no_id_that_a_lost_history_may_have_given_is_given_in_the_next_one() {
        let engine = MemoryEngine::new(HistoryId(1));
        let operator =
            Operator::connect(async { Ok::<_, String>(engine.link()) }).expect("a runtime").expect("an engine");
        let given = |history, process| {
            let (link, view) = (engine.link(), engine.view());
            let block = operator.wait(reserve(&link, HistoryId(history), Incarnation(process), &view, 0));
            block.expect("a block")
        };
        engine.back_up();
        let lost = (0..1_000).fold(0..0, |_, process| given(1, process));
        engine.restore();
        assert_eq!(operator.accept_loss(HistoryId(2)), Ok(HistoryId(1)));
        let next = given(2, 0);
        assert!(next.start > lost.end, "{next:?} after {lost:?}");
        // As often as an operator gives the command.
        assert_eq!(operator.accept_loss(HistoryId(3)), Ok(HistoryId(2)));
        assert!(given(3, 0).start > next.end);
    }
}
