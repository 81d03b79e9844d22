//! The topic APIs: messages are decoded and encoded here, and answered by [`crate::topics`].

use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, InitProducerIdRequest, ListOffsetsRequest,
        MetadataRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    },
    protocol::{Decodable, Encodable},
};
use rota_wire::{RequestHeader, WireError, decode_body, write::begin_answer};

use crate::{
    apis::Handled, client::reply::Address, faults, net::connection::Connection, node::Node, topics::ProduceOutcome,
};

type Outcome = Result<Handled, WireError>;

/// Decodes the body of a request. Record batches in it keep a copy of this body alive, not the read buffer.
pub fn decode<T: Decodable>(header: &RequestHeader<'_>, body: &[u8]) -> Result<T, WireError> {
    decode_body(header.api.key, header.version, &Bytes::copy_from_slice(body))
}

/// Writes an answer. One that does not fit its layout, such as a text that is too long, closes the connection.
pub fn answer(connection: &Connection, header: &RequestHeader<'_>, response: &impl Encodable) -> Handled {
    let out = &mut *connection.out.borrow_mut();
    let start = begin_answer(out, header.correlation_id, header.api.tagged_answer_header(header.version));
    if response.encode(out, header.version).is_err() {
        out.truncate(start);
        return Handled::Close;
    }
    connection.end_answer(out, start);
    Handled::Answered
}

/// `Metadata`: the nodes, and the topics.
pub fn metadata(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let request: MetadataRequest = decode(header, body)?;
    let cluster = node.place.cluster(connection);
    let mut response = node.topics.metadata(&request, header.version, &cluster, &mut node.random);
    if let Some(error) = node.injected("") {
        faults::metadata_error(&mut response, error);
    }
    Ok(answer(connection, header, &response))
}

/// `CreateTopics`.
pub fn create_topics(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let request: CreateTopicsRequest = decode(header, body)?;
    let response = node.topics.create_topics(&request, header.version, &mut node.random);
    Ok(answer(connection, header, &response))
}

/// `DeleteTopics`: the committed offsets of a topic go with it.
pub fn delete_topics(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let request: DeleteTopicsRequest = decode(header, body)?;
    let deletion = node.topics.delete_topics(&request, header.version);
    let names: Vec<&str> = deletion.deleted.iter().map(|name| &**name).collect();
    if !names.is_empty() {
        node.topics_deleted(&names);
    }
    Ok(answer(connection, header, &deletion.response))
}

/// `CreatePartitions`.
pub fn create_partitions(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Outcome {
    let request: CreatePartitionsRequest = decode(header, body)?;
    let response = node.topics.create_partitions(&request, header.version);
    Ok(answer(connection, header, &response))
}

/// `Produce`. With acks 0 nothing is answered, and an error closes the connection.
pub fn produce(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let request: ProduceRequest = decode(header, body)?;
    if let Some(error) = node.injected("") {
        return Ok(match request.acks {
            0 => Handled::Close,
            _ => answer(connection, header, &faults::produce_error(&request, error)),
        });
    }
    let outcome = node.topics.produce(&request, header.version, node.clock.now().wall_ms);
    if !outcome.waiting.is_empty() && request.acks != 0 {
        connection.parked.set(true);
        node.produces.push(ProduceWait { address: Address::of(connection, header), outcome });
        return Ok(Handled::Parked);
    }
    match request.acks {
        0 if outcome.has_error => Ok(Handled::Close),
        0 => Ok(Handled::Answered),
        _ => Ok(answer(connection, header, &outcome.response)),
    }
}

/// A Produce that waits until all of its batches are durable, or failed.
#[derive(Debug)]
pub struct ProduceWait {
    address: Address,
    outcome: ProduceOutcome,
}

/// Answers whoever has produced what has become durable.
pub fn finish_produces(node: &mut Node) {
    for (token, result) in node.topics.produced() {
        node.produces.iter_mut().for_each(|wait| wait.outcome.ended(token, &result));
    }
    for wait in node.produces.extract_if(.., |wait| wait.outcome.waiting.is_empty()) {
        let Address { connection, api, version, correlation_id } = wait.address;
        if !connection.ended.get() {
            let header = RequestHeader { api, version, correlation_id, client_id: "" };
            let _closed = answer(&connection, &header, &wait.outcome.response);
        }
        connection.answered();
    }
}

/// `ListOffsets`.
pub fn list_offsets(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let request: ListOffsetsRequest = decode(header, body)?;
    let response = node.topics.list_offsets(&request, header.version);
    Ok(answer(connection, header, &response))
}

/// `OffsetForLeaderEpoch`.
pub fn offset_for_leader_epoch(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Outcome {
    let request: OffsetForLeaderEpochRequest = decode(header, body)?;
    let response = node.topics.offset_for_leader_epoch(&request);
    Ok(answer(connection, header, &response))
}

/// `InitProducerId`, for idempotent producers.
pub fn init_producer_id(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Outcome {
    let request: InitProducerIdRequest = decode(header, body)?;
    let response = node.topics.init_producer_id(&request, header.version);
    Ok(answer(connection, header, &response))
}
