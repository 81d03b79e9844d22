//! `AddPartitionsToTxn` 4 and 5, by which servers ask the coordinators of transactions (docs/transactions.md §3.2, §6): each
//! request has several transactions, and partitions to add or to look for.

use std::{cell::RefCell, rc::Rc};

use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction},
    add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
    },
};
use rota_core::error::ErrorCode;
use rota_security::acl::Operation;
use rota_txn::{Answer, Api, CONSUMER_OFFSETS, Participant, Producer, Request, TransactionVersion, Verdict};

use super::{Handled, context::Context};
use crate::{client::reply_to::ReplyTo, node::Node};

/// Of a partition that could be added beside one that cannot.
pub const OPERATION_NOT_ATTEMPTED: i16 = 55;

/// The answers to the transactions of a request, in its order.
struct Collected {
    missing: usize,
    results: Vec<AddPartitionsToTxnResult>,
    reply_to: ReplyTo,
}

/// Answers when the coordinators have answered for every transaction.
pub fn handle(context: &mut Context<'_>, request: AddPartitionsToTxnRequest) -> Handled {
    if !context.access().allows_on_cluster(Operation::ClusterAction) {
        let error = ErrorCode::ClusterAuthorizationFailed.code();
        return context.answer(&AddPartitionsToTxnResponse::default().with_error_code(error));
    }
    if request.transactions.is_empty() {
        return context.answer(&AddPartitionsToTxnResponse::default());
    }
    let count = request.transactions.len();
    let results = vec![AddPartitionsToTxnResult::default(); count];
    let collected = Rc::new(RefCell::new(Collected { missing: count, results, reply_to: context.reply_to() }));
    context.client().park();
    for (at, transaction) in request.transactions.into_iter().enumerate() {
        let collected = Rc::clone(&collected);
        admit(context.node, context.version(), transaction, move |result| collected.borrow_mut().put(at, result));
    }
    context.handled()
}

impl Collected {
    fn put(&mut self, at: usize, result: AddPartitionsToTxnResult) {
        self.results[at] = result;
        self.missing -= 1;
        if self.missing == 0 {
            let results = std::mem::take(&mut self.results);
            let _unanswered =
                self.reply_to.encode(&AddPartitionsToTxnResponse::default().with_results_by_transaction(results));
        }
    }
}

fn admit(
    node: &mut Node,
    version: i16,
    transaction: AddPartitionsToTxnTransaction,
    done: impl FnOnce(AddPartitionsToTxnResult) + 'static,
) {
    let AddPartitionsToTxnTransaction { transactional_id, producer_id, producer_epoch, verify_only, topics, .. } =
        transaction;
    let producer = Producer { id: producer_id.0, epoch: producer_epoch };
    let name = transactional_id.to_string();
    let result = AddPartitionsToTxnResult::default().with_transactional_id(transactional_id);
    let unknown = |topic: &str, partition: i32| {
        let count = node.topics().partition_count(topic).unwrap_or(0);
        topic != CONSUMER_OFFSETS && !(0..count).contains(&partition)
    };
    // Nothing is added that this server does not know: it could not tell later whether it is gone. Kafka does not look for
    // the others then, either.
    if topics.iter().any(|topic| topic.partitions.iter().any(|index| unknown(&topic.name, *index))) {
        let code = |topic: &str, partition| {
            if unknown(topic, partition) { ErrorCode::UnknownTopicOrPartition.code() } else { OPERATION_NOT_ATTEMPTED }
        };
        return done(result.with_topic_results(topic_results(&topics, code)));
    }
    if verify_only {
        let coordinators = node.all_transactions();
        let code = |topic: &str, partition| {
            verdict_code(coordinators.verify(&name, producer, &Participant::new(topic, partition)), version)
        };
        return done(result.with_topic_results(topic_results(&topics, code)));
    }
    let participants = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| Participant::new(topic.name.to_string(), *partition))
    });
    let request = Request::AddParticipants {
        transactional_id: name,
        producer,
        participants: participants.collect(),
        version: TransactionVersion::V2,
    };
    let then = move |_: &mut Node, answer| {
        let code = match answer {
            Answer::Refused(error) => error.code(Api::AddPartitionsToTxn, version),
            _ => ErrorCode::None.code(),
        };
        done(result.with_topic_results(topic_results(&topics, |_, _| code)));
    };
    node.ask_transaction(request, Box::new(then));
}

fn verdict_code(verdict: Verdict, version: i16) -> i16 {
    match (verdict, verdict.error()) {
        (Verdict::Verified, _) => ErrorCode::None.code(),
        (_, Some(error)) => error.code(Api::AddPartitionsToTxn, version),
        (_, None) => ErrorCode::TransactionAbortable.code(),
    }
}

fn topic_results(
    topics: &[AddPartitionsToTxnTopic],
    code: impl Fn(&str, i32) -> i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let result = |topic: &AddPartitionsToTxnTopic| {
        let of = |index: &i32| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*index)
                .with_partition_error_code(code(&topic.name, *index))
        };
        let results = topic.partitions.iter().map(of).collect();
        AddPartitionsToTxnTopicResult::default().with_name(topic.name.clone()).with_results_by_partition(results)
    };
    topics.iter().map(result).collect()
}
