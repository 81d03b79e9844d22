//! Standbys: what is answered is on both, and a host that was replaced confirms nothing.

use std::time::{Duration, Instant};

use rota_contract::owner::{Owner, call};
use rota_engine::{
    Body, Outcome, Request,
    requests::{Check, Content, Fence, append::Verdict},
};

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
        let check = Body::Check(Check { partition: rota_contract::owner::PARTITION, token: owner.token });
        assert_eq!(call(&owner.engine, owner.history, check).await, Content::Fence(Fence::Held));
        let warning = owner.engine.durability().and_then(|known| known.warning());
        // The new primary has no standby.
        assert_eq!(warning.is_some(), standby.sql("SHOW synchronous_standby_names").is_empty());
    });
}
