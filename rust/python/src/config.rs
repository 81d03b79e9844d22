//! A coordinator's settings from a mapping, under Kafka's names.

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyInt, PyMapping, PyString},
};
use rota_core::Config;

use crate::errors::ConfigError;

/// A setting: its name, its smallest value, and where it goes. No value is above 2,147,483,647.
type Setting = (&'static str, i32, fn(&mut Config, i32));

/// By name. The last two are rota's own.
const SETTINGS: [Setting; 8] = [
    ("group.initial.rebalance.delay.ms", 0, |config, value| config.group_initial_rebalance_delay_ms = value as u32),
    ("group.max.session.timeout.ms", 0, |config, value| config.group_max_session_timeout_ms = value),
    ("group.max.size", 1, |config, value| config.group_max_size = value as u32),
    ("group.min.session.timeout.ms", 0, |config, value| config.group_min_session_timeout_ms = value),
    ("offset.metadata.max.bytes", 0, |config, value| config.offset_metadata_max_bytes = value as u32),
    ("offsets.commit.timeout.ms", 1, |config, value| config.offsets_commit_timeout_ms = value as u32),
    ("group.max.pending.members", 0, |config, value| config.group_max_pending_members = value as u32),
    ("rebalance.history", 0, |config, value| config.rebalance_history = value as u32),
];

/// Kafka's defaults with these changes.
pub fn config_from(changes: Option<&Bound<'_, PyMapping>>) -> PyResult<Config> {
    let mut config = Config::default();
    for pair in changes.map_or(Ok(Vec::new()), |changes| changes.items()?.extract())? {
        let (name, value): (String, Bound<'_, PyAny>) = pair;
        let Some((name, least, set)) = SETTINGS.iter().find(|(known, ..)| *known == name.trim()) else {
            return Err(ConfigError::new_err(format!(
                "unknown setting `{name}`; the nearest one is `{}`",
                nearest(&name)
            )));
        };
        let text = text_of(name, &value)?;
        let number = text.trim().parse().ok().filter(|number| number >= least);
        let number = number.ok_or_else(|| {
            ConfigError::new_err(format!("`{name}` is `{text}`, expected a whole number from {least} to {}", i32::MAX))
        })?;
        set(&mut config, number);
    }
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms {
        return Err(ConfigError::new_err(format!(
            "`group.min.session.timeout.ms` is {}, more than `group.max.session.timeout.ms`, {}",
            config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        )));
    }
    Ok(config)
}

fn text_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyBool>() || !(value.is_instance_of::<PyInt>() || value.is_instance_of::<PyString>()) {
        let found = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("the value of `{name}` is {found}, expected str or int")));
    }
    Ok(value.str()?.to_string())
}

/// The setting that shares most pairs of neighbouring letters with `name`, for its length.
fn nearest(name: &str) -> &'static str {
    let pairs = |text: &str| text.to_lowercase().into_bytes().windows(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let asked = pairs(name);
    let likeness = |known: &str| {
        let known = pairs(known);
        let shared = known.iter().filter(|pair| asked.contains(pair)).count();
        2_000 * shared / (known.len() + asked.len())
    };
    SETTINGS.iter().map(|(known, ..)| *known).max_by_key(|known| likeness(known)).unwrap_or("")
}
