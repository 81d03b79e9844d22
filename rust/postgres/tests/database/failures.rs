//! A database that crashes, sleeps or goes back: what is answered is in the log, once.

use std::time::{Duration, Instant};

use rota_contract::{
    owner::{Owner, call},
    sequences::history,
};
use rota_engine::{
    Answer, Body, NodeId, Outcome, PartitionId, Request,
    requests::{Appended, Content, Read, Usage, append::Verdict},
};
use rota_postgres::{Config, PostgresEngine, session::Session, settings::Isolation};

use crate::{
    durability::WITHIN,
    engines::{config, impatient, open, run},
    server::{PATIENCE, Server},
};

#[test]
fn appends_survive_a_crash() {
    run(|| async {
        let mut server = Server::start(&[]);
        let mut owner = Owner::new(open(&impatient(&[&server])).await).await;
        owner.append_many(30).await;
        // The append is on its way when the database dies.
        let append = owner.next_append(100_000);
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        let engine = owner.engine.clone();
        let sent = tokio::spawn(async move { engine.append_all(0, &[request]).await });
        tokio::task::yield_now().await;
        server.kill();
        sent.await.expect("the call ends");
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        assert_eq!(owner.engine.append_all(0, &[request]).await, [Outcome::Unknown]);
        assert!(owner.engine.trouble().is_some());
        server.restart();
        let verdict = owner.settle(append).await;
        assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        owner.append_many(10).await;
        assert_eq!(owner.check().await.entries.len(), 41);
        assert_eq!(owner.engine.trouble(), None);
    });
}

#[test]
fn a_database_that_sleeps_answers_nothing_and_loses_nothing() {
    run(|| async {
        let server = Server::start(&[]);
        let mut owner = Owner::new(open(&impatient(&[&server])).await).await;
        owner.append_many(10).await;
        server.signal_all("STOP");
        let append = owner.next_append(100);
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        for _ in 0..3 {
            assert_eq!(owner.engine.append_all(0, std::slice::from_ref(&request)).await, [Outcome::Unknown]);
        }
        server.signal_all("CONT");
        let verdict = owner.settle(append).await;
        assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        owner.append_many(10).await;
        assert_eq!(owner.check().await.entries.len(), 21);
    });
}

#[test]
fn an_owner_that_outlives_a_restore_sees_that_the_engine_went_back() {
    run(|| async {
        let mut server = Server::start(&[]);
        let mut owner = Owner::new(open(&impatient(&[&server])).await).await;
        owner.append_many(5).await;
        server.kill();
        server.back_up();
        server.restart();
        owner.append_many(5).await;
        server.kill();
        server.restore();
        server.restart();
        assert_eq!(owner.append(10).await, Verdict::WentBack);
        owner.accept_loss().await;
    });
}

/// After a restore revisions are given out again, so the fence is no revision.
#[test]
fn an_owner_is_fenced_after_a_restore_although_the_next_claim_has_its_revision() {
    run(|| async {
        let mut server = Server::start(&[]);
        let engine = open(&impatient(&[&server])).await;
        history(&engine).await;
        server.kill();
        server.back_up();
        server.restart();
        let first = Owner::of(engine.clone(), NodeId(1)).await;
        server.kill();
        server.restore();
        server.restart();
        let second = Owner::of(engine.clone(), NodeId(2)).await;
        assert_eq!(first.token.claimed, second.token.claimed);
        let late = call(&engine, first.history, Body::Append(first.next_append(10))).await;
        let part = Some(second.token.part());
        assert_eq!(late, Content::Appended(Appended::Refused { part, entry: None }));
    });
}

/// Each load takes longer than an attempt of another request. What goes on meanwhile does not end it either.
#[test]
fn loads_of_a_slow_database_end_beside_other_requests() {
    run(|| async {
        let server = Server::start(&[]);
        let config = config(&[&server]);
        let mut owner = Owner::new(open(&config).await).await;
        owner.append_many(5).await;
        server.sql(&format!(
            "SET search_path TO {}; ALTER TABLE head RENAME TO quick;
             CREATE FUNCTION slow() RETURNS SETOF quick LANGUAGE sql VOLATILE AS 'SELECT pg_sleep(1.2); SELECT * FROM quick';
             CREATE VIEW head AS SELECT * FROM slow()",
            config.schema
        ));
        let engine =
            PostgresEngine::attach(Config { timeout: Duration::from_secs(1), ..config }).await.expect("an engine");
        let call = |body| {
            let (engine, request) = (engine.clone(), Request { history: owner.history, body });
            async move { engine.call(&request).await }
        };
        let load = |partition| call(Body::Read(Read { partition: PartitionId(partition) }));
        let (first, second, usage) = tokio::join!(load(0), load(1), call(Body::Usage(Usage)));
        assert!(matches!(usage, Outcome::Answered(_)), "{usage:?}");
        let entries = [first, second].map(|outcome| match outcome {
            Outcome::Answered(Answer { content: Content::Contents(contents), .. }) => contents.log.entries.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(entries, [5, 0]);
    });
}

/// A session with a lock that loads wait for.
async fn locked(config: &Config) -> Session {
    let session = Session::of_cluster(config, &config.endpoints[0], Isolation::EachStatement).await.expect("a session");
    session.ask("BEGIN; LOCK TABLE log IN ACCESS EXCLUSIVE MODE;").await.expect("a lock");
    session
}

/// Waits until so many sessions wait for a lock.
async fn until_waiting(server: &Server, count: u32, limit: Duration) {
    let began = Instant::now();
    while server.waiting() != count {
        assert!(began.elapsed() < limit, "{count} sessions that wait for a lock expected");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A load that no node waits for any more leaves no session behind, which would go on for as long as the lock is held.
#[test]
fn a_load_that_is_given_up_while_it_waits_for_a_lock_ends_in_the_database() {
    run(|| async {
        let server = Server::start(&[]);
        let config = config(&[&server]);
        let engine = open(&config).await;
        let history = history(&engine).await;
        let other = locked(&config).await;
        let (loading, partition) = (engine.clone(), PartitionId(0));
        let request = Request { history, body: Body::Read(Read { partition }) };
        let load = tokio::spawn(async move { loading.call(&request).await });
        until_waiting(&server, 1, PATIENCE).await;
        assert_eq!(engine.loaded_bytes(partition), Some(0));
        load.abort();
        until_waiting(&server, 0, WITHIN).await;
        assert_eq!(engine.loaded_bytes(partition), None);
        other.ask("ROLLBACK;").await.expect("the lock goes");
        let again = call(&engine, history, Body::Read(Read { partition })).await;
        assert!(matches!(again, Content::Contents(_)), "{again:?}");
    });
}

/// A server that is killed cannot ask the database to stop a load. Its session ends without that, although the lock is held.
#[test]
fn a_load_of_a_server_that_is_killed_ends_in_the_database() {
    run(|| async {
        let server = Server::start(&[]);
        let config = config(&[&server]);
        let history = history(&open(&config).await).await;
        let _lock = locked(&config).await;
        let (kill, killed) = tokio::sync::oneshot::channel::<()>();
        let process = std::thread::spawn(move || {
            run(|| async {
                let load = async {
                    let engine = PostgresEngine::open(config).await.expect("an engine");
                    let request = Request { history, body: Body::Read(Read { partition: PartitionId(0) }) };
                    engine.call(&request).await
                };
                // The runtime ends with this, and its connections, as those of a process do.
                tokio::select! {
                    loaded = load => panic!("{loaded:?}"),
                    _ = killed => {}
                }
            });
        });
        until_waiting(&server, 1, PATIENCE).await;
        kill.send(()).expect("the load waits");
        process.join().expect("a load that waits");
        until_waiting(&server, 0, WITHIN).await;
    });
}

/// A server takes partitions over while it reads another one to compact it. The other loads wait for their turn.
#[test]
fn a_load_does_not_wait_for_another_one() {
    run(|| async {
        let server = Server::start(&[]);
        let config = config(&[&server]);
        let engine = open(&config).await;
        let history = history(&engine).await;
        let other = locked(&config).await;
        let loads: Vec<_> = (0..3)
            .map(|partition| {
                let (engine, partition) = (engine.clone(), PartitionId(partition));
                let request = Request { history, body: Body::Read(Read { partition }) };
                tokio::spawn(async move { engine.call(&request).await })
            })
            .collect();
        until_waiting(&server, 2, PATIENCE).await;
        other.ask("ROLLBACK;").await.expect("the lock goes");
        for load in loads {
            let loaded = load.await.expect("a load");
            assert!(matches!(&loaded, Outcome::Answered(Answer { content: Content::Contents(_), .. })), "{loaded:?}");
        }
    });
}
