//! The requests of clients.

use std::sync::Arc;

use rota_core::{
    ErrorCode, Request,
    embedded::{self, Subscription},
    request::{
        Assignment, CommitPartition, CommitTopic, ConsumerGroupHeartbeat, Heartbeat, JoinGroup, LeaveGroup,
        LeaveIdentity, OffsetCommit, Protocol, SyncGroup, TopicPartitions,
    },
};

use super::{
    client::{Asked, Partitions, Phase},
    event::{Ask, Fate, Probe},
    world::{Effects, GROUP, OFFER, PATTERN, TOPICS, World, named, plan},
};

const LEAVE: i32 = -1;
const LEAVE_STATIC: i32 = -2;
const TIMEOUT_MS: i32 = 60_000;
/// From this version on a static member can say that it is one.
const FIRST_VERSION_WITH_INSTANCES: i16 = 5;
/// Up to this version no member has to join twice.
const LAST_VERSION_WITHOUT_ID_REQUIRED: i16 = 3;
/// An embedded version with owned partitions.
const EMBEDDED: i16 = 1;

/// A heartbeat of a client, as far as it is its own.
struct Beat<'a> {
    member_id: &'a str,
    epoch: i32,
    timed: bool,
    instance_id: Option<&'a str>,
    topics: Option<usize>,
    reports: Option<&'a Partitions>,
}

impl World {
    /// A client asks, and forgets at once that it waits if the answer is lost.
    pub(super) fn ask(&mut self, client: usize, ask: Ask, fate: Fate, effects: &mut Effects) {
        match ask {
            Ask::Join(topics) => {
                self.clients[client].lose_all();
                self.clients[client].topics = topics;
                self.beat(client, (0, true), Some(topics), true, effects);
            }
            Ask::Beat => self.beat(client, (self.epoch(client), false), None, false, effects),
            Ask::Report => self.beat(client, (self.epoch(client), false), None, true, effects),
            Ask::Full => {
                let topics = Some(self.clients[client].topics);
                self.beat(client, (self.epoch(client), true), topics, true, effects);
            }
            Ask::Subscribe(topics) => {
                self.clients[client].topics = topics;
                self.beat(client, (self.epoch(client), false), Some(topics), true, effects);
            }
            Ask::Leave | Ask::LeaveStatic => {
                let id = self.id_of(client);
                self.clients[client].lose_all();
                let epoch = if ask == Ask::Leave { LEAVE } else { LEAVE_STATIC };
                let instance_id = self.instance_of(client);
                let beat = Beat { member_id: &id, epoch, timed: false, instance_id, topics: None, reports: None };
                self.heartbeat(client, Some(Asked::Leave), &beat, effects);
            }
            Ask::ClassicJoin => self.classic_join(client, effects),
            Ask::ClassicSync => self.classic_sync(client, effects),
            Ask::ClassicBeat => {
                let (id, generation) = (self.id_of(client), self.epoch(client));
                let instance_id = self.instance_of(client);
                let request = Heartbeat { group_id: Some(GROUP), generation, member_id: &id, instance_id };
                self.send(client, Some(Asked::ClassicBeat), Request::Heartbeat(request), effects);
            }
            Ask::ClassicLeave => {
                let (member_id, instance_id) = (self.id_of(client), self.instance_of(client));
                self.clients[client].lose_all();
                self.clients[client].classic_id = "".into();
                let members = [LeaveIdentity { member_id: &member_id, instance_id, reason: None }];
                let request = LeaveGroup { version: 5, group_id: Some(GROUP), members: &members };
                self.send(client, Some(Asked::Leave), Request::LeaveGroup(request), effects);
            }
        }
        if fate == Fate::Lost {
            self.clients[client].waits = None;
        }
    }

    fn epoch(&self, client: usize) -> i32 {
        self.clients[client].epoch.unwrap_or(0)
    }

    /// A heartbeat of an epoch, with a timeout or without.
    fn beat(
        &mut self,
        client: usize,
        (epoch, timed): (i32, bool),
        topics: Option<usize>,
        reports: bool,
        effects: &mut Effects,
    ) {
        let (member_id, owned) = (self.id_of(client), self.clients[client].owned.clone());
        let instance_id = self.instance_of(client);
        let reports = reports.then_some(&owned);
        let beat = Beat { member_id: &member_id, epoch, timed, instance_id, topics, reports };
        self.heartbeat(client, Some(Asked::Beat(epoch)), &beat, effects);
    }

    fn heartbeat(&mut self, client: usize, asked: Option<Asked>, beat: &Beat<'_>, effects: &mut Effects) {
        let patterns = self.bounds.patterns;
        let names: Option<Vec<&str>> = beat.topics.map(|count| {
            let count = if patterns { 0 } else { count };
            TOPICS[..count].iter().map(|(name, _)| *name).collect()
        });
        let owned: Option<Vec<(u128, Vec<i32>)>> = beat.reports.map(|owned| {
            let of = |id: u128| owned.iter().filter(|at| at.0 == id).map(|at| at.1).collect::<Vec<_>>();
            TOPICS.iter().map(|(_, id)| (*id, of(*id))).filter(|(_, indexes)| !indexes.is_empty()).collect()
        });
        let owned: Option<Vec<TopicPartitions<'_>>> = owned.as_ref().map(|owned| {
            let of = |(topic_id, partitions)| TopicPartitions { topic_id, partitions };
            owned.iter().map(|(id, indexes)| of((*id, &indexes[..]))).collect()
        });
        let pattern = beat.topics.map(|count| if patterns && count > 0 { PATTERN } else { "" });
        let request = ConsumerGroupHeartbeat {
            version: 1,
            group_id: GROUP,
            member_id: beat.member_id,
            member_epoch: beat.epoch,
            instance_id: beat.instance_id,
            rack_id: None,
            rebalance_timeout_ms: if beat.timed { TIMEOUT_MS } else { -1 },
            subscribed_topic_names: names.as_deref(),
            subscribed_topic_regex: pattern,
            server_assignor: None,
            topic_partitions: owned.as_deref(),
            client_id: "c",
            client_host: "/127.0.0.1",
        };
        self.send(client, asked, Request::ConsumerGroupHeartbeat(request), effects);
    }

    fn classic_join(&mut self, client: usize, effects: &mut Effects) {
        if !self.bounds.cooperative {
            self.clients[client].lose_all();
        }
        self.clients[client].phase = Phase::Out;
        let (member_id, instance_id) = (self.id_of(client), self.instance_of(client));
        let subscription = Subscription {
            version: EMBEDDED,
            topics: TOPICS[..self.bounds.topics].iter().map(|(name, _)| (*name).to_owned()).collect(),
            user_data: None,
            owned_partitions: named(&self.clients[client].owned),
            generation: -1,
            rack: None,
        };
        let metadata = embedded::encode_subscription(&subscription).expect("a subscription");
        let offers = [Protocol { name: OFFER, metadata: &metadata }];
        let is_new_static = instance_id.is_some();
        let request = JoinGroup {
            version: if is_new_static { FIRST_VERSION_WITH_INSTANCES } else { LAST_VERSION_WITHOUT_ID_REQUIRED },
            group_id: Some(GROUP),
            member_id: &member_id,
            instance_id,
            client_id: ["a", "b", "c"][client],
            client_host: "/127.0.0.1",
            session_timeout_ms: TIMEOUT_MS,
            rebalance_timeout_ms: TIMEOUT_MS,
            protocol_type: "consumer",
            protocols: &offers,
            reason: None,
        };
        self.send(client, Some(Asked::Join), Request::JoinGroup(request), effects);
    }

    fn classic_sync(&mut self, client: usize, effects: &mut Effects) {
        let Phase::Joined(listed) = std::mem::take(&mut self.clients[client].phase) else { return };
        let partitions: Vec<_> = self.partitions().collect();
        let plan = if listed.is_empty() { Vec::new() } else { plan(&listed, &partitions, self.bounds.cooperative) };
        let encoded: Vec<(Arc<str>, Vec<u8>)> = listed
            .iter()
            .zip(&plan)
            .map(|((id, _), partitions)| {
                let partitions = named(partitions);
                let assignment = embedded::Assignment { version: EMBEDDED, partitions, user_data: None };
                (Arc::clone(id), embedded::encode_assignment(&assignment).expect("an assignment"))
            })
            .collect();
        let assignments: Vec<Assignment<'_>> =
            encoded.iter().map(|(member_id, assignment)| Assignment { member_id, assignment }).collect();
        let (member_id, generation) = (self.id_of(client), self.epoch(client));
        let request = SyncGroup {
            version: 5,
            group_id: Some(GROUP),
            generation,
            member_id: &member_id,
            instance_id: self.instance_of(client),
            protocol_type: Some("consumer"),
            protocol_name: Some(OFFER),
            assignments: &assignments,
        };
        self.send(client, Some(Asked::Sync), Request::SyncGroup(request), effects);
    }

    /// A request whose answer the client does not hear of. What a commit writes is refused by the log.
    pub(super) fn probe(&mut self, client: usize, probe: Probe, effects: &mut Effects) {
        let (id, epoch) = (self.id_of(client), self.epoch(client));
        let instance_id = self.instance_of(client);
        let own = Beat { member_id: &id, epoch, timed: false, instance_id, topics: None, reports: None };
        match probe {
            Probe::Ahead => self.heartbeat(client, None, &Beat { epoch: epoch + 1, ..own }, effects),
            Probe::Behind => self.heartbeat(client, None, &Beat { epoch: epoch - 1, ..own }, effects),
            Probe::Stranger => self.heartbeat(client, None, &Beat { member_id: "z1", ..own }, effects),
            Probe::OtherInstance => {
                let instance_id = Some(["b", "a", "a"][client]);
                self.heartbeat(client, None, &Beat { instance_id, ..own }, effects);
            }
            Probe::ClassicAhead => {
                let generation = epoch + 1;
                let request = Heartbeat { group_id: Some(GROUP), generation, member_id: &id, instance_id };
                self.send(client, None, Request::Heartbeat(request), effects);
            }
            Probe::Commit(index) => self.commit(client, (&id, epoch), index, effects),
            Probe::CommitAhead => self.commit(client, (&id, epoch + 1), 0, effects),
            Probe::CommitSimple => self.commit(client, ("", -1), 0, effects),
        }
        let refused = Err(ErrorCode::NotEnoughReplicas);
        for (append_id, _) in effects.take_appends() {
            self.core.appended(append_id, refused, super::world::START, effects);
        }
    }

    fn commit(&mut self, client: usize, (member_id, generation): (&str, i32), index: i32, effects: &mut Effects) {
        let partitions = [CommitPartition { index, offset: 5, leader_epoch: -1, metadata: None }];
        let topics = [CommitTopic { name: TOPICS[0].0, topic_id: TOPICS[0].1, partitions: &partitions }];
        let request = OffsetCommit {
            version: 9,
            group_id: Some(GROUP),
            generation,
            member_id,
            instance_id: None,
            retention_time_ms: None,
            topics: &topics,
        };
        self.send(client, None, Request::OffsetCommit(request), effects);
    }
}
