//! PostgreSQL as an engine: requests on their way to the database, and their outcomes.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use rota_cluster::{Endpoint, Loads};
use rota_engine::{
    HistoryId, Outcome, PartitionId, Request, View,
    requests::{Answer, Append, Body, Content, HeadPut, PutChunk, Read, Trim},
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_postgres::config::TargetSessionAttrs;

use crate::{
    failure::Failure,
    line::{Line, Shared},
    load::{self, Spare},
    requests::{Batch, Fenced, OWN, Small, append, chunk, fenced, fenced_answer, small, small_answer, usage},
    schema::{self, PrepareError, Prepared},
    session::Session,
    settings::{Durability, Isolation},
    sql::value,
    url::Config,
    watch as watching,
};

/// What nodes of this version write and read.
pub const FORMAT: u32 = 1;
/// A statement has at most so many appends.
pub const APPENDS_MAX: usize = 64;
/// A statement has at most so many bytes of appends.
pub const APPEND_BYTES_MAX: usize = 4 << 20;
/// A row of a load has at most so much time.
const ROW_MAX: Duration = Duration::from_mins(1);
/// A transaction that another one disturbed is sent again so often, and after such a pause.
const ATTEMPTS: u32 = 10;
const AGAIN: Duration = Duration::from_millis(5);

/// Rows of the first transaction of a deletion. The next one has twice as many after one that took less than [`QUICK`].
const ROWS_MIN: u64 = 8;
const ROWS_MAX: u64 = 4_096;
const QUICK: Duration = Duration::from_millis(50);

/// Why an engine cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The database did not answer as it should.
    Failed(String, Failure),
    /// The database has no tables of a cluster in this schema.
    NoCluster(String, String),
    /// The content was written by a later version of rota.
    NewerFormat(String, u32),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Failed(engine, failure) => write!(f, "engine {engine}: {failure}"),
            OpenError::NoCluster(engine, why) => write!(f, "engine {engine}: {why}"),
            OpenError::NewerFormat(engine, format) => write!(
                f,
                "engine {engine}: its content has format {format}, this rota writes format {FORMAT}: start a newer rota"
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// PostgreSQL as the engine of a cluster. Clones share connections.
#[derive(Clone, Debug)]
pub struct PostgresEngine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// Small keys.
    control: Line,
    /// Snapshots and checks: no chunk delays a beat.
    bulk: Line,
    /// Connections of their own for loads: another request would wait for a load, and end it as too slow.
    spare: Spare,
    /// What loads have so far.
    loads: Loads,
    /// Appends.
    lanes: Vec<Line>,
    views: watch::Sender<Option<Arc<View>>>,
    watch: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in self.watch.get_mut().into_iter().flatten() {
            task.abort();
        }
    }
}

impl PostgresEngine {
    /// Connects, and begins to watch. Must be called within a runtime of tokio, whose tasks then carry the connections.
    pub async fn open(config: Config) -> Result<PostgresEngine, OpenError> {
        let engine = PostgresEngine::attach(config).await?;
        let follow = watching::follow(Arc::clone(&engine.inner.shared), engine.inner.views.clone());
        if let Ok(mut watch) = engine.inner.watch.lock() {
            *watch = Some(tokio::spawn(follow));
        }
        Ok(engine)
    }

    /// Connects for an operator: watches nothing. Errors: there is no cluster.
    pub async fn attach(config: Config) -> Result<PostgresEngine, OpenError> {
        let name = config.name();
        let shared = Shared::new(config);
        let line = |isolation| Line::new(&shared, isolation);
        let lanes = (0..shared.config.lanes.max(1)).map(|_| line(Isolation::Snapshot)).collect();
        let (control, bulk) = (line(Isolation::EachStatement), line(Isolation::Snapshot));
        let (views, _) = watch::channel(None);
        let (spare, loads) = (Spare::default(), Loads::default());
        let inner = Inner { shared, control, bulk, spare, loads, lanes, views, watch: std::sync::Mutex::default() };
        let engine = PostgresEngine { inner: Arc::new(inner) };
        let meta = match engine.image().await {
            Ok(view) => view.meta,
            Err(Failure::Refused(why)) => return Err(OpenError::NoCluster(name, why)),
            Err(failure) => return Err(OpenError::Failed(name, failure)),
        };
        if meta.format > FORMAT {
            return Err(OpenError::NewerFormat(name, meta.format));
        }
        Ok(engine)
    }

    /// Makes the tables of a cluster, or upgrades them.
    pub async fn prepare(config: &Config) -> Result<Prepared, PrepareError> {
        let mut session = writer(config).await?;
        let history = random()?;
        schema::prepare(session.client_mut(), &config.schema, &schema::STEPS, history, FORMAT).await
    }

    /// The small keys at present.
    pub async fn image(&self) -> Result<View, Failure> {
        let look = async {
            let session = self.inner.bulk.session().await?;
            let image = watching::image(&session).await;
            if image.is_err() {
                self.inner.bulk.give_up(&session).await;
            }
            image
        };
        let image = timeout(self.inner.shared.config.timeout * 2, look).await.unwrap_or(Err(Failure::Timeout));
        self.inner.shared.note(&image);
        image
    }

    /// The engine for operators, without password.
    pub fn name(&self) -> String {
        self.inner.shared.config.name()
    }

    /// Why the last call had no answer; `None` if it had one.
    pub fn trouble(&self) -> Option<String> {
        self.inner.shared.trouble()
    }

    /// What the database says of itself.
    pub fn durability(&self) -> Option<Durability> {
        self.inner.shared.durability()
    }

    /// The newest whole image of the small keys; `None` before the first one.
    pub fn views(&self) -> watch::Receiver<Option<Arc<View>>> {
        self.inner.views.subscribe()
    }

    /// Every host, asked by itself: what it says of itself with the sizes of the database and of the tables.
    pub async fn hosts(&self) -> Vec<(Endpoint, Result<(Durability, u64, u64), Failure>)> {
        let config = &self.inner.shared.config;
        let mut hosts = Vec::new();
        for endpoint in &config.endpoints {
            let asked = timeout(config.timeout, host(config, endpoint)).await.unwrap_or(Err(Failure::Timeout));
            hosts.push((endpoint.clone(), asked));
        }
        hosts
    }

    /// Gives the space of deleted rows back to the tables.
    pub async fn vacuum(&self, table: &str) -> Result<(), Failure> {
        let session = self.inner.bulk.session().await?;
        session.ask("SET statement_timeout = 0;").await?;
        let ended = session.ask(&format!("VACUUM {table};")).await;
        // The time for statements is the session's.
        self.inner.bulk.give_up(&session).await;
        ended?;
        // A table of another role is skipped with no more than a warning.
        match session.warning() {
            None => Ok(()),
            Some(warning) => Err(Failure::Refused(format!(
                "table {table} is not vacuumed: PostgreSQL warned: {warning}: run it as the owner of the tables"
            ))),
        }
    }

    /// Carries a request out: one attempt, which ends within [`Config::timeout`]. A load takes as long as its rows come.
    pub async fn call(&self, request: &Request) -> Outcome {
        if let Body::Read(read) = &request.body {
            let ended = self.load(request.history, read).await;
            self.inner.shared.note(&ended);
            return outcome(ended);
        }
        let line = self.line(&request.body);
        let mut used = None;
        let attempt = async {
            for _ in 1..ATTEMPTS {
                let session = used.insert(line.session().await?);
                match session.confirmed(self.carry_out(session, request).await) {
                    Err(Failure::Conflict) => tokio::time::sleep(AGAIN).await,
                    ended => return ended,
                }
            }
            Err(Failure::Conflict)
        };
        let ended = timeout(self.inner.shared.config.timeout, attempt).await.unwrap_or(Err(Failure::Timeout));
        outcome(self.ended(line, used.as_ref(), ended).await)
    }

    /// Loads a partition. A row that does not come in time has more time in the next attempt: the time grows until a load
    /// on a database that is that slow ends.
    async fn load(&self, history: HistoryId, read: &Read) -> Result<Answer, Failure> {
        let Inner { shared, spare, loads, .. } = &*self.inner;
        let mut within = shared.config.timeout;
        loop {
            // Others wait for their turn as long as it takes. A load that is given up ends its connection.
            let _turn = spare.turns.acquire().await.map_err(|_closed| Failure::Timeout)?;
            let session = load::connection(shared, spare.take()).await?;
            let under_way = loads.begin(read.partition);
            let ended = load::read(&session, history, read, within, &under_way).await;
            match session.confirmed(ended) {
                Ok(answer) => {
                    spare.keep(session);
                    return Ok(answer);
                }
                Err(Failure::Timeout) if within < ROW_MAX => {
                    within = (within * 2).min(ROW_MAX);
                    shared.note(&Err::<(), _>(Failure::Timeout));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Bytes that the load of a partition has, if one is under way.
    pub fn loaded_bytes(&self, partition: PartitionId) -> Option<usize> {
        self.inner.loads.bytes(partition)
    }

    /// Carries appends of a lane out, as few statements, one after the other. Two appends to one partition are never in
    /// one statement.
    pub async fn append_all(&self, lane: usize, requests: &[Request]) -> Vec<Outcome> {
        let lanes = &self.inner.lanes;
        let mut outcomes = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(batch(rest));
            rest = later;
            outcomes.extend(self.append_together(&lanes[lane % lanes.len()], now).await);
        }
        outcomes
    }

    async fn append_together(&self, line: &Line, requests: &[Request]) -> Vec<Outcome> {
        let appends: Vec<&Append> = requests.iter().filter_map(appended).collect();
        let [first, ..] = requests else { return Vec::new() };
        if appends.len() != requests.len() {
            // No append, and so alone in its batch.
            return vec![self.call(first).await];
        }
        let mut used = None;
        let attempt = async {
            for _ in 1..ATTEMPTS {
                let session = used.insert(line.session().await?);
                match session.confirmed(append_on(session, first.history, &appends).await) {
                    Err(Failure::Conflict) => tokio::time::sleep(AGAIN).await,
                    ended => return ended,
                }
            }
            Err(Failure::Conflict)
        };
        let ended = timeout(self.inner.shared.config.timeout, attempt).await.unwrap_or(Err(Failure::Timeout));
        match self.ended(line, used.as_ref(), ended).await {
            Ok(answers) => answers.into_iter().map(Outcome::Answered).collect(),
            Err(_) => vec![Outcome::Unknown; requests.len()],
        }
    }

    /// Gives a connection up whose request has failed, and keeps why.
    async fn ended<T>(
        &self,
        line: &Line,
        used: Option<&Arc<Session>>,
        ended: Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.inner.shared.note(&ended);
        if let (Some(session), Err(failure)) = (used, &ended) {
            if *failure == Failure::Timeout {
                session.cancel();
            }
            line.give_up(session).await;
        }
        ended
    }

    fn line(&self, body: &Body) -> &Line {
        match body {
            Body::Register(_)
            | Body::Beat(_)
            | Body::Claim(_)
            | Body::Release(_)
            | Body::Note(_)
            | Body::AcceptLoss(_) => &self.inner.control,
            Body::Append(append) => self.lane(append.partition),
            Body::Read(_)
            | Body::Check(_)
            | Body::Chunk(_)
            | Body::Head(_)
            | Body::Trim(_)
            | Body::Sweep(_)
            | Body::Usage(_) => &self.inner.bulk,
        }
    }

    fn lane(&self, partition: PartitionId) -> &Line {
        let lanes = &self.inner.lanes;
        &lanes[partition.0.unsigned_abs() as usize % lanes.len()]
    }

    async fn carry_out(&self, session: &Session, request: &Request) -> Result<Answer, Failure> {
        let (history, config) = (request.history, &self.inner.shared.config);
        match &request.body {
            Body::Register(body) => on_small_keys(session, config, history, body).await,
            Body::Beat(body) => on_small_keys(session, config, history, body).await,
            Body::Claim(body) => on_small_keys(session, config, history, body).await,
            Body::Release(body) => on_small_keys(session, config, history, body).await,
            Body::Note(body) => on_small_keys(session, config, history, body).await,
            Body::AcceptLoss(body) => on_small_keys(session, config, body.lost, body).await,
            Body::Append(body) => {
                let mut answers = append_on(session, history, &[body]).await?;
                answers.pop().ok_or(Failure::Malformed("no answer"))
            }
            // On a connection of its own.
            Body::Read(body) => self.load(history, body).await,
            Body::Chunk(body) => chunk_on(session, history, body).await,
            Body::Check(body) => on_partition(session, history, body).await,
            Body::Head(body) => {
                let answer = on_partition(session, history, body).await?;
                if answer.content == Content::HeadPut(HeadPut::Written) {
                    let trim = Trim { partition: body.partition, token: body.token };
                    delete_on(session, history, &trim).await?;
                }
                Ok(answer)
            }
            Body::Trim(body) => delete_on(session, history, body).await,
            Body::Sweep(body) => delete_on(session, history, body).await,
            Body::Usage(body) => on_partition(session, history, body).await,
        }
    }
}

async fn on_small_keys(
    session: &Session,
    config: &Config,
    history: HistoryId,
    request: &dyn Small,
) -> Result<Answer, Failure> {
    let told = session.ask(&small(request, history, &config.schema)).await?;
    small_answer(request, history, &told)
}

async fn on_partition(session: &Session, history: HistoryId, request: &dyn Fenced) -> Result<Answer, Failure> {
    fenced_answer(request, history, &session.ask(&fenced(request, history)).await?)
}

/// Deletes, some rows in each transaction. An attempt that its time ends has deleted those of the transactions before.
async fn delete_on<'a, R>(session: &Session, history: HistoryId, of: &'a R) -> Result<Answer, Failure>
where
    Batch<&'a R>: Fenced,
{
    let mut rows = ROWS_MIN;
    loop {
        let (request, began) = (Batch { of, rows }, Instant::now());
        let told = session.ask(&fenced(&request, history)).await?;
        if told.count(OWN + 1)? < rows {
            return fenced_answer(&request, history, &told);
        }
        if began.elapsed() < QUICK {
            rows = (rows * 2).min(ROWS_MAX);
        }
    }
}

async fn append_on(session: &Session, history: HistoryId, appends: &[&Append]) -> Result<Vec<Answer>, Failure> {
    let (statement, _) = session.prepared().await?;
    let columns = append::Columns::new(history, appends);
    let rows = session.client().query(statement, &columns.parameters()).await?;
    let mut answers = Vec::with_capacity(appends.len());
    for append in appends {
        answers.push(match append::written(append, &rows) {
            Some(answer) => answer,
            None => append::refused(history, &session.ask(&append::why(append)).await?)?,
        });
    }
    Ok(answers)
}

async fn chunk_on(session: &Session, history: HistoryId, put: &PutChunk) -> Result<Answer, Failure> {
    let (_, statement) = session.prepared().await?;
    let columns = chunk::Columns::new(history, put);
    match chunk::written(&session.client().query(statement, &columns.parameters()).await?) {
        Some(answer) => Ok(answer),
        None => on_partition(session, history, &chunk::Why(put.partition)).await,
    }
}

/// The host that takes writes, for an operator. Each host has the time of an attempt.
async fn writer(config: &Config) -> Result<Session, Failure> {
    let mut last = Failure::Connection("no hosts".to_owned());
    for endpoint in &config.endpoints {
        let connecting = Session::open(config, endpoint, TargetSessionAttrs::ReadWrite, Isolation::EachStatement);
        match timeout(config.timeout, connecting).await.unwrap_or(Err(Failure::Timeout)) {
            Err(failure) if !matches!(failure, Failure::Refused(_)) => last = failure,
            ended => return ended,
        }
    }
    Err(last)
}

async fn host(config: &Config, endpoint: &Endpoint) -> Result<(Durability, u64, u64), Failure> {
    let session = Session::open(config, endpoint, TargetSessionAttrs::Any, Isolation::Snapshot).await?;
    let told = session.ask(&format!("SET search_path TO \"{}\";{}", config.schema, usage::SIZES)).await?;
    let row = told.last()?;
    Ok((session.durability.clone(), value(row, 0)?, value(row, 1)?))
}

fn appended(request: &Request) -> Option<&Append> {
    match &request.body {
        Body::Append(append) => Some(append),
        _ => None,
    }
}

/// How many of the first requests go into one statement.
fn batch(requests: &[Request]) -> usize {
    let (mut bytes, mut partitions) = (0, BTreeSet::new());
    let fits = |request: &&Request| {
        let Some(append) = appended(request) else { return false };
        bytes += append.bytes.len();
        request.history == requests[0].history
            && partitions.insert(append.partition)
            && partitions.len() <= APPENDS_MAX
            && bytes <= APPEND_BYTES_MAX
    };
    requests.iter().take_while(fits).count().max(1)
}

/// Everything but an answer is an unknown outcome.
fn outcome(ended: Result<Answer, Failure>) -> Outcome {
    match ended {
        Ok(answer) => Outcome::Answered(answer),
        Err(Failure::Database { code, .. }) if code == DISK_FULL => Outcome::SpaceExhausted,
        Err(_) => Outcome::Unknown,
    }
}

/// The SQLSTATE of a disk without space.
const DISK_FULL: &str = "53100";

pub(crate) fn random() -> Result<u128, Failure> {
    let bytes = rota_security::random::bytes::<16>().ok_or(Failure::Malformed("no random numbers"))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().as_u128())
}
