//! Reads that trust no clock: each waits until the engine has confirmed, after the read arrived, that this node owns its
//! partitions.

use std::sync::Arc;

use rota_engine::{
    Body, Epoch, Outcome, PartitionId, Request,
    node::Phase,
    requests::{Check, Content, Fence},
};
use tokio::{sync::oneshot, task::JoinSet, time::Instant};

use super::{Running, appends};
use crate::messages::{Needed, Report};

/// Reads that wait. A read whose sender is dropped is refused.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// They came while a round was under way: it may have begun before them.
    waiting: Vec<(Needed, oneshot::Sender<()>)>,
    /// Those of the round that is under way.
    asked: Vec<(Needed, oneshot::Sender<()>)>,
}

impl Running<'_> {
    pub(super) fn confirm(&mut self, needed: Needed, done: oneshot::Sender<()>) {
        self.confirmations.waiting.push((needed, done));
    }

    /// Begins a round for all that waits, unless one is under way.
    pub(super) fn confirm_waiting(&mut self) {
        if !self.confirmations.asked.is_empty() || self.confirmations.waiting.is_empty() {
            return;
        }
        let node = self.node.inspect();
        let token_of = |(partition, epoch): &(PartitionId, Epoch)| match node.partitions.get(partition) {
            Some(Phase::Loading(token)) if token.epoch == *epoch => Some(*token),
            Some(Phase::Serving(serving)) if serving.token.epoch == *epoch => Some(serving.token),
            _ => None,
        };
        let mut asked = std::mem::take(&mut self.confirmations.waiting);
        asked.retain(|(needed, done)| !done.is_closed() && needed.iter().all(|each| token_of(each).is_some()));
        // An empty round would be over while the next one is under way, whose reads it would be taken for.
        if asked.is_empty() {
            return;
        }
        let partitions: Needed = asked.iter().flat_map(|(needed, _)| needed).copied().collect();
        let mut checks = JoinSet::new();
        for each in partitions {
            let Some(token) = token_of(&each) else { continue };
            let (partition, _) = each;
            let request = Request { history: node.view.meta.history, body: Body::Check(Check { partition, token }) };
            let engine = Arc::clone(&self.engine);
            checks.spawn_local(async move { (each, engine.call(&request).await) });
        }
        self.confirmations.asked = asked;
        let reports = self.reports.clone();
        tokio::task::spawn_local(async move {
            let began = Instant::now();
            let (of, outcomes): (Vec<_>, Vec<_>) = checks.join_all().await.into_iter().unzip();
            // What failed is asked again at once.
            appends::pause_after(&outcomes, began).await;
            // The node may have ended.
            let _gone = reports.send(Report::Checked(of.into_iter().zip(outcomes).collect()));
        });
    }

    /// A round is over. What the engine said nothing about is asked again for as long as the node serves it.
    pub(super) fn checked(&mut self, checks: Vec<((PartitionId, Epoch), Outcome)>) {
        let (mut held, mut refused) = (Needed::new(), Needed::new());
        for (each, outcome) in checks {
            match outcome {
                Outcome::Answered(answer) if answer.content == Content::Fence(Fence::Held) => {
                    held.insert(each);
                }
                Outcome::Answered(_) => {
                    refused.insert(each);
                }
                Outcome::Unknown | Outcome::SpaceExhausted => {}
            }
        }
        for (needed, done) in std::mem::take(&mut self.confirmations.asked) {
            if needed.is_subset(&held) {
                // The client may have gone.
                let _gone = done.send(());
            } else if needed.is_disjoint(&refused) {
                self.confirmations.waiting.push((needed, done));
            }
        }
        for (partition, epoch) in refused {
            self.dropped(partition, epoch);
        }
    }
}
