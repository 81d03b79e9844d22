//! Failures of members: what is answered is in the log, once, whatever was killed or paused meanwhile.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

pub use rota_contract::owner::{Owner, PARTITION, call};
use rota_engine::{
    Body, NodeId, Outcome, Prev, Request,
    requests::{Appended, Check, Content, Fence, NotePut, PutNote, append::Verdict},
};
use rota_etcd::{
    Config, Endpoint, EtcdEngine,
    line::{Line, Shared},
    proto::{StatusRequest, StatusResponse},
};

use crate::{
    engines::{history, open, run},
    etcd::{Etcd, PATIENCE},
};

/// As nodes have it: an attempt ends after a second.
fn config(etcd: &Etcd) -> Config {
    Config { timeout: Duration::from_secs(1), ..etcd.config() }
}

async fn leader(engine: &EtcdEngine) -> usize {
    let began = Instant::now();
    loop {
        let members = engine.members().await;
        let leader = members.iter().position(|member| member.status.as_ref().is_ok_and(|status| status.leads));
        if let Some(leader) = leader {
            return leader;
        }
        assert!(began.elapsed() < PATIENCE, "{members:?}");
    }
}

#[test]
fn appends_survive_the_death_of_the_leader() {
    run(|| async {
        let mut etcd = Etcd::start(3, &[]);
        let mut owner = Owner::new(open(&config(&etcd)).await).await;
        owner.append_many(30).await;
        let leader = leader(&owner.engine).await;
        // The append is on its way when the leader dies.
        let append = owner.next_append(100_000);
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        let engine = owner.engine.clone();
        let sent = tokio::spawn(async move { engine.append_all(0, &[request]).await });
        tokio::task::yield_now().await;
        etcd.kill(leader);
        sent.await.expect("the call ends");
        let verdict = owner.settle(append).await;
        assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        owner.append_many(30).await;
        etcd.restart(leader);
        owner.append_many(10).await;
        assert_eq!(owner.check().await.entries.len(), 71);
    });
}

#[test]
fn appends_survive_a_leader_that_sleeps() {
    run(|| async {
        let etcd = Etcd::start(3, &[]);
        let mut owner = Owner::new(open(&config(&etcd)).await).await;
        owner.append_many(10).await;
        let sleeper = leader(&owner.engine).await;
        etcd.signal(sleeper, "STOP");
        owner.append_many(20).await;
        assert_ne!(leader(&owner.engine).await, sleeper);
        etcd.signal(sleeper, "CONT");
        owner.append_many(20).await;
        owner.check().await;
    });
}

/// The system of a member that hangs takes connections, and no process answers on them.
#[test]
fn a_member_that_hangs_holds_no_call_up_beside_one_with_more_time() {
    run(|| async {
        let etcd = Etcd::start(1, &[]);
        let hung = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = hung.local_addr().expect("an address").port();
        let mut config = config(&etcd);
        config.endpoints.insert(0, Endpoint { host: "127.0.0.1".to_owned(), port });
        let line = Line::new(&Shared::new(config), 0);
        let until_answered = async |within| {
            let (path, request) = ("/etcdserverpb.Maintenance/Status", StatusRequest {});
            while line.unary_within::<_, StatusResponse>(path, &request, within).await.is_err() {}
        };
        let both = async { tokio::join!(until_answered(PATIENCE), until_answered(Duration::from_secs(1))) };
        tokio::time::timeout(PATIENCE / 2, both).await.expect("the other member answers both");
    });
}

#[test]
fn without_a_quorum_nothing_is_answered_and_nothing_is_lost() {
    run(|| async {
        let mut etcd = Etcd::start(3, &[]);
        let mut owner = Owner::new(open(&config(&etcd)).await).await;
        owner.append_many(10).await;
        etcd.kill(0);
        etcd.kill(1);
        let append = owner.next_append(100);
        let request = Request { history: owner.history, body: Body::Append(append.clone()) };
        for _ in 0..3 {
            assert_eq!(owner.engine.append_all(0, std::slice::from_ref(&request)).await, [Outcome::Unknown]);
        }
        assert!(owner.engine.trouble().is_some());
        etcd.restart(0);
        let verdict = owner.settle(append).await;
        assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        owner.append_many(10).await;
        assert_eq!(owner.check().await.entries.len(), 21);
        assert_eq!(owner.engine.trouble(), None);
    });
}

#[test]
fn an_owner_that_outlives_a_restore_sees_that_the_engine_went_back() {
    run(|| async {
        let mut etcd = Etcd::start(1, &[]);
        let config = config(&etcd);
        let mut owner = Owner::new(open(&config).await).await;
        owner.append_many(5).await;
        etcd.kill(0);
        back_up(&etcd);
        etcd.restart(0);
        owner.append_many(5).await;
        etcd.kill(0);
        restore(&etcd);
        etcd.restart(0);
        assert_eq!(owner.append(10).await, Verdict::WentBack);
        owner.accept_loss().await;
    });
}

/// Another write has brought the revision back to what it was: no answer shows that something is gone.
#[test]
fn a_restore_that_loses_one_entry_is_seen_by_the_next_append() {
    run(|| async {
        let mut etcd = Etcd::start(1, &[]);
        let config = config(&etcd);
        let mut owner = Owner::new(open(&config).await).await;
        owner.append_many(5).await;
        etcd.kill(0);
        back_up(&etcd);
        etcd.restart(0);
        owner.append_many(1).await;
        let Prev::Entry(_, known) = owner.prev else { panic!("no entry") };
        etcd.kill(0);
        restore(&etcd);
        etcd.restart(0);
        let note = PutNote { name: "other".to_owned(), seen: None, value: Some(vec![1]) };
        assert_eq!(call(&owner.engine, owner.history, Body::Note(note)).await, Content::NotePut(NotePut::Written));
        let check = Body::Check(Check { partition: PARTITION, token: owner.token });
        let check = Request { history: owner.history, body: check };
        let Outcome::Answered(answer) = owner.engine.call(&check).await else { panic!("{:?}", owner.engine.trouble()) };
        assert!(answer.revision >= known, "{answer:?} shows it by its revision");
        assert_eq!(answer.content, Content::Fence(Fence::Held));
        assert_eq!(owner.append(10).await, Verdict::WentBack);
    });
}

/// After a restore revisions are given out again, so the fence is no revision.
#[test]
fn an_owner_is_fenced_after_a_restore_although_the_next_claim_has_its_revision() {
    run(|| async {
        let mut etcd = Etcd::start(1, &[]);
        let config = config(&etcd);
        let engine = open(&config).await;
        history(&engine).await;
        etcd.kill(0);
        back_up(&etcd);
        etcd.restart(0);
        let first = Owner::of(engine.clone(), NodeId(1)).await;
        etcd.kill(0);
        restore(&etcd);
        etcd.restart(0);
        let second = Owner::of(engine.clone(), NodeId(2)).await;
        assert_eq!(first.token.claimed, second.token.claimed);
        let late = call(&engine, first.history, Body::Append(first.next_append(10))).await;
        let part = Some(second.token.part());
        assert_eq!(late, Content::Appended(Appended::Refused { part, entry: None }));
    });
}

/// Where the copy of member 0 is.
const BACKUP: usize = 7;

/// Copies the data of the only member, which has stopped.
fn back_up(etcd: &Etcd) {
    copied(&etcd.data(0), &etcd.data(BACKUP));
}

/// Goes back to the copy.
fn restore(etcd: &Etcd) {
    std::fs::remove_dir_all(etcd.data(0)).expect("the data goes");
    copied(&etcd.data(BACKUP), &etcd.data(0));
}

fn copied(from: &std::path::Path, to: &std::path::Path) {
    let status = std::process::Command::new("cp").arg("-r").args([from, to]).status();
    assert!(status.is_ok_and(|status| status.success()));
}
