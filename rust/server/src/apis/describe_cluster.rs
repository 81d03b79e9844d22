//! `DescribeCluster`: the same nodes as in `Metadata`.

use kafka_protocol::{
    messages::{
        BrokerId, DescribeClusterRequest, DescribeClusterResponse, describe_cluster_response::DescribeClusterBroker,
    },
    protocol::StrBytes,
};

use super::context::{Context, Outcome};
use crate::{base::place::Cluster, client::access::Access};

const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;
const MISMATCHED_ENDPOINT_TYPE: i16 = 114;
const UNSUPPORTED_ENDPOINT_TYPE: i16 = 115;

/// Answers for the broker endpoint only.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: DescribeClusterRequest = context.decode()?;
    let refused = |code, message: String| {
        DescribeClusterResponse::default()
            .with_error_code(code)
            .with_error_message(Some(StrBytes::from_string(message)))
            .with_controller_id(BrokerId(-1))
    };
    let response = match request.endpoint_type {
        ENDPOINT_BROKERS => described_cluster(context.cluster(), &context.access(), &request),
        ENDPOINT_CONTROLLERS => refused(
            MISMATCHED_ENDPOINT_TYPE,
            format!("this is a broker, endpoint type {ENDPOINT_BROKERS}, and the request is for controllers"),
        ),
        other => {
            let message = format!("endpoint type {other} is unknown, expected {ENDPOINT_BROKERS}, brokers");
            refused(UNSUPPORTED_ENDPOINT_TYPE, message)
        }
    };
    Ok(context.answer(&response))
}

fn described_cluster(cluster: Cluster, access: &Access, request: &DescribeClusterRequest) -> DescribeClusterResponse {
    let controller = cluster.nodes.first().map_or(-1, |node| node.id);
    let brokers = cluster.nodes.into_iter().map(|node| {
        DescribeClusterBroker::default()
            .with_broker_id(BrokerId(node.id))
            .with_host(StrBytes::from_string(node.host))
            .with_port(node.port)
    });
    let operations =
        if request.include_cluster_authorized_operations { access.cluster_operations() } else { OPERATIONS_NOT_ASKED };
    DescribeClusterResponse::default()
        // There is no null id in this answer.
        .with_cluster_id(StrBytes::from_string(cluster.id.unwrap_or_default()))
        .with_controller_id(BrokerId(controller))
        .with_brokers(brokers.collect())
        .with_cluster_authorized_operations(operations)
}
