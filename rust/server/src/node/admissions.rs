//! Partitions of this node that a transaction is to admit (docs/transactions.md §6): its coordinator, on whatever server,
//! adds them or says whether they take part. The request waits, and goes on on this node's thread.
//!
//! The verdict of a coordinator of this process is asked for when the data is appended, so no marker comes in between. That
//! of another server may be old when it arrives: a marker that comes meanwhile makes it worthless.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use rota_core::error::ErrorCode;
use rota_txn::{Answer, CONSUMER_OFFSETS, Error, Participant, Request, TransactionVersion, Verdict};

use super::{Node, queues::Told};
pub use crate::peers::Admission;

/// The answer to an [`Admission`].
#[derive(Clone, Debug, Default)]
pub struct Admitted {
    /// Why the coordinator did not add the partitions; `None`: it did, or was not asked.
    pub not_added: Option<Error>,
    /// The verdicts of a coordinator on another server.
    verdicts: BTreeMap<Participant, Verdict>,
}

/// Continues a request with the answer.
pub type ContinueAdmitted = Box<dyn FnOnce(&mut Node, Admitted)>;

/// A question to another server.
struct Wait {
    transactional_id: String,
    producer_id: i64,
    /// Each with whether something has happened to it that the coordinator may not have known.
    participants: Vec<(Participant, bool)>,
    then: ContinueAdmitted,
}

/// The questions of a node that other servers have not answered yet.
#[derive(Default)]
pub struct Admissions {
    asked: u64,
    waiting: HashMap<u64, Wait>,
    /// By producer id, transactions of other servers with offsets of groups here: the id, and the partition of the groups.
    names: HashMap<i64, (String, i32)>,
}

impl fmt::Debug for Admissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admissions({} wait)", self.waiting.len())
    }
}

impl Admissions {
    /// A marker of a producer has come for a partition.
    pub fn marker_comes(&mut self, producer_id: i64, topic: &str, partition: i32) {
        let of_producer = self.waiting.values_mut().filter(|wait| wait.producer_id == producer_id);
        for (participant, is_stale) in of_producer.flat_map(|wait| &mut wait.participants) {
            *is_stale |= participant.topic == topic && participant.partition == partition;
        }
        if topic == CONSUMER_OFFSETS {
            self.names.remove(&producer_id);
        }
    }

    /// The node has lost a partition of groups: another server may have written markers into it.
    pub fn groups_lost(&mut self, partition: u32) {
        let participants = self.waiting.values_mut().flat_map(|wait| &mut wait.participants);
        for (participant, is_stale) in participants {
            *is_stale |= participant.is_groups() && participant.partition == partition.cast_signed();
        }
        self.names.retain(|_, (_, of)| *of != partition.cast_signed());
    }
}

impl Admitted {
    /// Whether the transaction is being ended, or another request about it is not finished yet.
    pub fn is_concurrent(&self) -> bool {
        self.not_added == Some(Error::Concurrent)
            || self.verdicts.values().any(|verdict| *verdict == Verdict::Concurrent)
    }

    /// Returns the verdict on a partition; `otherwise` asks the coordinators of this process.
    pub fn verdict(&self, participant: &Participant, otherwise: impl FnOnce() -> Verdict) -> Verdict {
        self.verdicts.get(participant).copied().unwrap_or_else(otherwise)
    }
}

/// What another server's code says.
fn verdict(code: i16) -> Option<Verdict> {
    Some(match ErrorCode::from_code(code)? {
        ErrorCode::None => Verdict::Verified,
        ErrorCode::TransactionAbortable | ErrorCode::InvalidTxnState => Verdict::NotAdded,
        ErrorCode::InvalidProducerIdMapping => Verdict::UnknownMapping,
        ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => Verdict::WrongEpoch,
        ErrorCode::ConcurrentTransactions => Verdict::Concurrent,
        ErrorCode::NotCoordinator => Verdict::NotCoordinator,
        ErrorCode::CoordinatorLoadInProgress => Verdict::Loading,
        _ => return None,
    })
}

impl Node {
    /// Asks the coordinator of a transaction, on whatever server. `then` runs on this node's thread, before this returns or
    /// later.
    pub fn admit(&mut self, admission: Admission, then: ContinueAdmitted) {
        let owner = self.transaction_owner(&admission.transactional_id);
        let is_elsewhere = self.shared.is_elsewhere(owner) && !self.coordinates(&admission.transactional_id);
        let Some(peers) = self.shared.peers.as_ref().filter(|_| is_elsewhere) else {
            let Admission { transactional_id, producer, participants, adds } = admission;
            let version = TransactionVersion::V2;
            let request = Request::AddParticipants { transactional_id, producer, participants, version };
            let then = |node: &mut Node, answer| {
                let not_added = if let Answer::Refused(error) = answer { Some(error) } else { None };
                then(node, Admitted { not_added, verdicts: BTreeMap::new() });
            };
            return if adds { self.ask_transaction(request, Box::new(then)) } else { then(self, Answer::Done) };
        };
        self.admissions.asked += 1;
        let (number, place, shared) = (self.admissions.asked, self.place_index(), self.shared_state());
        let done = move |codes| {
            shared.told.leave(place, Told::Admitted(number, codes));
            shared.wakers[place].notify_one();
        };
        let participants = admission.participants.iter().map(|participant| (participant.clone(), false)).collect();
        let transactional_id = admission.transactional_id.clone();
        let wait = Wait { transactional_id, producer_id: admission.producer.id, participants, then };
        self.admissions.waiting.insert(number, wait);
        peers.admit(owner, admission, Box::new(done));
    }

    /// Another server has answered, or does not.
    pub(super) fn admitted(&mut self, number: u64, codes: Option<Vec<i16>>) {
        let Some(wait) = self.admissions.waiting.remove(&number) else { return };
        let Wait { transactional_id, producer_id, participants, then } = wait;
        let mut admitted = Admitted::default();
        let codes = codes.unwrap_or_else(|| vec![ErrorCode::CoordinatorNotAvailable.code(); participants.len()]);
        for ((participant, is_stale), code) in participants.into_iter().zip(codes) {
            let verdict = match verdict(code) {
                Some(Verdict::Verified) if is_stale => Verdict::Concurrent,
                Some(verdict) => verdict,
                None => {
                    admitted.not_added = Some(Error::NotAvailable);
                    Verdict::NotAdded
                }
            };
            if verdict == Verdict::Verified && participant.is_groups() {
                self.admissions.names.insert(producer_id, (transactional_id.clone(), participant.partition));
            }
            admitted.verdicts.insert(participant, verdict);
        }
        then(self, admitted);
    }

    /// Returns the transaction by which a producer holds offsets of groups here, and the node that coordinates it; `None`:
    /// this node does not know it.
    pub fn named_elsewhere(&self, producer_id: i64) -> Option<(String, i32)> {
        let (name, _) = self.admissions.names.get(&producer_id)?;
        Some((name.clone(), self.transaction_owner(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Admissions {
        let wait = |producer_id, participants: &[(&str, i32)]| Wait {
            transactional_id: "pay".to_owned(),
            producer_id,
            participants: participants.iter().map(|(topic, index)| (Participant::new(*topic, *index), false)).collect(),
            then: Box::new(|_, _| ()),
        };
        let waiting = [(1, wait(7, &[("t", 0), ("t", 1)])), (2, wait(8, &[("t", 0), (CONSUMER_OFFSETS, 3)]))];
        let names = [(7, ("pay".to_owned(), 2)), (8, ("pay".to_owned(), 3))];
        Admissions { asked: 2, waiting: waiting.into(), names: names.into() }
    }

    fn stale(admissions: &Admissions) -> Vec<(u64, String, i32)> {
        let of = |(number, wait): (&u64, &Wait)| {
            let stale = wait.participants.iter().filter(|(_, is_stale)| *is_stale);
            stale.map(|(of, _)| (*number, of.topic.clone(), of.partition)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = admissions.waiting.iter().flat_map(of).collect();
        all.sort();
        all
    }

    #[test]
    fn a_marker_makes_the_verdicts_on_its_own_producer_and_partition_worthless() {
        let mut admissions = waiting();
        admissions.marker_comes(7, "t", 1);
        admissions.marker_comes(9, "t", 0);
        assert_eq!(stale(&admissions), [(1, "t".to_owned(), 1)]);
    }

    #[test]
    fn so_does_the_loss_of_a_partition_of_groups() {
        let mut admissions = waiting();
        admissions.groups_lost(0);
        assert_eq!(stale(&admissions), []);
        admissions.groups_lost(3);
        assert_eq!(stale(&admissions), [(2, CONSUMER_OFFSETS.to_owned(), 3)]);
    }

    #[test]
    fn a_transaction_is_known_until_its_marker_comes_or_the_groups_are_lost() {
        let known = |admissions: &Admissions| {
            let mut producers: Vec<i64> = admissions.names.keys().copied().collect();
            producers.sort_unstable();
            producers
        };
        let mut admissions = waiting();
        admissions.marker_comes(7, "t", 0);
        assert_eq!(known(&admissions), [7, 8]);
        admissions.marker_comes(7, CONSUMER_OFFSETS, 2);
        assert_eq!(known(&admissions), [8]);
        admissions.groups_lost(2);
        assert_eq!(known(&admissions), [8]);
        admissions.groups_lost(3);
        assert_eq!(known(&admissions), [0_i64; 0]);
    }

    #[test]
    fn every_verdict_has_a_code_and_other_codes_have_none() {
        let all = [
            (0, Verdict::Verified),
            (120, Verdict::NotAdded),
            (48, Verdict::NotAdded),
            (49, Verdict::UnknownMapping),
            (47, Verdict::WrongEpoch),
            (90, Verdict::WrongEpoch),
            (51, Verdict::Concurrent),
            (16, Verdict::NotCoordinator),
            (14, Verdict::Loading),
        ];
        for (code, expected) in all {
            assert_eq!(verdict(code), Some(expected), "{code}");
        }
        assert_eq!([3, 15, 31, 55, -1].map(verdict), [None; 5]);
    }
}
