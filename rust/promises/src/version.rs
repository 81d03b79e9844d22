//! One record of a group with all that its rows say.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{columns::Row, finding::At};

/// A partition of a topic.
pub(crate) type TopicPartition = (Arc<str>, i32);

/// A group's record.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Version {
    pub group: Arc<str>,
    /// `None`: a tombstone.
    pub generation: Option<i32>,
    pub leader: Option<Arc<str>>,
    pub has_protocol: bool,
    pub count: i64,
    pub offset: i64,
    pub at_ms: Option<i64>,
    pub members: Vec<Recorded>,
}

/// A member as a group's record has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Recorded {
    pub name: Arc<str>,
    pub instance: Option<Arc<str>>,
    /// Digest of its assignment.
    pub share: u64,
    /// To which it subscribes; empty: the bytes say nothing.
    pub topics: Vec<Arc<str>>,
    pub places: Vec<TopicPartition>,
}

impl Recorded {
    /// What stays the same of a static member.
    pub(crate) fn who(&self) -> &Arc<str> {
        self.instance.as_ref().unwrap_or(&self.name)
    }
}

impl Version {
    pub(crate) fn at(&self) -> At {
        let Version { generation, offset, at_ms, .. } = *self;
        At { group: Some(Arc::clone(&self.group)), generation, offset, at_ms }
    }
}

/// Whether rows of this type belong to the record of a group.
pub(crate) fn is_of_version(kind: &str) -> bool {
    matches!(kind, "group" | "member" | "subscribed" | "assigned")
}

/// Returns the groups' records among rows that belong together, in their order.
pub(crate) fn versions(rows: &[Row<'_>]) -> Vec<Version> {
    let mut found: Vec<Version> = Vec::new();
    for row in rows {
        let kind = row.kind.unwrap_or_default();
        if kind == "group" {
            found.push(Version {
                group: row.group.unwrap_or_default().into(),
                generation: row.generation,
                leader: row.leader.map(Arc::from),
                has_protocol: row.protocol.is_some(),
                count: row.count.unwrap_or_default(),
                offset: row.offset.unwrap_or_default(),
                at_ms: row.at_ms,
                members: Vec::new(),
            });
            continue;
        }
        let Some(version) = found.last_mut() else { continue };
        if kind == "member" {
            version.members.push(Recorded {
                name: row.member.unwrap_or_default().into(),
                instance: row.instance.map(Arc::from),
                share: digest(row.payload),
                topics: Vec::new(),
                places: Vec::new(),
            });
        } else if let Some(member) = version.members.last_mut() {
            let topic = row.topic.unwrap_or_default();
            match kind {
                "subscribed" => member.topics.push(topic.into()),
                "assigned" => member.places.push((topic_of(member, topic), row.topic_partition.unwrap_or_default())),
                _ => {}
            }
        }
    }
    found
}

/// The topic's name, shared with the places before if it is the same.
fn topic_of(member: &Recorded, topic: &str) -> Arc<str> {
    match member.places.last() {
        Some((known, _)) if **known == *topic => Arc::clone(known),
        _ => topic.into(),
    }
}

/// What is remembered of an assignment's bytes; 0 of none.
pub(crate) fn digest(payload: Option<&[u8]>) -> u64 {
    let payload = payload.unwrap_or_default();
    if payload.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(payload);
    hasher.finish().max(1)
}
