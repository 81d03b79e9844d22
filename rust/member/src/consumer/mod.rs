//! The member's side of the newer protocol (docs/consumer-protocol.md §22): the coordinator assigns, and one request
//! carries everything.
//!
//! [`heartbeats`] joins, reports and leaves; [`reconcile`] carries out assignments; [`names`] looks up the names of
//! assigned topics, which the coordinator sends as ids.

use std::collections::BTreeSet;

use crate::member::{Identity, Member, State, split_mix};

mod heartbeats;
mod names;
mod reconcile;

pub(crate) use heartbeats::HeartbeatAnswer;

/// A partition as the coordinator names it: topic id and index.
pub(crate) type IdPartition = (u128, i32);

/// The state of a member that uses the newer protocol.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumer {
    /// Partitions that the member holds, with those that the application has not given up yet.
    held: BTreeSet<IdPartition>,
    /// The last assignment; `None`: none since the join.
    target: Option<BTreeSet<IdPartition>>,
    step: reconcile::Step,
    /// Whether the application has had an assignment since the join.
    is_announced: bool,
    names: names::Names,
    /// What the coordinator knows; `None`: the next heartbeat says everything.
    reported: Option<heartbeats::Report>,
    /// The partitions that all heartbeats without an answer have named, of those that named any; `None`: none did.
    unanswered: Option<BTreeSet<IdPartition>>,
    /// Whether the member has ever subscribed to a pattern.
    has_had_pattern: bool,
    /// Time of the last heartbeat.
    sent_ms: u64,
}

impl Consumer {
    /// Whether the application has an unhandled notice.
    pub fn waits_for_the_application(&self) -> bool {
        self.step.waits_for_the_application()
    }
}

/// Returns the identity of a member that has not joined. A member keeps its id, a UUID as Kafka's clients write it: 22
/// characters of base64 for URLs.
pub(crate) fn identity(seed: u64) -> Identity {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // Another stream than that of the retries.
    let mut state = seed ^ 0x6d65_6d62_6572_2069;
    let bits = (u128::from(split_mix(&mut state)) << 64) | u128::from(split_mix(&mut state));
    // Version 4, variant 1. Tools take an id that begins with a hyphen for an option.
    let uuid = (bits & !((0xf << 76) | (0x3 << 62) | (1 << 127))) | (0x4 << 76) | (0x2 << 62);
    let digit = |place: u32| ((uuid << (6 * place)) >> 122) as usize;
    let member_id = (0..22).map(|place| DIGITS[digit(place)] as char).collect();
    Identity { generation: -1, member_id }
}

impl Member {
    /// Iterates over the partitions that a consumer member holds, by topic id, with those that the application still gives
    /// up.
    pub fn held(&self) -> impl Iterator<Item = &(u128, i32)> {
        self.consumer.held.iter()
    }

    /// Whether the member is in its group, as far as it knows.
    pub(crate) fn has_epoch(&self) -> bool {
        self.identity.generation > 0
    }

    /// Leaves the group in the member's own books: it was fenced, has left or cannot stay. Its partitions are lost.
    pub(crate) fn out_of_the_consumer_group(&mut self) {
        self.identity.generation = -1;
        self.state = State::Unjoined;
        self.consumer.held.clear();
        self.consumer.target = None;
        self.consumer.reported = None;
        self.consumer.unanswered = None;
        self.consumer.is_announced = false;
        self.consumer.step.interrupt();
        self.commits.retry_stale();
        self.heartbeats.schedule(self.now_ms);
    }

    /// Updates the state after everything that was due.
    pub(crate) fn update_consumer_state(&mut self) {
        if !self.config.is_consumer() || !self.has_epoch() {
            return;
        }
        let is_settled = self.is_reconciled()
            && self.consumer.reported.as_ref().is_none_or(|reported| reported.is_held(&self.consumer.held));
        self.state = if is_settled { State::Stable } else { State::Reconciling };
    }
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn member_ids_are_uuids_in_base64() {
        for seed in 0..1_000 {
            let id = identity(seed).member_id;
            assert_eq!(id.len(), 22);
            assert!(!id.starts_with('-'));
            assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            // The two bits of the last character.
            assert!(id.ends_with(['A', 'Q', 'g', 'w']), "{id}");
            // The ninth character has bits 48 to 53; the first four are the version, 4.
            assert!("QRST".contains(&id[8..9]), "{id}");
        }
        assert_ne!(identity(1), identity(2));
        assert_eq!(identity(7), identity(7));
    }
}
