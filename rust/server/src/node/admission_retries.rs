//! Partitions that a Produce adds to a transaction while the one before is being ended: the node asks the coordinator again
//! for a while instead of answering CONCURRENT_TRANSACTIONS, as Kafka's leaders do (docs/transactions.md §6). A client that
//! waits for new metadata after that error would stand still for seconds.

use std::{fmt, mem};

use super::{
    Node,
    admissions::{Admission, Admitted, ContinueAdmitted},
};

/// `add.partitions.to.txn.retry.backoff.ms` and `add.partitions.to.txn.retry.backoff.max.ms`: Kafka's defaults.
const BACKOFF_MS: u64 = 20;
const BACKOFF_MAX_MS: u64 = 100;

/// An admission that is asked for again.
struct Retry {
    due_ms: u64,
    until_ms: u64,
    admission: Admission,
    then: ContinueAdmitted,
}

/// The admissions of a node that are asked for again, in the order of their requests.
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

    /// Returns when the last of this transactional id that waits is due: requests keep their order.
    fn due_ms_of(&self, transactional_id: &str) -> Option<u64> {
        let of_id = |retry: &&Retry| retry.admission.transactional_id == transactional_id;
        self.waiting.iter().rev().find(of_id).map(|retry| retry.due_ms)
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
        let until_ms = self.clock.now().mono_ms + BACKOFF_MAX_MS;
        match self.admission_retries.due_ms_of(&admission.transactional_id) {
            None => self.admit_until(until_ms, admission, then),
            Some(due_ms) => self.admission_retries.waiting.push(Retry { due_ms, until_ms, admission, then }),
        }
    }

    fn admit_until(&mut self, until_ms: u64, admission: Admission, then: ContinueAdmitted) {
        let again = admission.clone();
        let answered = move |node: &mut Node, admitted: Admitted| {
            let now_ms = node.clock.now().mono_ms;
            if !admitted.is_concurrent() || now_ms >= until_ms {
                return then(node, admitted);
            }
            let due_ms = now_ms + BACKOFF_MS;
            node.admission_retries.waiting.push(Retry { due_ms, until_ms, admission: again, then });
            node.arm_earlier(Some(due_ms));
        };
        self.admit(admission, Box::new(answered));
    }

    /// Asks again for what is due.
    pub(super) fn retry_admissions(&mut self) {
        for Retry { until_ms, admission, then, .. } in self.admission_retries.take_due(self.clock.now().mono_ms) {
            // One of the same transaction that was asked for just now may wait again: the later one stays behind it.
            match self.admission_retries.due_ms_of(&admission.transactional_id) {
                None => self.admit_until(until_ms, admission, then),
                Some(due_ms) => self.admission_retries.waiting.push(Retry { due_ms, until_ms, admission, then }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rota_txn::Producer;

    use super::*;

    fn retry(transactional_id: &str, due_ms: u64) -> Retry {
        let producer = Producer { id: 7, epoch: 0 };
        let transactional_id = transactional_id.to_owned();
        let admission = Admission { transactional_id, producer, participants: Vec::new(), adds: true };
        Retry { due_ms, until_ms: due_ms, admission, then: Box::new(|_, _| ()) }
    }

    #[test]
    fn what_is_due_comes_in_the_order_of_its_requests() {
        let mut retries = AdmissionRetries { waiting: vec![retry("a", 5), retry("b", 9), retry("a", 4)] };
        assert_eq!((retries.next_due_ms(), retries.due_ms_of("a"), retries.due_ms_of("c")), (Some(4), Some(4), None));
        assert_eq!(retries.take_due(3).len(), 0);
        assert_eq!(retries.take_due(5).iter().map(|retry| retry.due_ms).collect::<Vec<_>>(), [5, 4]);
        assert_eq!(retries.next_due_ms(), Some(9));
    }
}
