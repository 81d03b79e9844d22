//! Read-only access to the whole state, for tools that compare states such as `rota_sim`.
//!
//! All fields are public, so that a reader can destructure every struct by name: code for a new field does not compile
//! until it handles the field. Nothing here changes a coordinator.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    consumer_group::group::ConsumerGroup,
    coordinator::{Cleaner, Coordinator, Phase},
    effects::AppendId,
    error::ErrorCode,
    purgatory::Purgatory,
    records::Record,
    request::Now,
    slots::Slots,
};

pub use crate::{
    group::{
        Assigning, Client, Group, GroupHandle, InitialDelay, Member, MemberHandle, OwnedProtocol, Parked, PendingMember,
    },
    in_flight::{Append, Purpose, RecordKey, Replacement},
    operations::{Asked, Deferred, DeferredJoin, Operation, WaitingFetch, WatchKey},
};

/// The state of a coordinator, without settings, counters and caches.
#[derive(Clone, Copy, Debug)]
pub struct Inside<'a> {
    /// The phase of the life cycle.
    pub phase: Phase,
    /// The time of the latest event.
    pub clock: Now,
    /// Handles of the groups by id.
    pub group_ids: &'a BTreeMap<Arc<str>, GroupHandle>,
    /// The groups.
    pub groups: &'a Slots<Group>,
    /// The members of all groups.
    pub members: &'a Slots<Member>,
    /// Every deadline, and the operations that wait for an append.
    pub purgatory: &'a Purgatory<WatchKey, Operation>,
    /// Appends in flight.
    pub appends: &'a BTreeMap<AppendId, Append>,
    /// Results of appends that arrived before those of older appends.
    pub early_completions: &'a BTreeMap<AppendId, Option<ErrorCode>>,
    /// Records of failed appends, which go before the next append.
    pub unsaved: &'a BTreeMap<RecordKey, Record>,
    /// Groups of the consumer protocol.
    pub consumer_groups: &'a BTreeMap<Arc<str>, ConsumerGroup>,
    /// Progress of the cleaner.
    pub cleaner: &'a Cleaner,
}

impl Coordinator {
    /// Returns a view of the whole state.
    pub fn inspect(&self) -> Inside<'_> {
        let Coordinator {
            config: _,
            partition: _,
            epoch: _,
            phase,
            groups,
            group_ids,
            members,
            purgatory,
            appends,
            early_completions,
            unsaved,
            consumer_groups,
            consumer: _,
            group_settings: _,
            topics: _,
            next_append: _,
            cleaner,
            clock,
            self_check: _,
            last_set: _,
            unchecked: _,
            // No transaction is explored so far.
            pending_offsets: _,
        } = self;
        let (phase, clock) = (*phase, *clock);
        Inside {
            phase,
            clock,
            group_ids,
            groups,
            members,
            purgatory,
            appends,
            early_completions,
            unsaved,
            consumer_groups,
            cleaner,
        }
    }
}
