//! The engines as a node uses them.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rota_engine::{Outcome, PartitionId, Request, View};
use tokio::sync::watch;

/// The future of a call.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A replicated engine: a linearizable store with conditional writes, `docs/engine-protocol.md` §2.
///
/// Each call ends within a bounded time, about a second: with the engine's answer, or with an unknown outcome. A load may
/// take longer, as long as parts of it come: one that ends early begins anew, for ever on a slow engine. A call does not
/// send a request again after it may have been sent: the node does that (§2.3).
pub trait Engine: Send + Sync + 'static {
    /// The engine as operators name it, such as `etcd://h1:2379/rota`. Without passwords.
    fn name(&self) -> String;

    /// Carries one request out.
    fn call<'a>(&'a self, request: &'a Request) -> Pending<'a, Outcome>;

    /// Carries several appends to different partitions out, in one transaction of the engine if it can. Each has its own
    /// outcome, in the order of the requests. A lane has one such call at a time; its number picks the connection.
    fn append_all<'a>(&'a self, lane: usize, requests: &'a [Request]) -> Pending<'a, Vec<Outcome>>;

    /// The newest whole image of the small keys; `None` before the first one. Images may be left out. The first one has
    /// the history that requests need, so the engine writes its [`Meta`](rota_engine::Meta) if there is none.
    fn views(&self) -> watch::Receiver<Option<Arc<View>>>;

    /// The small keys at present, however late the watch is. The error says why there are none.
    fn image(&self) -> Pending<'_, Result<View, String>>;

    /// Why the engine does not answer at present, for operators; `None` if it does.
    fn trouble(&self) -> Option<String>;

    /// What operators have to know of the engine although it answers, such as that it may lose what it confirmed.
    fn warning(&self) -> Option<String> {
        None
    }

    /// How many small requests the engine carries out side by side. More would wait for each other, and a beat for them.
    fn small_at_once(&self) -> usize {
        1
    }

    /// Whether the engine says how large its files are, for metrics, even if it does not say its quota.
    fn says_space(&self) -> bool {
        false
    }

    /// Bytes that the load of a partition has so far; `None` if there is none under way, or it is not known.
    fn loaded_bytes(&self, _partition: PartitionId) -> Option<usize> {
        None
    }
}

/// What loads that are under way have so far, by partition.
#[derive(Debug, Default)]
pub struct Loads(Mutex<BTreeMap<PartitionId, usize>>);

impl Loads {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A load begins.
    pub fn begin(&self, partition: PartitionId) -> UnderWay<'_> {
        let under_way = UnderWay { loads: self, partition };
        under_way.came(0);
        under_way
    }

    /// Bytes of a load that is under way.
    pub fn bytes(&self, partition: PartitionId) -> Option<usize> {
        self.lock().get(&partition).copied()
    }
}

/// A load that is under way, until it is dropped.
#[derive(Debug)]
pub struct UnderWay<'a> {
    loads: &'a Loads,
    partition: PartitionId,
}

impl UnderWay<'_> {
    /// It has so many bytes.
    pub fn came(&self, bytes: usize) {
        self.loads.lock().insert(self.partition, bytes);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.loads.lock().remove(&self.partition);
    }
}
