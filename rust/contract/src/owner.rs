//! An owner of a partition, which sends each append until it is answered.

use std::time::{Duration, Instant};

use rota_cluster::Engine;
use rota_engine::{
    Body, Epoch, HistoryId, Incarnation, Log, NodeId, Nonce, Outcome, PartitionId, Prev, Request, Token,
    requests::{AcceptLoss, Append, Claim, Claimed, Content, Read, Silence, append::Verdict},
};

use crate::sequences::history;

/// A test waits for an answer for so long.
const PATIENCE: Duration = Duration::from_mins(2);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The owner's.
pub const PARTITION: PartitionId = PartitionId(0);

/// See the module.
pub struct Owner<E> {
    /// Where its log is.
    pub engine: E,
    /// The engine's when it claimed.
    pub history: HistoryId,
    /// What its claim got.
    pub token: Token,
    /// What its next append follows.
    pub prev: Prev,
    next_offset: i64,
    /// Attempts without an answer.
    pub unknown: u32,
}

impl<E: Engine> Owner<E> {
    /// Of node 1.
    pub async fn new(engine: E) -> Owner<E> {
        Owner::of(engine, NodeId(1)).await
    }

    /// A node's claim of a partition without an owner.
    pub async fn of(engine: E, node: NodeId) -> Owner<E> {
        let history = history(&engine).await;
        let incarnation = Incarnation(node.0 as u128);
        let claim = Claim {
            partition: PARTITION,
            seen: None,
            silence: Silence::NotNeeded,
            node,
            incarnation,
            at_least: Epoch(1),
        };
        let token = match call(&engine, history, Body::Claim(claim.clone())).await {
            Content::Claimed(Claimed::Owner(token)) => token,
            Content::Claimed(Claimed::Lost(Some((part, revision)))) if part == claim.part() => claim.token(revision),
            other => panic!("{other:?}"),
        };
        Owner { engine, history, token, prev: Prev::Nothing, next_offset: 0, unknown: 0 }
    }

    /// The append that comes next.
    pub fn next_append(&self, bytes: usize) -> Append {
        Append {
            partition: PARTITION,
            token: self.token,
            prev: self.prev,
            base_offset: self.next_offset,
            nonce: Nonce(self.next_offset as u128 + 1),
            count: 1,
            bytes: vec![1; bytes],
        }
    }

    /// Sends an append until it is answered.
    pub async fn append(&mut self, bytes: usize) -> Verdict {
        let append = self.next_append(bytes);
        self.settle(append).await
    }

    /// Sends this append until it is answered.
    pub async fn settle(&mut self, append: Append) -> Verdict {
        let request = Request { history: self.history, body: Body::Append(append.clone()) };
        let began = Instant::now();
        loop {
            let outcomes = self.engine.append_all(0, std::slice::from_ref(&request)).await;
            if let Outcome::Answered(answer) = &outcomes[0] {
                let Content::Appended(appended) = &answer.content else { panic!("{answer:?}") };
                let verdict = append.verdict(appended);
                if let Verdict::Applied(revision) = verdict {
                    self.prev = Prev::Entry(append.base_offset, revision);
                    self.next_offset = append.base_offset + 1;
                }
                return verdict;
            }
            self.unknown += 1;
            assert!(began.elapsed() < PATIENCE, "{:?}", self.engine.trouble());
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Appends so many entries; all are applied.
    pub async fn append_many(&mut self, count: u32) {
        for _ in 0..count {
            let verdict = self.append(100).await;
            assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
        }
    }

    /// A new history begins, in which the owner's appends count no more.
    pub async fn accept_loss(&self) {
        let begin = HistoryId(77);
        let loss = Body::AcceptLoss(AcceptLoss { lost: self.history, begin });
        assert_eq!(call(&self.engine, self.history, loss).await, Content::HistoryBegun);
        let late = call(&self.engine, self.history, Body::Append(self.next_append(10))).await;
        assert!(matches!(late, Content::OtherHistory(meta) if meta.history == begin), "{late:?}");
    }

    /// The log, which has everything that was answered and nothing twice.
    pub async fn check(&self) -> Log {
        let read = Body::Read(Read { partition: PARTITION });
        let Content::Contents(contents) = call(&self.engine, self.history, read).await else { panic!("no contents") };
        assert_eq!(contents.log.end(), Ok(self.next_offset));
        assert_eq!(contents.part, Some(self.token.part()));
        let nonces: Vec<u128> = contents.log.entries.values().map(|entry| entry.value.nonce.0).collect();
        let offsets: Vec<u128> = contents.log.entries.keys().map(|offset| *offset as u128 + 1).collect();
        assert_eq!(nonces, offsets);
        contents.log
    }
}

/// Sends a request until it is answered.
pub async fn call(engine: &impl Engine, history: HistoryId, body: Body) -> Content {
    let request = Request { history, body };
    let began = Instant::now();
    loop {
        if let Outcome::Answered(answer) = engine.call(&request).await {
            return answer.content;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", engine.trouble());
        tokio::time::sleep(PAUSE).await;
    }
}
