//! An engine whose appends ignore the owner: what the check of histories must find.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rota_cluster::{Engine, Pending};
use rota_engine::{
    Outcome, Request, Revision, View,
    requests::{Append, Body, Content},
};
use rota_etcd::{
    Config, EtcdEngine, Failure,
    grpc::Connection,
    keys::Keys,
    proto::{TxnRequest, TxnResponse},
    requests::{Mapped, answers, guarded},
    txn::Malformed,
};
use tokio::sync::{Mutex, watch};

/// See the module.
pub struct Unfenced {
    engine: EtcdEngine,
    config: Config,
    connection: Mutex<Option<Arc<Connection>>>,
    next: AtomicUsize,
}

struct NoFence<'a>(&'a Append);

impl Mapped for NoFence<'_> {
    fn transaction(&self, keys: &Keys) -> TxnRequest {
        let mut transaction = self.0.transaction(keys);
        let fence = transaction.compare.remove(0);
        assert_eq!(fence.key, keys.part(self.0.partition));
        transaction
    }

    fn answer(&self, keys: &Keys, answer: &TxnResponse, revision: Revision) -> Result<Content, Malformed> {
        self.0.answer(keys, answer, revision)
    }
}

impl Unfenced {
    pub fn new(engine: EtcdEngine, config: Config) -> Unfenced {
        Unfenced { engine, config, connection: Mutex::default(), next: AtomicUsize::new(0) }
    }

    async fn append(&self, request: &Request, append: &Append) -> Result<Outcome, Failure> {
        let mut kept = self.connection.lock().await;
        let connection = if let Some(connection) = kept.take() {
            connection
        } else {
            let next = self.next.fetch_add(1, Ordering::Relaxed) % self.config.endpoints.len();
            Arc::new(Connection::open(&self.config.endpoints[next], None, self.config.timeout).await?)
        };
        let (keys, unfenced) = (self.engine.keys(), NoFence(append));
        let transaction = guarded(keys, request.history, &[&unfenced]);
        let sent = connection.unary("/etcdserverpb.KV/Txn", &transaction, None);
        let answer = tokio::time::timeout(self.config.timeout, sent).await.unwrap_or(Err(Failure::Timeout))?;
        *kept = Some(connection);
        let mut answers = answers(keys, &answer, &[&unfenced])?;
        Ok(answers.pop().map_or(Outcome::Unknown, Outcome::Answered))
    }
}

impl Engine for Unfenced {
    fn name(&self) -> String {
        self.engine.name()
    }

    fn call<'a>(&'a self, request: &'a Request) -> Pending<'a, Outcome> {
        Box::pin(self.engine.call(request))
    }

    fn append_all<'a>(&'a self, _lane: usize, requests: &'a [Request]) -> Pending<'a, Vec<Outcome>> {
        Box::pin(async move {
            let mut outcomes = Vec::new();
            for request in requests {
                let Body::Append(append) = &request.body else { panic!("no append") };
                outcomes.push(self.append(request, append).await.unwrap_or(Outcome::Unknown));
            }
            outcomes
        })
    }

    fn views(&self) -> watch::Receiver<Option<Arc<View>>> {
        self.engine.views()
    }

    fn image(&self) -> Pending<'_, Result<View, String>> {
        Engine::image(&self.engine)
    }

    fn trouble(&self) -> Option<String> {
        self.engine.trouble()
    }
}
