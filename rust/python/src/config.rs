//! Reads a coordinator's settings from a mapping, under Kafka's names.

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyInt, PyMapping, PyString},
};
use rota_core::{
    Config,
    consumer_group::config::{ConsumerConfig, GroupSettings},
};
use rota_server::{SettingError, Settings, names::Hint};

use crate::errors::ConfigError;

/// A setting without a Kafka name, and its setter.
type OwnSetting = (&'static str, fn(&mut Config, u32));

/// Settings of the core only.
const OWN: [OwnSetting; 2] = [
    ("group.max.pending.members", |config, value| config.group_max_pending_members = value),
    ("rebalance.history", |config, value| config.rebalance_history = value),
];

/// Settings of the server that a coordinator has, too.
const OF_THE_COORDINATOR: [&str; 20] = [
    "group.consumer.assignment.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.coordinator.rebalance.protocols",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
];

/// Returns Kafka's defaults with these changes, and the settings of consumer groups.
pub fn configs_from(changes: Option<&Bound<'_, PyMapping>>) -> PyResult<(Config, ConsumerConfig)> {
    let mut settings = Settings::default();
    let mut own = Vec::new();
    for pair in changes.map_or(Ok(Vec::new()), |changes| changes.items()?.extract())? {
        let (name, value): (String, Bound<'_, PyAny>) = pair;
        let value = text_of(&name, &value)?;
        if let Some((name, set)) = OWN.iter().find(|(own, _)| *own == name) {
            let number = value.trim().parse().ok().filter(|number| i32::try_from(*number).is_ok());
            let number = number.ok_or_else(|| {
                ConfigError::new_err(format!("`{name}` is `{value}`, expected a whole number from 0 to 2147483647"))
            })?;
            own.push((set, number));
            continue;
        }
        if !OF_THE_COORDINATOR.contains(&name.trim()) {
            return Err(ConfigError::new_err(no_such(&name, &value)));
        }
        settings.set(&name, &value).map_err(|error| ConfigError::new_err(error.to_string()))?;
    }
    let mut config = settings.coordinator();
    for (set, number) in own {
        set(&mut config, number);
    }
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms {
        return Err(ConfigError::new_err(format!(
            "`group.min.session.timeout.ms` is {}, more than `group.max.session.timeout.ms`, {}",
            config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        )));
    }
    Ok((config, settings.consumer_groups()))
}

/// Returns the settings of a single consumer group.
pub fn group_settings_from(changes: &Bound<'_, PyMapping>) -> PyResult<GroupSettings> {
    let mut settings = GroupSettings::default();
    for pair in changes.items()? {
        let (name, value): (String, i32) = pair.extract()?;
        *settings.value_mut(&name).ok_or_else(|| {
            let names = GroupSettings::NAMES.into_iter();
            ConfigError::new_err(format!("unknown group setting `{name}`; {}", Hint::new(&name, names)))
        })? = Some(value);
    }
    Ok(settings)
}

fn text_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyBool>() || !(value.is_instance_of::<PyInt>() || value.is_instance_of::<PyString>()) {
        let found = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("the value of `{name}` is {found}, expected str or int")));
    }
    Ok(value.str()?.to_string())
}

fn no_such(name: &str, value: &str) -> String {
    match Settings::default().set(name, value) {
        Err(SettingError::Unknown { .. }) => {
            let names = OF_THE_COORDINATOR.into_iter().chain(OWN.iter().map(|(name, _)| *name));
            format!("unknown setting `{name}`; {}", Hint::new(name, names))
        }
        _ => format!("`{name}` is a setting of the server, not of a coordinator"),
    }
}
