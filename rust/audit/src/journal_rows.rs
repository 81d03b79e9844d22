//! The rows of one entry of a journal: the event, then its effects.

use rota_core::{Coordinator, ErrorCode, Now, Projection, Ticket, records::TransactionBatch};
use rota_journal::{
    Entry, EntryError, OwnedEffect, OwnedEvent,
    owned::{Answer, LeaveIdentity, OffsetCommit, Request},
};
use rota_promises::{Columns, Row};

use crate::{
    reader::{Filter, Position},
    record_rows::rows_of,
};

/// Adds the rows of an entry.
pub(crate) fn journal_rows(position: &Position<'_>, filter: &Filter, columns: &mut Columns) -> Result<(), EntryError> {
    let group = std::str::from_utf8(position.key).unwrap_or_default();
    if !filter.wants_group(group) {
        return Ok(());
    }
    let value = position.value.unwrap_or_default();
    if filter.has_entries {
        let (offset, at_ms) = (Some(position.offset), Some(position.at_ms));
        let group = Some(group).filter(|group| !group.is_empty());
        let (part, kind, payload) = (Some(-1), Some("entry"), Some(value));
        columns.push(&Row { offset, part, at_ms, kind, group, payload, ..Row::default() });
    }
    let entry = Entry::read(value)?;
    // Starts of incarnations and missing entries are included whatever their time.
    let is_mark = matches!(entry.event, OwnedEvent::Began { .. } | OwnedEvent::Gap { .. } | OwnedEvent::Loaded { .. });
    if !is_mark && !filter.wants_time(entry.now.wall_ms) {
        return Ok(());
    }
    let effects = entry.effects()?;
    let Now { mono_ms, wall_ms } = entry.now;
    let base = Row {
        offset: Some(position.offset),
        sequence: Some(entry.sequence as i64),
        at_ms: Some(wall_ms),
        mono_ms: Some(mono_ms as i64),
        group: Some(group).filter(|group| !group.is_empty()),
        ..Row::default()
    };
    let mut rows = Rows { base, part: 0, columns };
    rows.event(&entry.event, &effects, filter);
    for effect in &effects {
        match effect {
            OwnedEffect::Answer { ticket, answer } => rows.answer(&entry.event, *ticket, answer),
            OwnedEffect::Append { append_id, records } => {
                let append_id = Some(append_id.0 as i64);
                rows.push(Row { kind: Some("append"), append_id, count: Some(records.len() as i64), ..base });
                for record in records {
                    rows.columns_of(|part, columns| {
                        rows_of(Row { append_id, part: Some(part), ..base }, record, columns);
                    });
                }
            }
            // Its records are no commits: a later marker decides about them.
            OwnedEffect::AppendInTransaction { append_id, batch, records } => {
                let (append_id, count) = (Some(append_id.0 as i64), Some(records.len() as i64));
                let note = Some(match batch {
                    TransactionBatch::Offsets { .. } => "transactional",
                    TransactionBatch::End(_) => "marker",
                });
                rows.push(Row { kind: Some("append"), append_id, count, note, ..base });
            }
        }
    }
    Ok(())
}

/// The rows of an entry under construction.
struct Rows<'a, 'c> {
    base: Row<'a>,
    part: i32,
    columns: &'c mut Columns,
}

impl Rows<'_, '_> {
    fn push(&mut self, row: Row<'_>) {
        self.columns.push(&Row { part: Some(self.part), ..row });
        self.part += 1;
    }

    fn columns_of(&mut self, add: impl FnOnce(i32, &mut Columns)) {
        let before = self.columns.rows();
        add(self.part, self.columns);
        self.part += (self.columns.rows() - before) as i32;
    }

    fn event(&mut self, event: &OwnedEvent<'_>, effects: &[OwnedEffect<'_>], filter: &Filter) {
        let base = self.base;
        let mark = |kind| Row { kind: Some(kind), ..base };
        match event {
            OwnedEvent::Began { config, epoch, .. } => self.push(Row {
                count: Some(i64::from(*epoch)),
                rebalance_timeout_ms: Some(config.group_initial_rebalance_delay_ms.cast_signed()),
                ..mark("began")
            }),
            OwnedEvent::Submitted { ticket, request, .. } => self.request(*ticket, request, effects),
            OwnedEvent::Advanced(firing) if firing.count == 0 => self.push(mark("advanced")),
            OwnedEvent::Advanced(firing) => self.push(Row { timer: Some(firing.timer), ..mark("timer") }),
            OwnedEvent::Appended { append_id, result } => self.push(Row {
                append_id: Some(append_id.0 as i64),
                error: Some(result.err().unwrap_or(ErrorCode::None).name()),
                ..mark("appended")
            }),
            OwnedEvent::TopicsDeleted { topics } => {
                for topic in topics {
                    self.push(Row { topic: Some(topic), ..mark("topics_deleted") });
                }
            }
            OwnedEvent::Loaded { state } => self.state("loaded", state, filter),
            OwnedEvent::Snapshot { state } => self.state("snapshot", state, filter),
            OwnedEvent::LoadFailed => self.push(mark("load_failed")),
            OwnedEvent::Unloaded => self.push(mark("unloaded")),
            OwnedEvent::Lapsed { member_id, .. } => self.push(Row { member: Some(member_id), ..mark("lapsed") }),
            OwnedEvent::Rebalanced { .. } => self.push(mark("rebalanced")),
            OwnedEvent::Gap { entries } => self.push(Row { count: Some(*entries as i64), ..mark("gap") }),
            OwnedEvent::Configured { .. } => self.push(mark("configured")),
            OwnedEvent::GroupConfigured { .. } => self.push(mark("group_configured")),
            OwnedEvent::PatternsLimited { .. } => self.push(mark("patterns_limited")),
            OwnedEvent::TopicsChanged { topics } => {
                for topic in topics {
                    let (count, id) = (Some(i64::from(topic.partitions)), format!("{:032x}", topic.topic_id));
                    self.push(Row { topic: Some(&topic.name), count, note: Some(&id), ..mark("topics_changed") });
                }
            }
        }
    }

    /// Adds the rows of a snapshot: one per group, and one per member of a classic group.
    fn state(&mut self, kind: &'static str, state: &[u8], filter: &Filter) {
        let base = self.base;
        self.push(Row { kind: Some(kind), count: Some(state.len() as i64), ..base });
        let Ok(coordinator) = Coordinator::restore(state) else {
            return self.push(Row {
                kind: Some("unreadable"),
                note: Some("a state of another version of rota"),
                ..base
            });
        };
        for group_id in coordinator.group_ids() {
            if let Some(group) =
                Some(&group_id).filter(|id| filter.wants_group(id)).and_then(|id| coordinator.project(id))
            {
                self.held_group(kind, &group);
            }
        }
        for group_id in coordinator.consumer_group_ids().filter(|id| filter.wants_group(id)) {
            self.push(Row { kind: Some("consumer"), group: Some(group_id), note: Some(kind), ..base });
        }
    }

    fn held_group(&mut self, kind: &'static str, group: &Projection) {
        let base = Row { group: Some(&group.group_id), generation: Some(group.generation), ..self.base };
        self.push(Row {
            kind: Some("state"),
            leader: group.leader.as_deref(),
            protocol: group.protocol_name.as_deref(),
            count: Some(group.members.len() as i64),
            note: Some(group.state.name()),
            ..base
        });
        for member in &group.members {
            self.push(Row {
                kind: Some("held"),
                member: Some(&member.member_id),
                instance: member.instance_id.as_deref(),
                session_timeout_ms: Some(member.session_timeout_ms),
                rebalance_timeout_ms: Some(member.rebalance_timeout_ms),
                payload: Some(&member.assignment),
                note: Some(kind),
                ..base
            });
        }
    }

    fn request(&mut self, ticket: Ticket, request: &Request<'_>, effects: &[OwnedEffect<'_>]) {
        let told = effects.iter().find_map(|effect| match effect {
            OwnedEffect::Answer { ticket: told, answer } if *told == ticket => Some(answer),
            _ => None,
        });
        let asked = Row {
            kind: Some("request"),
            ticket: Some(ticket.0 as i64),
            error: told.map(|answer| error_of(answer).name()),
            ..self.base
        };
        match request {
            Request::JoinGroup(join) => self.push(Row {
                api: Some("JoinGroup"),
                member: Some(&join.member_id),
                instance: join.instance_id.as_deref(),
                client: Some(&join.client_id),
                session_timeout_ms: Some(join.session_timeout_ms),
                rebalance_timeout_ms: Some(join.rebalance_timeout_ms.max(0)),
                note: join.reason.as_deref(),
                ..asked
            }),
            Request::SyncGroup(sync) => {
                let of_sync = Row { generation: Some(sync.generation), ..asked };
                let (member, instance) = (Some(&*sync.member_id), sync.instance_id.as_deref());
                self.push(Row { api: Some("SyncGroup"), member, instance, ..of_sync });
                for planned in &sync.assignments {
                    let (kind, leader) = (Some("plan"), Some(&*sync.member_id));
                    let (member, payload) = (Some(&*planned.member_id), Some(&*planned.assignment));
                    self.push(Row { kind, member, leader, payload, ..of_sync });
                }
            }
            Request::Heartbeat(heartbeat) => self.push(Row {
                api: Some("Heartbeat"),
                member: Some(&heartbeat.member_id),
                instance: heartbeat.instance_id.as_deref(),
                generation: Some(heartbeat.generation),
                ..asked
            }),
            Request::LeaveGroup(leave) => self.leave(asked, &leave.members, told),
            Request::OffsetCommit(commit) => self.commit(asked, commit),
            Request::TxnOffsetCommit(commit) => self.push(Row {
                api: Some("TxnOffsetCommit"),
                member: Some(&commit.member_id),
                instance: commit.instance_id.as_deref(),
                generation: Some(commit.generation),
                ..asked
            }),
            _ => self.push(Row { api: Some(request.name()), ..asked }),
        }
    }

    fn leave(&mut self, asked: Row<'_>, leavers: &[LeaveIdentity<'_>], told: Option<&Answer<'_>>) {
        self.push(Row { api: Some("LeaveGroup"), count: Some(leavers.len() as i64), ..asked });
        for (index, leaver) in leavers.iter().enumerate() {
            let error = match told {
                Some(Answer::LeaveGroup(leave)) => leave.members.get(index).map(|left| left.error.name()),
                _ => None,
            };
            let (member, instance) = (Some(&*leaver.member_id), leaver.instance_id.as_deref());
            let note = leaver.reason.as_deref();
            self.push(Row { kind: Some("leaver"), member, instance, error, note, ..asked });
        }
    }

    fn commit(&mut self, asked: Row<'_>, commit: &OffsetCommit<'_>) {
        let of_commit = Row {
            member: Some(&commit.member_id),
            instance: commit.instance_id.as_deref(),
            generation: Some(commit.generation),
            ..asked
        };
        self.push(Row { api: Some("OffsetCommit"), ..of_commit });
        for topic in &commit.topics {
            for at in &topic.partitions {
                let (topic, topic_partition) = (Some(&*topic.name), Some(at.index));
                self.push(Row {
                    kind: Some("commit"),
                    topic,
                    topic_partition,
                    committed: Some(at.offset),
                    ..of_commit
                });
            }
        }
    }

    fn answer(&mut self, event: &OwnedEvent<'_>, ticket: Ticket, answer: &Answer<'_>) {
        let error = Some(error_of(answer).name());
        let told = Row { kind: Some("answer"), ticket: Some(ticket.0 as i64), error, ..self.base };
        // An immediate answer with only an error is part of the request's row.
        let is_at_once = matches!(event, OwnedEvent::Submitted { ticket: asked, .. } if *asked == ticket);
        match answer {
            Answer::JoinGroup(join) => {
                let told = Row { generation: Some(join.generation), leader: Some(&join.leader), ..told };
                let (protocol, member) = (join.protocol_name.as_deref(), Some(&*join.member_id));
                self.push(Row { api: Some("JoinGroup"), protocol, member, ..told });
                for listed in &join.members {
                    let (member, instance) = (Some(&*listed.member_id), listed.instance_id.as_deref());
                    self.push(Row { kind: Some("listed"), member, instance, ..told });
                }
            }
            Answer::SyncGroup(sync) => {
                self.push(Row { api: Some("SyncGroup"), payload: Some(&sync.assignment), ..told });
            }
            Answer::OffsetFetch(fetch) => {
                if !is_at_once {
                    self.push(Row { api: Some("OffsetFetch"), ..told });
                }
                for topic in &fetch.topics {
                    for at in &topic.partitions {
                        let (topic, topic_partition) = (Some(topic.name), Some(at.index));
                        let (kind, committed) = (Some("fetched"), Some(at.offset));
                        self.push(Row {
                            kind,
                            topic,
                            topic_partition,
                            committed,
                            error: Some(at.error.name()),
                            ..told
                        });
                    }
                }
            }
            _ if is_at_once => {}
            _ => self.push(Row { api: Some(answer.name()), ..told }),
        }
    }
}

/// Returns the error of the whole answer, or the first error of a partition.
fn error_of(answer: &Answer<'_>) -> ErrorCode {
    let first = |mut codes: Box<dyn Iterator<Item = ErrorCode> + '_>| {
        codes.find(|code| *code != ErrorCode::None).unwrap_or(ErrorCode::None)
    };
    match answer {
        Answer::Heartbeat(error) | Answer::WriteTxnMarker(error) => *error,
        Answer::JoinGroup(join) => join.error,
        Answer::SyncGroup(sync) => sync.error,
        Answer::LeaveGroup(leave) => leave.error,
        Answer::OffsetFetch(fetch) => fetch.error,
        Answer::DescribeGroup(describe) => describe.error,
        Answer::ListGroups(list) => list.error,
        Answer::DeleteGroup(delete) => delete.error,
        Answer::ConsumerGroupHeartbeat(heartbeat) => heartbeat.error,
        Answer::ConsumerGroupDescribe(describe) => describe.error,
        Answer::OffsetDelete(delete) if delete.error != ErrorCode::None => delete.error,
        Answer::OffsetDelete(delete) => {
            first(Box::new(delete.topics.iter().flat_map(|topic| topic.partitions.iter().map(|(_, code)| *code))))
        }
        Answer::OffsetCommit(commit) => {
            first(Box::new(commit.topics.iter().flat_map(|topic| topic.partitions.iter().map(|(_, code)| *code))))
        }
    }
}
