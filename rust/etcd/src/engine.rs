//! etcd as an engine: requests on their way to a member, and their outcomes.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use rota_cluster::{Loads, UnderWay};
use rota_engine::{
    HistoryId, Meta, Outcome, PartitionId, Request, Revision, View,
    requests::{Answer, Append, Body, Content, PutHead, Read, Trim, Usage},
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    compaction::{self, Own},
    grpc::{Failure, code},
    image::Image,
    keys::{self, Keys},
    line::{Line, Shared},
    load::{Pages, load},
    proto::{RangeRequest, RangeResponse, TxnRequest, TxnResponse},
    requests::{self, Mapped, check, guarded, head::HeadOver, tail, trim::TrimOver},
    space,
    txn::{self, Malformed, is_absent, put, when},
    url::Config,
    values::Value,
    watch::Watcher,
};

/// What nodes of this version write and read.
pub const FORMAT: u32 = 1;
/// A transaction has at most so many appends.
pub const APPENDS_MAX: usize = 32;
/// A transaction has at most so many bytes of appends. etcd takes 1.5 MiB.
pub const APPEND_BYTES_MAX: usize = 1 << 20;

/// Other clusters that an error names.
const PREFIXES_MAX: usize = 8;

const TXN: &str = "/etcdserverpb.KV/Txn";
const RANGE: &str = "/etcdserverpb.KV/Range";

/// Why an engine cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No member answered as it should.
    Failed(String, Failure),
    /// No cluster has this prefix. The prefixes that some have.
    NoCluster(String, Vec<String>),
    /// The content was written by a later version of rota.
    NewerFormat(String, u32),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Failed(engine, failure) => write!(f, "engine {engine}: {failure}"),
            OpenError::NoCluster(engine, others) if others.is_empty() => {
                write!(
                    f,
                    "engine {engine}: no cluster has this prefix: start a server with it first, or give another one"
                )
            }
            OpenError::NoCluster(engine, others) => {
                let others = others.join(", ");
                write!(f, "engine {engine}: no cluster has this prefix; there are {others}")
            }
            OpenError::NewerFormat(engine, format) => write!(
                f,
                "engine {engine}: its content has format {format}, this rota writes format {FORMAT}: start a newer rota"
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// etcd as the engine of a cluster. Clones share connections.
#[derive(Clone, Debug)]
pub struct EtcdEngine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    keys: Keys,
    /// Small requests: no chunk delays a beat.
    control: Line,
    /// Loads and snapshots.
    bulk: Line,
    /// What loads have so far.
    loads: Loads,
    /// Appends.
    lanes: Vec<Line>,
    views: watch::Sender<Option<Arc<View>>>,
    own: Arc<Own>,
    /// The watch and the compactions.
    tasks: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in self.tasks.get_mut().into_iter().flatten() {
            task.abort();
        }
    }
}

impl EtcdEngine {
    /// Connects, writes a first history if there is none, and begins to watch. Must be called within a runtime of tokio,
    /// whose tasks then carry the connections.
    pub async fn open(config: Config) -> Result<EtcdEngine, OpenError> {
        let name = config.name();
        let engine = EtcdEngine::of(config);
        let meta = engine.begin().await.map_err(|failure| OpenError::Failed(name.clone(), failure))?;
        if meta.format > FORMAT {
            return Err(OpenError::NewerFormat(name, meta.format));
        }
        engine.watch();
        Ok(engine)
    }

    /// Connects for an operator: writes nothing, and watches nothing. Errors: there is no cluster.
    pub async fn attach(config: Config) -> Result<EtcdEngine, OpenError> {
        let name = config.name();
        let engine = EtcdEngine::of(config);
        let failed = |failure| OpenError::Failed(name.clone(), failure);
        let meta = engine.image().await.map_err(failed)?.meta;
        if meta.history == HistoryId(0) {
            return Err(OpenError::NoCluster(name.clone(), engine.prefixes().await));
        }
        if meta.format > FORMAT {
            return Err(OpenError::NewerFormat(name, meta.format));
        }
        Ok(engine)
    }

    fn of(config: Config) -> EtcdEngine {
        let (keys, shared) = (Keys::new(&config.prefix), Shared::new(config));
        let lanes = (0..shared.config.lanes.max(1)).map(|lane| Line::new(&shared, lane)).collect();
        let (control, bulk) = (Line::new(&shared, 0), Line::new(&shared, 1));
        let (views, _) = watch::channel(None);
        let (own, tasks) = (Arc::default(), std::sync::Mutex::default());
        let inner = Inner { shared, keys, control, bulk, loads: Loads::default(), lanes, views, own, tasks };
        EtcdEngine { inner: Arc::new(inner) }
    }

    /// The small keys at present, linearizable. Each attempt goes to another member.
    pub async fn image(&self) -> Result<View, Failure> {
        let view = self.inner.keys.view();
        let request = RangeRequest { key: view.start, range_end: view.end, ..RangeRequest::default() };
        let answer = self.ranged(&request).await?;
        let header = answer.header.as_ref().ok_or(Failure::Malformed("a range without a header"))?;
        let image = Image::read(&self.inner.keys, &answer.kvs);
        Ok(image.view(Revision(header.revision as u64))?)
    }

    /// Reads keys. Each attempt goes to another member.
    async fn ranged(&self, request: &RangeRequest) -> Result<RangeResponse, Failure> {
        let mut last = Failure::Timeout;
        for _ in 0..=self.inner.shared.config.endpoints.len() {
            match self.inner.control.unary(RANGE, request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// The prefixes of some clusters, for an operator who gave a wrong one. None if the user may not look.
    async fn prefixes(&self) -> Vec<String> {
        let (mut found, mut start) = (Vec::new(), Bytes::from_static(b"/"));
        for _ in 0..PREFIXES_MAX {
            let request = RangeRequest {
                key: start.clone(),
                range_end: Bytes::from_static(b"0"),
                limit: 1,
                keys_only: true,
                ..RangeRequest::default()
            };
            let Ok(answer) = self.ranged(&request).await else { break };
            let Some(kv) = answer.kvs.first() else { break };
            let Some(prefix) = keys::prefix_of(&kv.key) else { break };
            // The next prefix: `0` follows the slash.
            start = format!("{prefix}0").into();
            found.push(prefix);
        }
        found
    }

    /// The first node to start writes a history; all others find it.
    async fn begin(&self) -> Result<Meta, Failure> {
        let keys = &self.inner.keys;
        let history = HistoryId(random()?);
        let begin = vec![put(keys.history(), history.encode()), put(keys.format(), FORMAT.encode())];
        let begin = when(vec![is_absent(keys.history())], begin, requests::read_meta(keys));
        let mut last = Failure::Timeout;
        // Each attempt goes to another member. A twin of the first one finds what it wrote.
        for _ in 0..=self.inner.shared.config.endpoints.len() {
            match self.txn(&self.inner.control, &begin).await {
                Ok(answer) if answer.succeeded => return Ok(Meta { history, format: FORMAT }),
                Ok(answer) => return Ok(requests::meta_at(&answer.responses, 0)?),
                Err(failure @ Failure::Refused(_)) => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    fn watch(&self) {
        let Inner { shared, keys, views, own, .. } = &*self.inner;
        let watcher = Watcher::new(Arc::clone(shared), keys.clone(), views.clone());
        if let Ok(mut tasks) = self.inner.tasks.lock() {
            tasks.push(tokio::spawn(watcher.run()));
            if let Some(keep) = shared.config.keep {
                let compactions = compaction::run(Arc::clone(shared), Arc::clone(own), views.subscribe(), keep);
                tasks.push(tokio::spawn(compactions));
            }
        }
    }

    /// The engine for operators, without password.
    pub fn name(&self) -> String {
        self.inner.shared.config.name()
    }

    /// Why the last call had no answer; `None` if it had one.
    pub fn trouble(&self) -> Option<String> {
        self.inner.shared.trouble()
    }

    /// The newest whole image of what nodes watch; `None` before the first one.
    pub fn views(&self) -> watch::Receiver<Option<Arc<View>>> {
        self.inner.views.subscribe()
    }

    /// The keys of the cluster.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub(crate) fn control(&self) -> &Line {
        &self.inner.control
    }

    /// Carries a request out: one attempt, which ends within [`Config::timeout`]. A load takes as long as its pages come.
    pub async fn call(&self, request: &Request) -> Outcome {
        let ended = self.attempt(request).await;
        self.inner.shared.note(&ended);
        outcome(ended)
    }

    async fn attempt(&self, request: &Request) -> Result<Answer, Failure> {
        let (history, control, bulk) = (request.history, &self.inner.control, &self.inner.bulk);
        match &request.body {
            Body::Register(body) => self.one(control, history, body).await,
            Body::Beat(body) => {
                self.inner.own.beats(body.node);
                self.one(control, history, body).await
            }
            Body::Claim(body) => self.one(control, history, body).await,
            Body::Append(body) => self.one(self.lane(body.partition), history, body).await,
            Body::Read(body) => self.read(history, body).await,
            Body::Check(body) => {
                let txn = check::transaction(body, &self.inner.keys, history);
                Ok(check::answer(&self.txn(control, &txn).await?, history)?)
            }
            Body::Chunk(body) => self.one(bulk, history, body).await,
            Body::Head(body) => self.head(history, body).await,
            Body::Trim(body) => self.trim(history, body).await,
            Body::Sweep(body) => self.one(bulk, history, body).await,
            Body::Release(body) => self.one(control, history, body).await,
            Body::Usage(Usage) => self.usage(history).await,
            Body::Note(body) => self.one(control, history, body).await,
            Body::AcceptLoss(body) => self.one(control, body.lost, body).await,
        }
    }

    /// Carries appends of a lane out, as few transactions, one after the other. Two appends to one partition are never in
    /// one transaction.
    pub async fn append_all(&self, lane: usize, requests: &[Request]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(batch(rest));
            rest = later;
            outcomes.extend(self.append_together(lane, now).await);
        }
        outcomes
    }

    async fn append_together(&self, lane: usize, requests: &[Request]) -> Vec<Outcome> {
        let appends = requests.iter().map_while(|request| match &request.body {
            Body::Append(append) => Some(append),
            _ => None,
        });
        let appends: Vec<&Append> = appends.collect();
        let [first, ..] = requests else { return Vec::new() };
        if appends.len() != requests.len() {
            // No append, and so alone in its batch.
            return vec![self.call(first).await];
        }
        let mapped: Vec<&dyn Mapped> = appends.iter().map(|append| *append as &dyn Mapped).collect();
        let lanes = &self.inner.lanes;
        match self.together(&lanes[lane % lanes.len()], first.history, &mapped).await {
            Ok(answers) => answers.into_iter().map(Outcome::Answered).collect(),
            Err(failure) => vec![outcome(Err(failure)); requests.len()],
        }
    }

    fn lane(&self, partition: PartitionId) -> &Line {
        let lanes = &self.inner.lanes;
        &lanes[partition.0.unsigned_abs() as usize % lanes.len()]
    }

    /// One request as one transaction.
    async fn one(&self, line: &Line, history: HistoryId, request: &dyn Mapped) -> Result<Answer, Failure> {
        let mut answers = self.together(line, history, &[request]).await?;
        answers.pop().ok_or(Failure::Malformed("no answer"))
    }

    async fn together(&self, line: &Line, history: HistoryId, mapped: &[&dyn Mapped]) -> Result<Vec<Answer>, Failure> {
        let keys = &self.inner.keys;
        let answer = self.txn(line, &guarded(keys, history, mapped)).await?;
        Ok(requests::answers(keys, &answer, mapped)?)
    }

    async fn txn(&self, line: &Line, request: &TxnRequest) -> Result<TxnResponse, Failure> {
        line.unary(TXN, request).await
    }

    async fn read(&self, history: HistoryId, request: &Read) -> Result<Answer, Failure> {
        let pages = Paged { line: &self.inner.bulk, load: self.inner.loads.begin(request.partition) };
        load(&pages, &self.inner.keys, history, request, self.inner.shared.config.timeout).await
    }

    /// Bytes that the load of a partition has, if one is under way.
    pub fn loaded_bytes(&self, partition: PartitionId) -> Option<usize> {
        self.inner.loads.bytes(partition)
    }

    async fn head(&self, history: HistoryId, put: &PutHead) -> Result<Answer, Failure> {
        match self.tail(history, put.partition).await? {
            Ok(tail) => self.one(&self.inner.bulk, history, &HeadOver { put, tail }).await,
            Err(answer) => Ok(answer),
        }
    }

    async fn trim(&self, history: HistoryId, trim: &Trim) -> Result<Answer, Failure> {
        match self.tail(history, trim.partition).await? {
            Ok(tail) => self.one(&self.inner.bulk, history, &TrimOver { trim, tail }).await,
            Err(answer) => Ok(answer),
        }
    }

    async fn tail(&self, history: HistoryId, partition: PartitionId) -> Result<Result<tail::Tail, Answer>, Failure> {
        let answer = self.txn(&self.inner.bulk, &tail::transaction(&self.inner.keys, history, partition)).await?;
        let revision = txn::revision(&answer)?;
        let tail = tail::answer(&answer)?;
        Ok(tail.map_err(|meta| Answer { revision, content: Content::OtherHistory(meta) }))
    }

    async fn usage(&self, history: HistoryId) -> Result<Answer, Failure> {
        let keys = &self.inner.keys;
        let read = requests::read_meta(keys);
        let asked = when(vec![requests::is_history(keys, history)], read.clone(), read);
        let answer = self.txn(&self.inner.control, &asked).await?;
        let revision = txn::revision(&answer)?;
        if !answer.succeeded {
            let meta = requests::meta_at(&answer.responses, 0)?;
            return Ok(Answer { revision, content: Content::OtherHistory(meta) });
        }
        let used = space::used(&self.inner.shared).await?;
        Ok(Answer { revision, content: Content::Used(used) })
    }
}

/// The pages of a partition's load.
struct Paged<'a> {
    line: &'a Line,
    load: UnderWay<'a>,
}

impl Pages for Paged<'_> {
    async fn txn(&self, request: &TxnRequest, within: Duration) -> Result<TxnResponse, Failure> {
        self.line.unary_within(TXN, request, within).await
    }

    async fn range(&self, request: &RangeRequest, within: Duration) -> Result<RangeResponse, Failure> {
        self.line.unary_within(RANGE, request, within).await
    }

    fn came(&self, bytes: usize) {
        self.load.came(bytes);
    }
}

/// How many of the first requests go into one transaction.
fn batch(requests: &[Request]) -> usize {
    let (mut bytes, mut partitions) = (0, BTreeSet::new());
    let fits = |request: &&Request| {
        let Body::Append(append) = &request.body else { return false };
        bytes += append.bytes.len();
        request.history == requests[0].history
            && partitions.insert(append.partition)
            && partitions.len() <= APPENDS_MAX
            && bytes <= APPEND_BYTES_MAX
    };
    // One that does not fit goes alone, and etcd says so.
    requests.iter().take_while(fits).count().max(1)
}

/// Everything but an answer is an unknown outcome. etcd says that it has no space also of a transaction that it has
/// carried out.
fn outcome(ended: Result<Answer, Failure>) -> Outcome {
    match ended {
        Ok(answer) => Outcome::Answered(answer),
        Err(Failure::Status { code: code::RESOURCE_EXHAUSTED, message }) if message.contains("space exceeded") => {
            Outcome::SpaceExhausted
        }
        Err(_) => Outcome::Unknown,
    }
}

pub(crate) fn random() -> Result<u128, Failure> {
    let bytes = rota_security::random::bytes::<16>().ok_or(Failure::Malformed("no random numbers"))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().as_u128())
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        Failure::Malformed(malformed.0)
    }
}
