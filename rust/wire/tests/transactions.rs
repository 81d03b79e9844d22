//! The requests and answers of transactions, in every version: as `kafka-protocol` writes them, cut short, and shown.

use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, DescribeTransactionsRequest,
        EndTxnRequest, ListTransactionsRequest, ProducerId, SaslAuthenticateResponse, SaslHandshakeResponse, TopicName,
        TransactionalId, TxnOffsetCommitRequest, WriteTxnMarkersRequest,
        add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction},
        add_partitions_to_txn_response::{
            AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
        },
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
        write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic},
    },
    protocol::{Decodable, Encodable, Request, StrBytes},
};
use rota_core::error::ErrorCode;
use rota_wire::{
    RequestHeader, WireError, Writer,
    between_servers::{self, SentAdmission, SentMarker},
    decode_body,
    requests::TopicRef,
    transactions::{TxnOffsetCommitBody, WriteTxnMarkersBody, write_txn_markers},
    versions::{self, TRANSACTION_APIS},
};

fn id() -> TransactionalId {
    TransactionalId(StrBytes::from_static_str("pay"))
}

/// Checks a request in every version of its API: whole it is decoded, and cut at any byte it is an error.
fn check<Q: Request + Encodable + Decodable + PartialEq + std::fmt::Debug>(request: impl Fn(i16) -> Q) {
    let api = versions::find(Q::KEY).expect("a served API");
    for version in api.min..=api.max {
        let request = request(version);
        let mut body = BytesMut::new();
        request.encode(&mut body, version).expect("an encodable request");
        let body: Bytes = body.freeze();
        assert_eq!(decode_body::<Q>(api.key, version, &body).as_ref(), Ok(&request), "{} v{version}", api.name);
        for end in 0..body.len() {
            let cut = decode_body::<Q>(api.key, version, &body.slice(..end));
            assert!(cut.is_err(), "{} v{version}, the first {end} bytes", api.name);
        }
    }
    assert!(decode_body::<Q>(api.key, api.max + 1, &Bytes::new()).is_err());
}

#[test]
fn requests_of_transactions_are_decoded_whole_and_refused_if_they_are_cut() {
    check(|version| {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(vec![0, 1]);
        if version > 3 {
            let transaction = AddPartitionsToTxnTransaction::default()
                .with_transactional_id(id())
                .with_producer_id(ProducerId(7))
                .with_verify_only(true)
                .with_topics(vec![topic]);
            return AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]);
        }
        AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id())
            .with_v3_and_below_producer_id(ProducerId(7))
            .with_v3_and_below_producer_epoch(1)
            .with_v3_and_below_topics(vec![topic])
    });
    check(|_| {
        AddOffsetsToTxnRequest::default()
            .with_transactional_id(id())
            .with_producer_id(ProducerId(7))
            .with_group_id(StrBytes::from_static_str("g").into())
    });
    check(|_| {
        EndTxnRequest::default().with_transactional_id(id()).with_producer_id(ProducerId(7)).with_committed(true)
    });
    check(|_| DescribeTransactionsRequest::default().with_transactional_ids(vec![id()]));
    check(|version| {
        let request = ListTransactionsRequest::default()
            .with_state_filters(vec![StrBytes::from_static_str("Ongoing")])
            .with_producer_id_filters(vec![ProducerId(7)]);
        let request = if version >= 1 { request.with_duration_filter(5) } else { request };
        let pattern = Some(StrBytes::from_static_str("pay-.*"));
        if version >= 2 { request.with_transactional_id_pattern(pattern) } else { request }
    });
}

#[test]
fn the_apis_of_transactions_are_sorted_and_apart_from_the_others() {
    assert!(TRANSACTION_APIS.is_sorted_by_key(|api| api.key));
    for api in &TRANSACTION_APIS {
        assert_eq!(versions::find(api.key), Some(api));
        assert!(versions::APIS.iter().all(|other| other.key != api.key));
    }
}

/// Checks a request that is decoded in place: whole it is read, and cut at any byte it is an error.
fn check_in_place<Q: Request + Encodable, B>(
    versions: RangeInclusive<i16>,
    request: &Q,
    read: impl for<'a> Fn(i16, &'a [u8]) -> Result<B, WireError>,
    is_whole: impl Fn(i16, B) -> bool,
) {
    for version in versions {
        let mut body = BytesMut::new();
        request.encode(&mut body, version).expect("an encodable request");
        assert!(read(version, &body).is_ok_and(|found| is_whole(version, found)), "v{version}");
        for end in 0..body.len() {
            assert!(read(version, &body[..end]).is_err(), "v{version}, the first {end} bytes");
        }
    }
}

#[test]
fn offsets_of_a_transaction_are_read_in_every_version() {
    let partition = TxnOffsetCommitRequestPartition::default()
        .with_partition_index(3)
        .with_committed_offset(9)
        .with_committed_metadata(Some(StrBytes::from_static_str("m")));
    let name = TopicName(StrBytes::from_static_str("t"));
    let topic = TxnOffsetCommitRequestTopic::default().with_name(name).with_partitions(vec![partition]);
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(id())
        .with_group_id(StrBytes::from_static_str("g").into())
        .with_producer_id(ProducerId(7))
        .with_producer_epoch(1)
        .with_topics(vec![topic]);
    let read = |version: i16, body: &[u8]| {
        let body = TxnOffsetCommitBody::read(version, body)?;
        let places = body.partitions.iter().map(|at| (at.index, at.offset, at.metadata.map(str::to_owned)));
        let ids = (body.transactional_id.to_owned(), body.group_id.to_owned());
        Ok((
            ids,
            body.producer_id,
            body.producer_epoch,
            places.collect::<Vec<_>>(),
            body.topics[0].topic == TopicRef::Name("t"),
        ))
    };
    let expected = (("pay".to_owned(), "g".to_owned()), 7, 1, vec![(3, 9, Some("m".to_owned()))], true);
    check_in_place(0..=5, &request, read, |_, found| found == expected);
    // Version 6, which the crate does not know, has the topic's id in place of its name.
    let mut body = BytesMut::new();
    request.encode(&mut body, 5).unwrap();
    let at = body.windows(2).position(|two| two == b"\x02t").expect("the compact name");
    let by_id = [&body[..at], &[9; 16], &body[at + 2..]].concat();
    let read = TxnOffsetCommitBody::read(6, &by_id).unwrap();
    assert_eq!(read.topics[0].topic, TopicRef::Id(u128::from_be_bytes([9; 16])));
    assert_eq!(read.partitions[0].offset, 9);
    assert!(TxnOffsetCommitBody::read(7, &by_id).is_err());
}

#[test]
fn markers_are_read_in_every_version() {
    let name = TopicName(StrBytes::from_static_str("t"));
    let topic = WritableTxnMarkerTopic::default().with_name(name).with_partition_indexes(vec![0, 2]);
    let marker = WritableTxnMarker::default()
        .with_producer_id(ProducerId(7))
        .with_producer_epoch(1)
        .with_transaction_result(true)
        .with_coordinator_epoch(4)
        .with_topics(vec![topic]);
    let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    let read = |version: i16, body: &[u8]| {
        let body = WriteTxnMarkersBody::read(version, body)?;
        let marker = &body.markers[0];
        let producer = (marker.producer_id, marker.producer_epoch, marker.is_commit, marker.coordinator_epoch);
        Ok((producer, marker.transaction_version, marker.topics[0].0.to_owned(), body.partitions))
    };
    let expected = ((7, 1, true, 4), 0, "t".to_owned(), vec![0, 2]);
    check_in_place(1..=1, &request, read, |_, found| found == expected);
    // Version 2 has the version of the transaction before the tags of the marker.
    let mut body = BytesMut::new();
    request.encode(&mut body, 1).unwrap();
    let end = body.len() - 2;
    let second = [&body[..end], &[2], &body[end..]].concat();
    assert_eq!(WriteTxnMarkersBody::read(2, &second).unwrap().markers[0].transaction_version, 2);
    assert!(WriteTxnMarkersBody::read(0, &body).is_err());
}

#[test]
fn what_servers_send_each_other_is_what_kafka_protocol_reads() {
    let marker = SentMarker {
        topic: "t",
        partition: 3,
        producer_id: 7,
        producer_epoch: 1,
        coordinator_epoch: 5,
        is_commit: true,
        transaction_version: 2,
    };
    let frame = between_servers::markers(9, &[marker, SentMarker { topic: "u", is_commit: false, ..marker }]);
    let (header, body) = RequestHeader::read(&frame[4..]).unwrap();
    assert_eq!((header.api.key, header.version, header.correlation_id), (versions::WRITE_TXN_MARKERS, 2, 9));
    let read = WriteTxnMarkersBody::read(2, body).unwrap();
    let found: Vec<_> =
        read.markers.iter().map(|one| (one.topics[0].0, one.is_commit, one.transaction_version)).collect();
    assert_eq!(found, [("t", true, 2), ("u", false, 2)]);
    assert_eq!(
        (read.markers[0].producer_id, read.markers[0].coordinator_epoch, &read.partitions[..]),
        (7, 5, &[3, 3][..])
    );
    let admission = SentAdmission {
        transactional_id: "pay",
        producer_id: 7,
        producer_epoch: 1,
        is_verify_only: true,
        partitions: vec![("t", 0), ("t", 1)],
    };
    let frame = between_servers::admissions(9, &[admission]);
    let (header, body) = RequestHeader::read(&frame[4..]).unwrap();
    let read: AddPartitionsToTxnRequest =
        decode_body(header.api.key, header.version, &Bytes::copy_from_slice(body)).unwrap();
    let transaction = &read.transactions[0];
    assert_eq!((transaction.transactional_id.as_str(), transaction.verify_only), ("pay", true));
    assert_eq!(transaction.topics.iter().map(|topic| topic.partitions[0]).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_answers_of_other_servers_are_read_in_the_order_of_the_request_and_refused_if_they_are_cut() {
    let mut answer = BytesMut::from(&[0, 0, 0, 9, 0][..]);
    let of_topic = |code| (Box::from("t"), vec![(0, code)]);
    let results = [(7, vec![of_topic(ErrorCode::None)]), (8, vec![of_topic(ErrorCode::TransactionCoordinatorFenced)])];
    write_txn_markers(&mut Writer::new(&mut answer, true), &results);
    assert_eq!(between_servers::marker_codes(&answer, 9), Ok(vec![0, 52]));
    assert!(between_servers::marker_codes(&answer, 8).is_err(), "the answer to another request");
    for end in 0..answer.len() {
        assert!(between_servers::marker_codes(&answer[..end], 9).is_err(), "the first {end} bytes");
    }
    let partition = |code| AddPartitionsToTxnPartitionResult::default().with_partition_error_code(code);
    let topic = AddPartitionsToTxnTopicResult::default().with_results_by_partition(vec![partition(0), partition(51)]);
    let result = AddPartitionsToTxnResult::default().with_topic_results(vec![topic]);
    let mut answer = BytesMut::from(&[0, 0, 0, 9, 0][..]);
    let response = AddPartitionsToTxnResponse::default().with_results_by_transaction(vec![result]);
    response.encode(&mut answer, 5).unwrap();
    assert_eq!(between_servers::admission_codes(&answer, 9), Ok(Ok(vec![0, 51])));
    let mut answer = BytesMut::from(&[0, 0, 0, 9, 0][..]);
    AddPartitionsToTxnResponse::default().with_error_code(31).encode(&mut answer, 5).unwrap();
    assert_eq!(between_servers::admission_codes(&answer, 9), Ok(Err(31)));
}

#[test]
fn servers_authenticate_with_messages_that_kafka_protocol_reads_and_writes() {
    let frame = between_servers::sasl_handshake(9, "SCRAM-SHA-512");
    let (header, body) = RequestHeader::read(&frame[4..]).unwrap();
    assert_eq!((header.api.key, header.version, header.correlation_id), (versions::SASL_HANDSHAKE, 1, 9));
    assert_eq!(rota_wire::sasl::read_handshake(body), Ok("SCRAM-SHA-512"));
    let frame = between_servers::sasl_authenticate(9, b"n,,n=rota");
    let (header, body) = RequestHeader::read(&frame[4..]).unwrap();
    assert_eq!((header.api.key, header.version), (versions::SASL_AUTHENTICATE, 1));
    assert_eq!(rota_wire::sasl::read_authenticate(false, body), Ok(&b"n,,n=rota"[..]));

    let mut answer = BytesMut::from(&[0, 0, 0, 9][..]);
    let names = ["PLAIN", "SCRAM-SHA-512"].map(StrBytes::from_static_str).to_vec();
    SaslHandshakeResponse::default().with_error_code(33).with_mechanisms(names).encode(&mut answer, 1).unwrap();
    assert_eq!(between_servers::handshake_answer(&answer, 9), Ok((33, vec!["PLAIN", "SCRAM-SHA-512"])));
    for end in 0..answer.len() {
        assert!(between_servers::handshake_answer(&answer[..end], 9).is_err(), "the first {end} bytes");
    }
    let response = SaslAuthenticateResponse::default().with_error_code(58).with_session_lifetime_ms(5);
    let response = response.with_error_message(Some(StrBytes::from_static_str("no")));
    let mut answer = BytesMut::from(&[0, 0, 0, 9][..]);
    response.with_auth_bytes(Bytes::from_static(b"v=")).encode(&mut answer, 1).unwrap();
    let read = between_servers::authenticate_answer(&answer, 9).unwrap();
    assert_eq!((read.error, read.message, read.bytes), (58, "no", &b"v="[..]));
    assert!(between_servers::authenticate_answer(&answer, 8).is_err(), "the answer to another request");
}
