//! The watch: images are whole and go on after members sleep, restart, or forget.

use std::time::{Duration, Instant};

use rota_engine::{
    Beat, Body, Directory, HistoryId, Incarnation, NodeId, Outcome, Request, Revision,
    requests::{Content, PutBeat, Register, Registered},
};
use rota_etcd::{
    Config, EtcdEngine, Failure,
    grpc::{Answers, Connection},
    keys::Keys,
    proto::{RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse},
};

use crate::{
    engines::{history, open, run},
    etcd::{Etcd, PATIENCE},
    members::call,
};

const NODE: NodeId = NodeId(1);

async fn register(engine: &EtcdEngine, history: HistoryId) {
    let register = Register { node: NODE, directory: Directory(1), incarnation: Incarnation(1) };
    let answer = call(engine, history, Body::Register(register)).await;
    assert!(matches!(answer, Content::Registered(Registered::As(_))), "{answer:?}");
}

/// Beats, and returns the engine's revision.
async fn beat(engine: &EtcdEngine, history: HistoryId, counter: u64) -> Revision {
    let beat = Beat { incarnation: Incarnation(1), counter };
    let request = Request { history, body: Body::Beat(PutBeat { node: NODE, beat, shown: 0 }) };
    let began = Instant::now();
    loop {
        if let Outcome::Answered(answer) = engine.call(&request).await {
            return answer.revision;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", engine.trouble());
    }
}

/// Waits until the watch shows a beat.
async fn shown(engine: &EtcdEngine, counter: u64) -> Revision {
    let mut views = engine.views();
    let shows = views.wait_for(|view| {
        let beat = view.as_ref().and_then(|view| view.beats.get(&NODE).copied());
        beat.is_some_and(|beat| beat.counter >= counter)
    });
    let view = tokio::time::timeout(PATIENCE, shows).await.expect("a view in time").expect("a watch");
    view.as_ref().expect("an image").revision
}

#[test]
fn a_watch_whose_member_sleeps_goes_on_at_another() {
    run(|| async {
        let etcd = Etcd::start(3, &[]);
        let (timeout, stall) = (Duration::from_secs(1), Duration::from_secs(1));
        let engine = open(&Config { timeout, stall, ..etcd.config() }).await;
        let history = history(&engine).await;
        register(&engine, history).await;
        beat(&engine, history, 1).await;
        shown(&engine, 1).await;
        // The watch is at the first member.
        etcd.signal(0, "STOP");
        let mut last = Revision(0);
        for counter in 2..6 {
            last = beat(&engine, history, counter).await;
        }
        // What the watch has not seen is forgotten.
        engine.compact(last).await.expect("a compaction");
        assert!(shown(&engine, 5).await >= last);
        etcd.signal(0, "CONT");
        let last = beat(&engine, history, 6).await;
        assert!(shown(&engine, 6).await >= last);
    });
}

#[test]
fn a_watch_goes_on_after_a_restart() {
    run(|| async {
        let mut etcd = Etcd::start(1, &[]);
        let timeout = Duration::from_secs(1);
        let engine = open(&Config { timeout, ..etcd.config() }).await;
        let history = history(&engine).await;
        register(&engine, history).await;
        etcd.kill(0);
        etcd.restart(0);
        beat(&engine, history, 1).await;
        shown(&engine, 1).await;
    });
}

#[test]
fn the_first_node_that_beats_forgets_old_revisions() {
    run(|| async {
        let etcd = Etcd::start(1, &[]);
        let config = Config { keep: Some(Duration::from_millis(400)), ..etcd.config() };
        let engine = open(&config).await;
        let history = history(&engine).await;
        register(&engine, history).await;
        let old = beat(&engine, history, 1).await;
        let connection = Connection::open(&config.endpoints[0], None, PATIENCE).await.expect("a connection");
        let key = Keys::new(&config.prefix).history();
        let request = RangeRequest { key, revision: old.0 as i64, ..RangeRequest::default() };
        let began = Instant::now();
        for counter in 2.. {
            beat(&engine, history, counter).await;
            let read: Result<RangeResponse, Failure> = connection.unary("/etcdserverpb.KV/Range", &request, None).await;
            match read {
                Ok(_) => assert!(began.elapsed() < PATIENCE, "nothing is forgotten"),
                Err(failure) => {
                    assert!(failure.to_string().contains("has been compacted"), "{failure}");
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The watch goes on.
        beat(&engine, history, 1 << 20).await;
        shown(&engine, 1 << 20).await;
    });
}

#[test]
fn etcd_says_that_a_watch_fell_behind_a_compaction() {
    run(|| async {
        let etcd = Etcd::start(1, &[]);
        let config = etcd.config();
        let engine = open(&config).await;
        let history = history(&engine).await;
        register(&engine, history).await;
        let last = beat(&engine, history, 1).await;
        engine.compact(last).await.expect("a compaction");
        // Another compaction was earlier: no error.
        engine.compact(last).await.expect("a second compaction");
        let connection = Connection::open(&config.endpoints[0], None, PATIENCE).await.expect("a connection");
        let view = Keys::new(&config.prefix).view();
        let create = WatchCreateRequest { key: view.start, range_end: view.end, start_revision: 1 };
        let request = WatchRequest { create_request: Some(create) };
        let path = "/etcdserverpb.Watch/Watch";
        let mut answers: Answers<WatchResponse> =
            connection.stream(path, &request, None, false).await.expect("a watch");
        loop {
            let answer = answers.next().await.expect("an answer").expect("more answers");
            // What ends the watcher's stream.
            if answer.canceled || answer.compact_revision != 0 {
                assert_eq!(answer.compact_revision, last.0 as i64);
                return;
            }
            assert_eq!(answer.events, [], "etcd shows what it has forgotten");
        }
    });
}
