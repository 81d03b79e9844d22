//! Groups of Kafka's other protocols in a directory that Kafka wrote: they are listed with their type (docs/protocol.md
//! §12.2).
//!
//! rota does not coordinate them. The log keeps their records, their offsets are ordinary offsets, and the state of a
//! group follows from its records. Consumer groups are not among them: their coordinator lists them, whether or not the
//! protocol is switched off.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::{request::ListGroups, response::ListedGroup};

/// What an epoch of Kafka's records is compared with; a member that is reconciled says so.
const MEMBER_STABLE: u8 = 0;

/// The protocol of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Share,
    Streams,
}

impl Kind {
    /// As a listing names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Share => "share",
            Kind::Streams => "streams",
        }
    }
}

/// The subject of a record.
#[derive(Clone, Copy, Debug)]
enum About {
    Group,
    Member,
    Target,
    Current,
}

/// The record types that determine a group's state: type, kind of group, subject.
const TYPES: [(i16, Kind, About); 6] = [
    (10, Kind::Share, About::Member),
    (11, Kind::Share, About::Group),
    (17, Kind::Streams, About::Group),
    (19, Kind::Streams, About::Member),
    (20, Kind::Streams, About::Target),
    (22, Kind::Streams, About::Current),
];

/// A group, from its records.
#[derive(Debug)]
struct NewerGroup {
    kind: Kind,
    epoch: Option<i32>,
    target_epoch: i32,
    members: BTreeSet<String>,
    /// Epoch of each member's assignment, if it has no other one ahead of it.
    reconciled: BTreeMap<String, i32>,
}

impl NewerGroup {
    fn state(&self) -> &'static str {
        let is_reconciled = |member: &String| self.reconciled.get(member) == Some(&self.target_epoch);
        match self.kind {
            _ if self.members.is_empty() => "Empty",
            Kind::Share => "Stable",
            _ if self.epoch.is_some_and(|epoch| epoch > self.target_epoch) => "Assigning",
            _ if self.members.iter().all(is_reconciled) => "Stable",
            Kind::Streams => "Reconciling",
        }
    }

    fn read(&mut self, about: About, member: Option<String>, value: Option<&[u8]>) {
        match (about, member) {
            (About::Group, _) => self.epoch = value.and_then(epoch),
            (About::Target, _) => self.target_epoch = value.and_then(epoch).unwrap_or(-1),
            (About::Member, Some(member)) => {
                if value.is_some() {
                    self.members.insert(member);
                } else {
                    self.members.remove(&member);
                }
            }
            (About::Current, Some(member)) => match value.and_then(|value| epoch(value).zip(value.get(10))) {
                Some((epoch, &MEMBER_STABLE)) => _ = self.reconciled.insert(member, epoch),
                _ => _ = self.reconciled.remove(&member),
            },
            (About::Member | About::Current, None) => {}
        }
    }
}

/// The first field of all these values, behind their version.
fn epoch(value: &[u8]) -> Option<i32> {
    value.get(2..6)?.try_into().ok().map(i32::from_be_bytes)
}

/// A string of a key.
fn text<'k>(key: &mut &'k [u8]) -> Option<&'k str> {
    let (length, rest) = key.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *key = rest;
    std::str::from_utf8(text).ok()
}

/// The groups of one partition.
#[derive(Debug, Default)]
pub struct NewerGroups {
    groups: BTreeMap<String, NewerGroup>,
}

impl NewerGroups {
    /// Replays a record that the coordinator does not interpret. Malformed records have no effect.
    pub fn replay(&mut self, mut key: &[u8], value: Option<&[u8]>) {
        let Some((type_bytes, rest)) = key.split_first_chunk() else { return };
        key = rest;
        let record_type = i16::from_be_bytes(*type_bytes);
        let Some((_, kind, about)) = TYPES.iter().find(|(known, ..)| *known == record_type) else { return };
        let Some(group_id) = text(&mut key) else { return };
        let member = text(&mut key).map(str::to_owned);
        let fresh = || NewerGroup {
            kind: *kind,
            epoch: None,
            target_epoch: -1,
            members: BTreeSet::new(),
            reconciled: BTreeMap::new(),
        };
        let group = self.groups.entry(group_id.to_owned()).or_insert_with(fresh);
        if group.kind != *kind {
            *group = fresh();
        }
        group.read(*about, member, value);
        if matches!(about, About::Group) && value.is_none() {
            self.groups.remove(group_id);
        }
    }

    /// Forgets a group because of a record of a protocol that the coordinator has.
    pub fn is_coordinated(&mut self, group_id: &str) {
        self.groups.remove(group_id);
    }

    /// Iterates over all groups, each with whether `request` selects it.
    pub fn listed<'g>(&'g self, request: &'g ListGroups<'_>) -> impl Iterator<Item = Listed> + 'g {
        let known = self.groups.iter().filter(|(_, group)| group.epoch.is_some());
        known.map(|(group_id, group)| {
            let (kind, state) = (group.kind, group.state());
            let is_wanted = request.takes(kind.name(), state);
            Listed { group_id: group_id.clone(), kind, state, is_wanted }
        })
    }
}

/// A group of a list.
#[derive(Debug)]
pub struct Listed {
    group_id: String,
    /// The protocol.
    pub kind: Kind,
    state: &'static str,
    /// Whether the request selects the group.
    pub is_wanted: bool,
}

impl Listed {
    /// Returns the group's id.
    pub fn group_id(&self) -> &str {
        &self.group_id
    }

    /// Returns the entry for the answer.
    pub fn line(&self) -> ListedGroup<'_> {
        ListedGroup { group_id: &self.group_id, protocol_type: self.kind.name(), state: self.state }
    }
}

#[cfg(test)]
mod tests {
    use rota_wire::requests::GROUP_TYPES;

    use super::*;

    fn key(record_type: i16, texts: &[&str]) -> Vec<u8> {
        let mut bytes = record_type.to_be_bytes().to_vec();
        for text in texts {
            bytes.extend((text.len() as u16).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    fn value(epoch: i32) -> Vec<u8> {
        [&[0, 0], &epoch.to_be_bytes()[..], &[0; 9]].concat()
    }

    fn line(groups: &NewerGroups) -> Option<(&'static str, &'static str)> {
        groups.listed(&ListGroups::ALL).next().map(|listed| (listed.kind.name(), listed.state))
    }

    #[test]
    fn a_filter_knows_the_types_of_all_groups() {
        let kinds = [Kind::Share, Kind::Streams].map(Kind::name);
        for name in kinds.into_iter().chain(["classic", "consumer"]) {
            assert!(GROUP_TYPES.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_group_is_in_the_state_that_its_records_say() {
        let mut groups = NewerGroups::default();
        assert_eq!(line(&groups), None);
        let steps: [(Vec<u8>, Option<Vec<u8>>, _); 7] = [
            (key(19, &["g", "m"]), Some(value(0)), None),
            (key(17, &["g"]), Some(value(2)), Some(("streams", "Assigning"))),
            (key(20, &["g"]), Some(value(2)), Some(("streams", "Reconciling"))),
            (key(22, &["g", "m"]), Some(value(2)), Some(("streams", "Stable"))),
            (key(22, &["g", "m"]), None, Some(("streams", "Reconciling"))),
            (key(19, &["g", "m"]), None, Some(("streams", "Empty"))),
            (key(17, &["g"]), None, None),
        ];
        for (key, value, expected) in steps {
            groups.replay(&key, value.as_deref());
            assert_eq!(line(&groups), expected);
        }
    }

    #[test]
    fn share_and_streams_groups_are_named_and_a_record_of_another_protocol_ends_them() {
        let mut groups = NewerGroups::default();
        for (member, group, name) in [(10, 11, "share"), (19, 17, "streams")] {
            groups.replay(&key(member, &["g", "m"]), Some(&value(1)));
            groups.replay(&key(group, &["g"]), Some(&value(1)));
            assert_eq!(line(&groups).map(|(kind, _)| kind), Some(name));
        }
        groups.is_coordinated("g");
        assert_eq!(line(&groups), None);
    }

    #[test]
    fn keys_that_make_no_sense_say_nothing() {
        let mut groups = NewerGroups::default();
        for bytes in [&[][..], &[0], &[0, 11], &[0, 11, 0, 9, b'g'], &[0, 99, 0, 1, b'g'], &[0, 11, 0, 1, 0xff]] {
            groups.replay(bytes, Some(&[]));
        }
        assert_eq!(line(&groups), None);
    }
}
