//! The kinds of questions between servers.

use bytes::BytesMut;
use rota_txn::{Participant, Producer};
use rota_wire::{
    WireError,
    between_servers::{SentAdmission, SentMarker, admission_codes, admissions, marker_codes, markers},
};

/// Receives the error code of each partition in the order of the question; `None`: there is no answer. It must not block.
pub type Codes = Box<dyn FnOnce(Option<Vec<i16>>) + Send>;

/// `CLUSTER_AUTHORIZATION_FAILED`.
const NOT_ALLOWED: i16 = 31;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered {
    /// A code for each partition of each question.
    Codes(Vec<i16>),
    /// The principal of this server may not ask.
    NotAllowed,
}

impl Answered {
    fn of(codes: Vec<i16>) -> Answered {
        // One right is for all of them.
        if codes.contains(&NOT_ALLOWED) { Answered::NotAllowed } else { Answered::Codes(codes) }
    }
}

/// A kind of question: several go in one request, and the answer has a code for each partition of each.
pub trait Question: Sized + 'static {
    /// What the questions are.
    const ABOUT: &'static str;
    /// The frame of a request.
    fn request(batch: &[Self], correlation_id: i32) -> BytesMut;
    /// Reads an answer.
    fn codes(answer: &[u8], correlation_id: i32) -> Result<Answered, WireError>;
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
    const ABOUT: &'static str = "markers";

    fn request(batch: &[Marker], correlation_id: i32) -> BytesMut {
        markers(correlation_id, &batch.iter().map(Marker::sent).collect::<Vec<_>>())
    }

    fn codes(answer: &[u8], correlation_id: i32) -> Result<Answered, WireError> {
        marker_codes(answer, correlation_id).map(Answered::of)
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
    const ABOUT: &'static str = "admissions";

    fn request(batch: &[(Admission, Codes)], correlation_id: i32) -> BytesMut {
        admissions(correlation_id, &batch.iter().map(|(admission, _)| admission.sent()).collect::<Vec<_>>())
    }

    fn codes(answer: &[u8], correlation_id: i32) -> Result<Answered, WireError> {
        // Another error of the whole request is for none of its partitions.
        let of_all = |error| if error == NOT_ALLOWED { vec![error] } else { Vec::new() };
        admission_codes(answer, correlation_id).map(|codes| Answered::of(codes.unwrap_or_else(of_all)))
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

    #[test]
    fn a_refusal_of_this_servers_principal_is_one_in_either_form() {
        assert_eq!(Answered::of(vec![NOT_ALLOWED]), Answered::NotAllowed);
        assert_eq!(Answered::of(vec![0, 51]), Answered::Codes(vec![0, 51]));
        let whole = |error: i16| {
            let mut answer = BytesMut::from(&[0, 0, 0, 9, 0, 0, 0, 0, 0][..]);
            answer.extend_from_slice(&error.to_be_bytes());
            answer.extend_from_slice(&[1, 0]);
            <(Admission, Codes)>::codes(&answer, 9).unwrap()
        };
        assert_eq!(whole(NOT_ALLOWED), Answered::NotAllowed);
        assert_eq!(whole(14), Answered::Codes(vec![]));
    }
}
