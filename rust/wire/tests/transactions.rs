//! The requests and answers of transactions, in every version: as `kafka-protocol` writes them, cut short, and shown.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest,
        ListTransactionsRequest, ProducerId, TopicName, TransactionalId,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
    },
    protocol::{Decodable, Encodable, Request, StrBytes},
};
use rota_wire::{
    decode_body,
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
    check(|_| {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(vec![0, 1]);
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
        if version >= 1 { request.with_duration_filter(5) } else { request }
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
