//! The rows of one entry of a journal: what happened, then what came of it.

use rota_core::{Coordinator, ErrorCode, Now, Projection, Ticket, request::LeaveIdentity};
use rota_journal::{Entry, EntryError, HeldAnswer, HeldCommit, HeldEffect, HeldEvent, HeldRequest};

use crate::{
    columns::{Columns, Row},
    reader::{Filter, Position},
    record_rows::classic_rows,
};

/// Adds the rows of the entry.
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
    // Where an incarnation begins, or entries are missing, is of interest whenever that was.
    let is_mark = matches!(entry.event, HeldEvent::Began { .. } | HeldEvent::Gap { .. } | HeldEvent::Loaded { .. });
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
            HeldEffect::Answer { ticket, answer } => rows.answer(&entry.event, *ticket, answer),
            HeldEffect::Append { append_id, records } => {
                let append_id = Some(append_id.0 as i64);
                rows.push(Row { kind: Some("append"), append_id, count: Some(records.len() as i64), ..base });
                for record in records {
                    rows.columns_of(|part, columns| {
                        classic_rows(Row { append_id, part: Some(part), ..base }, record, columns);
                    });
                }
            }
        }
    }
    Ok(())
}

/// The rows of an entry in the making.
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

    fn event(&mut self, event: &HeldEvent<'_>, effects: &[HeldEffect<'_>], filter: &Filter) {
        let base = self.base;
        let mark = |kind| Row { kind: Some(kind), ..base };
        match event {
            HeldEvent::Began { config, epoch, .. } => self.push(Row {
                count: Some(i64::from(*epoch)),
                rebalance_timeout_ms: Some(config.group_initial_rebalance_delay_ms.cast_signed()),
                ..mark("began")
            }),
            HeldEvent::Submitted { ticket, request, .. } => self.request(*ticket, request, effects),
            HeldEvent::Advanced(firing) if firing.count == 0 => self.push(mark("advanced")),
            HeldEvent::Advanced(firing) => self.push(Row { timer: Some(firing.timer), ..mark("timer") }),
            HeldEvent::Appended { append_id, result } => self.push(Row {
                append_id: Some(append_id.0 as i64),
                error: Some(result.err().unwrap_or(ErrorCode::None).name()),
                ..mark("appended")
            }),
            HeldEvent::TopicsDeleted { topics } => {
                for topic in topics {
                    self.push(Row { topic: Some(topic), ..mark("topics_deleted") });
                }
            }
            HeldEvent::Loaded { state } => self.state("loaded", state, filter),
            HeldEvent::Snapshot { state } => self.state("snapshot", state, filter),
            HeldEvent::LoadFailed => self.push(mark("load_failed")),
            HeldEvent::Unloaded => self.push(mark("unloaded")),
            HeldEvent::Lapsed { member_id, .. } => self.push(Row { member: Some(member_id), ..mark("lapsed") }),
            HeldEvent::Rebalanced { .. } => self.push(mark("rebalanced")),
            HeldEvent::Gap { entries } => self.push(Row { count: Some(*entries as i64), ..mark("gap") }),
        }
    }

    /// A whole state: a row for each of its groups, and one for each member.
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

    fn request(&mut self, ticket: Ticket, request: &HeldRequest<'_>, effects: &[HeldEffect<'_>]) {
        let told = effects.iter().find_map(|effect| match effect {
            HeldEffect::Answer { ticket: told, answer } if *told == ticket => Some(answer),
            _ => None,
        });
        let asked = Row {
            kind: Some("request"),
            ticket: Some(ticket.0 as i64),
            error: told.map(|answer| error_of(answer).name()),
            ..self.base
        };
        match request {
            HeldRequest::JoinGroup(join) => self.push(Row {
                api: Some("JoinGroup"),
                member: Some(join.member_id),
                instance: join.instance_id,
                client: Some(join.client_id),
                session_timeout_ms: Some(join.session_timeout_ms),
                rebalance_timeout_ms: Some(join.rebalance_timeout_ms.max(0)),
                note: join.reason,
                ..asked
            }),
            HeldRequest::SyncGroup(sync) => {
                let of_sync = Row { generation: Some(sync.generation), ..asked };
                let (member, instance) = (Some(sync.member_id), sync.instance_id);
                self.push(Row { api: Some("SyncGroup"), member, instance, ..of_sync });
                for planned in &sync.assignments {
                    let (kind, leader) = (Some("plan"), Some(sync.member_id));
                    let (member, payload) = (Some(planned.member_id), Some(planned.assignment));
                    self.push(Row { kind, member, leader, payload, ..of_sync });
                }
            }
            HeldRequest::Heartbeat(heartbeat) => self.push(Row {
                api: Some("Heartbeat"),
                member: Some(heartbeat.member_id),
                instance: heartbeat.instance_id,
                generation: Some(heartbeat.generation),
                ..asked
            }),
            HeldRequest::LeaveGroup { members, .. } => self.leave(asked, members, told),
            HeldRequest::OffsetCommit(commit) => self.commit(asked, commit),
            HeldRequest::OffsetFetch { .. } => self.push(Row { api: Some("OffsetFetch"), ..asked }),
            HeldRequest::DescribeGroup(_) => self.push(Row { api: Some("DescribeGroup"), ..asked }),
            HeldRequest::ListGroups { .. } => self.push(Row { api: Some("ListGroups"), ..asked }),
            HeldRequest::DeleteGroup(_) => self.push(Row { api: Some("DeleteGroup"), ..asked }),
            HeldRequest::OffsetDelete { .. } => self.push(Row { api: Some("OffsetDelete"), ..asked }),
        }
    }

    fn leave(&mut self, asked: Row<'_>, leavers: &[LeaveIdentity<'_>], told: Option<&HeldAnswer<'_>>) {
        self.push(Row { api: Some("LeaveGroup"), count: Some(leavers.len() as i64), ..asked });
        for (index, leaver) in leavers.iter().enumerate() {
            let error = match told {
                Some(HeldAnswer::LeaveGroup { members, .. }) => members.get(index).map(|left| left.error.name()),
                _ => None,
            };
            let (member, instance, note) = (Some(leaver.member_id), leaver.instance_id, leaver.reason);
            self.push(Row { kind: Some("leaver"), member, instance, error, note, ..asked });
        }
    }

    fn commit(&mut self, asked: Row<'_>, commit: &HeldCommit<'_>) {
        let of_commit = Row {
            member: Some(commit.member_id),
            instance: commit.instance_id,
            generation: Some(commit.generation),
            ..asked
        };
        self.push(Row { api: Some("OffsetCommit"), ..of_commit });
        for topic in &commit.topics {
            for at in &topic.partitions {
                let (topic, topic_partition) = (Some(topic.name), Some(at.index));
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

    fn answer(&mut self, event: &HeldEvent<'_>, ticket: Ticket, answer: &HeldAnswer<'_>) {
        let error = Some(error_of(answer).name());
        let told = Row { kind: Some("answer"), ticket: Some(ticket.0 as i64), error, ..self.base };
        // What comes at once and says no more than an error has been said by the request's row.
        let is_at_once = matches!(event, HeldEvent::Submitted { ticket: asked, .. } if *asked == ticket);
        match answer {
            HeldAnswer::JoinGroup { generation, protocol_name, leader, member_id, members, .. } => {
                let told = Row { generation: Some(*generation), leader: Some(leader), ..told };
                self.push(Row { api: Some("JoinGroup"), protocol: *protocol_name, member: Some(member_id), ..told });
                for listed in members {
                    let (member, instance) = (Some(listed.member_id), listed.instance_id);
                    self.push(Row { kind: Some("listed"), member, instance, ..told });
                }
            }
            HeldAnswer::SyncGroup(sync) => {
                self.push(Row { api: Some("SyncGroup"), payload: Some(sync.assignment), ..told });
            }
            HeldAnswer::OffsetFetch { topics, .. } => {
                if !is_at_once {
                    self.push(Row { api: Some("OffsetFetch"), ..told });
                }
                for topic in topics {
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
            _ => self.push(Row { api: Some(api_of(answer)), ..told }),
        }
    }
}

fn api_of(answer: &HeldAnswer<'_>) -> &'static str {
    match answer {
        HeldAnswer::JoinGroup { .. } => "JoinGroup",
        HeldAnswer::SyncGroup(_) => "SyncGroup",
        HeldAnswer::Heartbeat(_) => "Heartbeat",
        HeldAnswer::LeaveGroup { .. } => "LeaveGroup",
        HeldAnswer::OffsetCommit { .. } => "OffsetCommit",
        HeldAnswer::OffsetFetch { .. } => "OffsetFetch",
        HeldAnswer::DescribeGroup { .. } => "DescribeGroup",
        HeldAnswer::ListGroups { .. } => "ListGroups",
        HeldAnswer::DeleteGroup(_) => "DeleteGroup",
        HeldAnswer::OffsetDelete { .. } => "OffsetDelete",
    }
}

/// The error of the answer as a whole; of partitions the first that is one.
fn error_of(answer: &HeldAnswer<'_>) -> ErrorCode {
    let first = |mut codes: Box<dyn Iterator<Item = ErrorCode> + '_>| {
        codes.find(|code| *code != ErrorCode::None).unwrap_or(ErrorCode::None)
    };
    match answer {
        HeldAnswer::OffsetDelete { error, topics } if *error == ErrorCode::None => {
            first(Box::new(topics.iter().flat_map(|topic| topic.partitions.iter().map(|(_, code)| *code))))
        }
        HeldAnswer::JoinGroup { error, .. }
        | HeldAnswer::LeaveGroup { error, .. }
        | HeldAnswer::OffsetFetch { error, .. }
        | HeldAnswer::DescribeGroup { error, .. }
        | HeldAnswer::ListGroups { error, .. }
        | HeldAnswer::OffsetDelete { error, .. }
        | HeldAnswer::Heartbeat(error) => *error,
        HeldAnswer::SyncGroup(sync) => sync.error,
        HeldAnswer::DeleteGroup(delete) => delete.error,
        HeldAnswer::OffsetCommit { topics } => {
            first(Box::new(topics.iter().flat_map(|topic| topic.partitions.iter().map(|(_, code)| *code))))
        }
    }
}
