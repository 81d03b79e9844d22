//! From effects to the lines of a transcript. What goes without saying is left out; anything unusual is shown.
//!
//! A line is made before all of its step's answers have been read, and one of those may be what gives an id its name:
//! so ids and generations stay what they are until the line is shown.

use rota_core::{
    Record,
    embedded::decode_subscription,
    explain::{Explanation, Waiting},
    records::{GroupValue, MemberValue, OffsetValue},
    response::{Answer, DescribeAnswer, JoinAnswer, SyncAnswer},
};

use crate::cast::{Cast, DEFAULT_REBALANCE_MS, DEFAULT_SESSION_MS, duration_text, stem};

#[derive(Debug)]
enum Piece {
    Word(String),
    Id(String),
    Generation(i32),
}

/// A line to be.
#[derive(Debug, Default)]
pub struct Line(Vec<Piece>);

impl Line {
    fn word(&mut self, word: impl Into<String>) {
        self.0.push(Piece::Word(word.into()));
    }

    fn id(&mut self, id: &str) {
        self.0.push(Piece::Id(id.to_owned()));
    }

    fn generation(&mut self, generation: i32) {
        self.word(" generation=");
        self.0.push(Piece::Generation(generation));
    }

    /// The line with the names that there are by now.
    pub fn shown(&self, cast: &Cast) -> String {
        let show = |piece: &Piece| match piece {
            Piece::Word(word) => word.clone(),
            Piece::Id(id) => cast.show_id(Some(id)),
            Piece::Generation(generation) => cast.show_generation(*generation),
        };
        self.0.iter().map(show).collect()
    }
}

/// Metadata and assignments are short words in transcripts, or subscriptions as `[t+u]`; `-` for none.
fn bytes(data: &[u8]) -> String {
    if data.is_empty() {
        return "-".to_owned();
    }
    if data.starts_with(b"\0\0") {
        let read = decode_subscription(data).expect("what begins like a subscription is one");
        return format!("[{}]", read.topics.join("+"));
    }
    let shown = |byte: &u8| if byte.is_ascii() { char::from(*byte).to_string() } else { format!("\\x{byte:02x}") };
    data.iter().map(shown).collect()
}

fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("-")
}

fn instance(instance_id: Option<&str>) -> String {
    instance_id.filter(|id| !id.is_empty()).map_or_else(String::new, |id| format!("/{id}"))
}

/// Shown where a client is not called as its id says, or is elsewhere.
fn client(member_id: &str, client_id: &str, host: &str) -> String {
    let is_usual = stem(member_id) == Some(client_id) && host == "/127.0.0.1";
    if is_usual { String::new() } else { format!("[{client_id}@{host}]") }
}

fn protocol(line: &mut Line, protocol_type: Option<&str>, name: Option<&str>) {
    if protocol_type.is_some() || name.is_some() {
        line.word(format!(" protocol={}/{}", or_dash(protocol_type), or_dash(name)));
    }
}

/// Everything after `a<`.
pub fn answer(answer: &Answer<'_>) -> Line {
    let mut line = Line::default();
    match answer {
        Answer::JoinGroup(join) => join_answer(&mut line, join),
        Answer::SyncGroup(sync) => sync_answer(&mut line, sync),
        Answer::Heartbeat(error) | Answer::WriteTxnMarker(error) => line.word(error.name()),
        Answer::LeaveGroup(leave) => {
            line.word(leave.error.name());
            for member in leave.members {
                line.word(" ");
                line.id(member.member_id);
                line.word(format!("{}:{}", instance(member.instance_id), member.error.name()));
            }
        }
        Answer::OffsetCommit(commit) => {
            let parts = commit.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |part| (topic, part)));
            let parts = parts.map(|(topic, (index, error))| format!("{}/{index}:{}", topic.name, error.name()));
            line.word(parts.collect::<Vec<_>>().join(" "));
        }
        Answer::OffsetFetch(fetch) => {
            line.word(fetch.error.name());
            for (topic, part) in fetch.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)))
            {
                let shown = offset(part.offset, part.leader_epoch, part.metadata);
                let error = part.error.name();
                let error = if error == "NONE" { String::new() } else { format!("!{error}") };
                line.word(format!(" {}/{}={shown}{error}", topic.name, part.index));
            }
        }
        Answer::DescribeGroup(describe) => describe_answer(&mut line, describe),
        Answer::ListGroups(list) => {
            line.word(list.error.name());
            for group in list.groups {
                line.word(format!(" {}({},{})", group.group_id, or_dash(Some(group.protocol_type)), group.state));
            }
        }
        Answer::DeleteGroup(delete) => line.word(delete.error.name()),
        Answer::ConsumerGroupHeartbeat(heartbeat) => line.word(heartbeat.error.name()),
        Answer::ConsumerGroupDescribe(describe) => line.word(describe.error.name()),
        Answer::OffsetDelete(delete) => {
            line.word(delete.error.name());
            for topic in delete.topics {
                for (index, error) in &topic.partitions {
                    line.word(format!(" {}/{index}:{}", topic.name, error.name()));
                }
            }
        }
    }
    line
}

fn join_answer(line: &mut Line, join: &JoinAnswer<'_>) {
    let is_success = join.error.name() == "NONE";
    line.word(join.error.name());
    if is_success || join.generation != -1 {
        line.generation(join.generation);
    }
    protocol(line, join.protocol_type, join.protocol_name);
    if is_success || !join.leader.is_empty() {
        line.word(" leader=");
        line.id(join.leader);
    }
    line.word(" member=");
    line.id(join.member_id);
    for (at, member) in join.members.iter().enumerate() {
        line.word(if at == 0 { " members=" } else { "," });
        line.id(member.member_id);
        line.word(format!("{}:{}", instance(member.instance_id), bytes(member.metadata)));
    }
    if join.skip_assignment {
        line.word(" skip_assignment");
    }
}

fn sync_answer(line: &mut Line, sync: &SyncAnswer<'_>) {
    line.word(sync.error.name());
    protocol(line, sync.protocol_type, sync.protocol_name);
    if sync.error.name() == "NONE" || !sync.assignment.is_empty() {
        line.word(format!(" assignment={}", bytes(sync.assignment)));
    }
}

fn describe_answer(line: &mut Line, describe: &DescribeAnswer<'_>) {
    line.word(format!("{} {}", describe.error.name(), or_dash(Some(describe.state))));
    if !describe.protocol_type.is_empty() || !describe.protocol_name.is_empty() {
        protocol(line, Some(describe.protocol_type), Some(describe.protocol_name));
    }
    for member in describe.members {
        line.word(" ");
        line.id(member.member_id);
        let client = client(member.member_id, member.client_id, member.client_host);
        line.word(format!("{}{client}", instance(member.instance_id)));
        line.word(format!(":{}:{}", bytes(member.metadata), bytes(member.assignment)));
    }
    if let Some(message) = describe.error_message {
        line.word(format!(" \"{message}\""));
    }
}

/// `5@3:meta`, `none`.
fn offset(value: i64, leader_epoch: i32, metadata: &str) -> String {
    if (value, leader_epoch, metadata) == (-1, -1, "") {
        return "none".to_owned();
    }
    let epoch = if leader_epoch == -1 { String::new() } else { format!("@{leader_epoch}") };
    let length = metadata.chars().count();
    match metadata.chars().next() {
        None => format!("{value}{epoch}"),
        Some(first) if length > 12 => format!("{value}{epoch}:{first}*{length}"),
        Some(_) => format!("{value}{epoch}:{metadata}"),
    }
}

/// `log group g generation=1 ...`; several records of one batch are joined by ` + `.
pub fn append(records: &[Record]) -> Line {
    let mut line = Line::default();
    line.word("log ");
    for (at, record) in records.iter().enumerate() {
        line.word(if at == 0 { "" } else { " + " });
        match record {
            Record::Offset { group_id, topic, partition, value } => {
                line.word(format!("offset {group_id} {topic}/{partition}"));
                line.word(value.as_ref().map_or_else(|| " tombstone".to_owned(), stored_offset));
            }
            Record::Group { group_id, value } => {
                line.word(format!("group {group_id}"));
                match value {
                    None => line.word(" tombstone"),
                    Some(value) => stored_group(&mut line, value),
                }
            }
            Record::Consumer { .. } | Record::Unknown { .. } => line.word("a record of another type"),
        }
    }
    line
}

fn stored_offset(value: &OffsetValue) -> String {
    let shown = format!("={}", offset(value.offset, value.leader_epoch, &value.metadata));
    let expires = value.expire_timestamp_ms.map(|expires_ms| duration_text(expires_ms - value.commit_timestamp_ms));
    expires.map_or_else(|| shown.clone(), |expires| format!("{shown} expires=+{expires}"))
}

fn stored_group(line: &mut Line, value: &GroupValue) {
    let name = value.protocol_name.as_deref();
    line.generation(value.generation);
    if !value.protocol_type.is_empty() || name.is_some_and(|name| !name.is_empty()) {
        protocol(line, Some(&value.protocol_type), name);
    }
    if let Some(leader) = &value.leader {
        line.word(" leader=");
        line.id(leader);
    }
    if value.members.is_empty() {
        line.word(" empty");
    }
    for (at, member) in value.members.iter().enumerate() {
        line.word(if at == 0 { " members=" } else { "," });
        stored_member(line, member);
    }
}

fn stored_member(line: &mut Line, member: &MemberValue) {
    line.id(&member.member_id);
    line.word(instance(member.instance_id.as_deref()));
    line.word(client(&member.member_id, &member.client_id, &member.client_host));
    line.word(format!(":{}:{}", bytes(&member.subscription), bytes(&member.assignment)));
    if (member.session_timeout_ms, member.rebalance_timeout_ms) != (DEFAULT_SESSION_MS, DEFAULT_REBALANCE_MS) {
        let [session, rebalance] =
            [member.session_timeout_ms, member.rebalance_timeout_ms].map(|ms| duration_text(i64::from(ms)));
        line.word(format!(":{session}/{rebalance}"));
    }
}

/// What `why` would print, one line per fact. Why a group rebalanced is shown while it rebalances.
pub fn explanation(told: Option<&Explanation>, now_ms: u64) -> Vec<Line> {
    let Some(told) = told else {
        let mut line = Line::default();
        line.word("no such group");
        return vec![line];
    };
    let mut state = Line::default();
    state.word(told.state);
    state.generation(told.generation);
    state.word(format!(" since {}", duration_text((now_ms - told.since_ms) as i64)));
    let mut lines = vec![state];
    for wait in &told.waiting {
        let (before, who, after) = match &wait.what {
            Waiting::InitialDelay => ("the initial delay, ends in", None, ""),
            Waiting::Rejoin(who) => ("", Some(who), " to rejoin, at most"),
            Waiting::Pending(who) => ("pending ", Some(who), ", at most"),
            Waiting::LeaderSync(who) => ("the leader ", Some(who), " to sync, at most"),
            Waiting::Sync(who) => ("", Some(who), " to sync, at most"),
            Waiting::Append => ("the log, at most", None, ""),
            Waiting::Target => ("the next assignment, due in", None, ""),
            Waiting::Revoke(who) => ("", Some(who), " to give partitions up, at most"),
            Waiting::Release(who) => ("others to release partitions of ", Some(who), ", at most"),
            Waiting::Reconcile(who) => ("a heartbeat of ", Some(who), ", at most"),
            Waiting::Return(who) => ("", Some(who), " to return, at most"),
        };
        let mut line = Line::default();
        line.word(format!("waiting for {before}"));
        if let Some(who) = who {
            line.id(who);
        }
        line.word(format!("{after} {}", duration_text(wait.until_ms as i64 - now_ms as i64)));
        lines.push(line);
    }
    if let Some(open) = told.rebalances.last().filter(|last| last.settled_ms.is_none()) {
        let mut line = Line::default();
        line.word(format!("because {}", open.cause.name()));
        if !open.member_id.is_empty() {
            line.word(" ");
            line.id(&open.member_id);
        }
        lines.push(line);
    }
    lines
}
