//! The kinds of questions between servers.

use bytes::BytesMut;
use rota_txn::{Participant, Producer};
use rota_wire::{
    WireError,
    between_servers::{SentAdmission, SentMarker, admission_codes, admissions, marker_codes, markers},
};

/// Receives the error code of each partition in the order of the question; `None`: there is no answer. It must not block.
pub type Codes = Box<dyn FnOnce(Option<Vec<i16>>) + Send>;

/// A kind of question: several go in one request, and the answer has a code for each partition of each.
pub(super) trait Question: Sized + 'static {
    /// The frame of a request.
    fn request(batch: &[Self], correlation_id: i32) -> BytesMut;
    /// The codes of an answer.
    fn codes(answer: &[u8], correlation_id: i32) -> Result<Vec<i16>, WireError>;
    /// The number of partitions, and who receives their codes.
    fn into_parts(self) -> (usize, Codes);

    /// Gives each question its codes.
    fn settle(batch: Vec<Self>, codes: Option<Vec<i16>>) {
        let parts: Vec<(usize, Codes)> = batch.into_iter().map(Self::into_parts).collect();
        // A request that was refused as a whole has no codes.
        let wanted: usize = parts.iter().map(|(count, _)| count).sum();
        let mut codes = codes.filter(|codes| codes.len() == wanted).map(Vec::into_iter);
        for (count, done) in parts {
            done(codes.as_mut().map(|codes| codes.take(count).collect()));
        }
    }
}

/// A marker for a partition that the other server leads.
pub struct Marker {
    /// The partition.
    pub participant: Participant,
    /// The marker.
    pub end: rota_txn::Marker,
    /// Receives one code.
    pub done: Codes,
}

impl Marker {
    fn sent(&self) -> SentMarker<'_> {
        SentMarker {
            topic: &self.participant.topic,
            partition: self.participant.partition,
            producer_id: self.end.producer_id,
            producer_epoch: self.end.producer_epoch,
            coordinator_epoch: self.end.coordinator_epoch,
            is_commit: self.end.is_commit,
            transaction_version: self.end.transaction_version.code(),
        }
    }
}

impl Question for Marker {
    fn request(batch: &[Marker], correlation_id: i32) -> BytesMut {
        markers(correlation_id, &batch.iter().map(Marker::sent).collect::<Vec<_>>())
    }

    fn codes(answer: &[u8], correlation_id: i32) -> Result<Vec<i16>, WireError> {
        marker_codes(answer, correlation_id)
    }

    fn into_parts(self) -> (usize, Codes) {
        (1, self.done)
    }
}

/// Partitions that the coordinator of a transaction is to admit.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer: Producer,
    /// The partitions.
    pub participants: Vec<Participant>,
    /// Whether they are added to the transaction, by the second protocol, or only looked for.
    pub adds: bool,
}

impl Admission {
    fn sent(&self) -> SentAdmission<'_> {
        SentAdmission {
            transactional_id: &self.transactional_id,
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            is_verify_only: !self.adds,
            partitions: self.participants.iter().map(|of| (of.topic.as_str(), of.partition)).collect(),
        }
    }
}

/// With who receives a code for each partition.
impl Question for (Admission, Codes) {
    fn request(batch: &[(Admission, Codes)], correlation_id: i32) -> BytesMut {
        admissions(correlation_id, &batch.iter().map(|(admission, _)| admission.sent()).collect::<Vec<_>>())
    }

    fn codes(answer: &[u8], correlation_id: i32) -> Result<Vec<i16>, WireError> {
        admission_codes(answer, correlation_id)
    }

    fn into_parts(self) -> (usize, Codes) {
        (self.0.participants.len(), self.1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn settled(codes: Option<Vec<i16>>) -> Vec<Option<Vec<i16>>> {
        let (sender, results) = channel();
        let admission = |partitions: i32| {
            let sender = sender.clone();
            let done: Codes = Box::new(move |codes| sender.send(codes).unwrap());
            let admission = Admission {
                transactional_id: "pay".to_owned(),
                producer: Producer { id: 7, epoch: 0 },
                participants: (0..partitions).map(|partition| Participant::new("t", partition)).collect(),
                adds: true,
            };
            (admission, done)
        };
        Question::settle(vec![admission(2), admission(1)], codes);
        results.try_iter().collect()
    }

    #[test]
    fn each_question_gets_the_codes_of_its_own_partitions() {
        assert_eq!(settled(Some(vec![0, 51, 3])), [Some(vec![0, 51]), Some(vec![3])]);
    }

    #[test]
    fn an_answer_to_something_else_is_none() {
        for codes in [None, Some(vec![]), Some(vec![0, 0]), Some(vec![0; 4])] {
            assert_eq!(settled(codes), [None, None]);
        }
    }
}
