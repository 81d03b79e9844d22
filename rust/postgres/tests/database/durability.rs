//! Standbys: what is answered is on both, and a host that was replaced confirms nothing.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rota_contract::owner::{Owner, PARTITION, call};
use rota_engine::{
    Body, HistoryId, Outcome, Request,
    requests::{AcceptLoss, Check, Content, Fence, NotePut, PutNote, append::Verdict},
};
use rota_postgres::PostgresEngine;

use crate::{
    engines::{impatient, open, run},
    server::{PATIENCE, Server},
};

/// A session that was cancelled ends within this time.
pub const WITHIN: Duration = Duration::from_secs(20);

/// A primary that waits for its standby.
fn pair() -> (Server, Server) {
    let primary = Server::start(&[]);
    let standby = Server::start_standby(&primary, &[]);
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    primary.sql("SELECT pg_reload_conf()");
    let began = Instant::now();
    while primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1" {
        assert!(began.elapsed() < PATIENCE, "the standby does not follow");
    }
    (primary, standby)
}

#[test]
fn nothing_is_answered_before_the_standby_has_it() {
    run(|| async {
        let (primary, mut standby) = pair();
        let mut owner = Owner::new(open(&impatient(&[&primary, &standby])).await).await;
        assert_eq!(owner.engine.durability().and_then(|known| known.warning()), None);
        owner.append_many(10).await;
        standby.kill();
        let append = owner.next_append(100);
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        // The first attempt is written and waits. A later one finds it, and waits as well.
        for _ in 0..4 {
            assert_eq!(owner.engine.append_all(0, std::slice::from_ref(&request)).await, [Outcome::Unknown]);
        }
        let check = Check { partition: append.partition, token: append.token };
        let check = Request { history: owner.history, body: Body::Check(check) };
        assert_eq!(owner.engine.call(&check).await, Outcome::Unknown);
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let began = Instant::now();
        while primary.sql(waiting) != "0" {
            assert!(began.elapsed() < WITHIN, "sessions pile up");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        standby.restart();
        let verdict = owner.settle(append).await;
        assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        owner.append_many(5).await;
        assert_eq!(owner.check().await.entries.len(), 16);
    });
}

/// An operator, or a time limit, ends the wait: PostgreSQL then confirms what only the primary has, with a warning.
#[test]
fn a_confirmation_without_the_standby_is_no_answer() {
    run(|| async {
        let (primary, mut standby) = pair();
        let config = rota_postgres::Config { timeout: PATIENCE, ..impatient(&[&primary, &standby]) };
        let mut owner = Owner::new(open(&config).await).await;
        owner.append_many(3).await;
        standby.kill();
        let append = owner.next_append(100);
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        let engine = owner.engine.clone();
        let sent = tokio::spawn(async move { engine.append_all(0, &[request]).await });
        let cancelled = "SELECT count(*) FROM (SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
                         WHERE wait_event = 'SyncRep' AND query LIKE '%INSERT INTO log%') AS t";
        let began = Instant::now();
        while primary.sql(cancelled) != "1" {
            assert!(began.elapsed() < PATIENCE, "no append waits");
            tokio::task::yield_now().await;
        }
        assert_eq!(sent.await.expect("the call ends"), [Outcome::Unknown]);
        assert!(owner.engine.trouble().is_some_and(|why| why.contains("synchronous replication")));
        standby.restart();
        let verdict = owner.settle(append).await;
        assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        owner.check().await;
    });
}

#[test]
fn after_a_failover_the_standby_has_everything_that_was_answered() {
    run(|| async {
        let (mut primary, standby) = pair();
        let mut owner = Owner::new(open(&impatient(&[&primary, &standby])).await).await;
        owner.append_many(20).await;
        primary.kill();
        standby.promote();
        owner.append_many(20).await;
        assert_eq!(owner.check().await.entries.len(), 40);
        let check = Body::Check(Check { partition: PARTITION, token: owner.token });
        assert_eq!(call(&owner.engine, owner.history, check).await, Content::Fence(Fence::Held));
        let warning = owner.engine.durability().and_then(|known| known.warning());
        // The new primary has no standby.
        assert_eq!(warning.is_some(), standby.sql("SHOW synchronous_standby_names").is_empty());
    });
}

/// The system of a host that hangs takes connections, and no process answers on them.
#[test]
fn a_failover_from_a_host_that_hangs_goes_to_the_standby() {
    run(|| async {
        let (primary, standby) = pair();
        let mut owner = Owner::new(open(&impatient(&[&primary, &standby])).await).await;
        owner.append_many(5).await;
        primary.signal_all("STOP");
        standby.promote();
        let before = owner.unknown;
        owner.append_many(5).await;
        let attempts = owner.unknown - before;
        assert!(attempts < 10, "{attempts} attempts of a second");
        assert_eq!(owner.check().await.entries.len(), 10);
        PostgresEngine::prepare(&impatient(&[&primary, &standby])).await.expect("an operator finds the standby");
    });
}

/// Waits for a row on a server.
async fn until(server: &Server, statement: &str) {
    let began = Instant::now();
    while server.sql(statement) != "1" {
        assert!(began.elapsed() < PATIENCE, "{statement}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Writes what only the primary gets: its standby is gone, and the wait for it is cancelled. Then everybody sees it there.
async fn write_without_standby(engine: &PostgresEngine, history: HistoryId, body: Body, seen: (&Server, &str)) {
    assert_eq!(engine.call(&Request { history, body }).await, Outcome::Unknown);
    until(seen.0, seen.1).await;
}

/// A failover undoes such a change: a node that has seen it takes the next primary for one that went back.
#[test]
fn the_watch_shows_nothing_that_the_standby_lacks() {
    run(|| async {
        let (mut primary, mut standby) = pair();
        let config = impatient(&[&primary, &standby]);
        let owner = Owner::new(open(&config).await).await;
        let note = |name: &str| Body::Note(PutNote { name: name.to_owned(), seen: None, value: Some(vec![1]) });
        let mut views = owner.engine.views();
        assert_eq!(call(&owner.engine, owner.history, note("first")).await, Content::NotePut(NotePut::Written));
        views
            .wait_for(|view| view.as_ref().is_some_and(|view| view.notes.contains_key("first")))
            .await
            .expect("a view");
        let seen = tokio::spawn(async move {
            let mut names = BTreeSet::new();
            while !names.contains("last") {
                views.changed().await.expect("a watch");
                names.extend(views.borrow_and_update().iter().flat_map(|view| view.notes.keys().cloned()));
            }
            names
        });
        standby.kill();
        let has_lost = format!("SELECT count(*) FROM {}.note WHERE name = 'lost'", config.schema);
        write_without_standby(&owner.engine, owner.history, note("lost"), (&primary, &has_lost)).await;
        // The watch has looked since then.
        let now = primary.sql("SELECT clock_timestamp()");
        let looked = format!(
            "SELECT least(count(*), 1) FROM pg_stat_activity \
             WHERE pid <> pg_backend_pid() AND query_start > '{now}' \
             AND (query LIKE '%beat_counter%' AND state = 'idle' \
             OR query LIKE '%pg_logical_emit_message%' AND wait_event = 'SyncRep')"
        );
        until(&primary, &looked).await;
        // The standby does not get it any more.
        primary.kill();
        standby.restart();
        standby.promote();
        assert_eq!(call(&owner.engine, owner.history, note("last")).await, Content::NotePut(NotePut::Written));
        assert!(!seen.await.expect("it ends").contains("lost"), "the next primary does not have it");
    });
}

/// An owner that believed it would stop, although the next primary still has it as the owner.
#[test]
fn a_refusal_because_of_what_the_standby_lacks_is_no_answer() {
    run(|| async {
        let (primary, mut standby) = pair();
        let config = impatient(&[&primary, &standby]);
        let mut owner = Owner::new(open(&config).await).await;
        owner.append_many(3).await;
        standby.kill();
        let loss = Body::AcceptLoss(AcceptLoss { lost: owner.history, begin: HistoryId(77) });
        let has_lost = format!("SELECT count(*) FROM {}.meta WHERE history = '{:032x}'", config.schema, 77);
        write_without_standby(&owner.engine, owner.history, loss, (&primary, &has_lost)).await;
        let append = Body::Append(owner.next_append(100));
        let check = Body::Check(Check { partition: PARTITION, token: owner.token });
        for body in [append.clone(), check.clone()] {
            assert_eq!(owner.engine.call(&Request { history: owner.history, body }).await, Outcome::Unknown);
        }
        standby.restart();
        for body in [append, check] {
            let answer = call(&owner.engine, owner.history, body).await;
            assert!(matches!(answer, Content::OtherHistory(meta) if meta.history == HistoryId(77)), "{answer:?}");
        }
    });
}
