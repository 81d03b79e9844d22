//! `TxnOffsetCommit` (docs/protocol.md §10.4, docs/transactions.md §6).

use rota_core::{
    coordinator::Phase,
    error::ErrorCode,
    request::{CommitPartition, CommitTopic, Request},
    response::CommittedTopic,
};
use rota_journal::owned;
use rota_security::acl::{Operation, ResourceType};
use rota_txn::{CONSUMER_OFFSETS, Error, Participant, Producer, Verdict};
use rota_wire::{
    requests::{CommitTopicBody, TopicRef},
    transactions::{TxnOffsetCommitBody, txn_offset_commit},
};

use super::{
    Handled,
    context::{Context, Outcome},
    unknown_topics::{KeptTopic, refuse_unknown},
};
use crate::{
    client::{
        reply::{Beside, Reply},
        reply_to::ReplyTo,
    },
    node::{
        Node,
        admissions::{Admission, Admitted},
    },
    topics::{error_of_verdict, must_ask},
};

/// The first version whose clients know `TRANSACTION_ABORTABLE`.
const ABORTABLE_SINCE: i16 = 4;
/// The first version of the second protocol, in which the group's coordinator adds its partition to the transaction.
const SECOND_PROTOCOL_SINCE: i16 = 5;

/// A request whose topics and rights were checked.
struct Checked {
    transactional_id: String,
    producer: Producer,
    request: owned::Request<'static>,
    group_partition: u32,
    reply_to: ReplyTo,
    refused: Vec<CommittedTopic>,
}

/// Refuses what the client may not use and what does not exist, asks the coordinator of the transaction, and submits the
/// offsets to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let version = context.version();
    let body = TxnOffsetCommitBody::read(version, context.body())?;
    if let Some(refused) = refuse_forbidden(context, &body) {
        return Ok(refused);
    }
    if version >= SECOND_PROTOCOL_SINCE && !context.node.all_transactions().config().has_second_protocol() {
        return Ok(refuse_all(context, &body, ErrorCode::UnsupportedVersion));
    }
    context.record_sender(Some(body.group_id), body.member_id);
    let access = context.access();
    let (refused, kept) = refuse_unknown(context.node.topics(), &access, &body.topics, &body.partitions);
    if kept.is_empty() {
        return Ok(context.write(|out| txn_offset_commit(out, version, &refused, &[])));
    }
    let topics: Vec<CommitTopic<'_>> = kept
        .iter()
        .map(|(name, topic_id, partitions): &KeptTopic<'_>| CommitTopic { name, topic_id: *topic_id, partitions })
        .collect();
    let checked = Checked {
        transactional_id: body.transactional_id.to_owned(),
        producer: Producer { id: body.producer_id, epoch: body.producer_epoch },
        request: owned::Request::from(&Request::TxnOffsetCommit(body.request(&topics))),
        group_partition: context.node.partition_of(body.group_id),
        reply_to: context.reply_to(),
        refused,
    };
    context.client().park();
    // The gate of a coordinator that does not serve the group refuses the request.
    let is_served = !body.group_id.is_empty()
        && (context.node.coordinator(checked.group_partition)).is_some_and(|of| of.phase() == Phase::Active);
    if is_served {
        checked.verify(context.node);
    } else {
        checked.submit(context.node);
    }
    Ok(context.handled())
}

impl Checked {
    fn participant(&self) -> Participant {
        Participant::new(CONSUMER_OFFSETS, self.group_partition.cast_signed())
    }

    fn verdict(&self, node: &Node, admitted: &Admitted) -> Verdict {
        let participant = self.participant();
        let here = || node.all_transactions().verify(&self.transactional_id, self.producer, &participant);
        admitted.verdict(&participant, here)
    }

    /// Submits the offsets if the transaction takes them. By the second protocol, the group's partition is added to it
    /// first.
    fn verify(self, node: &mut Node) {
        let verdict = self.verdict(node, &Admitted::default());
        let adds = self.reply_to.version >= SECOND_PROTOCOL_SINCE;
        if !must_ask(verdict, adds, node.cluster().is_some()) {
            return self.act(node, verdict, None);
        }
        let (transactional_id, producer) = (self.transactional_id.clone(), self.producer);
        let admission = Admission { transactional_id, producer, participants: vec![self.participant()], adds };
        node.admit(
            admission,
            Box::new(move |node, admitted| {
                // The transaction may have ended meanwhile.
                let verdict = self.verdict(node, &admitted);
                self.act(node, verdict, admitted.not_added);
            }),
        );
    }

    /// Submits the offsets in the same turn of the node as the verdict, so that no marker comes in between.
    fn act(self, node: &mut Node, verdict: Verdict, not_added: Option<Error>) {
        if verdict == Verdict::Verified {
            return self.submit(node);
        }
        let error = match error_of_verdict(verdict, not_added) {
            Some(error) => code(error),
            None if self.reply_to.version < ABORTABLE_SINCE => ErrorCode::InvalidTxnState,
            None => ErrorCode::TransactionAbortable,
        };
        let reply = Reply::Whole(self.reply_to, Beside::Refused(self.refused));
        self.request.with(|request| node.refuse_request(reply, &request, error));
    }

    fn submit(self, node: &mut Node) {
        let reply = Reply::Whole(self.reply_to, Beside::Refused(self.refused));
        self.request.with(|request| node.submit(self.group_partition, reply, request));
    }
}

/// Returns the code of a refusal by the transaction's coordinator. `NOT_COORDINATOR` would be about the group's.
fn code(error: Error) -> ErrorCode {
    match error {
        Error::UnknownMapping => ErrorCode::InvalidProducerIdMapping,
        Error::Fenced => ErrorCode::InvalidProducerEpoch,
        Error::Concurrent => ErrorCode::ConcurrentTransactions,
        Error::Loading => ErrorCode::CoordinatorLoadInProgress,
        _ => ErrorCode::CoordinatorNotAvailable,
    }
}

/// Refuses every partition if the client may not use the transactional id, or may not read the group.
fn refuse_forbidden(context: &mut Context<'_>, body: &TxnOffsetCommitBody<'_>) -> Option<Handled> {
    let access = context.access();
    let error = if !access.allows(Operation::Write, ResourceType::TransactionalId, body.transactional_id) {
        ErrorCode::TransactionalIdAuthorizationFailed
    } else if !access.allows(Operation::Read, ResourceType::Group, body.group_id) {
        ErrorCode::GroupAuthorizationFailed
    } else {
        return None;
    };
    Some(refuse_all(context, body, error))
}

fn refuse_all(context: &Context<'_>, body: &TxnOffsetCommitBody<'_>, error: ErrorCode) -> Handled {
    let topic = |topic: &CommitTopicBody<'_>| {
        let (name, topic_id) = match topic.topic {
            TopicRef::Name(name) => (name, 0),
            TopicRef::Id(id) => ("", id),
        };
        let partitions = body.partitions[topic.partitions.clone()].iter();
        let partitions = partitions.map(|partition: &CommitPartition<'_>| (partition.index, error)).collect();
        CommittedTopic { name: name.into(), topic_id, partitions }
    };
    let topics: Vec<CommittedTopic> = body.topics.iter().map(topic).collect();
    context.write(|out| txn_offset_commit(out, context.version(), &[], &topics))
}
