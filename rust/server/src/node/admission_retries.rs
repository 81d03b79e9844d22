//! Partitions that a Produce adds to a transaction while the one before is being ended: the node asks the coordinator again
//! for a while instead of answering `CONCURRENT_TRANSACTIONS`, as Kafka's leaders do (docs/transactions.md §6). A client that
//! waits for new metadata after that error would stand still for seconds.

use std::{fmt, mem};

use super::{
    Node,
    admissions::{Admission, Admitted, ContinueAdmitted},
};

/// A marker and the record of the end take one write each, so the first pause is short; each one is twice as long as the one
/// before. The longest is Kafka's `add.partitions.to.txn.retry.backoff.ms`, the sum its `....retry.backoff.max.ms`.
const FIRST_PAUSE_MS: u64 = 2;
const PAUSE_MAX_MS: u64 = 20;
const RETRIES_MS: u64 = 100;

/// An admission that is asked for again.
struct Retry {
    due_ms: u64,
    pace: Pace,
    admission: Admission,
    /// What the coordinator said last.
    admitted: Admitted,
    then: ContinueAdmitted,
}

/// How long the next pause is, and until when there is one, in monotonic milliseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    pause_ms: u64,
    until_ms: u64,
}

impl Pace {
    fn begin(now_ms: u64) -> Pace {
        Pace { pause_ms: FIRST_PAUSE_MS, until_ms: now_ms + RETRIES_MS }
    }

    /// Returns when to ask again, and the pace from then on; `None`: not any more.
    fn next(self, now_ms: u64) -> Option<(u64, Pace)> {
        let pause_ms = (self.pause_ms * 2).min(PAUSE_MAX_MS);
        (now_ms < self.until_ms).then_some((now_ms + self.pause_ms, Pace { pause_ms, ..self }))
    }
}

/// The admissions of a node that are asked for again. A connection handles nothing behind one, so there are no more than
/// connections.
#[derive(Default)]
pub struct AdmissionRetries {
    waiting: Vec<Retry>,
}

impl fmt::Debug for AdmissionRetries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdmissionRetries({} wait)", self.waiting.len())
    }
}

impl AdmissionRetries {
    /// Returns when the next one is due, in monotonic milliseconds.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.waiting.iter().map(|retry| retry.due_ms).min()
    }

    fn take_due(&mut self, now_ms: u64) -> Vec<Retry> {
        let (due, waiting) = mem::take(&mut self.waiting).into_iter().partition(|retry| retry.due_ms <= now_ms);
        self.waiting = waiting;
        due
    }
}

impl Node {
    /// As [`Node::admit`], for a Produce of the second protocol. On a virtual clock, which need not move, nothing is asked again.
    pub fn admit_with_retries(&mut self, admission: Admission, then: ContinueAdmitted) {
        if self.clock.is_virtual() {
            return self.admit(admission, then);
        }
        let pace = Pace::begin(self.clock.now().mono_ms);
        self.admit_until(pace, admission, then);
    }

    /// Asks again for what is due.
    pub(super) fn retry_admissions(&mut self) {
        for Retry { pace, admission, then, .. } in self.admission_retries.take_due(self.clock.now().mono_ms) {
            self.admit_until(pace, admission, then);
        }
    }

    /// Continues what would be asked for again with the last answer, when the server stops.
    pub(super) fn end_admission_retries(&mut self) {
        for Retry { admitted, then, .. } in mem::take(&mut self.admission_retries.waiting) {
            then(self, admitted);
        }
    }

    fn admit_until(&mut self, pace: Pace, admission: Admission, then: ContinueAdmitted) {
        let again = admission.clone();
        let answered = move |node: &mut Node, admitted: Admitted| {
            let next = pace.next(node.clock.now().mono_ms);
            let Some((due_ms, pace)) = next.filter(|_| admitted.is_concurrent()) else { return then(node, admitted) };
            node.admission_retries.waiting.push(Retry { due_ms, pace, admission: again, admitted, then });
            node.arm_earlier(Some(due_ms));
        };
        self.admit(admission, Box::new(answered));
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc, sync::Arc};

    use rota_txn::Producer;

    use super::*;
    use crate::{base::owners::FIRST_NODE, node::shared_state::tests::in_memory};

    fn retry(transactional_id: &str, due_ms: u64) -> Retry {
        let producer = Producer { id: 7, epoch: 0 };
        let transactional_id = transactional_id.to_owned();
        let admission = Admission { transactional_id, producer, participants: Vec::new(), adds: true };
        Retry { due_ms, pace: Pace::begin(0), admission, admitted: Admitted::default(), then: Box::new(|_, _| ()) }
    }

    #[test]
    fn only_what_is_due_is_asked_for_again() {
        let mut retries = AdmissionRetries { waiting: vec![retry("a", 5), retry("b", 9), retry("a", 4)] };
        assert_eq!(retries.next_due_ms(), Some(4));
        assert_eq!(retries.take_due(3).len(), 0);
        assert_eq!(retries.take_due(5).iter().map(|retry| retry.due_ms).collect::<Vec<_>>(), [5, 4]);
        assert_eq!(retries.next_due_ms(), Some(9));
    }

    #[test]
    fn nothing_waits_to_be_asked_for_again_when_the_node_ends() {
        let shared = Arc::new(in_memory());
        let mut node = Node::new(&shared, FIRST_NODE);
        let goes_on = Rc::new(Cell::new(false));
        let told = Rc::clone(&goes_on);
        let then: ContinueAdmitted = Box::new(move |_, _| told.set(true));
        node.admission_retries.waiting.push(Retry { then, ..retry("a", 5) });
        node.unload();
        assert!(goes_on.get());
    }

    #[test]
    fn pauses_grow_and_end() {
        let mut now_ms = 1_000;
        let mut pace = Pace::begin(now_ms);
        let mut asked_ms = Vec::new();
        while let Some((due_ms, next)) = pace.next(now_ms) {
            (now_ms, pace) = (due_ms, next);
            asked_ms.push(now_ms - 1_000);
        }
        assert_eq!(asked_ms, [2, 6, 14, 30, 50, 70, 90, 110]);
    }
}
