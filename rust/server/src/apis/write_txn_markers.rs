//! `WriteTxnMarkers` (docs/transactions.md §5).

use rota_core::error::ErrorCode;
use rota_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use rota_txn::{Marker, TransactionVersion};
use rota_wire::transactions::{MarkerBody, MarkerResults, WriteTxnMarkersBody, write_txn_markers};

use super::context::{Context, Outcome};

/// The version on the wire of the second protocol.
const SECOND_PROTOCOL: i8 = 2;

/// Writes markers that another coordinator, or an administrator, has decided about, to partitions of any node.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = WriteTxnMarkersBody::read(context.version(), context.body())?;
    let access = context.access();
    let may_alter = access.may(Operation::Alter, ResourceType::Cluster, CLUSTER_NAME);
    if !may_alter && !access.allows_on_cluster(Operation::ClusterAction) {
        let refused = results(&body, |_| ErrorCode::ClusterAuthorizationFailed);
        return Ok(context.write(|out| write_txn_markers(out, &refused)));
    }
    let mut markers = Vec::new();
    for written in &body.markers {
        for (topic, range) in &written.topics {
            let of_topic = body.partitions[range.clone()].iter();
            markers.extend(of_topic.map(|partition| ((*topic).to_owned(), *partition, marker(written))));
        }
    }
    let answer = results(&body, |_| ErrorCode::None);
    let reply_to = context.reply_to();
    context.client().park();
    context.node.ask_markers(
        markers,
        Box::new(move |_, codes| {
            let mut answer = answer;
            let places = answer.iter_mut().flat_map(|(_, topics)| topics).flat_map(|(_, partitions)| partitions);
            places.zip(codes).for_each(|((_, error), code)| *error = code);
            reply_to.answer(|out| write_txn_markers(out, &answer));
        }),
    );
    Ok(context.handled())
}

fn marker(body: &MarkerBody<'_>) -> Marker {
    let is_second = body.transaction_version >= SECOND_PROTOCOL;
    Marker {
        producer_id: body.producer_id,
        producer_epoch: body.producer_epoch,
        coordinator_epoch: body.coordinator_epoch,
        is_commit: body.is_commit,
        transaction_version: if is_second { TransactionVersion::V2 } else { TransactionVersion::V1 },
    }
}

fn results(body: &WriteTxnMarkersBody<'_>, code: impl Fn(i32) -> ErrorCode) -> Vec<MarkerResults> {
    let topics = |marker: &MarkerBody<'_>| {
        let of_topic = marker.topics.iter().map(|(name, range)| {
            let partitions = body.partitions[range.clone()].iter();
            (Box::from(*name), partitions.map(|partition| (*partition, code(*partition))).collect())
        });
        of_topic.collect()
    };
    body.markers.iter().map(|marker| (marker.producer_id, topics(marker))).collect()
}
