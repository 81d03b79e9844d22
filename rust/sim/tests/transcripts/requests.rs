//! From the line of a step to a request, and to a record that is loaded. What the line leaves out comes from the actor.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

use rota_core::{
    Record,
    embedded::{Subscription, encode_subscription},
    records::{GroupValue, MemberValue, OffsetValue},
};
use rota_journal::owned::{
    Assignment, CommitPartition, CommitTopic, DeleteGroup, DescribeGroup, FetchTopic, Heartbeat, JoinGroup, LeaveGroup,
    LeaveIdentity, ListGroups, OffsetCommit, OffsetDelete, OffsetDeleteTopic, OffsetFetch, Protocol, Request,
    SyncGroup, Text,
};

use crate::cast::{Actor, Cast, DEFAULT_REBALANCE_MS, DEFAULT_SESSION_MS, Success, duration_ms};

/// The wall time at the beginning of a transcript.
pub const WALL_EPOCH_MS: i64 = 1_700_000_000_000;

const HOST: &str = "/127.0.0.1";

/// The words of one line: bare ones, and options `key=value`. Each option must be used.
struct Words<'a> {
    bare: Vec<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn new(words: &[&'a str]) -> Words<'a> {
        let mut split = Words { bare: Vec::new(), options: BTreeMap::new() };
        for word in words {
            match word.split_once('=') {
                // `t/0=5` is an offset
                Some((key, value)) if !key.contains('/') => drop(split.options.insert(key, value)),
                _ => split.bare.push(word),
            }
        }
        split
    }

    fn option(&mut self, key: &str) -> Option<&'a str> {
        self.options.remove(key)
    }

    fn number<T: FromStr>(&mut self, key: &str, default: T) -> Success<T> {
        self.option(key).map_or(Ok(default), |text| text.parse().map_err(|_| format!("`{key}={text}` is no number")))
    }

    fn milliseconds(&mut self, key: &str, default: i32) -> Success<i32> {
        self.option(key).map_or(Ok(default), |text| Ok(duration_ms(text)? as i32))
    }

    /// `null`, `""`, or the text itself.
    fn nullable(&mut self, key: &str, default: Option<&str>) -> Option<Text<'static>> {
        self.option(key).map_or(default.map(str::to_owned), nullable).map(Text::from)
    }

    fn flag(&mut self, word: &str) -> bool {
        let before = self.bare.len();
        self.bare.retain(|bare| *bare != word);
        self.bare.len() < before
    }

    /// `ids=t:7,u:8`: the ids of topics, 0 for the others.
    fn topic_ids(&mut self) -> impl Fn(&str) -> u128 + use<'a> {
        let pairs = self.option("ids").unwrap_or_default();
        move |topic: &str| {
            let mut ids = pairs.split(',').filter_map(|pair| pair.split_once(':'));
            ids.find(|(name, _)| *name == topic).map_or(0, |(_, id)| id.parse().expect("a topic id"))
        }
    }

    fn end(self) -> Success<()> {
        match self.bare.first().or(self.options.keys().next()) {
            Some(word) => Err(format!("`{word}` means nothing here")),
            None => Ok(()),
        }
    }
}

fn nullable(text: &str) -> Option<String> {
    match text {
        "null" => None,
        "\"\"" => Some(String::new()),
        _ => Some(text.to_owned()),
    }
}

fn parts(text: &str, between: char) -> impl Iterator<Item = &str> {
    text.split(between).filter(|part| !part.is_empty())
}

fn number<T: FromStr<Err: Display>>(text: &str) -> Success<T> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}

/// A word, or `[t+u]`: the embedded protocol's subscription to these topics.
fn metadata(text: &str) -> Vec<u8> {
    let Some(topics) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return text.as_bytes().to_vec();
    };
    let topics = parts(topics, '+').map(str::to_owned).collect();
    let subscription =
        Subscription { version: 0, topics, user_data: None, owned_partitions: Vec::new(), generation: -1, rack: None };
    encode_subscription(&subscription).expect("short names")
}

/// `range:Sa,sticky:Sb`, or `none`.
fn protocols(text: &str) -> Vec<(String, Vec<u8>)> {
    if text == "none" {
        return Vec::new();
    }
    let offers = text.split(',').map(|part| part.split_once(':').unwrap_or((part, "")));
    offers.map(|(name, given)| (name.to_owned(), metadata(given))).collect()
}

/// `member c range:Sc,sticky:S2 session=6s rebalance=5m version=3 type=consumer`: what c offers from now on.
pub fn declare_member(cast: &mut Cast, words: &[&str]) -> Success<()> {
    let (name, rest) = words.split_first().ok_or("a member needs a name")?;
    let (actor, mut words) = (cast.actor(name), Words::new(rest));
    if !words.bare.is_empty() {
        actor.protocols = protocols(words.bare.remove(0));
    }
    actor.session_ms = words.milliseconds("session", actor.session_ms)?;
    actor.rebalance_ms = words.milliseconds("rebalance", actor.rebalance_ms)?;
    actor.version = words.number("version", actor.version)?;
    if let Some(kind) = words.option("type") {
        kind.trim_matches('"').clone_into(&mut actor.protocol_type);
    }
    words.end()
}

/// The request that `connection` sends.
pub fn build(cast: &mut Cast, connection: &str, api: &str, rest: &[&str]) -> Success<Request<'static>> {
    let mut words = Words::new(rest);
    if let ("JoinGroup", Some(offers)) = (api, words.option("protocols")) {
        cast.actor(connection).protocols = protocols(offers);
    }
    let actor = cast.actor(connection).clone();
    let group_id = if api == "ListGroups" { None } else { words.nullable("group", Some("g")) };
    let request = match api {
        "JoinGroup" => Request::JoinGroup(join(cast, actor, group_id, &mut words)?),
        "SyncGroup" => Request::SyncGroup(sync(cast, &actor, group_id, &mut words)?),
        "Heartbeat" => Request::Heartbeat(Heartbeat {
            group_id,
            generation: generation(cast, &actor, &mut words)?,
            member_id: member_id(cast, &actor, &mut words)?,
            instance_id: words.nullable("instance", None),
        }),
        "LeaveGroup" => Request::LeaveGroup(leave(cast, &actor, group_id, &mut words)?),
        "OffsetCommit" => Request::OffsetCommit(commit(cast, &actor, group_id, &mut words)?),
        "OffsetFetch" => Request::OffsetFetch(fetch(group_id, &mut words)?),
        "DescribeGroup" => Request::DescribeGroup(DescribeGroup { version: words.number("v", 6)?, group_id }),
        "ListGroups" => {
            let [states, types] = ["states", "types"].map(|key| words.option(key).unwrap_or_default());
            Request::ListGroups(ListGroups {
                states: parts(states, ',').map(|state| state.replace('_', " ").into()).collect(),
                types: parts(types, ',').map(|kind| kind.to_owned().into()).collect(),
            })
        }
        "DeleteGroup" => Request::DeleteGroup(DeleteGroup { group_id }),
        "OffsetDelete" => {
            let topics = places(&mut words)?.into_iter();
            let topics = topics.map(|(name, partitions)| OffsetDeleteTopic { name: name.into(), partitions }).collect();
            Request::OffsetDelete(OffsetDelete { group_id, topics })
        }
        _ => return Err(format!("`{api}` is no request")),
    };
    words.end()?;
    Ok(request)
}

type GroupId = Option<Text<'static>>;

fn member_id(cast: &Cast, actor: &Actor, words: &mut Words<'_>) -> Success<Text<'static>> {
    cast.find_id(words.option("id").or(actor.member_id()).unwrap_or("\"\"")).map(Text::from)
}

fn generation(cast: &Cast, actor: &Actor, words: &mut Words<'_>) -> Success<i32> {
    words.option("generation").map_or(Ok(actor.generation), |text| cast.find_generation(text))
}

fn join(cast: &Cast, actor: Actor, group_id: GroupId, words: &mut Words<'_>) -> Success<JoinGroup<'static>> {
    let protocol_type = words.option("type").map(|kind| kind.trim_matches('"').to_owned());
    let offers = actor.protocols.iter().cloned();
    Ok(JoinGroup {
        version: words.number("v", actor.version)?,
        group_id,
        member_id: member_id(cast, &actor, words)?,
        instance_id: words.nullable("instance", None),
        session_timeout_ms: words.milliseconds("session", actor.session_ms)?,
        rebalance_timeout_ms: words.milliseconds("rebalance", actor.rebalance_ms)?,
        protocols: offers.map(|(name, given)| Protocol { name: name.into(), metadata: given.into() }).collect(),
        protocol_type: protocol_type.unwrap_or(actor.protocol_type).into(),
        client_id: actor.name.into(),
        client_host: Text::Borrowed(HOST),
        reason: None,
    })
}

fn sync(cast: &Cast, actor: &Actor, group_id: GroupId, words: &mut Words<'_>) -> Success<SyncGroup<'static>> {
    let plan = words.option("plan").filter(|plan| *plan != "none");
    let part = |part: &str| {
        let (who, what) = part.split_once(':').unwrap_or((part, ""));
        let bytes = if what.is_empty() { format!("X{who}") } else { what.to_owned() };
        Ok(Assignment { member_id: cast.find_id(who)?.into(), assignment: bytes.into_bytes().into() })
    };
    Ok(SyncGroup {
        version: words.number("v", 5)?,
        group_id,
        generation: generation(cast, actor, words)?,
        member_id: member_id(cast, actor, words)?,
        instance_id: words.nullable("instance", None),
        protocol_type: words.nullable("type", actor.told.0.as_deref()),
        protocol_name: words.nullable("name", actor.told.1.as_deref()),
        assignments: plan.into_iter().flat_map(|plan| plan.split(',')).map(part).collect::<Success<_>>()?,
    })
}

fn leave(cast: &Cast, actor: &Actor, group_id: GroupId, words: &mut Words<'_>) -> Success<LeaveGroup<'static>> {
    let leavers = words.option("members").or(actor.member_id()).unwrap_or("\"\"");
    let leaver = |part: &str| {
        let (who, instance) = part.split_once('/').unwrap_or((part, ""));
        let member_id = if who.is_empty() { String::new() } else { cast.find_id(who)? }.into();
        let instance_id = Some(instance.to_owned()).filter(|instance| !instance.is_empty()).map(Text::from);
        Ok(LeaveIdentity { member_id, instance_id, reason: None })
    };
    let leavers = Some(leavers).filter(|leavers| *leavers != "none");
    let members = leavers.into_iter().flat_map(|leavers| leavers.split(',')).map(leaver).collect::<Success<_>>()?;
    Ok(LeaveGroup { version: words.number("v", 5)?, group_id, members })
}

/// `t/0=5` is a topic, a partition and the rest.
fn place(word: &str) -> Success<(&str, i32, &str)> {
    let (topic, rest) = word.split_once('/').ok_or_else(|| format!("`{word}` is no partition"))?;
    let (partition, value) = rest.split_once('=').unwrap_or((rest, ""));
    Ok((topic, number(partition)?, value))
}

/// `5@3:meta`: offset, leader epoch, metadata, each with what it is when it is left out.
fn offset(value: &str) -> Success<(i64, i32, &str)> {
    let (value, metadata) = value.split_once(':').unwrap_or((value, ""));
    let (offset, epoch) = value.split_once('@').unwrap_or((value, "-1"));
    Ok((if offset.is_empty() { -1 } else { number(offset)? }, number(epoch)?, metadata))
}

/// One entry for each topic, in the order in which they are named first.
fn by_topic<T>(found: impl IntoIterator<Item = Success<(String, T)>>) -> Success<Vec<(String, Vec<T>)>> {
    let mut topics: Vec<(String, Vec<T>)> = Vec::new();
    for pair in found {
        let (topic, value) = pair?;
        match topics.iter_mut().find(|(name, _)| *name == topic) {
            Some((_, values)) => values.push(value),
            None => topics.push((topic, vec![value])),
        }
    }
    Ok(topics)
}

/// `t/0 t/1 u/0`, used up.
fn places(words: &mut Words<'_>) -> Success<Vec<(String, Vec<i32>)>> {
    by_topic(words.bare.drain(..).map(|word| place(word).map(|(topic, index, _)| (topic.to_owned(), index))))
}

/// `t/0=5 t/1=6@3:meta`: topic, partition, offset, leader epoch, metadata (`m*4097`: 4,097 times m).
fn commit(cast: &Cast, actor: &Actor, group_id: GroupId, words: &mut Words<'_>) -> Success<OffsetCommit<'static>> {
    let committed = |word: &str| {
        let (topic, index, value) = place(word)?;
        let (offset, leader_epoch, metadata) = offset(value)?;
        let (text, times) = metadata.split_once('*').unwrap_or((metadata, "1"));
        let metadata = (metadata != "null").then_some(text.repeat(number(times)?).into());
        Ok((topic.to_owned(), CommitPartition { index, offset, leader_epoch, metadata }))
    };
    let topics = by_topic(words.bare.drain(..).map(committed).collect::<Vec<_>>())?;
    let id_of = words.topic_ids();
    let retention = words.option("retention").map(duration_ms);
    Ok(OffsetCommit {
        version: words.number("v", 9)?,
        group_id,
        generation: generation(cast, actor, words)?,
        member_id: member_id(cast, actor, words)?,
        instance_id: words.nullable("instance", None),
        retention_time_ms: retention.transpose()?,
        topics: topics
            .into_iter()
            .map(|(name, partitions)| CommitTopic { topic_id: id_of(&name), name: name.into(), partitions })
            .collect(),
    })
}

/// `t/0 t/1`, or `all`; `stable` asks for `require_stable`, `ids=t:7` asks for t as the topic with id 7.
fn fetch(group_id: GroupId, words: &mut Words<'_>) -> Success<OffsetFetch<'static>> {
    let (require_stable, is_all) = (words.flag("stable"), words.flag("all"));
    let id_of = words.topic_ids();
    let topics = places(words)?.into_iter();
    let topics = topics.map(|(name, partitions)| FetchTopic { topic_id: id_of(&name), name: name.into(), partitions });
    let topics = topics.collect();
    Ok(OffsetFetch { group_id, require_stable, topics: (!is_all).then_some(topics) })
}

/// A record to load, ids made up: `group g generation=7 protocol=consumer/range leader=$a members=$a:Sa:Xa`,
/// `offset g t/0=5@3:meta`, or either with `tombstone`. `ago=2d` dates it back; `ago=none`: the record has no time.
pub fn build_record(cast: &mut Cast, words: &[&str], now_ms: u64) -> Success<Record> {
    let [kind, group_id, rest @ ..] = words else { return Err("a record needs a kind and a group".to_owned()) };
    let mut words = Words::new(rest);
    let is_tombstone = words.flag("tombstone");
    let wall_ms = WALL_EPOCH_MS + now_ms as i64;
    let written_ms = match words.option("ago") {
        Some("none") => -1,
        ago => wall_ms - ago.map_or(Ok(0), duration_ms)?,
    };
    let group_id = nullable(group_id).unwrap_or_default().into();
    let record = match *kind {
        "group" => {
            let value = (!is_tombstone).then(|| group_value(cast, &mut words, written_ms)).transpose()?;
            Record::Group { group_id, value }
        }
        "offset" => {
            let word = words.bare.pop().ok_or("an offset record needs a partition")?;
            let (topic, partition, value) = place(word)?;
            let (offset, leader_epoch, metadata) = offset(value)?;
            let expires = words.option("expires").map(duration_ms).transpose()?;
            let value = OffsetValue {
                offset,
                leader_epoch,
                metadata: metadata.into(),
                commit_timestamp_ms: written_ms,
                expire_timestamp_ms: expires.map(|after_ms| written_ms + after_ms),
                topic_id: 0,
            };
            Record::Offset { group_id, topic: topic.into(), partition, value: (!is_tombstone).then_some(value) }
        }
        _ => return Err("only `group` and `offset` records can be replayed".to_owned()),
    };
    words.end()?;
    Ok(record)
}

fn group_value(cast: &mut Cast, words: &mut Words<'_>, state_timestamp_ms: i64) -> Success<GroupValue> {
    let (protocol_type, name) =
        words.option("protocol").unwrap_or("consumer/range").split_once('/').unwrap_or_default();
    let members = parts(words.option("members").unwrap_or_default(), ',');
    let members: Vec<MemberValue> = members.map(|member| stored_member(cast, member)).collect::<Success<_>>()?;
    let leader = words.option("leader").map(|leader| cast.find_id(leader)).transpose()?;
    Ok(GroupValue {
        protocol_type: protocol_type.strip_prefix('-').unwrap_or(protocol_type).into(),
        generation: words.number("generation", 1)?,
        protocol_name: (!members.is_empty()).then(|| name.into()),
        leader: leader.map(Into::into),
        state_timestamp_ms,
        members,
    })
}

/// `$a/i:Sa:Xa:6s/5m`: id and instance, subscription, assignment, session and rebalance timeout.
fn stored_member(cast: &mut Cast, text: &str) -> Success<MemberValue> {
    let fields: Vec<&str> = text.trim_start_matches('$').split(':').collect();
    let [who, subscription, assignment, timeouts @ ..] = &fields[..] else {
        return Err(format!("`{text}` is no stored member"));
    };
    let (session, rebalance) = timeouts.first().map_or(("", ""), |both| both.split_once('/').unwrap_or((both, "")));
    let timeout_ms = |text: &str, default: i32| match text {
        "" => Ok(default),
        "none" => Ok(-1),
        _ => Ok::<i32, String>(duration_ms(text)? as i32),
    };
    let (name, instance) = who.split_once('/').unwrap_or((who, ""));
    let member_id = format!("{name}-00000000-0000-4000-8000-{:012x}", cast.known());
    cast.bind(name, &member_id)?;
    Ok(MemberValue {
        member_id: member_id.into(),
        instance_id: (!instance.is_empty()).then(|| instance.into()),
        client_id: name.into(),
        client_host: HOST.into(),
        rebalance_timeout_ms: timeout_ms(rebalance, DEFAULT_REBALANCE_MS)?,
        session_timeout_ms: timeout_ms(session, DEFAULT_SESSION_MS)?,
        subscription: metadata(subscription).into(),
        assignment: assignment.as_bytes().into(),
    })
}
