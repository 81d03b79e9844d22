//! The records of `__consumer_offsets` as frozen Python classes.

use std::{num::NonZeroU32, sync::Arc};

use pyo3::{Borrowed, exceptions::PyTypeError, prelude::*};
use rota_core::{Record, records};

use crate::{
    errors::RecordError,
    plain::plain,
    values::{Octets, Tuple, union},
};

plain! {
    /// The latest offset of (group, topic, partition).
    OffsetRecord {
        /// The group id.
        group_id: String,
        /// The topic name.
        topic: String,
        /// The partition index.
        partition: i32,
        /// `None` is a tombstone.
        value: Option<OffsetValue>,
    }
    methods {
        /// Encodes the record's key.
        fn key_bytes(&self) -> PyResult<Octets> {
            PyRecord::Offset(self.clone()).key_bytes()
        }

        /// Encodes the record's value.
        fn value_bytes(&self) -> PyResult<Option<Octets>> {
            PyRecord::Offset(self.clone()).value_bytes()
        }
    }
}

plain! {
    /// A committed offset.
    OffsetValue {
        /// The offset as committed.
        offset: i64,
        /// The leader epoch; -1: none.
        leader_epoch: i32 = -1,
        /// Metadata of the client; "" if none.
        metadata: String = String::new(),
        /// Commit time in milliseconds since the Unix epoch.
        commit_timestamp_ms: i64 = 0,
        /// Expiry in milliseconds; set if the commit carried a retention time.
        expire_timestamp_ms: Option<i64> = None,
        /// The topic id; 0 if unknown.
        topic_id: u128 = 0,
    }
    shown "(offset, leader_epoch=-1, metadata='', commit_timestamp_ms=0, expire_timestamp_ms=None, topic_id=0)"
}

plain! {
    /// A whole group.
    GroupRecord {
        /// The group id.
        group_id: String,
        /// `None` is a tombstone.
        value: Option<GroupValue>,
    }
    methods {
        /// Encodes the record's key.
        fn key_bytes(&self) -> PyResult<Octets> {
            PyRecord::Group(self.clone()).key_bytes()
        }

        /// Encodes the record's value.
        fn value_bytes(&self) -> PyResult<Option<Octets>> {
            PyRecord::Group(self.clone()).value_bytes()
        }
    }
}

plain! {
    /// A group as one record.
    GroupValue {
        /// The protocol type; "" if none.
        protocol_type: String,
        /// The generation.
        generation: i32,
        /// The chosen protocol.
        protocol_name: Option<String> = None,
        /// The leader's member id.
        leader: Option<String> = None,
        /// Time when the group entered its state, in milliseconds since the Unix epoch; -1: unknown.
        state_timestamp_ms: i64 = -1,
        /// Members in joining order.
        members: Tuple<MemberValue> = Tuple::default(),
    }
    shown "(protocol_type, generation, protocol_name=None, leader=None, state_timestamp_ms=-1, members=())"
}

plain! {
    /// One member inside a group record.
    MemberValue {
        /// The member id.
        member_id: String,
        /// `group.instance.id` of a static member.
        instance_id: Option<String> = None,
        /// `client.id` of the first join.
        client_id: String = String::new(),
        /// Host of the first join.
        client_host: String = String::new(),
        /// `rebalance.timeout.ms`, in milliseconds.
        rebalance_timeout_ms: i32 = 300_000,
        /// `session.timeout.ms`, in milliseconds.
        session_timeout_ms: i32 = 45_000,
        /// Metadata for the chosen protocol.
        subscription: Octets = Octets::default(),
        /// The assignment that the leader sent for this member.
        assignment: Octets = Octets::default(),
    }
    shown "(member_id, instance_id=None, client_id='', client_host='', rebalance_timeout_ms=300000, \
        session_timeout_ms=45000, subscription=b'', assignment=b'')"
}

plain! {
    /// A record of another type: kept, but not interpreted.
    UnknownRecord {
        /// The key bytes.
        key: Octets,
        /// The value bytes; `None` is a tombstone.
        value: Option<Octets>,
    }
    methods {
        /// The record's key as bytes.
        fn key_bytes(&self) -> PyResult<Octets> {
            PyRecord::Unknown(self.clone()).key_bytes()
        }

        /// The record's value as bytes.
        fn value_bytes(&self) -> PyResult<Option<Octets>> {
            PyRecord::Unknown(self.clone()).value_bytes()
        }
    }
}

/// A record of any class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, IntoPyObject)]
pub enum PyRecord {
    Offset(OffsetRecord),
    Group(GroupRecord),
    Unknown(UnknownRecord),
}

impl<'py> FromPyObject<'_, 'py> for PyRecord {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<PyRecord> {
        if let Ok(record) = object.cast::<OffsetRecord>() {
            return Ok(PyRecord::Offset(record.get().clone()));
        }
        if let Ok(record) = object.cast::<GroupRecord>() {
            return Ok(PyRecord::Group(record.get().clone()));
        }
        if let Ok(record) = object.cast::<UnknownRecord>() {
            return Ok(PyRecord::Unknown(record.get().clone()));
        }
        let found = object.get_type().name()?;
        Err(PyTypeError::new_err(format!("expected OffsetRecord, GroupRecord or UnknownRecord, not {found}")))
    }
}

/// Maximum length of a string in a record.
const STRING_BYTES_MAX: usize = i16::MAX as usize;

impl PyRecord {
    fn key_bytes(&self) -> PyResult<Octets> {
        self.check_lengths()?;
        Ok(Octets(Record::from(self).key_bytes().into()))
    }

    fn value_bytes(&self) -> PyResult<Option<Octets>> {
        self.check_lengths()?;
        Ok(Record::from(self).value_bytes().map(|bytes| Octets(bytes.into())))
    }

    fn check_lengths(&self) -> PyResult<()> {
        let mut strings: Vec<&str> = Vec::new();
        match self {
            PyRecord::Offset(record) => {
                strings.extend([record.group_id.as_str(), &record.topic]);
                strings.extend(record.value.iter().map(|value| value.metadata.as_str()));
            }
            PyRecord::Group(record) => {
                strings.push(&record.group_id);
                if let Some(value) = &record.value {
                    strings.push(&value.protocol_type);
                    strings.extend(value.protocol_name.iter().chain(&value.leader).map(String::as_str));
                    for member in &value.members.0 {
                        strings.extend([member.member_id.as_str(), &member.client_id, &member.client_host]);
                        strings.extend(member.instance_id.as_deref());
                    }
                }
            }
            PyRecord::Unknown(_) => {}
        }
        match strings.iter().map(|text| text.len()).find(|length| *length > STRING_BYTES_MAX) {
            Some(length) => Err(RecordError::new_err(format!(
                "a string of {length} bytes is too long for a record: the limit is {STRING_BYTES_MAX}"
            ))),
            None => Ok(()),
        }
    }
}

/// Decodes a record.
#[pyfunction]
#[pyo3(signature = (key, value))]
fn decode_record(key: Octets, value: Option<Octets>) -> PyResult<PyRecord> {
    let record = Record::decode(&key.0, value.as_ref().map(|value| &*value.0));
    record.as_ref().map(PyRecord::from).map_err(|error| RecordError::new_err(error.to_string()))
}

/// The partition that has the records of a group.
#[pyfunction]
fn partition_for(group_id: &str, partitions: NonZeroU32) -> u32 {
    rota_core::partition_for(group_id, partitions.get())
}

fn owned(text: Option<&Arc<str>>) -> Option<String> {
    text.map(ToString::to_string)
}

fn shared(text: Option<&String>) -> Option<Arc<str>> {
    text.map(|text| text.as_str().into())
}

impl From<&Record> for PyRecord {
    fn from(record: &Record) -> PyRecord {
        match record {
            Record::Offset { group_id, topic, partition, value } => PyRecord::Offset(OffsetRecord {
                group_id: group_id.to_string(),
                topic: topic.to_string(),
                partition: *partition,
                value: value.as_ref().map(OffsetValue::from),
            }),
            Record::Group { group_id, value } => PyRecord::Group(GroupRecord {
                group_id: group_id.to_string(),
                value: value.as_ref().map(GroupValue::from),
            }),
            Record::Unknown { key, value } => {
                PyRecord::Unknown(UnknownRecord { key: Octets(key.clone()), value: value.clone().map(Octets) })
            }
            // Records without a class are bytes in Python.
            Record::Consumer { .. } => PyRecord::Unknown(UnknownRecord {
                key: Octets(record.key_bytes().into()),
                value: record.value_bytes().map(|value| Octets(value.into())),
            }),
        }
    }
}

impl From<&PyRecord> for Record {
    fn from(record: &PyRecord) -> Record {
        match record {
            PyRecord::Offset(OffsetRecord { group_id, topic, partition, value }) => Record::Offset {
                group_id: group_id.as_str().into(),
                topic: topic.as_str().into(),
                partition: *partition,
                value: value.as_ref().map(records::OffsetValue::from),
            },
            PyRecord::Group(GroupRecord { group_id, value }) => Record::Group {
                group_id: group_id.as_str().into(),
                value: value.as_ref().map(records::GroupValue::from),
            },
            PyRecord::Unknown(UnknownRecord { key, value }) => {
                let unknown =
                    || Record::Unknown { key: key.0.clone(), value: value.as_ref().map(|value| value.0.clone()) };
                match Record::decode(&key.0, value.as_ref().map(|value| &*value.0)) {
                    Ok(record @ Record::Consumer { .. }) => record,
                    _ => unknown(),
                }
            }
        }
    }
}

impl From<&records::OffsetValue> for OffsetValue {
    fn from(value: &records::OffsetValue) -> OffsetValue {
        OffsetValue {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata.to_string(),
            commit_timestamp_ms: value.commit_timestamp_ms,
            expire_timestamp_ms: value.expire_timestamp_ms,
            topic_id: value.topic_id,
        }
    }
}

impl From<&OffsetValue> for records::OffsetValue {
    fn from(value: &OffsetValue) -> records::OffsetValue {
        records::OffsetValue {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata.as_str().into(),
            commit_timestamp_ms: value.commit_timestamp_ms,
            expire_timestamp_ms: value.expire_timestamp_ms,
            topic_id: value.topic_id,
        }
    }
}

impl From<&records::GroupValue> for GroupValue {
    fn from(value: &records::GroupValue) -> GroupValue {
        GroupValue {
            protocol_type: value.protocol_type.to_string(),
            generation: value.generation,
            protocol_name: owned(value.protocol_name.as_ref()),
            leader: owned(value.leader.as_ref()),
            state_timestamp_ms: value.state_timestamp_ms,
            members: value.members.iter().map(MemberValue::from).collect(),
        }
    }
}

impl From<&GroupValue> for records::GroupValue {
    fn from(value: &GroupValue) -> records::GroupValue {
        records::GroupValue {
            protocol_type: value.protocol_type.as_str().into(),
            generation: value.generation,
            protocol_name: shared(value.protocol_name.as_ref()),
            leader: shared(value.leader.as_ref()),
            state_timestamp_ms: value.state_timestamp_ms,
            members: value.members.0.iter().map(records::MemberValue::from).collect(),
        }
    }
}

impl From<&records::MemberValue> for MemberValue {
    fn from(member: &records::MemberValue) -> MemberValue {
        MemberValue {
            member_id: member.member_id.to_string(),
            instance_id: owned(member.instance_id.as_ref()),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: (&*member.subscription).into(),
            assignment: (&*member.assignment).into(),
        }
    }
}

impl From<&MemberValue> for records::MemberValue {
    fn from(member: &MemberValue) -> records::MemberValue {
        records::MemberValue {
            member_id: member.member_id.as_str().into(),
            instance_id: shared(member.instance_id.as_ref()),
            client_id: member.client_id.as_str().into(),
            client_host: member.client_host.as_str().into(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: (&*member.subscription.0).into(),
            assignment: (&*member.assignment.0).into(),
        }
    }
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OffsetRecord>()?;
    module.add_class::<OffsetValue>()?;
    module.add_class::<GroupRecord>()?;
    module.add_class::<GroupValue>()?;
    module.add_class::<MemberValue>()?;
    module.add_class::<UnknownRecord>()?;
    let py = module.py();
    let records =
        union(&[py.get_type::<OffsetRecord>(), py.get_type::<GroupRecord>(), py.get_type::<UnknownRecord>()])?;
    module.add("Record", records)?;
    module.add_function(wrap_pyfunction!(partition_for, module)?)?;
    module.add_function(wrap_pyfunction!(decode_record, module)?)
}
