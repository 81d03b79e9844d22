//! `IncrementalAlterConfigs` of groups (docs/consumer-protocol.md §20) and of topics. Other settings are fixed while the
//! server runs.

use std::{
    collections::HashSet,
    io,
    time::{Duration, Instant},
};

use kafka_protocol::{
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
    protocol::StrBytes,
};
use rota_core::{
    consumer_group::config::{ConsumerConfig, GroupSettings, Range},
    error::ErrorCode,
};
use rota_security::acl::Operation;
use rota_wire::WireError;

use super::{
    context::{Context, Outcome},
    describe_configs::check_configs,
};
use crate::{
    node::Node,
    topics::{TopicError, configs::Operation as Change},
};

/// Maximum resources of one request.
const RESOURCES_MAX: usize = 5_000;

/// On a cluster each change waits for the engine. A request does not keep the node from others for longer.
const ENGINE_WITHIN: Duration = Duration::from_secs(2);

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;

const SESSION_TIMEOUT: &str = GroupSettings::SESSION_TIMEOUT;
const HEARTBEAT_INTERVAL: &str = GroupSettings::HEARTBEAT_INTERVAL;
const ASSIGNMENT_INTERVAL: &str = GroupSettings::ASSIGNMENT_INTERVAL;

/// Why a resource is refused.
struct Refused {
    error: ErrorCode,
    message: String,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        let message = format!("the settings of the group could not be stored: {error}");
        Refused { error: ErrorCode::KafkaStorageError, message }
    }
}

impl From<TopicError> for Refused {
    fn from(TopicError { code, message }: TopicError) -> Refused {
        Refused { error: code, message }
    }
}

fn invalid_request(message: impl Into<String>) -> Refused {
    Refused { error: ErrorCode::InvalidRequest, message: message.into() }
}

fn fixed(what: &str) -> Refused {
    invalid_request(format!("{what}; only settings of groups and topics can"))
}

fn invalid_config(message: String) -> Refused {
    Refused { error: ErrorCode::InvalidConfig, message }
}

/// Changes the settings of each resource as a whole, or answers its error.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: IncrementalAlterConfigsRequest = context.decode()?;
    if request.resources.len() > RESOURCES_MAX {
        return Err(WireError::TooManyElements { field: "resources" });
    }
    let name_of = |resource: &AlterConfigsResource| (resource.resource_type, resource.resource_name.clone());
    let (mut seen, mut repeated) = (HashSet::new(), HashSet::new());
    for resource in &request.resources {
        if !seen.insert(name_of(resource)) {
            repeated.insert(name_of(resource));
        }
    }
    let access = context.access();
    let checked = request.resources.iter().map(|resource| {
        if repeated.contains(&name_of(resource)) {
            return Err(invalid_request("Each resource must appear at most once."));
        }
        check_configs(&access, Operation::AlterConfigs, resource.resource_type, &resource.resource_name)
            .map_err(|(error, message)| Refused { error, message })
            .and_then(|()| check_resource(context.node, resource))
    });
    let checked: Vec<Result<(), Refused>> = checked.collect();
    let passed: Vec<&AlterConfigsResource> = request
        .resources
        .iter()
        .zip(&checked)
        .filter(|(_, checked)| checked.is_ok())
        .map(|(resource, _)| resource)
        .collect();
    let (topics, groups): (Vec<_>, Vec<_>) = passed.into_iter().partition(|resource| resource.resource_type == TOPIC);
    let mut of_groups = alter_groups(context.node, &groups, request.validate_only).into_iter();
    let mut of_topics = alter_topics(context.node, &topics, request.validate_only).into_iter();
    let responses = request.resources.iter().zip(checked).map(|(resource, checked)| {
        let altered = checked.and_then(|()| {
            let next = if resource.resource_type == TOPIC { of_topics.next() } else { of_groups.next() };
            next.unwrap_or(Ok(()))
        });
        let (error, message) = match altered {
            Ok(()) => (ErrorCode::None, None),
            Err(refused) => (refused.error, Some(StrBytes::from_string(refused.message))),
        };
        AlterConfigsResourceResponse::default()
            .with_error_code(error.code())
            .with_error_message(message)
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
    });
    let response = IncrementalAlterConfigsResponse::default().with_responses(responses.collect());
    context.node.tell_group_configs();
    Ok(context.answer(&response))
}

/// Checks what does not depend on the settings of the resource.
fn check_resource(node: &Node, resource: &AlterConfigsResource) -> Result<(), Refused> {
    let kind = match resource.resource_type {
        GROUP => "group",
        TOPIC => "topic",
        BROKER => return Err(fixed("broker settings cannot be changed while the server runs")),
        other => return Err(fixed(&format!("settings of resources of type {other} cannot be changed"))),
    };
    if resource.resource_name.is_empty() {
        return Err(invalid_request(format!("Default {kind} resources are not allowed.")));
    }
    let names: HashSet<&str> = resource.configs.iter().map(|config| config.name.as_str()).collect();
    if names.len() < resource.configs.len() {
        return Err(invalid_request("Error due to duplicate config keys"));
    }
    if resource.resource_type == GROUP && !node.topics().is_known() {
        let message = "The engine of the cluster has not answered yet.".to_owned();
        return Err(Refused { error: ErrorCode::CoordinatorLoadInProgress, message });
    }
    Ok(())
}

/// Changes the settings of checked topics, by one write of their table or one transaction of the engine of a cluster.
fn alter_topics(node: &mut Node, resources: &[&AlterConfigsResource], validate_only: bool) -> Vec<Result<(), Refused>> {
    if resources.is_empty() {
        return Vec::new();
    }
    let asked: Vec<_> = resources.iter().map(|each| (each.resource_name.as_str(), &each.configs[..])).collect();
    let altered = node.topics_mut().0.alter_configs(&asked, validate_only);
    altered.into_iter().map(|altered| altered.map_err(Refused::from)).collect()
}

/// Changes the settings of checked groups: by one write of their file, or one after the other in the engine of a cluster.
fn alter_groups(node: &Node, resources: &[&AlterConfigsResource], validate_only: bool) -> Vec<Result<(), Refused>> {
    let consumer = node.settings().consumer_groups();
    let configs = node.group_configs();
    if validate_only {
        let change = |resource: &&AlterConfigsResource| {
            changed(&consumer, configs.of(&resource.resource_name), &resource.configs).map(drop)
        };
        return resources.iter().map(change).collect();
    }
    let until = node.cluster().is_some().then(|| Instant::now() + ENGINE_WITHIN);
    let consumer = &consumer;
    let changes = resources.iter().map(|resource| {
        let change = move |before| {
            if until.is_some_and(|until| Instant::now() >= until) {
                let message = "The engine takes long for the groups before: ask again for this one.".to_owned();
                return Err(Refused { error: ErrorCode::RequestTimedOut, message });
            }
            changed(consumer, before, &resource.configs)
        };
        (resource.resource_name.as_str(), change)
    });
    configs.change_all(changes.collect())
}

/// The settings after a change, in the order of Kafka's checks.
fn changed(
    consumer: &ConsumerConfig,
    mut settings: GroupSettings,
    configs: &[AlterableConfig],
) -> Result<GroupSettings, Refused> {
    for config in configs {
        let (name, operation) = (config.name.as_str(), config.config_operation);
        let unknown = || invalid_request(format!("operation {operation} of {name} is unknown"));
        match (Change::of(operation).ok_or_else(unknown)?, settings.value_mut(name)) {
            (Change::Set, None) => return Err(invalid_config(format!("Unknown group config name: {name}"))),
            (Change::Set, Some(setting)) => {
                let value = config.value.as_deref();
                let value = value.ok_or_else(|| invalid_request(format!("Null value not supported for : {name}")))?;
                *setting = Some(parsed(name, value)?);
            }
            // Kafka deletes names that it does not know, too.
            (Change::Delete, setting) => drop(setting.map(Option::take)),
            (of_lists, _) => return Err(invalid_config(of_lists.not_of_a_list(name))),
        }
    }
    check(consumer, settings)?;
    Ok(settings)
}

fn parsed(name: &str, value: &str) -> Result<i32, Refused> {
    let invalid = |reason: &str| invalid_config(format!("Invalid value {value} for configuration {name}: {reason}"));
    let number: i32 = value.trim().parse().map_err(|_| invalid("Not a number of type INT"))?;
    let least = i32::from(name != ASSIGNMENT_INTERVAL);
    if number < least {
        return Err(invalid(&format!("Value must be at least {least}")));
    }
    Ok(number)
}

/// Whether the settings are within the broker's bounds, and the session outlasts a heartbeat interval.
fn check(consumer: &ConsumerConfig, settings: GroupSettings) -> Result<(), Refused> {
    let bounds = consumer.bounds;
    let ranges: [(&str, Option<i32>, Range); 3] = [
        (HEARTBEAT_INTERVAL, settings.heartbeat_interval_ms, bounds.heartbeat_interval_ms),
        (SESSION_TIMEOUT, settings.session_timeout_ms, bounds.session_timeout_ms),
        (ASSIGNMENT_INTERVAL, settings.assignment_interval_ms, bounds.assignment_interval_ms),
    ];
    for (name, value, Range { min, max }) in ranges {
        if value.is_some_and(|value| !(min..=max).contains(&value)) {
            return Err(invalid_config(format!("{name} must be in the range {min} to {max} inclusive.")));
        }
    }
    let effective = consumer.of_group(Some(&settings));
    if effective.session_timeout_ms <= effective.heartbeat_interval_ms {
        return Err(invalid_config(format!("{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")));
    }
    Ok(())
}
