//! What clients send: mostly what their member would, sometimes anything.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    Projection, Request, State, Ticket,
    request::{
        Assignment, CommitPartition, CommitTopic, DeleteGroup, DescribeGroup, FetchTopic, Heartbeat, JoinGroup,
        LeaveGroup, LeaveIdentity, ListGroups, OffsetCommit, OffsetDelete, OffsetDeleteTopic, OffsetFetch, Protocol,
        SyncGroup,
    },
};

use super::{
    GROUPS, World,
    history::{Fault, Known},
};

const INSTANCES: [&str; 3] = ["i1", "i2", "i3"];
const OFFERS: [&[&str]; 6] =
    [&["range"], &["range", "sticky"], &["sticky", "range"], &["sticky"], &["range", "range", "other"], &[]];
/// To t, to nothing that can be read.
const SUBSCRIPTIONS: [&[u8]; 2] = [b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff", b"\0\0"];
const SESSIONS_MS: [i32; 4] = [400, 3_000, 20_000, 20_000];
const REBALANCES_MS: [i32; 5] = [0, -1, 300, 2_000, 60_000];

/// Protocol names and metadata, in order of preference.
type Offer = Vec<(Arc<str>, Arc<[u8]>)>;

impl World {
    fn group(&mut self) -> &'static str {
        GROUPS[usize::from(self.dice.chance(20))]
    }

    /// A member as the group has it now, an id of before, or an unknown id.
    fn somebody(&mut self) -> Known {
        let group = self.group();
        let mut known = match self.dice.below(100) {
            0..75 => self.present(group),
            75..95 if !self.known.is_empty() => Some(self.known[self.dice.below(self.known.len())].clone()),
            _ => None,
        }
        .unwrap_or_else(|| Known { group, member_id: "stranger".to_owned(), instance: None });
        if self.dice.chance(5) {
            known.instance = Some(self.dice.pick(&INSTANCES));
        }
        known
    }

    /// A member in the view of the group.
    fn present(&mut self, group: &'static str) -> Option<Known> {
        let projection = self.coordinator.project(group)?;
        let at = self.dice.below((projection.members.len() + projection.pending.len()).max(1));
        if let Some(member) = projection.members.get(at) {
            let instance = member.instance_id.as_deref().and_then(instance_named);
            return Some(Known { group, member_id: member.member_id.to_string(), instance });
        }
        let (pending, _) = projection.pending.get(at - projection.members.len())?;
        Some(Known { group, member_id: pending.to_string(), instance: None })
    }

    fn generation(&mut self, group: &str) -> i32 {
        let current = self.coordinator.project(group).map_or(0, |group| group.generation);
        if self.dice.chance(92) { current } else { current.wrapping_sub(1) }
    }

    fn offer(&mut self) -> Offer {
        let metadata: Arc<[u8]> = self.dice.pick(&SUBSCRIPTIONS).into();
        let names = if self.dice.chance(98) { OFFERS[self.dice.below(5)] } else { OFFERS[5] };
        names.iter().map(|name| (Arc::from(*name), Arc::clone(&metadata))).collect()
    }

    pub(super) fn join_anew(&mut self) {
        let group = self.group();
        let instance = self.dice.chance(60).then(|| self.dice.pick(&INSTANCES));
        let offer = self.offer();
        let version = self.version(instance);
        self.join(&Known { group, member_id: String::new(), instance }, version, &offer);
    }

    /// With an id, and often with what it offered before.
    pub(super) fn rejoin(&mut self) {
        let known = self.somebody();
        let before = self.coordinator.project(known.group).and_then(|group| offered(&group, &known.member_id));
        let offer = match before {
            Some(offer) if self.dice.chance(70) => offer,
            _ => self.offer(),
        };
        let version = self.version(known.instance);
        self.join(&known, version, &offer);
    }

    /// A static member, often the leader, begins again without its id, and offers what it did.
    pub(super) fn restart(&mut self) {
        let group = self.group();
        let Some(projection) = self.coordinator.project(group) else { return };
        let statics: Vec<_> = projection.members.iter().filter(|member| member.instance_id.is_some()).collect();
        if statics.is_empty() {
            return;
        }
        let leader = statics.iter().find(|member| Some(&member.member_id) == projection.leader.as_ref());
        let member = match leader {
            Some(leader) if self.dice.chance(60) => *leader,
            _ => self.dice.pick(&statics),
        };
        let instance = member.instance_id.as_deref().and_then(instance_named);
        let version = self.dice.pick(&[5, 9, 9]);
        self.join(&Known { group, member_id: String::new(), instance }, version, &member.protocols);
    }

    fn version(&mut self, instance: Option<&str>) -> i16 {
        if instance.is_some() { self.dice.pick(&[5, 8, 9]) } else { self.dice.pick(&[0, 3, 4, 5, 9]) }
    }

    fn join(&mut self, known: &Known, version: i16, offer: &Offer) {
        let protocols: Vec<Protocol<'_>> = offer.iter().map(|(name, metadata)| Protocol { name, metadata }).collect();
        let request = JoinGroup {
            version,
            group_id: Some(known.group),
            member_id: &known.member_id,
            instance_id: known.instance,
            client_id: "c",
            client_host: "/127.0.0.1",
            session_timeout_ms: self.dice.pick(&SESSIONS_MS),
            rebalance_timeout_ms: self.dice.pick(&REBALANCES_MS),
            protocol_type: if self.dice.chance(97) { "consumer" } else { "connect" },
            protocols: &protocols,
            reason: None,
        };
        self.submit(known, "JoinGroup", -1, Request::JoinGroup(request));
    }

    pub(super) fn sync(&mut self) {
        let mut known = self.somebody();
        let projection = self.coordinator.project(known.group);
        if let Some(group) = &projection
            && let Some(leader) = group.members.iter().find(|member| Some(&member.member_id) == group.leader.as_ref())
            && group.state == State::CompletingRebalance
            && self.dice.chance(40)
        {
            known.member_id = leader.member_id.to_string();
            known.instance = leader.instance_id.as_deref().and_then(instance_named);
        }
        let generation = self.generation(known.group);
        let mut plan: BTreeMap<String, Vec<u8>> = projection
            .iter()
            .flat_map(|group| group.members.iter().map(|member| member.member_id.to_string()))
            .map(|member| (member.clone(), format!("{member}@{generation}#{}", self.tickets).into_bytes()))
            .collect();
        if self.dice.chance(20) {
            plan.pop_last();
            plan.insert("stranger".to_owned(), b"nothing".to_vec());
        }
        if projection.is_some_and(|group| installs(&group, &known, generation)) {
            let era = self.history.era(known.group, self.life);
            self.history.plan((known.group, era, generation), &plan);
        }
        let assignments: Vec<Assignment<'_>> =
            plan.iter().map(|(member_id, assignment)| Assignment { member_id, assignment }).collect();
        let request = SyncGroup {
            version: 4,
            group_id: Some(known.group),
            generation,
            member_id: &known.member_id,
            instance_id: known.instance,
            protocol_type: None,
            protocol_name: None,
            assignments: &assignments,
        };
        self.submit(&known, "SyncGroup", generation, Request::SyncGroup(request));
    }

    pub(super) fn heartbeat(&mut self) {
        let known = self.somebody();
        let generation = self.generation(known.group);
        let request = Heartbeat {
            group_id: Some(known.group),
            generation,
            member_id: &known.member_id,
            instance_id: known.instance,
        };
        self.submit(&known, "Heartbeat", generation, Request::Heartbeat(request));
    }

    pub(super) fn beat_by_handle(&mut self) {
        let known = self.somebody();
        let handle = self.coordinator.member_handle(known.group, &known.member_id).unwrap_or(u64::MAX);
        let generation = self.generation(known.group);
        let now = self.now;
        let mut codes = [0];
        self.event(
            || format!("beat {known:?} {generation}"),
            |coordinator, effects| {
                coordinator.heartbeats_by_handle(now, &[handle], &[generation], &mut codes);
                if let Some(words) = &mut effects.words {
                    words.push(format!("codes {codes:?}"));
                }
            },
        );
    }

    pub(super) fn leave(&mut self) {
        let mut first = self.somebody();
        let second = self.somebody();
        if first.instance.is_some() && self.dice.chance(25) {
            first.member_id.clear();
        }
        let members = [&first, &second, &first].map(|known| LeaveIdentity {
            member_id: &known.member_id,
            instance_id: known.instance,
            reason: None,
        });
        let several = 1 + self.dice.below(3);
        let request = LeaveGroup { version: 5, group_id: Some(first.group), members: &members[..several] };
        self.submit(&first, "LeaveGroup", -1, Request::LeaveGroup(request));
    }

    pub(super) fn commit(&mut self) {
        let mut known = self.somebody();
        let mut generation = self.generation(known.group);
        if self.dice.chance(20) {
            known.member_id = String::new();
            known.instance = None;
            generation = -1;
        }
        self.commit_to(&known, generation);
    }

    pub(super) fn commit_to(&mut self, known: &Known, generation: i32) {
        let index = self.dice.below(2) as i32;
        let partitions = [CommitPartition { index, offset: self.tickets as i64, leader_epoch: -1, metadata: None }];
        let topic = self.dice.pick(&["t", "u"]);
        let topics = [CommitTopic { name: topic, topic_id: 0, partitions: &partitions }];
        let request = OffsetCommit {
            version: self.dice.pick(&[8, 9]),
            group_id: Some(known.group),
            generation,
            member_id: &known.member_id,
            instance_id: known.instance,
            retention_time_ms: None,
            topics: &topics,
        };
        let before = self.coordinator.project(known.group);
        self.submit(known, "OffsetCommit", generation, Request::OffsetCommit(request));
        let ticket = Ticket(self.tickets - 1);
        let is_accepted = self.open.get(&ticket).is_some_and(|open| open.append.is_some());
        if self.is_checked && (is_accepted || self.strikes(Fault::StrangersCommit, ticket)) {
            assert!(
                may_commit(before.as_ref(), known, generation),
                "S15: {known:?} {generation} committed to {before:?}"
            );
        }
    }

    pub(super) fn delete_group(&mut self) {
        let group = self.group();
        let known = Known { group, member_id: String::new(), instance: None };
        let request = DeleteGroup { group_id: Some(group) };
        self.submit(&known, "DeleteGroup", -1, Request::DeleteGroup(request));
    }

    pub(super) fn delete_offsets(&mut self) {
        let group = self.group();
        let known = Known { group, member_id: String::new(), instance: None };
        let all: &[i32] = &[0, 1, 1, 7];
        let partitions = &all[self.dice.below(2)..];
        let name = self.dice.pick(&["t", "u"]);
        let topics = [OffsetDeleteTopic { name, partitions }];
        let request = OffsetDelete { group_id: Some(group), topics: &topics };
        self.submit(&known, "OffsetDelete", -1, Request::OffsetDelete(request));
    }

    pub(super) fn fetch(&mut self) {
        let known = self.somebody();
        let topics = [FetchTopic { name: "t", topic_id: 0, partitions: &[0, 1] }];
        let request = OffsetFetch {
            group_id: Some(known.group),
            require_stable: self.dice.chance(50),
            topics: if self.dice.chance(50) { Some(&topics) } else { None },
        };
        self.submit(&known, "OffsetFetch", -1, Request::OffsetFetch(request));
    }

    pub(super) fn look(&mut self) {
        let known = self.somebody();
        let describe = DescribeGroup { version: 6, group_id: Some(known.group) };
        self.submit(&known, "DescribeGroup", -1, Request::DescribeGroup(describe));
        self.submit(&known, "ListGroups", -1, Request::ListGroups(ListGroups { states: &["stable"], types: &[] }));
        self.compare_view();
        let explained = self.coordinator.explain(known.group, self.coordinator.now().mono_ms);
        if let Some(transcript) = &mut self.transcript {
            transcript.push(format!("{explained:?}"));
        }
    }
}

/// S15, from outside.
fn may_commit(group: Option<&Projection>, sender: &Known, generation: i32) -> bool {
    let Some(group) = group else { return generation < 0 };
    let nobody = group.members.is_empty() && generation < 0;
    let is_sender = |member: &rota_core::projection::ProjectedMember| {
        *member.member_id == sender.member_id
            && (sender.instance.is_none() || member.instance_id.as_deref() == sender.instance)
    };
    let member = group.members.iter().any(is_sender) && group.generation == generation;
    nobody || member && group.state != State::CompletingRebalance
}

fn instance_named(name: &str) -> Option<&'static str> {
    INSTANCES.into_iter().find(|instance| *instance == name)
}

/// What a member of the group offers.
fn offered(group: &Projection, member_id: &str) -> Option<Offer> {
    let member = group.members.iter().find(|member| *member.member_id == *member_id)?;
    Some(member.protocols.clone())
}

/// Whether a SyncGroup of this sender hands in the plan of the generation.
fn installs(group: &Projection, sender: &Known, generation: i32) -> bool {
    let leads = |member: &&rota_core::projection::ProjectedMember| {
        Some(&member.member_id) == group.leader.as_ref() && *member.member_id == sender.member_id
    };
    let leader = group.members.iter().find(leads);
    let is_itself = |leader: &rota_core::projection::ProjectedMember| {
        sender.instance.is_none() || leader.instance_id.as_deref() == sender.instance
    };
    group.state == State::CompletingRebalance && group.generation == generation && leader.is_some_and(is_itself)
}
