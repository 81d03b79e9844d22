//! `DescribeConfigs` of topics, of this broker, and of groups.

use kafka_protocol::{
    messages::{
        DescribeConfigsRequest, DescribeConfigsResponse,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym},
    },
    protocol::StrBytes,
};
use rota_core::{consumer_group::config::GroupSettings, error::ErrorCode};
use rota_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use rota_wire::WireError;

use super::context::{Context, Outcome};
use crate::{
    base::settings::{Kind, SETTINGS, Settings},
    client::access::Access,
    topics::{
        CONSUMER_OFFSETS, ConfigRow,
        configs::{BOOLEAN, DEFAULT_CONFIG, INT, LIST, LONG, PASSWORD, STATIC_BROKER_CONFIG, STRING},
    },
};

/// Maximum resources of one request. Each answer is a page of settings.
const RESOURCES_MAX: usize = 5_000;

/// The types of resources.
pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
pub const GROUP: i8 = 32;

/// A setting that a group has of its own.
const GROUP_CONFIG: i8 = 8;

/// Constants of rota that are settings in Kafka: name, value, Kafka's default, type.
const FACTS: &[(&str, &str, &str, i8)] = &[
    ("default.replication.factor", "1", "1", INT),
    ("delete.topic.enable", "true", "true", BOOLEAN),
    ("min.insync.replicas", "1", "1", INT),
];

/// Answers each resource with its settings or an error.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: DescribeConfigsRequest = context.decode()?;
    if request.resources.len() > RESOURCES_MAX {
        return Err(WireError::TooManyElements { field: "resources" });
    }
    let access = context.access();
    let results = request.resources.iter().map(|resource| match checked_rows(context, &access, resource) {
        Ok(rows) => result(resource).with_configs(kept(rows, resource, &request)),
        Err((error, message)) => {
            result(resource).with_error_code(error.code()).with_error_message(Some(StrBytes::from_string(message)))
        }
    });
    Ok(context.answer(&DescribeConfigsResponse::default().with_results(results.collect())))
}

fn result(resource: &DescribeConfigsResource) -> DescribeConfigsResult {
    DescribeConfigsResult::default()
        .with_error_message(Some(StrBytes::default()))
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
}

/// Returns the requested rows; all if none were named.
fn kept(
    rows: Vec<ConfigRow>,
    resource: &DescribeConfigsResource,
    request: &DescribeConfigsRequest,
) -> Vec<DescribeConfigsResourceResult> {
    let keys = resource.configuration_keys.as_deref().unwrap_or_default();
    let is_fixed = match resource.resource_type {
        TOPIC => resource.resource_name.as_str() == CONSUMER_OFFSETS,
        other => other != GROUP,
    };
    let asked = |row: &ConfigRow| keys.is_empty() || keys.iter().any(|key| key.as_str() == row.name);
    let shown = |row: ConfigRow| {
        // Texts that are not set are null, and so are secrets.
        let config_type = row.config_type;
        let is_null = move |value: &str| config_type == PASSWORD || (config_type == STRING && value.is_empty());
        let known = move |value: String| (!is_null(&value)).then(|| StrBytes::from_string(value));
        let synonym = |(name, value, source)| {
            DescribeConfigsSynonym::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(known(value))
                .with_source(source)
        };
        let synonyms = if request.include_synonyms { row.synonyms } else { Vec::new() };
        DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_static_str(row.name))
            .with_value(known(row.value))
            .with_is_sensitive(config_type == PASSWORD)
            .with_read_only(is_fixed)
            .with_config_source(row.source)
            .with_synonyms(synonyms.into_iter().map(synonym).collect())
            .with_config_type(config_type)
            .with_documentation(row.effect.filter(|_| request.include_documentation).map(StrBytes::from_static_str))
    };
    rows.into_iter().filter(asked).map(shown).collect()
}

/// Kafka's settings of the addresses to listen on, and of those that clients are sent to.
const LISTENERS: &str = "listeners";
const ADVERTISED_LISTENERS: &str = "advertised.listeners";

/// An error with its message.
pub type Refused = (ErrorCode, String);

/// Returns the settings of a resource if the client may describe them.
fn checked_rows(
    context: &Context<'_>,
    access: &Access,
    resource: &DescribeConfigsResource,
) -> Result<Vec<ConfigRow>, Refused> {
    check_configs(access, Operation::DescribeConfigs, resource.resource_type, &resource.resource_name)?;
    rows(context, resource)
}

/// Whether the client may describe or alter the settings of a resource.
pub fn check_configs(access: &Access, operation: Operation, resource_type: i8, name: &str) -> Result<(), Refused> {
    let (resource, name, error, message) = match resource_type {
        TOPIC => (ResourceType::Topic, name, ErrorCode::TopicAuthorizationFailed, "Topic authorization failed."),
        GROUP => (ResourceType::Group, name, ErrorCode::GroupAuthorizationFailed, "Group authorization failed."),
        _ => {
            let failed = ErrorCode::ClusterAuthorizationFailed;
            (ResourceType::Cluster, CLUSTER_NAME, failed, "Cluster authorization failed.")
        }
    };
    if access.allows(operation, resource, name) { Ok(()) } else { Err((error, message.to_owned())) }
}

fn rows(context: &Context<'_>, resource: &DescribeConfigsResource) -> Result<Vec<ConfigRow>, Refused> {
    let node = &*context.node;
    let name = resource.resource_name.as_str();
    let invalid = |message: String| Err((ErrorCode::InvalidRequest, message));
    // A server of a cluster that the engine has not answered yet knows neither.
    let unknown = |error| Err((error, "The engine of the cluster has not answered yet.".to_owned()));
    match resource.resource_type {
        TOPIC if !node.topics().is_known() => unknown(ErrorCode::LeaderNotAvailable),
        GROUP if !node.topics().is_known() => unknown(ErrorCode::CoordinatorLoadInProgress),
        TOPIC => {
            let broker = |name: &str| broker_row(node.settings(), name).map(|row| (row.value, row.source));
            node.topics().config_rows(name, &broker).map_err(|error| (error.code, error.message))
        }
        // Cluster-wide settings: there are none.
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER => match name.parse::<i32>() {
            Ok(id) if id == node.id() => Ok(broker_rows(context)),
            Ok(id) => invalid(format!("this is broker {}, not {id}: ask that one", node.id())),
            Err(_) => invalid(format!("broker `{name}` is not a number, expected {}", node.id())),
        },
        GROUP if name.is_empty() => invalid("the group id is empty".to_owned()),
        GROUP => Ok(group_rows(context, name)),
        other => invalid(format!(
            "resources of type {other} have no settings here, expected {TOPIC} topic, {BROKER} broker or {GROUP} group"
        )),
    }
}

/// Returns one setting of the server.
fn broker_row(settings: &Settings, name: &str) -> Option<ConfigRow> {
    let setting = SETTINGS.iter().find(|setting| setting.name == name)?;
    let value = settings.value(name)?;
    let config_type = match setting.kind {
        Kind::Bool => BOOLEAN,
        Kind::Protocols => LIST,
        Kind::Migration | Kind::ClientAuth | Kind::StoreType | Kind::Text => STRING,
        Kind::Secret => PASSWORD,
        Kind::Int(_, high) if high > i64::from(i32::MAX) => LONG,
        Kind::Int(..) => INT,
    };
    Some(config_row(setting.name, value, setting.default, config_type, Some(setting.effect)))
}

fn config_row(
    name: &'static str,
    value: String,
    default: &str,
    config_type: i8,
    effect: Option<&'static str>,
) -> ConfigRow {
    let mut synonyms = vec![(name, default.to_owned(), DEFAULT_CONFIG)];
    if value != default {
        synonyms.insert(0, (name, value.clone(), STATIC_BROKER_CONFIG));
    }
    let source = synonyms[0].2;
    ConfigRow { name, value, config_type, source, effect, synonyms }
}

/// Returns the settings of a group: its own, or the broker's.
fn group_rows(context: &Context<'_>, group_id: &str) -> Vec<ConfigRow> {
    let mut own = context.node.group_configs().of(group_id);
    let row = |name: &'static str| {
        let mut row = broker_row(context.node.settings(), &format!("group.{name}"))?;
        // Kafka names one setting of the broker as the source.
        row.synonyms.truncate(1);
        if let Some(value) = own.value_mut(name).and_then(|value| *value) {
            row.value = value.to_string();
            row.source = GROUP_CONFIG;
            row.synonyms.insert(0, (name, value.to_string(), GROUP_CONFIG));
        }
        Some(ConfigRow { name, ..row })
    };
    GroupSettings::NAMES.into_iter().filter_map(row).collect()
}

fn broker_rows(context: &Context<'_>) -> Vec<ConfigRow> {
    let node = &*context.node;
    let mut rows: Vec<ConfigRow> =
        SETTINGS.iter().filter_map(|setting| broker_row(node.settings(), setting.name)).collect();
    rows.extend(
        FACTS.iter().map(|(name, value, default, kind)| config_row(name, (*value).to_owned(), default, *kind, None)),
    );
    let own = |name, value: String, config_type| ConfigRow {
        synonyms: vec![(name, value.clone(), STATIC_BROKER_CONFIG)],
        source: STATIC_BROKER_CONFIG,
        effect: None,
        name,
        value,
        config_type,
    };
    let node_id = node.id();
    rows.push(own("node.id", node_id.to_string(), INT));
    rows.push(own("broker.id", node_id.to_string(), INT));
    let reached_ip = context.client().reached_ip();
    let listeners = node.place().listeners.iter();
    let (listened, advertised): (Vec<String>, Vec<String>) =
        listeners.map(|listener| (listener.listen_uri_of(node_id), listener.uri_of(node_id, reached_ip))).unzip();
    // With --listen and --advertise, or port 0, the settings do not have them.
    rows.retain(|row| ![LISTENERS, ADVERTISED_LISTENERS].contains(&row.name));
    rows.push(own(LISTENERS, listened.join(","), LIST));
    rows.push(own(ADVERTISED_LISTENERS, advertised.join(","), LIST));
    rows.sort_by_key(|row| row.name);
    rows
}
