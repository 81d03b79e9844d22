//! Owners that change while appends are under way.

use std::time::Duration;

use rota_contract::owner::{Owner, PARTITION, call};
use rota_engine::{
    Body, Epoch, HistoryId, Incarnation, NodeId, Outcome, Prev, Request, SnapshotHead, Token, checksum,
    requests::{
        AcceptLoss, Append, Appended, Claim, Claimed, Content, Fence, HeadPut, PutChunk, PutHead, Read, Silence, Sweep,
        append::Verdict,
    },
};
use rota_postgres::{PostgresEngine, session::Session, settings::Isolation};

use crate::{
    engines::{config, impatient, open, run},
    server::Server,
};

const ROUNDS: i32 = 60;

/// Appends until the partition is lost. Returns the offset after the last one that was written.
async fn append_until_fenced(engine: PostgresEngine, mut append: Append, history: rota_engine::HistoryId) -> i64 {
    loop {
        let request = Request { history, body: Body::Append(append.clone()) };
        let outcomes = engine.append_all(0, &[request]).await;
        let Outcome::Answered(answer) = &outcomes[0] else { panic!("{:?}", engine.trouble()) };
        let Content::Appended(appended) = &answer.content else { panic!("{answer:?}") };
        match append.verdict(appended) {
            Verdict::Applied(revision) => {
                append.prev = Prev::Entry(append.base_offset, revision);
                append.base_offset += 1;
                append.nonce.0 += 1;
            }
            Verdict::Fenced => return append.base_offset,
            Verdict::WentBack => panic!("{answer:?}"),
        }
    }
}

/// Waits until an append of this round is written.
async fn until_longer(engine: &PostgresEngine, history: rota_engine::HistoryId, end: i64) {
    loop {
        let read = call(engine, history, Body::Read(Read { partition: PARTITION })).await;
        let Content::Contents(contents) = read else { panic!("{read:?}") };
        if contents.log.end().expect("a log without holes") > end {
            return;
        }
    }
}

async fn claim(engine: &PostgresEngine, history: rota_engine::HistoryId, seen: Token, node: i32) -> Token {
    let (node, incarnation) = (NodeId(node), Incarnation(node as u128));
    let claim = Claim {
        partition: PARTITION,
        seen: Some(seen.part()),
        silence: Silence::NotNeeded,
        node,
        incarnation,
        at_least: Epoch(1),
    };
    match call(engine, history, Body::Claim(claim)).await {
        Content::Claimed(Claimed::Owner(token)) => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_a_claim_no_append_of_an_earlier_owner_is_written() {
    run(|| async {
        let server = Server::start(&["synchronous_commit=off"]);
        let (one, two) = {
            let config = config(&[&server]);
            (open(&config).await, open(&config).await)
        };
        let owner = Owner::new(one).await;
        let (engine, history) = (owner.engine.clone(), owner.history);
        let (mut append, mut token) = (owner.next_append(2_000), owner.token);
        let mut written = 0;
        for round in 2..ROUNDS {
            let appending = tokio::spawn(append_until_fenced(engine.clone(), append.clone(), history));
            until_longer(&two, history, written).await;
            token = claim(&two, history, token, round).await;
            let read = call(&two, history, Body::Read(Read { partition: PARTITION })).await;
            let Content::Contents(contents) = read else { panic!("{read:?}") };
            let end = contents.log.end().expect("a log without holes");
            assert_eq!(appending.await.expect("the appends end"), end, "round {round}");
            let (last, entry) = contents.log.entries.last_key_value().expect("an entry");
            append.prev = Prev::Entry(*last, entry.revision);
            (append.base_offset, append.token) = (end, token);
            append.nonce.0 += 1_000_000;
            written = end;
        }
        assert!(written > i64::from(ROUNDS), "{written}");
    });
}

/// Waits until so many sessions wait for locks, or the work is done.
async fn until_waiting<T>(server: &Server, count: u32, work: &tokio::task::JoinHandle<T>) {
    while !work.is_finished() && server.waiting() < count {
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The append has passed the fence and waits, because another session is about to write at its position.
#[test]
fn a_claim_waits_for_an_append_that_has_passed_the_fence() {
    run(|| async {
        let server = Server::start(&["synchronous_commit=off"]);
        let config = config(&[&server]);
        let owner = Owner::new(open(&config).await).await;
        let (history, append, token) = (owner.history, owner.next_append(10), owner.token);
        let other =
            Session::of_cluster(&config, &config.endpoints[0], Isolation::EachStatement).await.expect("a session");
        let insertion = "BEGIN; INSERT INTO log VALUES (0, 0, 1, gen_random_uuid(), 1, '', 1);";
        other.ask(insertion).await.expect("an uncommitted entry");
        let engine = owner.engine.clone();
        let request = Request { history, body: Body::Append(append.clone()) };
        let appending = tokio::spawn(async move { engine.append_all(0, &[request]).await });
        until_waiting(&server, 1, &appending).await;
        let engine = open(&config).await;
        let claiming = tokio::spawn(async move {
            claim(&engine, history, token, 2).await;
            let read = call(&engine, history, Body::Read(Read { partition: PARTITION })).await;
            let Content::Contents(contents) = read else { panic!("{read:?}") };
            contents.log.entries.len()
        });
        until_waiting(&server, 2, &claiming).await;
        other.ask("ROLLBACK;").await.expect("the position is free");
        let outcomes = appending.await.expect("the append ends");
        let Outcome::Answered(answer) = &outcomes[0] else { panic!("{outcomes:?}") };
        let Content::Appended(appended) = &answer.content else { panic!("{answer:?}") };
        assert!(matches!(append.verdict(appended), Verdict::Applied(_)), "{appended:?}");
        assert_eq!(claiming.await.expect("the claim ends"), 1, "the new owner does not see the entry");
    });
}

#[test]
fn an_append_that_began_before_a_trim_does_not_bring_an_entry_back() {
    run(|| async {
        let server = Server::start(&["synchronous_commit=off"]);
        let mut owner = Owner::new(open(&config(&[&server])).await).await;
        let first = owner.next_append(10);
        owner.append_many(3).await;
        let chunk = vec![1, 2, 3];
        let head = SnapshotHead { upto: 3, epoch: owner.token.epoch, chunks: 1, checksum: checksum([&chunk]) };
        let put = PutChunk { partition: PARTITION, token: owner.token, upto: 3, index: 0, bytes: chunk };
        call(&owner.engine, owner.history, Body::Chunk(put)).await;
        let put = PutHead { partition: PARTITION, token: owner.token, replaces: None, prev: owner.prev, head };
        assert_eq!(call(&owner.engine, owner.history, Body::Head(put)).await, Content::HeadPut(HeadPut::Written));
        let twin = call(&owner.engine, owner.history, Body::Append(first)).await;
        assert!(matches!(twin, Content::Appended(Appended::Refused { entry: None, .. })), "{twin:?}");
        owner.append_many(1).await;
        let read = call(&owner.engine, owner.history, Body::Read(Read { partition: PARTITION })).await;
        let Content::Contents(contents) = read else { panic!("{read:?}") };
        assert_eq!(contents.log.entries.into_keys().collect::<Vec<_>>(), [2, 3]);
    });
}

/// Sends a request until it is answered; at most so many attempts of a second.
async fn answered_within(attempts: u32, engine: &PostgresEngine, history: HistoryId, body: Body) -> Content {
    let request = Request { history, body };
    for _ in 0..attempts {
        if let Outcome::Answered(answer) = engine.call(&request).await {
            return answer.content;
        }
    }
    panic!("no answer to {:?}: {:?}", request.body, engine.trouble());
}

#[test]
fn a_deletion_that_takes_longer_than_an_attempt_ends() {
    run(|| async {
        let server = Server::start(&["synchronous_commit=off"]);
        let config = impatient(&[&server]);
        let mut owner = Owner::new(open(&config).await).await;
        let (token, history) = (owner.token, owner.history);
        owner.append_many(60).await;
        let chunk =
            |upto, index| Body::Chunk(PutChunk { partition: PARTITION, token, upto, index, bytes: vec![1, 2, 3] });
        for index in 0..60 {
            call(&owner.engine, history, chunk(1, index)).await;
        }
        call(&owner.engine, history, chunk(60, 0)).await;
        let schema = &config.schema;
        server.sql(&format!(
            "CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN PERFORM pg_sleep(0.05); RETURN OLD; END'"
        ));
        for table in ["chunk", "log"] {
            server.sql(&format!(
                "CREATE TRIGGER slow BEFORE DELETE ON {schema}.{table} FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
            ));
        }
        let head = SnapshotHead { upto: 60, epoch: token.epoch, chunks: 1, checksum: checksum([&vec![1, 2, 3]]) };
        let put = PutHead { partition: PARTITION, token, replaces: None, prev: owner.prev, head };
        let written = answered_within(20, &owner.engine, history, Body::Head(put)).await;
        assert_eq!(written, Content::HeadPut(HeadPut::Written));
        let sweep = Body::Sweep(Sweep { partition: PARTITION, token, keep: head });
        let swept = answered_within(20, &owner.engine, history, sweep).await;
        assert_eq!(swept, Content::Fence(Fence::Held));
        let log = owner.check().await;
        assert_eq!((log.entries.into_keys().collect::<Vec<_>>(), log.chunks.len()), (vec![59], 1));
    });
}

#[test]
fn an_append_of_a_lost_history_waits_for_nobody() {
    run(|| async {
        let server = Server::start(&["synchronous_commit=off"]);
        let mut owner = Owner::new(open(&config(&[&server])).await).await;
        owner.append_many(2).await;
        let begin = rota_engine::HistoryId(77);
        let loss = Body::AcceptLoss(AcceptLoss { lost: owner.history, begin });
        assert_eq!(call(&owner.engine, owner.history, loss).await, Content::HistoryBegun);
        let late = call(&owner.engine, owner.history, Body::Append(owner.next_append(10))).await;
        assert!(matches!(late, Content::OtherHistory(meta) if meta.history == begin), "{late:?}");
    });
}
