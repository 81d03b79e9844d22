//! Records of consumer groups as dictionaries, for tools that print a log.

use std::collections::BTreeMap;

use pyo3::{IntoPyObjectExt, prelude::*, types::PyDict};
use rota_core::{
    Record,
    records::{ClassicMemberValue, ConsumerRecord, CurrentValue, EpochedIndexes, SubscriptionValue, TopicIndexes},
};

use crate::{errors::RecordError, values::Octets};

/// Names of member states by their number in the records.
const MEMBER_STATES: [&str; 3] = ["Stable", "UnrevokedPartitions", "UnreleasedPartitions"];

/// Decodes a record of a consumer group: (group id, kind, member id or pattern, value). Returns `None` for a record of
/// another type. Bytes are hexadecimal.
#[pyfunction]
#[pyo3(signature = (key, value))]
#[expect(clippy::type_complexity, reason = "a tuple in Python")]
pub fn consumer_record(
    py: Python<'_>,
    key: Octets,
    value: Option<Octets>,
) -> PyResult<Option<(String, &'static str, Option<String>, Option<Bound<'_, PyAny>>)>> {
    let decoded = Record::decode(&key.0, value.as_ref().map(|value| &*value.0));
    let decoded = decoded.map_err(|error| RecordError::new_err(error.to_string()))?;
    let Record::Consumer { group_id, about } = decoded else { return Ok(None) };
    let (kind, name, value) = match about {
        ConsumerRecord::Epoch(value) => {
            let value = value.map(|value| {
                filled(py, |dict| {
                    dict.set_item("epoch", value.epoch)?;
                    dict.set_item("metadata_hash", value.metadata_hash)
                })
            });
            ("epoch", None, value.transpose()?)
        }
        ConsumerRecord::Metadata(value) => ("partition metadata", None, bytes(py, value.as_deref())?),
        ConsumerRecord::Member(id, value) => ("member", Some(id), value.map(|value| member(py, &value)).transpose()?),
        ConsumerRecord::TargetEpoch(value) => {
            let value = value.map(|value| {
                filled(py, |dict| {
                    dict.set_item("epoch", value.epoch)?;
                    dict.set_item("timestamp_ms", value.timestamp_ms)
                })
            });
            ("target epoch", None, value.transpose()?)
        }
        ConsumerRecord::Target(id, value) => {
            let places = |value: Vec<TopicIndexes>| {
                filled(py, |dict| dict.set_item("partitions", by_id(py, value.iter().map(of_target))?))
            };
            ("target", Some(id), value.map(places).transpose()?)
        }
        ConsumerRecord::Current(id, value) => {
            ("assignment", Some(id), value.map(|value| current(py, &value)).transpose()?)
        }
        ConsumerRecord::Pattern(pattern, value) => {
            let value = value.map(|value| {
                filled(py, |dict| {
                    dict.set_item("topics", value.topics.iter().map(|name| &**name).collect::<Vec<_>>())?;
                    dict.set_item("metadata_version", value.version)?;
                    dict.set_item("timestamp_ms", value.timestamp_ms)
                })
            });
            ("pattern", Some(pattern), value.transpose()?)
        }
    };
    Ok(Some((group_id.to_string(), kind, name.map(|name| name.to_string()), value)))
}

fn filled<'py>(py: Python<'py>, fill: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<()>) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    fill(&dict)?;
    Ok(dict.into_any())
}

fn bytes<'py>(py: Python<'py>, value: Option<&[u8]>) -> PyResult<Option<Bound<'py, PyAny>>> {
    value.map(|value| hexadecimal(value).into_bound_py_any(py)).transpose()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).expect("four bits");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

fn member<'py>(py: Python<'py>, value: &SubscriptionValue) -> PyResult<Bound<'py, PyAny>> {
    filled(py, |dict| {
        dict.set_item("instance_id", value.instance_id.as_deref())?;
        dict.set_item("rack_id", value.rack_id.as_deref())?;
        dict.set_item("client_id", &*value.client_id)?;
        dict.set_item("client_host", &*value.client_host)?;
        dict.set_item("topics", value.topic_names.iter().map(|name| &**name).collect::<Vec<_>>())?;
        dict.set_item("pattern", value.topic_regex.as_deref().filter(|pattern| !pattern.is_empty()))?;
        dict.set_item("rebalance_timeout_ms", value.rebalance_timeout_ms)?;
        dict.set_item("server_assignor", value.server_assignor.as_deref())?;
        dict.set_item("classic", value.classic.as_ref().map(|classic| classic_member(py, classic)).transpose()?)
    })
}

fn classic_member<'py>(py: Python<'py>, value: &ClassicMemberValue) -> PyResult<Bound<'py, PyAny>> {
    filled(py, |dict| {
        dict.set_item("session_timeout_ms", value.session_timeout_ms)?;
        let offers = value.protocols.iter().map(|(name, metadata)| (name.to_string(), hexadecimal(metadata)));
        dict.set_item("protocols", offers.collect::<Vec<_>>())
    })
}

fn current<'py>(py: Python<'py>, value: &CurrentValue) -> PyResult<Bound<'py, PyAny>> {
    filled(py, |dict| {
        let state = usize::try_from(value.state).ok().and_then(|state| MEMBER_STATES.get(state));
        dict.set_item("epoch", value.epoch)?;
        dict.set_item("previous_epoch", value.previous_epoch)?;
        dict.set_item("state", state.map_or_else(|| value.state.to_string(), |name| (*name).to_owned()))?;
        dict.set_item("assigned", by_id(py, value.assigned.iter().map(of_current))?)?;
        dict.set_item("revoking", by_id(py, value.pending_revocation.iter().map(of_current))?)
    })
}

fn of_target(topic: &TopicIndexes) -> (u128, &[i32]) {
    (topic.topic_id, &topic.partitions)
}

fn of_current(topic: &EpochedIndexes) -> (u128, &[i32]) {
    (topic.topic_id, &topic.partitions)
}

/// Partitions by topic id; a topic that is listed twice, for two epochs, has them all.
fn by_id<'py, 'v>(py: Python<'py>, topics: impl Iterator<Item = (u128, &'v [i32])>) -> PyResult<Bound<'py, PyDict>> {
    let mut listed: BTreeMap<u128, Vec<i32>> = BTreeMap::new();
    for (topic_id, partitions) in topics {
        listed.entry(topic_id).or_default().extend(partitions);
    }
    let dict = PyDict::new(py);
    for (topic_id, partitions) in listed {
        dict.set_item(topic_id, partitions)?;
    }
    Ok(dict)
}
