//! One line per event, in fixed columns: time, subject, event and details.

use rota_core::ErrorCode;
use rota_engine::{Body, Outcome};
use rota_member::{Answer, Member, Request};

use super::{Fleet, Happening};

impl Fleet {
    pub(super) fn line(&self, what: &Happening) -> String {
        let process = |seat: usize| self.seats[seat].name().to_owned();
        let core = |node: usize, partition: usize| format!("n{node}/p{partition}");
        let (whom, name, rest) = match what {
            Happening::Fault(at) => {
                let fault = self.faults[*at];
                ("*".to_owned(), fault.kind.name(), format!("{} {} for {} ms", fault.whom, fault.whence, fault.for_ms))
            }
            Happening::Body { wire, body, .. } => {
                let from = &self.wires[*wire];
                (format!("n{}", from.node), request_name(body), format!("{} {}", process(from.seat), asked(body)))
            }
            Happening::Reply { wire, answer, .. } => {
                let to = &self.wires[*wire];
                (process(to.seat), "answer", format!("n{} {}", to.node, answered(answer)))
            }
            Happening::ReadOn { wire } => (format!("n{}", self.wires[*wire].node), "read-on", self.wire_words(*wire)),
            Happening::End { wire } => (format!("n{}", self.wires[*wire].node), "end", self.wire_words(*wire)),
            Happening::Hangup { wire } => (process(self.wires[*wire].seat), "hangup", self.wire_words(*wire)),
            Happening::WakeMember { seat, .. } => (process(*seat), "wake", self.member_words(*seat)),
            Happening::Act { seat, .. } => (process(*seat), "act", self.member_words(*seat)),
            Happening::Done { seat, .. } => (process(*seat), "done", self.member_words(*seat)),
            Happening::Exit { seat, .. } => (process(*seat), "exit", self.member_words(*seat)),
            Happening::Start { seat } => {
                (process(*seat), "start", self.seats[*seat].instance_id.clone().unwrap_or_default())
            }
            Happening::WakeCore { node, partition } => (core(*node, *partition), "wake", String::new()),
            Happening::AppendEnds { partition, number } => {
                (format!("p{partition}"), "append-ends", number.0.to_string())
            }
            Happening::Load { partition } => (format!("p{partition}"), "load", format!("n{}", self.owners[*partition])),
            Happening::Loaded { node, partition, epoch, .. } => {
                (core(*node, *partition), "loaded", format!("epoch {epoch}"))
            }
            Happening::Unload { node, partition, epoch } => {
                (core(*node, *partition), "unload", format!("epoch {epoch}"))
            }
            Happening::Learn { node, partition } => {
                (core(*node, *partition), "learn", format!("n{}", self.holder(*partition)))
            }
            Happening::Topic { node, name } => (format!("n{node}"), "topic", name.to_string()),
            Happening::Recreate { name } => ("*".to_owned(), "recreate", name.to_string()),
            Happening::Turn { node, .. } => (format!("n{node}"), "turn", String::new()),
            Happening::Call { node, call, request, .. } => {
                let twin = if call.is_none() { " again" } else { "" };
                (format!("n{node}"), "call", format!("{}{twin}", called(&request.body)))
            }
            Happening::CallEnds { node, outcome, .. } => (format!("n{node}"), "call-ends", ended(outcome).to_owned()),
            Happening::Snapshot { node, content, .. } => (format!("n{node}"), "snapshot", content.to_string()),
            Happening::Shown { node, view, .. } => {
                (format!("n{node}"), "shown", format!("revision {}", view.revision.0))
            }
            Happening::Resume { node } => (format!("n{node}"), "resume", String::new()),
            Happening::BackUp(_) => ("*".to_owned(), "back-up", String::new()),
            Happening::AcceptLoss => ("*".to_owned(), "accept-loss", String::new()),
            Happening::Plan => ("*".to_owned(), "plan", format!("{:?}", self.owners)),
            Happening::Failover { node } => (format!("n{node}"), "failover", String::new()),
            Happening::Restart { node } => (format!("n{node}"), "restart", String::new()),
            Happening::Inspect => ("*".to_owned(), "inspect", String::new()),
        };
        format!("{:>9} {whom:<6} {name:<15} {rest}", self.now_ms).trim_end().to_owned()
    }

    fn wire_words(&self, wire: usize) -> String {
        format!("wire {wire} {} n{}", self.seats[self.wires[wire].seat].name(), self.wires[wire].node)
    }

    fn member_words(&self, seat: usize) -> String {
        let words = |member: &Member| format!("{:?} g{}", member.state(), member.generation());
        self.seats[seat].member.as_ref().map(words).unwrap_or_default()
    }
}

/// A request to the engine.
fn called(body: &Body) -> String {
    match body {
        Body::Append(append) => format!("append p{} at {}", append.partition.0, append.base_offset),
        Body::Claim(claim) => format!("claim p{}", claim.partition.0),
        Body::Release(release) => format!("release p{} epoch {}", release.partition.0, release.token.epoch.0),
        Body::Read(read) => format!("read p{}", read.partition.0),
        Body::Beat(beat) => format!("beat {}", beat.beat.counter),
        _ => "other".to_owned(),
    }
}

fn ended(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered(_) => "answered",
        Outcome::Unknown => "unknown",
        Outcome::SpaceExhausted => "no space",
    }
}

fn request_name(request: &Request) -> &'static str {
    match request {
        Request::FindCoordinator { .. } => "FindCoordinator",
        Request::Metadata { .. } | Request::TopicNames { .. } => "Metadata",
        Request::JoinGroup { .. } => "JoinGroup",
        Request::SyncGroup { .. } => "SyncGroup",
        Request::Heartbeat { .. } => "Heartbeat",
        Request::ConsumerGroupHeartbeat(_) => "ConsumerGroupHeartbeat",
        Request::LeaveGroup { .. } => "LeaveGroup",
        Request::OffsetCommit { .. } => "OffsetCommit",
        Request::OffsetFetch { .. } => "OffsetFetch",
    }
}

/// Partitions as `topic id:indexes`; `-`: none.
fn indexes(topics: &[(u128, Vec<i32>)]) -> String {
    let of = |(topic, indexes): &(u128, Vec<i32>)| {
        let indexes: Vec<String> = indexes.iter().map(i32::to_string).collect();
        format!("{topic}:{}", indexes.join(","))
    };
    if topics.is_empty() { "-".to_owned() } else { topics.iter().map(of).collect::<Vec<_>>().join(" ") }
}

fn asked(request: &Request) -> String {
    match request {
        Request::FindCoordinator { group_id } => group_id.clone(),
        Request::Metadata { .. } => String::new(),
        Request::TopicNames { ids } => format!("{} topic ids", ids.len()),
        Request::ConsumerGroupHeartbeat(beat) => {
            let owned = beat.owned.as_deref().map(|owned| format!(", owns {}", indexes(owned))).unwrap_or_default();
            format!("{} e{} `{}`{owned}", beat.group_id, beat.epoch, beat.member_id)
        }
        Request::JoinGroup { group_id, member_id, .. } | Request::LeaveGroup { group_id, member_id, .. } => {
            format!("{group_id} `{member_id}`")
        }
        Request::SyncGroup { group_id, generation, member_id, assignments, .. } => {
            format!("{group_id} g{generation} `{member_id}` {} assignments", assignments.len())
        }
        Request::Heartbeat { group_id, generation, member_id, .. } => format!("{group_id} g{generation} `{member_id}`"),
        Request::OffsetCommit { group_id, generation, offsets, .. } => {
            let offsets: Vec<String> = offsets.iter().map(|(one, offset)| format!("{one}={}", offset.offset)).collect();
            format!("{group_id} g{generation} {}", offsets.join(" "))
        }
        Request::OffsetFetch { group_id, partitions, .. } => format!("{group_id} {} partitions", partitions.len()),
    }
}

fn answered(answer: &Answer) -> String {
    let plain = |api: &str, error: ErrorCode| format!("{api} {}", error.name());
    match answer {
        Answer::FindCoordinator(Ok(node)) => format!("FindCoordinator n{}", node.id),
        Answer::FindCoordinator(Err(error)) => plain("FindCoordinator", *error),
        Answer::Metadata { topics, .. } => format!("Metadata {} topics", topics.len()),
        Answer::TopicNames(names) => format!("Metadata {} names", names.len()),
        Answer::ConsumerGroupHeartbeat { error: ErrorCode::None, epoch, assignment, .. } => {
            let given = assignment.as_deref().map(|given| format!(", has {}", indexes(given))).unwrap_or_default();
            format!("ConsumerGroupHeartbeat NONE e{epoch}{given}")
        }
        Answer::ConsumerGroupHeartbeat { error, .. } => plain("ConsumerGroupHeartbeat", *error),
        Answer::JoinGroup { error: ErrorCode::None, generation, member_id, leader, members, .. } => {
            let leads = if leader == member_id { format!(", leads {}", members.len()) } else { String::new() };
            format!("JoinGroup NONE g{generation} `{member_id}`{leads}")
        }
        Answer::JoinGroup { error, .. } => plain("JoinGroup", *error),
        Answer::SyncGroup { error, assignment, .. } => format!("SyncGroup {} {} bytes", error.name(), assignment.len()),
        Answer::Heartbeat(error) => plain("Heartbeat", *error),
        Answer::LeaveGroup(error) => plain("LeaveGroup", *error),
        Answer::OffsetCommit(codes) => plain("OffsetCommit", codes.first().map_or(ErrorCode::None, |(_, code)| *code)),
        Answer::OffsetFetch { error, .. } => plain("OffsetFetch", *error),
    }
}
