//! Answers of the transaction coordinators in the form of their requests.

use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, EndTxnResponse, InitProducerIdResponse, ProducerId, TopicName,
    add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult},
};
use rota_txn::{Answer, Api, Error, Producer};

use crate::client::reply_to::ReplyTo;

const NONE: Producer = Producer { id: -1, epoch: -1 };

/// The form of an answer.
#[derive(Debug)]
pub enum Form {
    /// Of `InitProducerId`.
    InitProducerId,
    /// Of `AddPartitionsToTxn`, with the partitions of the request by topic.
    AddPartitions(Vec<(TopicName, Vec<i32>)>),
    /// Of `AddOffsetsToTxn`.
    AddOffsets,
    /// Of `EndTxn`.
    EndTxn,
}

/// The reply path of a request to a transaction coordinator.
#[derive(Debug)]
pub struct TransactionReply {
    /// The client.
    pub reply_to: ReplyTo,
    /// The form of the answer.
    pub form: Form,
}

impl TransactionReply {
    /// Refuses the request.
    pub fn refuse(self, error: Error) {
        self.answer(Answer::Refused(error));
    }

    /// Answers the request.
    pub fn answer(self, answer: Answer) {
        let (error, producer) = match answer {
            Answer::Done => (None, NONE),
            Answer::Producer(producer) => (None, producer),
            Answer::Refused(error) => (Some(error), NONE),
        };
        let version = self.reply_to.version;
        let code = |api| error.map_or(0, |error: Error| error.code(api, version));
        // What cannot be encoded closes the connection: no field of these answers can be too long.
        let _encoded = match self.form {
            Form::InitProducerId => self.reply_to.encode(
                &InitProducerIdResponse::default()
                    .with_error_code(code(Api::InitProducerId))
                    .with_producer_id(ProducerId(producer.id))
                    .with_producer_epoch(producer.epoch),
            ),
            Form::AddPartitions(topics) => {
                let code = code(Api::AddPartitionsToTxn);
                self.reply_to.encode(&partitions_answer(topics, |_, _| code))
            }
            Form::AddOffsets => {
                self.reply_to.encode(&AddOffsetsToTxnResponse::default().with_error_code(code(Api::AddOffsetsToTxn)))
            }
            Form::EndTxn => self.reply_to.encode(
                &EndTxnResponse::default()
                    .with_error_code(code(Api::EndTxn))
                    .with_producer_id(ProducerId(producer.id))
                    .with_producer_epoch(producer.epoch),
            ),
        };
    }
}

/// Returns the answer of `AddPartitionsToTxn` 0–3 with a code for each partition.
pub fn partitions_answer(
    topics: Vec<(TopicName, Vec<i32>)>,
    code: impl Fn(&TopicName, i32) -> i16,
) -> AddPartitionsToTxnResponse {
    let result = |(name, partitions): (TopicName, Vec<i32>)| {
        let of = |index: &i32| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*index)
                .with_partition_error_code(code(&name, *index))
        };
        let results = partitions.iter().map(of).collect();
        AddPartitionsToTxnTopicResult::default().with_name(name).with_results_by_partition(results)
    };
    let results = topics.into_iter().map(result).collect();
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results)
}
