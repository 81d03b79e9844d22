//! The rows of one record of `__consumer_offsets` (docs/protocol.md §14).

use rota_core::{
    Record, embedded,
    records::{GroupValue, MemberValue, RecordError},
};
use rota_promises::{Columns, Row};

use crate::{
    newer::consumer_rows,
    reader::{Filter, Position},
};

/// Adds the rows of a record.
pub(crate) fn record_rows(position: &Position<'_>, filter: &Filter, columns: &mut Columns) -> Result<(), RecordError> {
    if !filter.wants_time(position.at_ms) {
        return Ok(());
    }
    let record = Record::decode(position.key, position.value)?;
    let base = Row {
        offset: Some(position.offset),
        part: Some(0),
        at_ms: Some(position.at_ms),
        note: position.note,
        ..Row::default()
    };
    match &record {
        Record::Offset { group_id, .. } | Record::Group { group_id, .. } | Record::Consumer { group_id, .. }
            if !filter.wants_group(group_id) => {}
        Record::Unknown { key, .. } if !filter.wants_group(Other::of(key).group) => {}
        record => rows_of(base, record, columns),
    }
    Ok(())
}

/// Adds the rows of a record whose position `base` has.
pub(crate) fn rows_of(base: Row<'_>, record: &Record, columns: &mut Columns) {
    match record {
        Record::Offset { group_id, topic, partition, value } => columns.push(&Row {
            kind: Some("offset"),
            group: Some(group_id),
            topic: Some(topic),
            topic_partition: Some(*partition),
            committed: value.as_ref().map(|value| value.offset),
            ..base
        }),
        Record::Group { group_id, value: Some(value) } => group_rows(base, group_id, value, columns),
        Record::Group { group_id, value: None } => {
            columns.push(&Row { kind: Some("group"), group: Some(group_id), ..base });
        }
        Record::Consumer { group_id, about } => consumer_rows(base, group_id, about, columns),
        Record::Unknown { key, .. } => {
            let Other { about, group } = Other::of(key);
            let group = (!group.is_empty()).then_some(group);
            columns.push(&Row { kind: Some("other"), group, note: Some(about), payload: Some(key), ..base });
        }
    }
}

/// A record that is not decoded, by its key.
struct Other<'a> {
    /// What it is about.
    about: &'static str,
    /// The group id; "" if it is not known.
    group: &'a str,
}

impl Other<'_> {
    /// All keys of Kafka 4.4 begin with their type and the group id.
    fn of(key: &[u8]) -> Other<'_> {
        let unknown = Other { about: "unknown", group: "" };
        let Some((key_type, rest)) = key.split_first_chunk() else { return unknown };
        let about = match i16::from_be_bytes(*key_type) {
            10..=15 => "share group",
            17..=23 => "streams group",
            _ => return unknown,
        };
        let Some((length, rest)) = rest.split_first_chunk() else { return Other { about, group: "" } };
        let group = rest.get(..usize::from(u16::from_be_bytes(*length))).unwrap_or_default();
        Other { about, group: str::from_utf8(group).unwrap_or_default() }
    }
}

fn group_rows(base: Row<'_>, group_id: &str, value: &GroupValue, columns: &mut Columns) {
    let of_group = Row { group: Some(group_id), generation: Some(value.generation), ..base };
    columns.push(&Row {
        kind: Some("group"),
        leader: value.leader.as_deref(),
        protocol: value.protocol_name.as_deref(),
        count: Some(value.members.len() as i64),
        ..of_group
    });
    let is_consumer = &*value.protocol_type == "consumer";
    let mut part = base.part.unwrap_or_default();
    for member in &value.members {
        let of_member = Row { member: Some(&member.member_id), instance: member.instance_id.as_deref(), ..of_group };
        let mut push = |row: Row<'_>| {
            part += 1;
            columns.push(&Row { part: Some(part), ..row });
        };
        push(Row {
            kind: Some("member"),
            client: Some(&member.client_id),
            session_timeout_ms: Some(member.session_timeout_ms),
            rebalance_timeout_ms: Some(member.rebalance_timeout_ms),
            payload: Some(&member.assignment),
            ..of_member
        });
        if is_consumer {
            embedded_rows(of_member, member, &mut push);
        }
    }
}

/// Adds a consumer's subscription and assignment. Bytes that a consumer would not decode give no rows.
fn embedded_rows<'a>(of_member: Row<'a>, member: &'a MemberValue, push: &mut impl FnMut(Row<'_>)) {
    for topic in embedded::topics(&member.subscription).unwrap_or_default() {
        push(Row { kind: Some("subscribed"), topic: Some(topic), ..of_member });
    }
    let Ok(assignment) = embedded::decode_assignment(&member.assignment) else { return };
    for of_topic in &assignment.partitions {
        for partition in &of_topic.partitions {
            let (topic, topic_partition) = (Some(of_topic.topic.as_str()), Some(*partition));
            push(Row { kind: Some("assigned"), topic, topic_partition, ..of_member });
        }
    }
}
