//! Damages entries of a journal, to test whether an audit notices.

use rota_core::ErrorCode;
use rota_journal::{
    Entry, EntryError, OwnedEffect, OwnedEvent,
    owned::{Answer, Request},
};

/// The changes; `None` and `false` change nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'a> {
    /// The entry's sequence number.
    pub sequence: Option<u64>,
    /// Added to both times, in milliseconds.
    pub later_ms: i64,
    /// Restricts changes of `JoinGroup` answers to this member.
    pub told: Option<&'a str>,
    /// The error of answers.
    pub error: Option<ErrorCode>,
    /// The generation in `JoinGroup` answers.
    pub generation: Option<i32>,
    /// The leader in `JoinGroup` answers.
    pub leader: Option<&'a str>,
    /// The protocol in `JoinGroup` answers.
    pub protocol: Option<&'a str>,
    /// The assignment in `SyncGroup` answers.
    pub assignment: Option<&'a [u8]>,
    /// A member removed from the leader's list.
    pub unlisted: Option<&'a str>,
    /// The generation in `Heartbeat`, `SyncGroup` and `OffsetCommit` requests.
    pub asked_generation: Option<i32>,
    /// The member in `Heartbeat`, `SyncGroup` and `OffsetCommit` requests.
    pub asked_by: Option<&'a str>,
    /// The id of the completed append.
    pub append_id: Option<u64>,
    /// Removes all answers.
    pub without_answers: bool,
    /// Repeats all answers.
    pub answers_twice: bool,
}

/// Returns the changed bytes of the entry `value`.
pub fn edit(value: &[u8], changes: &Edit<'_>) -> Result<Vec<u8>, EntryError> {
    let mut entry = Entry::read(value)?;
    entry.sequence = changes.sequence.unwrap_or(entry.sequence);
    entry.now.mono_ms = entry.now.mono_ms.saturating_add_signed(changes.later_ms);
    entry.now.wall_ms = entry.now.wall_ms.saturating_add(changes.later_ms);
    let mut effects = entry.effects()?;
    let mut event = entry.event.clone();
    match &mut event {
        OwnedEvent::Submitted { request, .. } => edit_request(request, changes),
        OwnedEvent::Appended { append_id, .. } => append_id.0 = changes.append_id.unwrap_or(append_id.0),
        _ => {}
    }
    entry.event = event;
    for effect in &mut effects {
        if let OwnedEffect::Answer { answer, .. } = effect {
            edit_answer(answer, changes);
        }
    }
    if changes.without_answers {
        effects.retain(|effect| !matches!(effect, OwnedEffect::Answer { .. }));
    }
    if changes.answers_twice {
        let answers: Vec<_> =
            effects.iter().filter(|effect| matches!(effect, OwnedEffect::Answer { .. })).cloned().collect();
        effects.extend(answers);
    }
    Ok(entry.write(&effects))
}

fn edit_request<'a>(request: &mut Request<'a>, changes: &Edit<'a>) {
    let (generation, member_id) = match request {
        Request::Heartbeat(heartbeat) => (&mut heartbeat.generation, &mut heartbeat.member_id),
        Request::SyncGroup(sync) => (&mut sync.generation, &mut sync.member_id),
        Request::OffsetCommit(commit) => (&mut commit.generation, &mut commit.member_id),
        _ => return,
    };
    *generation = changes.asked_generation.unwrap_or(*generation);
    if let Some(asked_by) = changes.asked_by {
        *member_id = asked_by.into();
    }
}

fn edit_answer<'a>(answer: &mut Answer<'a>, changes: &Edit<'a>) {
    match answer {
        Answer::JoinGroup(join) => {
            if let Some(unlisted) = changes.unlisted {
                join.members.retain(|listed| *listed.member_id != *unlisted);
            }
            if changes.told.is_some_and(|told| *told != *join.member_id) {
                return;
            }
            join.error = changes.error.unwrap_or(join.error);
            join.generation = changes.generation.unwrap_or(join.generation);
            if let Some(leader) = changes.leader {
                join.leader = leader.into();
            }
            if let Some(protocol) = changes.protocol {
                join.protocol_name = Some(protocol.into());
            }
        }
        Answer::SyncGroup(sync) => {
            sync.error = changes.error.unwrap_or(sync.error);
            if let Some(assignment) = changes.assignment {
                sync.assignment = assignment.into();
            }
        }
        Answer::Heartbeat(error) => *error = changes.error.unwrap_or(*error),
        Answer::OffsetCommit(commit) => {
            for (_, error) in commit.topics.to_mut().iter_mut().flat_map(|topic| topic.partitions.iter_mut()) {
                *error = changes.error.unwrap_or(*error);
            }
        }
        _ => {}
    }
}
