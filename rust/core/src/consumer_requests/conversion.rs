//! A group changes its protocol (docs/consumer-protocol.md §16, §17). One batch ends the group of the one protocol and
//! begins that of the other.
//!
//! Upwards, the classic group leaves the coordinator's tables when the batch is written, and returns if that fails.
//! Downwards, the consumer group stays until the batch is durable.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::{checks::Refusal, writes::Draft};
use crate::{
    consumer_group::{
        classic::{CONSUMER, ClassicImage, named, upgrade_members},
        group::{ConsumerGroup, Current, GroupState},
        partitions::by_topic,
        topics::Topics,
        waiting::{OnEnd, Owed},
    },
    coordinator::Coordinator,
    effects::Step,
    embedded::EmbeddedError,
    error::ErrorCode,
    group::{Client, GroupHandle, Member, MemberHandle, OwnedProtocol},
    history::{Cause, Rebalance, Trigger, remember, settle_last},
    join::JoinRefusal,
    member_id::MemberId,
    rebalance::subscribed_topics,
    records::{ClassicMemberValue, ConsumerRecord, EpochValue, Record, SubscriptionValue, TargetEpochValue},
    slots::Handle,
    states::State,
    vote,
};

impl Coordinator {
    /// Whether a classic group with members may become a consumer group.
    pub(crate) fn check_upgrade(&self, handle: GroupHandle) -> Result<(), Refusal> {
        let group = &self.groups[handle];
        let reason = if !self.consumer.migration.upgrades() {
            "online upgrade is disabled"
        } else if group.protocol_type.as_deref() != Some(CONSUMER) {
            "the group does not use the consumer embedded protocol"
        } else if group.joined.len() > self.consumer.max_size as usize {
            "the group size exceeds the consumer group maximum size"
        } else {
            return Ok(());
        };
        Err(no_upgrade(&group.id, reason))
    }

    /// The records that make a consumer group of a classic one (docs/consumer-protocol.md §16.2). Nothing happens to the classic group yet.
    pub(crate) fn upgrade(
        &self,
        handle: GroupHandle,
        group: &mut ConsumerGroup,
        draft: &mut Draft,
    ) -> Result<(), Refusal> {
        let image = self.image_of(handle);
        let generation = image.generation;
        let upgraded = upgrade_members(&image, &self.topics)
            .map_err(|_| no_upgrade(&group.id, "the embedded consumer protocol is malformed"))?;
        for member in &upgraded {
            let value = Box::new(member.subscription.clone());
            draft.put(group, ConsumerRecord::Member(Arc::clone(&member.id), Some(value)));
        }
        let metadata_hash = group.subscribed_hash(&self.topics);
        draft.put(group, ConsumerRecord::Epoch(Some(EpochValue { epoch: generation, metadata_hash })));
        for member in &upgraded {
            let target = by_topic(member.assigned.iter().copied());
            draft.put(group, ConsumerRecord::Target(Arc::clone(&member.id), Some(target)));
        }
        let target = TargetEpochValue { epoch: generation, timestamp_ms: 0 };
        draft.put(group, ConsumerRecord::TargetEpoch(Some(target)));
        for member in &upgraded {
            let current = Box::new(member.current(generation));
            draft.put(group, ConsumerRecord::Current(Arc::clone(&member.id), Some(current)));
        }
        Ok(())
    }

    fn image_of(&self, handle: GroupHandle) -> ClassicImage {
        let group = &self.groups[handle];
        let bare = |member: &MemberHandle| Member {
            session: None,
            owes_sync: false,
            is_new: false,
            ..self.members[*member].clone()
        };
        ClassicImage::of(group, group.joined.values().map(bare).collect(), group.state == State::Stable)
    }

    /// Answers what the members of a classic group have parked with `REBALANCE_IN_PROGRESS`: also an upgrade that is
    /// refused afterwards does (docs/consumer-protocol.md §16.2). The members that stay have a session again.
    pub(crate) fn refuse_parked(&mut self, step: &mut Step<'_>, handle: GroupHandle) {
        let error = ErrorCode::RebalanceInProgress;
        let members: Vec<MemberHandle> = self.groups[handle].joined.values().copied().collect();
        for member in members {
            if let Some(parked) = self.take_parked_join(member) {
                let member_id = self.members[member].id.shared();
                JoinRefusal { error, member_id: &member_id }.answer(step, parked.ticket);
            }
            if let Some(ticket) = self.members[member].take_sync() {
                Self::answer_sync_error(step, ticket, error);
            }
            if self.members[member].session.is_none() {
                self.refresh_session(step.now, member);
            }
        }
    }

    /// Takes a classic group out of the tables. What its members have parked gets `REBALANCE_IN_PROGRESS`.
    pub(crate) fn take_classic(&mut self, step: &mut Step<'_>, handle: GroupHandle) -> ClassicImage {
        self.refuse_parked(step, handle);
        let image = self.image_of(handle);
        let group_id = Arc::clone(&self.groups[handle].id);
        self.end_classic(&group_id);
        image
    }

    /// Puts a classic group into the tables, with `change` in its history. Sessions begin; one that was not Stable
    /// rebalances.
    pub(crate) fn put_classic(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        image: ClassicImage,
        change: &Trigger,
    ) -> GroupHandle {
        let ClassicImage { generation, protocol_name, leader, is_stable, members, since_ms, rebalances } = image;
        let handle = self.find_or_insert_simple(step.now, group_id);
        let group = &mut self.groups[handle];
        group.generation = generation;
        group.protocol_type = Some(CONSUMER.into());
        group.protocol_name = protocol_name;
        group.durable = true;
        group.state = State::Stable;
        group.since_ms = since_ms;
        group.rebalances = rebalances;
        group.state_timestamp_ms = Some(step.now.wall_ms);
        for member in members {
            let (id, instance_id) = (member.id.shared(), member.client.instance_id.clone());
            self.groups[handle].count_protocols(&member.protocols, true);
            let place = self.members.insert(Member { group: handle, ..member });
            let group = &mut self.groups[handle];
            group.enlist(&id, place, &mut self.members);
            if let Some(instance_id) = instance_id {
                group.instances.insert(instance_id, place);
            }
            self.refresh_session(step.now, place);
        }
        let named = leader.and_then(|leader| self.member_of(handle, &leader));
        let group = &mut self.groups[handle];
        group.leader = named.or_else(|| group.joined.values().next().copied());
        let states: Vec<&Member> = group.joined.values().map(|member| &self.members[*member]).collect();
        group.subscribed_topics = subscribed_topics(group, &states);
        if is_stable {
            let settled = Rebalance::beginning(step.now, change, generation).settled(generation);
            settle_last(&mut self.groups[handle].rebalances, step.now.mono_ms, generation);
            remember(&mut self.groups[handle].rebalances, self.config.rebalance_history, settled);
        } else {
            self.begin_rebalance(step, handle, change.cause, &change.member_id, &change.reason);
        }
        handle
    }

    /// Whether a consumer group that loses these members becomes a classic group (docs/consumer-protocol.md §17.1), and
    /// which. It rebalances then.
    pub(crate) fn downgrade_without(&self, group: &ConsumerGroup, gone: &BTreeSet<Arc<str>>) -> Option<ClassicImage> {
        self.downgrade(group, gone, false)
    }

    /// Whether a consumer group becomes a classic group because its last consumer member has just been replaced by a
    /// classic one. If a member has more or less than its target, the group rebalances (departure D23): no answer of a
    /// Stable group tells it.
    pub(crate) fn downgrade_replaced(&self, group: &ConsumerGroup) -> Option<ClassicImage> {
        self.downgrade(group, &BTreeSet::new(), group.state() == GroupState::Stable)
    }

    fn downgrade(&self, group: &ConsumerGroup, gone: &BTreeSet<Arc<str>>, is_stable: bool) -> Option<ClassicImage> {
        // Members are counted last: of most groups the first one shows that the group stays.
        if !self.consumer.migration.downgrades() || !group.is_classic_without(gone) {
            return None;
        }
        let rest = group.members().filter(|(id, ..)| !gone.contains(*id)).count();
        let fits = rest > 0 && rest <= self.config.group_max_size as usize && !group.is_too_large_to_downgrade(rest);
        if !fits {
            return None;
        }
        // Metadata that cannot be read keeps the group as it is.
        to_classic(group, gone, &self.topics, is_stable).ok()
    }

    /// Writes the end of a consumer group that loses these members and becomes a classic group, which rebalances then.
    pub(crate) fn write_downgrade(
        &mut self,
        step: &mut Step<'_>,
        group_id: &Arc<str>,
        image: ClassicImage,
        trigger: Trigger,
        answer: Option<Owed>,
    ) {
        let Some(group) = self.consumer_groups.get(group_id) else { return };
        let after = group.tombstones_and(&image, step.now.wall_ms);
        let end = OnEnd::Downgraded(Box::new(image), Some(trigger));
        self.write(step, group_id, Draft::of(after, end), Vec::new(), answer);
    }

    /// The batch is durable: the classic group takes the place of the consumer group.
    pub(crate) fn downgraded(
        &mut self,
        step: &mut Step<'_>,
        group: &mut ConsumerGroup,
        image: ClassicImage,
        trigger: Option<&Trigger>,
    ) {
        for deadline in group.take_deadlines() {
            self.purgatory.complete(deadline);
        }
        let rebalances = std::mem::take(&mut group.history.rebalances);
        // Where members went, the rebalance begins for that reason, below.
        let is_stable = image.is_stable || trigger.is_some();
        let image = ClassicImage { rebalances, is_stable, since_ms: step.now.mono_ms, ..image };
        let member_id = trigger.map_or_else(|| "".into(), |trigger| Arc::clone(&trigger.member_id));
        let change = Trigger::new(Cause::Downgraded, &member_id);
        let handle = self.put_classic(step, &group.id, image, &change);
        if let Some(Trigger { cause, member_id, reason }) = trigger {
            self.begin_rebalance(step, handle, *cause, member_id, reason);
        }
    }

    /// The record that ends a classic group.
    pub(crate) fn classic_tombstone(&self, handle: GroupHandle) -> Record {
        Record::Group { group_id: Arc::clone(&self.groups[handle].id), value: None }
    }
}

fn no_upgrade(group_id: &str, reason: &str) -> Refusal {
    let message = format!("Cannot upgrade classic group {group_id} to consumer group because {reason}.");
    Refusal::new(ErrorCode::GroupIdNotFound, message)
}

/// The group without these members as a classic group: the group epoch becomes the generation. Members have their targets
/// if the group is Stable, and otherwise what they held (docs/consumer-protocol.md §17.2). The history is added when the
/// group is stored.
fn to_classic(
    group: &ConsumerGroup,
    without: &BTreeSet<Arc<str>>,
    topics: &Topics,
    is_stable: bool,
) -> Result<ClassicImage, EmbeddedError> {
    let mut members = Vec::new();
    let mut support: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for (id, member, value) in group.members().filter(|(id, ..)| !without.contains(*id)) {
        let Some(classic) = &value.classic else { continue };
        for (name, _) in &classic.protocols {
            *support.entry(Arc::clone(name)).or_default() += 1;
        }
        let part: BTreeSet<_> = if is_stable {
            member.target.iter().flatten().copied().collect()
        } else {
            member.current.iter().flat_map(Current::held).map(|(partition, _)| *partition).collect()
        };
        members.push(classic_member(id, value, classic, classic.encode(named(part.into_iter(), topics))?));
    }
    Ok(ClassicImage {
        generation: group.epoch(),
        protocol_name: vote::select(&support, members.iter()),
        leader: members.first().map(|member| member.id.shared()),
        is_stable,
        members,
        since_ms: 0,
        rebalances: VecDeque::new(),
    })
}

fn classic_member(id: &str, value: &SubscriptionValue, classic: &ClassicMemberValue, assignment: Vec<u8>) -> Member {
    let offers = classic.protocols.iter();
    Member {
        id: MemberId::from(id),
        group: Handle::from_bits(0),
        session: None,
        session_timeout_ms: classic.session_timeout_ms,
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        owes_sync: false,
        is_new: false,
        parked: None,
        client: Client::like(None, &value.client_id, &value.client_host, value.instance_id.clone()),
        protocols: offers
            .map(|(name, metadata)| OwnedProtocol { name: Arc::clone(name), metadata: Arc::clone(metadata) })
            .collect(),
        assignment: assignment.into(),
    }
}
