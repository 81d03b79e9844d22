//! How fast fenced appends are on an etcd: by a bare client, and by the engine. `cargo run --release -p rota-etcd --example
//! floor -- etcd://127.0.0.1:2379/floor 500 300` makes 500 flushes of 300 bytes a partition in each row; `... 8 1` measures only
//! the row with 8 partitions in one lane.
//!
//! A flush has one entry for each partition of a lane. The bare client sends it as one transaction over one connection and
//! looks only at whether all comparisons held; the engine may need two transactions, and reads every answer.

use std::time::Instant;

use rota_engine::{
    Body, Epoch, HistoryId, Incarnation, NodeId, Nonce, Outcome, PartitionId, Prev, Request, Revision, Token,
    requests::{Append, Appended, Claim, Claimed, Content, Silence},
};
use rota_etcd::{
    Config, EtcdEngine,
    grpc::Connection,
    keys::Keys,
    proto::{OpAnswer, TxnRequest, TxnResponse},
    requests::{Mapped, guarded},
};

/// Partitions of a lane, and lanes.
const ROWS: [(usize, usize); 6] = [(1, 1), (8, 1), (16, 1), (32, 1), (50, 1), (25, 2)];

const USAGE: &str = "usage: floor etcd://HOST:PORT/EMPTY-PREFIX FLUSHES BYTES [PARTITIONS LANES]";

/// The partitions that a lane owns.
struct Lane {
    history: HistoryId,
    owned: Vec<(PartitionId, Token, Prev)>,
    next_offset: i64,
    bytes: usize,
}

impl Lane {
    fn appends(&self) -> Vec<Append> {
        let append = |(partition, token, prev): &(PartitionId, Token, Prev)| Append {
            partition: *partition,
            token: *token,
            prev: *prev,
            base_offset: self.next_offset,
            nonce: Nonce(self.next_offset as u128),
            count: 1,
            bytes: vec![7; self.bytes],
        };
        self.owned.iter().map(append).collect()
    }

    fn applied(&mut self, revisions: impl IntoIterator<Item = Revision>) {
        for ((_, _, prev), revision) in self.owned.iter_mut().zip(revisions) {
            *prev = Prev::Entry(self.next_offset, revision);
        }
        self.next_offset += 1;
    }
}

/// Claims partitions that no other row has.
async fn lane(engine: &EtcdEngine, history: HistoryId, first: usize, partitions: usize, bytes: usize) -> Lane {
    let mut owned = Vec::new();
    for partition in first..first + partitions {
        let partition = PartitionId(partition as i32);
        let (node, incarnation) = (NodeId(1), Incarnation(1));
        let claim = Claim { partition, seen: None, silence: Silence::NotNeeded, node, incarnation, at_least: Epoch(1) };
        match engine.call(&Request { history, body: Body::Claim(claim) }).await {
            Outcome::Answered(answer) => match answer.content {
                Content::Claimed(Claimed::Owner(token)) => owned.push((partition, token, Prev::Nothing)),
                other => panic!("the prefix is not empty: {other:?}"),
            },
            other => panic!("{other:?}: {:?}", engine.trouble()),
        }
    }
    Lane { history, owned, next_offset: 0, bytes }
}

async fn bare(connection: &Connection, keys: &Keys, lane: &mut Lane, flushes: u32) -> Vec<f64> {
    let mut took_ms = Vec::new();
    for _ in 0..flushes {
        let appends = lane.appends();
        let mapped: Vec<&dyn Mapped> = appends.iter().map(|append| append as &dyn Mapped).collect();
        let request: TxnRequest = guarded(keys, lane.history, &mapped);
        let began = Instant::now();
        let answer: TxnResponse = connection.unary("/etcdserverpb.KV/Txn", &request, None).await.expect("an answer");
        took_ms.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(all_succeeded(&answer), "refused");
        let revision = Revision(answer.header.expect("a header").revision as u64);
        lane.applied(std::iter::repeat_n(revision, appends.len()));
    }
    took_ms
}

/// The outermost comparison never holds: see `guarded`.
fn all_succeeded(answer: &TxnResponse) -> bool {
    let Some(OpAnswer::Txn(guarded)) = &answer.responses[0].response else { return false };
    let held = |response: &_| matches!(response, Some(OpAnswer::Txn(append)) if append.succeeded);
    guarded.succeeded && guarded.responses.iter().all(|response| held(&response.response))
}

async fn engine_flushes(engine: &EtcdEngine, number: usize, lane: &mut Lane, flushes: u32) -> Vec<f64> {
    let mut took_ms = Vec::new();
    for _ in 0..flushes {
        let history = lane.history;
        let appends = lane.appends().into_iter().map(|append| Request { history, body: Body::Append(append) });
        let requests: Vec<Request> = appends.collect();
        let began = Instant::now();
        let outcomes = engine.append_all(number, &requests).await;
        took_ms.push(began.elapsed().as_secs_f64() * 1e3);
        lane.applied(outcomes.iter().map(|outcome| match outcome {
            Outcome::Answered(answer) => match &answer.content {
                Content::Appended(Appended::Written(revision)) => *revision,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}: {:?}", engine.trouble()),
        }));
    }
    took_ms
}

fn report(who: &str, (partitions, lanes): (usize, usize), mut took_ms: Vec<f64>, seconds: f64) {
    took_ms.sort_by(f64::total_cmp);
    let at = |percent: usize| took_ms[(took_ms.len() - 1) * percent / 100];
    let flushes = f64::from(took_ms.len() as u32) / seconds;
    let (middle, late, puts) = (at(50), at(99), flushes * f64::from(partitions as u32));
    println!("{who:<6} {lanes:>5} {partitions:>10} {middle:>9.2} {late:>9.2} {flushes:>10.0} {puts:>10.0}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, flushes, bytes, row @ ..] = &arguments[..] else { panic!("{USAGE}") };
    let (flushes, bytes) = (flushes.parse().expect("FLUSHES"), bytes.parse().expect("BYTES"));
    let rows = match row {
        [] => ROWS.to_vec(),
        [partitions, lanes] => vec![(partitions.parse().expect("PARTITIONS"), lanes.parse().expect("LANES"))],
        _ => panic!("{USAGE}"),
    };
    let mut config = Config::parse(url, None).expect("a URL");
    config.timeout = std::time::Duration::from_secs(30);
    let engine = EtcdEngine::open(config.clone()).await.expect("an engine");
    let mut views = engine.views();
    let history = views.wait_for(Option::is_some).await.expect("a view").as_ref().expect("a view").meta.history;
    println!("client lanes partitions    p50 ms    p99 ms  flushes/s     puts/s");
    let mut first = 0;
    for (partitions, lanes) in rows {
        for who in ["bare", "engine"] {
            let mut owners = Vec::new();
            for _ in 0..lanes {
                owners.push(lane(&engine, history, first, partitions, bytes).await);
                first += partitions;
            }
            let began = Instant::now();
            let mut running = tokio::task::JoinSet::new();
            for (number, mut lane) in owners.into_iter().enumerate() {
                let (engine, config) = (engine.clone(), config.clone());
                running.spawn(async move {
                    if who == "engine" {
                        return engine_flushes(&engine, number, &mut lane, flushes).await;
                    }
                    let endpoint = &config.endpoints[number % config.endpoints.len()];
                    let connection = Connection::open(endpoint, None, config.timeout).await.expect("a connection");
                    bare(&connection, engine.keys(), &mut lane, flushes).await
                });
            }
            let took_ms = running.join_all().await.concat();
            report(who, (partitions, lanes), took_ms, began.elapsed().as_secs_f64());
        }
    }
}
