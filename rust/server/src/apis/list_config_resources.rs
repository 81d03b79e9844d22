//! `ListConfigResources`: what has settings. Version 0, `ListClientMetricsResources`, asks for those of client metrics.

use kafka_protocol::{
    messages::{
        ListConfigResourcesRequest, ListConfigResourcesResponse, list_config_resources_response::ConfigResource,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::acl::Operation;

use super::{
    acls::NOT_ALLOWED,
    context::{Context, Outcome},
    describe_configs::{BROKER, GROUP, TOPIC},
};

/// The levels of a broker's loggers, and subscriptions to metrics of clients: rota has neither.
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;

const EVERY_TYPE: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];
/// The first version that names the types.
const TYPES_SINCE: i16 = 1;

/// Answers the names of topics, brokers, and groups with settings of their own.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: ListConfigResourcesRequest = context.decode()?;
    let types = match request.resource_types.as_slice() {
        _ if context.version() < TYPES_SINCE => &[CLIENT_METRICS],
        [] => &EVERY_TYPE[..],
        types => types,
    };
    let answer = ListConfigResourcesResponse::default();
    let answer = if !context.access().allows_on_cluster(Operation::DescribeConfigs) {
        answer.with_error_code(NOT_ALLOWED.0)
    } else if types.iter().any(|asked| !EVERY_TYPE.contains(asked)) {
        answer.with_error_code(ErrorCode::UnsupportedVersion.code())
    } else {
        answer.with_config_resources(resources(context, types))
    };
    Ok(context.answer(&answer))
}

fn resources(context: &Context<'_>, types: &[i8]) -> Vec<ConfigResource> {
    let resource = |resource_type| {
        move |name: String| {
            ConfigResource::default().with_resource_name(StrBytes::from_string(name)).with_resource_type(resource_type)
        }
    };
    let names = |resource_type| -> Vec<String> {
        match resource_type {
            _ if !types.contains(&resource_type) => Vec::new(),
            TOPIC => context.node.topics().names().map(str::to_owned).collect(),
            BROKER => context.cluster().nodes.iter().map(|node| node.id.to_string()).collect(),
            GROUP => context.node.group_configs().table().keys().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    };
    EVERY_TYPE.into_iter().flat_map(|of| names(of).into_iter().map(resource(of))).collect()
}
