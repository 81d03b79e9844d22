//! Effects of events: answers, appends and metrics.

use std::{rc::Rc, sync::Arc};

use rota_core::{
    controls::NotDone,
    coordinator::Coordinator,
    effects::{AppendId, Moment, Receipt, Sink},
    explain::Rebalance,
    records::{EndTransaction, Record, TransactionBatch},
    request::{Now, Ticket},
    response::Answer,
};
use rota_journal::{Event, Outcome};
use rota_log::{BatchKind, EndMarker};

use super::{journal::Journal, tickets::Tickets};
use crate::{
    base::{changes::Changes, metrics::Metrics},
    client::Client,
    log::offsets_log::OffsetsLog,
};

/// Receives the effects of a node's coordinators: answers to tickets, appends to the log, and metrics.
pub struct Effects {
    pub tickets: Tickets,
    pub log: OffsetsLog,
    /// A buffer for journal entries.
    outcome: Outcome,
    pub metrics: Metrics,
    changes: Arc<Changes>,
    /// The groups whose patterns are to be resolved, with the clients that caused it.
    pub resolving: Vec<(u32, Arc<str>, Rc<Client>)>,
    /// Whether these are wanted: there is an authorizer.
    pub limits_patterns: bool,
    /// The receipt of the last request that left one.
    pub receipt: Option<(Ticket, Receipt)>,
}

impl Effects {
    /// Creates the effects over the node's access to the log. `changes` notifies threads that wait for groups to
    /// change.
    pub fn new(log: OffsetsLog, changes: Arc<Changes>, limits_patterns: bool) -> Effects {
        let (tickets, outcome, metrics) = (Tickets::default(), Outcome::default(), Metrics::default());
        Effects { tickets, log, outcome, metrics, changes, resolving: Vec::new(), limits_patterns, receipt: None }
    }

    /// Runs an event on a coordinator and writes it to the journal. Errors: a control was refused.
    pub fn run(
        &mut self,
        journal: Option<&Journal>,
        coordinator: &mut Coordinator,
        now: Now,
        event: &Event<'_>,
    ) -> Result<(), NotDone> {
        let outcome = &mut std::mem::take(&mut self.outcome);
        let sink = &mut PartitionSink::of(self, coordinator, now);
        let done = match journal {
            None => event.apply(coordinator, now, sink),
            Some(journal) => journal.run(coordinator, now, event, outcome, sink),
        };
        self.outcome = std::mem::take(outcome);
        done
    }
}

/// Receives the effects of one coordinator.
pub struct PartitionSink<'n> {
    effects: &'n mut Effects,
    partition: u32,
    epoch: u32,
    now: Now,
}

impl<'n> PartitionSink<'n> {
    /// Creates the sink of a coordinator at time `now`.
    pub fn of(effects: &'n mut Effects, coordinator: &Coordinator, now: Now) -> PartitionSink<'n> {
        let (partition, epoch) = (coordinator.partition(), coordinator.epoch());
        PartitionSink { effects, partition, epoch, now }
    }
}

impl Sink for PartitionSink<'_> {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        self.effects.metrics.answered(ticket, &answer, self.now.mono_ms);
        // INVARIANT: S18. A second answer would reach another request.
        let answered = self.effects.tickets.answer(ticket, &answer);
        debug_assert!(answered, "ticket {ticket:?} was answered twice");
    }

    fn receipt(&mut self, ticket: Ticket, receipt: Receipt) {
        self.effects.receipt = Some((ticket, receipt));
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.effects.log.append(self.partition, self.epoch, append_id, self.now.wall_ms, records);
    }

    fn resolving(&mut self, group_id: &Arc<str>, ticket: Ticket) {
        if self.effects.limits_patterns
            && let Some(client) = self.effects.tickets.client(ticket)
        {
            self.effects.resolving.push((self.partition, Arc::clone(group_id), Rc::clone(client)));
        }
    }

    fn append_in_transaction(&mut self, append_id: AppendId, batch: TransactionBatch, records: &[Record]) {
        let kind = match batch {
            TransactionBatch::Offsets { producer_id, producer_epoch } => {
                BatchKind::Transactional { producer_id, producer_epoch }
            }
            TransactionBatch::End(EndTransaction { producer_id, producer_epoch, coordinator_epoch, is_commit }) => {
                BatchKind::Marker(EndMarker { producer_id, producer_epoch, coordinator_epoch, is_commit })
            }
        };
        self.effects.log.append_kind(self.partition, self.epoch, append_id, self.now.wall_ms, kind, records);
    }

    fn firing(&mut self, timer: &'static str, _group_id: Option<&str>) {
        self.effects.metrics.fired(timer);
    }

    fn rebalance(&mut self, _group_id: &str, moment: Moment, rebalance: &Rebalance) {
        self.effects.metrics.rebalanced(moment, rebalance);
        self.effects.changes.notify();
    }
}
