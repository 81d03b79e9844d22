//! Entries of a journal with something wrong in them, to see whether an audit notices.

use rota_core::ErrorCode;
use rota_journal::{Entry, EntryError, HeldAnswer, HeldEffect, HeldEvent, HeldRequest};

/// What to change: `None` and `false` leave things as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'a> {
    /// The entry's number.
    pub sequence: Option<u64>,
    /// Both clocks, milliseconds.
    pub later_ms: i64,
    /// Only answers to `JoinGroup` that name this member are changed.
    pub told: Option<&'a str>,
    /// Of answers.
    pub error: Option<ErrorCode>,
    /// Of answers to `JoinGroup`.
    pub generation: Option<i32>,
    /// Of answers to `JoinGroup`.
    pub leader: Option<&'a str>,
    /// Of answers to `JoinGroup`.
    pub protocol: Option<&'a str>,
    /// Of answers to `SyncGroup`.
    pub assignment: Option<&'a [u8]>,
    /// Who is left out of the leader's list.
    pub unlisted: Option<&'a str>,
    /// With which `Heartbeat`, `SyncGroup` and `OffsetCommit` were sent.
    pub asked_generation: Option<i32>,
    /// Who sent `Heartbeat`, `SyncGroup` and `OffsetCommit`.
    pub asked_by: Option<&'a str>,
    /// Which append has ended.
    pub append_id: Option<u64>,
    /// Nobody is answered.
    pub without_answers: bool,
    /// Everybody is answered twice.
    pub answers_twice: bool,
}

/// The bytes of the entry that `value` is, changed.
pub fn edit(value: &[u8], changes: &Edit<'_>) -> Result<Vec<u8>, EntryError> {
    let mut entry = Entry::read(value)?;
    entry.sequence = changes.sequence.unwrap_or(entry.sequence);
    entry.now.mono_ms = entry.now.mono_ms.saturating_add_signed(changes.later_ms);
    entry.now.wall_ms = entry.now.wall_ms.saturating_add(changes.later_ms);
    let mut effects = entry.effects()?;
    let mut event = entry.event.clone();
    match &mut event {
        HeldEvent::Submitted { request, .. } => edit_request(request, changes),
        HeldEvent::Appended { append_id, .. } => append_id.0 = changes.append_id.unwrap_or(append_id.0),
        _ => {}
    }
    entry.event = event;
    for effect in &mut effects {
        if let HeldEffect::Answer { answer, .. } = effect {
            edit_answer(answer, changes);
        }
    }
    if changes.without_answers {
        effects.retain(|effect| !matches!(effect, HeldEffect::Answer { .. }));
    }
    if changes.answers_twice {
        let answers: Vec<_> =
            effects.iter().filter(|effect| matches!(effect, HeldEffect::Answer { .. })).cloned().collect();
        effects.extend(answers);
    }
    Ok(entry.write(&effects))
}

fn edit_request<'a>(request: &mut HeldRequest<'a>, changes: &Edit<'a>) {
    let (generation, member_id) = match request {
        HeldRequest::Heartbeat(heartbeat) => (&mut heartbeat.generation, &mut heartbeat.member_id),
        HeldRequest::SyncGroup(sync) => (&mut sync.generation, &mut sync.member_id),
        HeldRequest::OffsetCommit(commit) => (&mut commit.generation, &mut commit.member_id),
        _ => return,
    };
    *generation = changes.asked_generation.unwrap_or(*generation);
    *member_id = changes.asked_by.unwrap_or(member_id);
}

fn edit_answer<'a>(answer: &mut HeldAnswer<'a>, changes: &Edit<'a>) {
    match answer {
        HeldAnswer::JoinGroup { error, generation, protocol_name, leader, member_id, members, .. } => {
            if let Some(unlisted) = changes.unlisted {
                members.retain(|listed| listed.member_id != unlisted);
            }
            if changes.told.is_some_and(|told| told != *member_id) {
                return;
            }
            *error = changes.error.unwrap_or(*error);
            *generation = changes.generation.unwrap_or(*generation);
            *leader = changes.leader.unwrap_or(leader);
            *protocol_name = changes.protocol.or(*protocol_name);
        }
        HeldAnswer::SyncGroup(sync) => {
            sync.error = changes.error.unwrap_or(sync.error);
            sync.assignment = changes.assignment.unwrap_or(sync.assignment);
        }
        HeldAnswer::Heartbeat(error) => *error = changes.error.unwrap_or(*error),
        HeldAnswer::OffsetCommit { topics } => {
            for (_, error) in topics.iter_mut().flat_map(|topic| topic.partitions.iter_mut()) {
                *error = changes.error.unwrap_or(*error);
            }
        }
        _ => {}
    }
}
