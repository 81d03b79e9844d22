//! The whole state, read-only, for tools that compare states: `rota_sim` tells by it whether two states are the same.
//!
//! All fields are public, so that a reader can take every struct apart by name: a new field does not compile until the
//! reader says what it means. Nothing here changes a coordinator.

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

/// The state of a coordinator, without its settings, its numbers and what only makes it faster.
#[derive(Clone, Copy, Debug)]
pub struct Inside<'a> {
    /// What the coordinator can do at the moment.
    pub phase: Phase,
    /// The latest time that an event brought along.
    pub clock: Now,
    /// The groups by id.
    pub group_ids: &'a BTreeMap<Arc<str>, GroupHandle>,
    /// The groups by handle.
    pub groups: &'a Slots<Group>,
    /// The members of all groups.
    pub members: &'a Slots<Member>,
    /// Every deadline, and what waits for an append.
    pub purgatory: &'a Purgatory<WatchKey, Operation>,
    /// Appends in flight.
    pub appends: &'a BTreeMap<AppendId, Append>,
    /// Ends that came before those of older appends.
    pub early_ends: &'a BTreeMap<AppendId, Option<ErrorCode>>,
    /// Records of failed appends that go before the next append.
    pub unsaved: &'a BTreeMap<RecordKey, Record>,
    /// Groups of the consumer protocol.
    pub consumer_groups: &'a BTreeMap<Arc<str>, ConsumerGroup>,
    /// How far the cleaner is.
    pub cleaner: &'a Cleaner,
}

impl Coordinator {
    /// The whole state, to be read.
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
            early_ends,
            unsaved,
            consumer_groups,
            consumer: _,
            topics: _,
            next_append: _,
            cleaner,
            clock,
            self_check: _,
            last_set: _,
            unchecked: _,
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
            early_ends,
            unsaved,
            consumer_groups,
            cleaner,
        }
    }
}
