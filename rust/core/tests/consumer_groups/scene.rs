//! One consumer group "g", a clock that is moved by hand, and requests and answers as short texts.
//!
//! Partitions are `foo:012 bar:1`; an answer is its epoch and assignment, `-` for none; a record is its key type with
//! what matters of it.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    AppendId, Config, Coordinator, Entropy, ErrorCode, Now, Record, Request, Sink, Ticket,
    consumer_group::{config::ConsumerConfig, topics::TopicMetadata},
    embedded,
    records::{ConsumerRecord, EpochedIndexes, TopicIndexes},
    request::{ConsumerGroupHeartbeat, TopicPartitions},
    response::Answer,
};

const TOPICS: [(&str, u128, i32); 3] = [("foo", 1, 6), ("bar", 2, 3), ("one", 3, 1)];

/// One heartbeat.
#[derive(Clone)]
pub struct Beat<'a> {
    pub version: i16,
    pub group_id: &'a str,
    pub member_id: &'a str,
    pub epoch: i32,
    pub instance_id: Option<&'a str>,
    pub rack_id: Option<&'a str>,
    pub rebalance_timeout_ms: i32,
    pub names: Option<&'a [&'a str]>,
    pub pattern: Option<&'a str>,
    pub assignor: Option<&'a str>,
    /// As `foo:012 bar:1`.
    pub owned: Option<&'a str>,
}

/// A heartbeat that says nothing but its epoch.
pub fn beat(member_id: &str, epoch: i32) -> Beat<'_> {
    Beat {
        version: 1,
        group_id: "g",
        member_id,
        epoch,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: -1,
        names: None,
        pattern: None,
        assignor: None,
        owned: None,
    }
}

/// A full join.
pub fn join<'a>(member_id: &'a str, names: &'a [&'a str]) -> Beat<'a> {
    Beat { rebalance_timeout_ms: 60_000, names: Some(names), owned: Some(""), ..beat(member_id, 0) }
}

/// A full join with a pattern and no names.
pub fn join_by<'a>(member_id: &'a str, pattern: &'a str) -> Beat<'a> {
    Beat { rebalance_timeout_ms: 60_000, owned: Some(""), ..beat(member_id, 0) }.pattern(pattern)
}

impl<'a> Beat<'a> {
    pub fn pattern(self, pattern: &'a str) -> Beat<'a> {
        Beat { pattern: Some(pattern), ..self }
    }

    pub fn of(self, instance_id: &'a str) -> Beat<'a> {
        Beat { instance_id: Some(instance_id), ..self }
    }

    pub fn owns(self, owned: &'a str) -> Beat<'a> {
        Beat { owned: Some(owned), ..self }
    }

    pub fn names(self, names: &'a [&'a str]) -> Beat<'a> {
        Beat { names: Some(names), ..self }
    }
}

#[derive(Default)]
pub struct Effects {
    pub answers: BTreeMap<Ticket, String>,
    pub appends: Vec<(AppendId, Vec<Record>)>,
    resolving: Vec<String>,
}

impl Sink for Effects {
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let text = match answer {
            Answer::ConsumerGroupHeartbeat(answer) if answer.error == ErrorCode::None => {
                let partitions = answer.assignment.map(|topics| {
                    let owned: Vec<_> = topics
                        .iter()
                        .map(|topic| TopicIndexes { topic_id: topic.topic_id, partitions: topic.partitions.to_vec() })
                        .collect();
                    format!("[{}]", indexes(&owned))
                });
                format!("{} {}", answer.member_epoch, partitions.unwrap_or_else(|| "-".to_owned()))
            }
            Answer::ConsumerGroupHeartbeat(answer) => {
                let message = answer.error_message.map_or(String::new(), |message| format!(" {message}"));
                format!("{}{message}", answer.error.code())
            }
            Answer::OffsetCommit(answer) => {
                let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
                let codes: Vec<String> = partitions.map(|(_, error)| error.code().to_string()).collect();
                codes.join(" ")
            }
            Answer::OffsetFetch(answer) => answer.error.code().to_string(),
            Answer::DeleteGroup(answer) => answer.error.code().to_string(),
            Answer::OffsetDelete(answer) => {
                let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
                let codes: Vec<String> = partitions.map(|(_, error)| error.code().to_string()).collect();
                format!("{}: {}", answer.error.code(), codes.join(" "))
            }
            Answer::JoinGroup(answer) if answer.error == ErrorCode::None => {
                format!("{} leader={} of {}", answer.generation, answer.leader, answer.members.len())
            }
            Answer::JoinGroup(answer) => format!("{} {}", answer.error.code(), answer.member_id).trim_end().to_owned(),
            Answer::SyncGroup(answer) if answer.error == ErrorCode::None => {
                format!("[{}]", assigned(answer.assignment))
            }
            Answer::SyncGroup(answer) => answer.error.code().to_string(),
            Answer::Heartbeat(error) | Answer::WriteTxnMarker(error) => error.code().to_string(),
            Answer::LeaveGroup(answer) => {
                let codes: Vec<String> = answer.members.iter().map(|left| left.error.code().to_string()).collect();
                format!("{}: {}", answer.error.code(), codes.join(" "))
            }
            Answer::DescribeGroup(answer) => format!("{} {}", answer.error.code(), answer.error_message.unwrap_or("-")),
            Answer::ConsumerGroupDescribe(answer) if answer.error != ErrorCode::None => {
                format!("{} {}", answer.error.code(), answer.error_message.unwrap_or("-"))
            }
            Answer::ListGroups(answer) => {
                let lines: Vec<String> =
                    answer.groups.iter().map(|group| format!("{} {}", group.group_id, group.state)).collect();
                lines.join(", ")
            }
            Answer::ConsumerGroupDescribe(answer) => format!("{answer:?}"),
        };
        let before = self.answers.insert(ticket, text);
        assert_eq!(before, None, "one answer to {ticket:?}");
    }

    fn append(&mut self, append_id: AppendId, records: &[Record]) {
        self.appends.push((append_id, records.to_vec()));
    }

    fn resolving(&mut self, group_id: &Arc<str>, ticket: Ticket) {
        self.resolving.push(format!("{group_id} by ticket {}", ticket.0));
    }
}

pub struct Scene {
    pub coordinator: Coordinator,
    pub effects: Effects,
    pub now_ms: u64,
    /// What the wall clock shows more than that.
    pub wall_ms: i64,
    tickets: u64,
    seen: usize,
    ended: usize,
}

pub fn settings(assignment_interval_ms: i32) -> ConsumerConfig {
    ConsumerConfig { enabled: true, assignment_interval_ms, ..ConsumerConfig::default() }
}

fn topic(name: &str, topic_id: u128, partitions: i32) -> TopicMetadata {
    TopicMetadata { name: name.into(), topic_id, partitions, racks: Vec::new() }
}

impl Scene {
    pub fn new(config: ConsumerConfig) -> Scene {
        Scene::from_log(config, &[])
    }

    /// A coordinator that has read these records.
    pub fn from_log(config: ConsumerConfig, log: &[Record]) -> Scene {
        Scene::with_classic(Config::default(), config, log)
    }

    /// The same with settings of classic groups.
    pub fn with_classic(classic: Config, config: ConsumerConfig, log: &[Record]) -> Scene {
        Scene::loaded_at(1_000, classic, config, log)
    }

    /// The same at another time.
    pub fn loaded_at(now_ms: u64, classic: Config, config: ConsumerConfig, log: &[Record]) -> Scene {
        let mut coordinator = Coordinator::new(classic, 0, 0);
        coordinator.configure_consumer_groups(config);
        for (offset, record) in (0..).zip(log) {
            coordinator.replay(&rota_core::LogEntry { offset, timestamp_ms: 0, record: record.clone() });
        }
        let effects = Effects::default();
        let wall_ms = 1_700_000_000_000;
        let mut scene = Scene { coordinator, effects, now_ms, wall_ms, tickets: 0, seen: 0, ended: 0 };
        let now = scene.now();
        let topics: Vec<TopicMetadata> = TOPICS.iter().map(|(name, id, count)| topic(name, *id, *count)).collect();
        scene.coordinator.topics_changed(&topics, now);
        scene.coordinator.loaded(now, &mut scene.effects);
        scene
    }

    pub fn change_topic(&mut self, name: &str, topic_id: u128, partitions: i32) {
        let now = self.now();
        self.coordinator.topics_changed(&[topic(name, topic_id, partitions)], now);
    }

    pub fn now(&self) -> Now {
        Now { mono_ms: self.now_ms, wall_ms: self.wall_ms + self.now_ms as i64 }
    }

    /// Submits a request; its appends are left in flight.
    pub fn submit(&mut self, request: Request<'_>) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let now = self.now();
        self.coordinator.submit(now, ticket, Entropy(u128::from(self.tickets) << 64), request, &mut self.effects);
        ticket
    }

    /// Sends a request, makes its records durable, and returns its answer.
    pub fn ask(&mut self, request: Request<'_>) -> String {
        let ticket = self.submit(request);
        self.settle();
        self.effects.answers.get(&ticket).cloned().unwrap_or_default()
    }

    /// Makes all appends durable.
    pub fn settle(&mut self) {
        while let Some((append_id, _)) = self.effects.appends.get(self.ended) {
            let (append_id, now) = (*append_id, self.now());
            self.ended += 1;
            self.coordinator.appended(append_id, Ok(append_id.0), now, &mut self.effects);
        }
    }

    /// Fails the oldest append in flight.
    pub fn fail(&mut self, error: ErrorCode) {
        let (append_id, now) = (self.effects.appends[self.ended].0, self.now());
        self.ended += 1;
        self.coordinator.appended(append_id, Err(error), now, &mut self.effects);
    }

    pub fn send(&mut self, beat: &Beat<'_>) -> String {
        self.with(beat, Scene::ask)
    }

    /// Sends a heartbeat whose records stay in flight.
    pub fn begin(&mut self, beat: &Beat<'_>) -> Ticket {
        self.with(beat, Scene::submit)
    }

    fn with<R>(&mut self, beat: &Beat<'_>, send: impl FnOnce(&mut Scene, Request<'_>) -> R) -> R {
        let owned: Option<Vec<(u128, Vec<i32>)>> = beat.owned.map(parse);
        let topics: Option<Vec<TopicPartitions<'_>>> = owned.as_ref().map(|owned| {
            owned.iter().map(|(topic_id, partitions)| TopicPartitions { topic_id: *topic_id, partitions }).collect()
        });
        let request = ConsumerGroupHeartbeat {
            version: beat.version,
            group_id: beat.group_id,
            member_id: beat.member_id,
            member_epoch: beat.epoch,
            instance_id: beat.instance_id,
            rack_id: beat.rack_id,
            rebalance_timeout_ms: beat.rebalance_timeout_ms,
            subscribed_topic_names: beat.names,
            subscribed_topic_regex: beat.pattern,
            server_assignor: beat.assignor,
            topic_partitions: topics.as_deref(),
            client_id: "c",
            client_host: "/127.0.0.1",
        };
        send(self, Request::ConsumerGroupHeartbeat(request))
    }

    /// Time does not pass, but what is due fires.
    pub fn tick(&mut self) {
        let now = self.now();
        self.coordinator.advance(now, &mut self.effects);
        self.settle();
    }

    /// Time passes, in steps of at most a second, and what is due fires.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms = end.min(self.now_ms + 1_000);
            let now = self.now();
            self.coordinator.advance(now, &mut self.effects);
            self.settle();
        }
    }

    pub fn delete_topic(&mut self, name: &str) {
        let now = self.now();
        self.coordinator.topics_deleted(&[name], now, &mut self.effects);
        self.settle();
    }

    /// The records written since the last call.
    pub fn records(&mut self) -> String {
        let batches: Vec<String> = self.effects.appends[self.seen..]
            .iter()
            .map(|(_, records)| records.iter().map(render).collect::<Vec<_>>().join(" "))
            .collect();
        self.seen = self.effects.appends.len();
        batches.join(" | ")
    }

    /// The groups whose patterns are to be resolved, each with the ticket that causes it, since the last call.
    pub fn resolving(&mut self) -> Vec<String> {
        std::mem::take(&mut self.effects.resolving)
    }

    /// All records that were written, but those of failed appends.
    pub fn log(&self) -> Vec<Record> {
        self.effects.appends.iter().flat_map(|(_, records)| records.clone()).collect()
    }

    pub fn state(&self) -> String {
        self.coordinator.consumer_group("g").map_or("none".to_owned(), |group| {
            format!("{} G{} T{}", group.state().name(), group.epoch(), group.target_epoch())
        })
    }
}

/// An assignment of the embedded protocol, as `foo:012`.
fn assigned(bytes: &[u8]) -> String {
    let assignment = embedded::decode_assignment(bytes).unwrap();
    let topics = assignment.partitions.iter();
    topics.map(|topic| format!("{}:{}", topic.topic, digits(&topic.partitions))).collect::<Vec<_>>().join(" ")
}

fn name_of(topic_id: u128) -> &'static str {
    TOPICS.iter().find(|(_, id, _)| *id == topic_id).map_or("?", |(name, ..)| name)
}

fn parse(text: &str) -> Vec<(u128, Vec<i32>)> {
    let topic = |part: &str| {
        let (name, digits) = part.split_once(':').unwrap();
        let id = TOPICS.iter().find(|(known, ..)| *known == name).unwrap().1;
        (id, digits.chars().map(|digit| digit.to_digit(10).unwrap() as i32).collect())
    };
    text.split_whitespace().map(topic).collect()
}

fn digits(partitions: &[i32]) -> String {
    partitions.iter().map(i32::to_string).collect()
}

pub fn indexes(topics: &[TopicIndexes]) -> String {
    let mut shown: Vec<String> =
        topics.iter().map(|topic| format!("{}:{}", name_of(topic.topic_id), digits(&topic.partitions))).collect();
    shown.sort();
    shown.join(" ")
}

/// One topic for each epoch: `foo:01@2 foo:2@3`.
fn epoched(topics: &[EpochedIndexes]) -> String {
    let mut shown: BTreeMap<(&str, i32), String> = BTreeMap::new();
    for topic in topics {
        for (partition, epoch) in topic.partitions.iter().zip(&topic.epochs) {
            *shown.entry((name_of(topic.topic_id), *epoch)).or_default() += &partition.to_string();
        }
    }
    let parts: Vec<String> =
        shown.into_iter().map(|((name, epoch), digits)| format!("{name}:{digits}@{epoch}")).collect();
    if parts.is_empty() { "0".to_owned() } else { parts.join(",") }
}

fn render(record: &Record) -> String {
    let Record::Consumer { about, .. } = record else {
        return match record {
            Record::Group { value: None, .. } => "2†".to_owned(),
            Record::Offset { value, .. } => format!("1{}", if value.is_some() { "" } else { "†" }),
            _ => "2".to_owned(),
        };
    };
    let tombstone = |key: i16, id: Option<&Arc<str>>| id.map_or(format!("{key}†"), |id| format!("{key}†({id})"));
    match about {
        ConsumerRecord::Epoch(Some(value)) => format!("3({})", value.epoch),
        ConsumerRecord::Member(id, Some(_)) => format!("5({id})"),
        ConsumerRecord::TargetEpoch(Some(value)) if value.timestamp_ms == 0 => format!("6({}, 0)", value.epoch),
        ConsumerRecord::TargetEpoch(Some(value)) => format!("6({})", value.epoch),
        ConsumerRecord::Target(id, Some(topics)) => format!("7({id} {})", indexes(topics)),
        ConsumerRecord::Current(id, Some(value)) => {
            let state = ["STABLE", "UNREVOKED", "UNRELEASED"][value.state as usize];
            let (assigned, pending) = (epoched(&value.assigned), epoched(&value.pending_revocation));
            let pending = if pending == "0" { String::new() } else { format!(" V {pending}") };
            format!("8({id} e{} prev {} {state} {assigned}{pending})", value.epoch, value.previous_epoch)
        }
        ConsumerRecord::Pattern(pattern, Some(value)) => format!("16({pattern} {})", value.topics.join(",")),
        other => {
            let (key, id) = other.key();
            tombstone(key, id)
        }
    }
}
