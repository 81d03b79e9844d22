//! An engine in memory for several nodes of one process, with faults on demand.
//!
//! [`MemoryEngine`] is the engine; each node has a [`MemoryLink`] to it, whose faults concern that node alone.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use rota_engine::{Answer, HistoryId, Memory, Outcome, PartitionId, Request, View, requests::Body};
use tokio::sync::watch;

use crate::engine::{Engine, Loads, Pending};

/// A call without an answer has an unknown outcome after this time.
const UNANSWERED: Duration = Duration::from_secs(1);

/// Faults of one link. All are off at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Nothing passes in either direction: calls get no answer and are not carried out.
    pub is_silent: bool,
    /// Requests fail at once, as if no member of the engine ran. So many have; `None`: they do not fail.
    pub refused: Option<u32>,
    /// The watch shows nothing new.
    pub is_watch_stalled: bool,
    /// A watch that begins shows no image at all.
    pub is_watch_blind: bool,
    /// How long a request is on its way before the engine carries it out.
    pub latency: Duration,
    /// So many next requests do not arrive.
    pub lost_requests: u32,
    /// So many next requests are carried out, but their answers do not arrive.
    pub lost_answers: u32,
    /// So many next requests are carried out, and the engine says that it has no space.
    pub exhausted: u32,
    /// How much longer a load takes.
    pub load: Duration,
    /// So many next requests leave a twin, which the engine carries out at [`MemoryEngine::carry_out_twins`].
    pub twins: u32,
}

struct Inner {
    memory: Memory,
    links: Vec<Weak<Shown>>,
    twins: Vec<Request>,
}

/// What a link shows, and its faults.
struct Shown {
    views: watch::Sender<Option<Arc<View>>>,
    no_views: watch::Sender<Option<Arc<View>>>,
    faults: Mutex<Faults>,
    loads: Loads,
}

/// See the module.
#[derive(Clone)]
pub struct MemoryEngine {
    inner: Arc<Mutex<Inner>>,
}

/// A node's way to a [`MemoryEngine`].
#[derive(Clone)]
pub struct MemoryLink {
    engine: MemoryEngine,
    shown: Arc<Shown>,
}

impl fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryEngine(revision {})", self.view().revision.0)
    }
}

impl fmt::Debug for MemoryLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryLink({:?})", lock(&self.shown.faults))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryEngine {
    /// An engine without content.
    pub fn new(history: HistoryId) -> MemoryEngine {
        let inner = Inner { memory: Memory::new(history), links: Vec::new(), twins: Vec::new() };
        MemoryEngine { inner: Arc::new(Mutex::new(inner)) }
    }

    /// A link of a node to the engine.
    pub fn link(&self) -> MemoryLink {
        let mut inner = lock(&self.inner);
        let (views, _) = watch::channel(Some(Arc::new(inner.memory.view())));
        let (no_views, _) = watch::channel(None);
        let shown = Arc::new(Shown { views, no_views, faults: Mutex::default(), loads: Loads::default() });
        inner.links.push(Arc::downgrade(&shown));
        MemoryLink { engine: self.clone(), shown }
    }

    /// The small keys at present.
    pub fn view(&self) -> View {
        lock(&self.inner).memory.view()
    }

    /// Looks at the engine's content.
    pub fn inspect<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&lock(&self.inner).memory)
    }

    /// Carries a request out at once, as an operator or a test does.
    pub fn carry_out(&self, request: &Request) -> Answer {
        let mut inner = lock(&self.inner);
        let answer = inner.memory.call(request);
        if is_seen(&request.body) {
            inner.publish();
        }
        answer
    }

    /// The delayed twins arrive, in the order in which they were sent. Returns how many.
    pub fn carry_out_twins(&self) -> usize {
        let twins = std::mem::take(&mut lock(&self.inner).twins);
        for twin in &twins {
            self.carry_out(twin);
        }
        twins.len()
    }

    /// An operator copies the content.
    pub fn back_up(&self) {
        lock(&self.inner).memory.back_up();
    }

    /// The engine goes back to the copy.
    pub fn restore(&self) {
        let mut inner = lock(&self.inner);
        inner.memory.restore();
        inner.publish();
    }
}

/// Whether the watch shows what the request writes.
fn is_seen(body: &Body) -> bool {
    match body {
        Body::Register(_) | Body::Beat(_) | Body::Claim(_) | Body::Release(_) | Body::Note(_) | Body::AcceptLoss(_) => {
            true
        }
        Body::Append(_)
        | Body::Read(_)
        | Body::Check(_)
        | Body::Chunk(_)
        | Body::Head(_)
        | Body::Trim(_)
        | Body::Sweep(_)
        | Body::Usage(_) => false,
    }
}

impl Inner {
    /// Shows the small keys to every node whose watch is not stalled.
    fn publish(&mut self) {
        let view = Arc::new(self.memory.view());
        self.links.retain(|link| {
            let Some(shown) = link.upgrade() else { return false };
            let faults = lock(&shown.faults);
            if !faults.is_watch_stalled && !faults.is_silent {
                shown.views.send_replace(Some(Arc::clone(&view)));
            }
            true
        });
    }
}

/// What becomes of one request.
enum Fate {
    Answered,
    RequestLost,
    Refused,
    AnswerLost,
    Exhausted,
}

impl Faults {
    fn fate(&mut self) -> Fate {
        let takes = |count: &mut u32| {
            let strikes = *count > 0;
            *count -= u32::from(strikes);
            strikes
        };
        if let Some(refused) = &mut self.refused {
            *refused += 1;
            Fate::Refused
        } else if self.is_silent || takes(&mut self.lost_requests) {
            Fate::RequestLost
        } else if takes(&mut self.lost_answers) {
            Fate::AnswerLost
        } else if takes(&mut self.exhausted) {
            Fate::Exhausted
        } else {
            Fate::Answered
        }
    }
}

impl MemoryLink {
    /// Changes the faults of this link. A watch that is not stalled any more shows the present.
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.shown.faults));
        lock(&self.engine.inner).publish();
    }

    /// The faults that are left.
    pub fn faults(&self) -> Faults {
        lock(&self.shown.faults).clone()
    }

    /// The engine.
    pub fn engine(&self) -> &MemoryEngine {
        &self.engine
    }

    async fn carry_out(&self, request: &Request) -> Outcome {
        let latency = lock(&self.shown.faults).latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let fate = {
            let mut faults = lock(&self.shown.faults);
            if faults.twins > 0 && !faults.is_silent {
                faults.twins -= 1;
                lock(&self.engine.inner).twins.push(request.clone());
            }
            faults.fate()
        };
        match fate {
            Fate::Answered => Outcome::Answered(self.engine.carry_out(request)),
            Fate::Exhausted => {
                self.engine.carry_out(request);
                Outcome::SpaceExhausted
            }
            Fate::Refused => Outcome::Unknown,
            Fate::AnswerLost => {
                self.engine.carry_out(request);
                tokio::time::sleep(UNANSWERED).await;
                Outcome::Unknown
            }
            Fate::RequestLost => {
                tokio::time::sleep(UNANSWERED).await;
                Outcome::Unknown
            }
        }
    }
}

impl Engine for MemoryLink {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn call<'a>(&'a self, request: &'a Request) -> Pending<'a, Outcome> {
        Box::pin(async {
            let Body::Read(read) = &request.body else { return self.carry_out(request).await };
            let _under_way = self.shown.loads.begin(read.partition);
            let load = lock(&self.shown.faults).load;
            tokio::time::sleep(load).await;
            self.carry_out(request).await
        })
    }

    fn append_all<'a>(&'a self, _lane: usize, requests: &'a [Request]) -> Pending<'a, Vec<Outcome>> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(requests.len());
            for request in requests {
                outcomes.push(self.carry_out(request).await);
            }
            outcomes
        })
    }

    fn views(&self) -> watch::Receiver<Option<Arc<View>>> {
        if self.faults().is_watch_blind { self.shown.no_views.subscribe() } else { self.shown.views.subscribe() }
    }

    fn image(&self) -> Pending<'_, Result<View, String>> {
        Box::pin(async {
            let Faults { is_silent, latency, .. } = self.faults();
            tokio::time::sleep(if is_silent { UNANSWERED } else { latency }).await;
            match self.trouble() {
                Some(trouble) => Err(trouble),
                None => Ok(self.engine.view()),
            }
        })
    }

    fn small_at_once(&self) -> usize {
        8
    }

    fn loaded_bytes(&self, partition: PartitionId) -> Option<usize> {
        self.shown.loads.bytes(partition)
    }

    fn trouble(&self) -> Option<String> {
        lock(&self.shown.faults).is_silent.then(|| "no answer (a test silenced the engine)".to_owned())
    }
}
