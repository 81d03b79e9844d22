//! What holds after every event (§9).

use super::{Coordinator, entry::Entry};
use crate::{
    state::State,
    transaction::{NO_PRODUCER_ID, NO_TIME, Transaction},
};

impl Coordinator {
    /// Returns every invariant that does not hold, with the id; empty if all hold.
    pub fn violations(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (id, entry) in &self.ids {
            found.extend(entry_violations(entry).into_iter().map(|what| format!("{id}: {what}")));
            let in_flight = self.appends.iter().filter(|(_, of)| *of == id).map(|(append, _)| *append);
            if !in_flight.eq(entry.change.iter().map(|change| change.append)) {
                found.push(format!("{id}: the appends in flight are not its change"));
            }
            if entry.armed_ms.is_some_and(|armed_ms| !self.deadlines.contains(&(armed_ms, id.clone()))) {
                found.push(format!("{id}: its deadline is not armed"));
            }
            let is_serving = !self.is_loading();
            if is_serving && entry.armed_ms != entry.deadline_ms(self.config.expiration_ms) {
                found.push(format!("{id}: another deadline is armed"));
            }
        }
        if self.deadlines.len() != self.ids.values().filter(|entry| entry.armed_ms.is_some()).count() {
            found.push("a deadline without an id is armed".to_owned());
        }
        found
    }
}

fn entry_violations(entry: &Entry) -> Vec<String> {
    let mut found = Vec::new();
    let mut hold = |holds: bool, what: &str| {
        if !holds {
            found.push(what.to_owned());
        }
    };
    hold(entry.current.is_some() || entry.change.is_some(), "it has neither a state nor a record in flight");
    let Some(current) = &entry.current else { return found };
    let is_prepare = current.state.is_prepare();
    hold(is_prepare || entry.unmarked.is_empty(), "a marker is outstanding outside of a Prepare state");
    hold(
        entry.unmarked.participants().all(|participant| current.participants.contains(participant)),
        "a marker is outstanding for a partition that is no participant",
    );
    hold(
        !(is_prepare && entry.change.is_some() && !entry.unmarked.is_empty()),
        "the Complete state is in flight before the last marker",
    );
    let mut also = transaction_violations(current);
    if let Some(next) = entry.change.as_ref().and_then(|change| change.next.as_ref()) {
        hold(current.state.may_become(next.state), "the change in flight is no transition");
        also.extend(transaction_violations(next));
        also.extend(change_violations(current, next));
    }
    found.extend(also);
    found
}

fn transaction_violations(transaction: &Transaction) -> Vec<String> {
    let state = transaction.state;
    let is_open = state.is_open();
    let rules = [
        (is_open || transaction.participants.is_empty(), "it has participants without a transaction"),
        (!is_open || transaction.start_ms != NO_TIME, "its transaction has no start"),
        (transaction.producer.epoch >= 0, "its epoch is negative"),
        (state.is_prepare() || transaction.next_producer_id == NO_PRODUCER_ID, "a next producer outside of Prepare"),
        (transaction.timeout_ms > 0, "it has no timeout"),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what.to_owned()).collect()
}

fn change_violations(current: &Transaction, next: &Transaction) -> Vec<String> {
    let same = current.producer.id == next.producer.id;
    let is_end = current.state == State::Ongoing && next.state.is_prepare();
    let rules = [
        (!same || next.producer.epoch >= current.producer.epoch, "its epoch falls"),
        (!same || next.producer.epoch - current.producer.epoch <= 1, "its epoch skips a value"),
        (!is_end || next.participants == current.participants, "its end has other participants than the transaction"),
        (
            !current.state.is_prepare() || current.state.is_commit() == next.state.is_commit(),
            "its outcome changes (T1)",
        ),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what.to_owned()).collect()
}
