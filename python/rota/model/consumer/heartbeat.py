"""ConsumerGroupHeartbeat, step by step (§4.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rota.model.answers import NONE
from rota.model.consumer import records as log
from rota.model.consumer.checks import Refusal, member_error
from rota.model.consumer.data import (
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    Group,
    Member,
    Metadata,
    Partition,
    holder,
    subscribed,
    with_member,
    without_members,
)
from rota.model.consumer.reconcile import Inputs, reconcile
from rota.model.consumer.records import ConsumerRecord
from rota.model.consumer.removal import leave
from rota.model.consumer.target import compute, preferred
from rota.model.consumer.write import arm_rebalance, arm_session, disarm, setting_ms, write
from rota.model.records import GroupRecord
from rota.model.state import State, emit


@dataclass(frozen=True)
class Work:
    """A group on its way through the steps: the member of this request, what it was before, the records so far, the
    member that it replaces.
    """

    group: Group
    member: Member
    before: Member
    records: tuple[ConsumerRecord, ...] = ()
    replaced: Member | None = None


def refuse(s: State, ticket: int, refusal: Refusal) -> State:
    """An error answer; it waits for nothing (§4.2)."""
    return emit(s, ConsumerHeartbeatAnswer(ticket, *refusal))


def heartbeat(s: State, ticket: int, r: ConsumerGroupHeartbeat, minted_id: str) -> State:
    """A request that passed §3.2 and §3.3 of docs/consumer-protocol.md."""
    if r.member_epoch < 0:
        return leave(s, ticket, r)
    r = replace(r, member_id=r.member_id or minted_id)
    group = s.consumers.get(r.group_id)
    classic = s.groups.get(r.group_id)
    if group is None and classic and (r.member_epoch > 0 or classic.members):
        return refuse(s, ticket, ("GROUP_ID_NOT_FOUND", f"Group {r.group_id} is not a consumer group."))
    if group is None and r.member_epoch > 0:
        return refuse(s, ticket, ("GROUP_ID_NOT_FOUND", f"Consumer group {r.group_id} not found."))
    group = group or Group(r.group_id)
    error = member_error(group, r, s.config.group_consumer_max_size)
    if error:
        return refuse(s, ticket, error)
    work = _updated(_found(group, r), r)
    work = _bumped(work, s, preferred(group))
    work = _targeted(work, s)
    work, settled = _reconciled(work, s, r)
    answer = ConsumerHeartbeatAnswer(
        ticket,
        NONE,
        None,
        settled.member_id,
        settled.epoch,
        setting_ms(s, r.group_id, "consumer.heartbeat.interval.ms"),
        _assignment(r, work.before, settled),
    )
    ended = (GroupRecord(r.group_id, None),) if classic and s.consumers.get(r.group_id) is None else ()
    s = write(s, r.group_id, work.group, (*ended, *work.records), answer)
    if work.replaced and work.replaced.member_id != settled.member_id:
        s = disarm(s, r.group_id, work.replaced.member_id)
    s = arm_session(s, r.group_id, settled.member_id)
    return arm_rebalance(s, r.group_id, settled.member_id) if settled != work.member else s


def _found(group: Group, r: ConsumerGroupHeartbeat) -> Work:
    """Find or create the member, or replace a static one (§9.1, §9.2)."""
    static = holder(group, r.instance_id)
    if static is None or r.member_epoch > 0:
        member = static or group.members.get(r.member_id) or Member(r.member_id)
        return Work(group, member, member)
    newcomer = replace(static, member_id=r.member_id, epoch=0, previous=0, target=static.target or frozenset())
    group = with_member(without_members(group, [static.member_id]), newcomer)
    records = (
        *log.tombstones(group.group_id, static.member_id),
        log.subscription(group.group_id, newcomer),
        log.target(group.group_id, newcomer),
        log.current(group.group_id, newcomer),
    )
    return Work(group, newcomer, newcomer, records, static)


def _updated(work: Work, r: ConsumerGroupHeartbeat) -> Work:
    """Put the request over the member's fields; null leaves them (§4.1)."""
    names, pattern, old = r.subscribed_topic_names, r.subscribed_topic_regex, work.member
    member = replace(
        old,
        instance_id=old.instance_id if r.instance_id is None else r.instance_id,
        rack_id=old.rack_id if r.rack_id is None else r.rack_id,
        client_id=r.client_id,
        client_host=r.client_host,
        names=old.names if names is None else frozenset(names),
        pattern=old.pattern if pattern is None else pattern,
        rebalance_timeout_ms=old.rebalance_timeout_ms if r.rebalance_timeout_ms == -1 else r.rebalance_timeout_ms,
        assignor=old.assignor if r.server_assignor is None else r.server_assignor,
    )
    group = with_member(work.group, member)
    is_new = member.member_id not in work.group.members
    changed = (log.subscription(group.group_id, member),) if is_new or member != old else ()
    return replace(work, group=group, member=member, records=work.records + changed)


def _bumped(work: Work, s: State, assignor: str) -> Work:
    """The group epoch rises with the input of the assignment (§5.2). `assignor` was the preferred one."""
    group, member, before = work.group, work.member, work.before
    unused = [p for p in group.patterns if not any(each.pattern == p for each in group.members.values())]
    records = tuple(ConsumerRecord(log.PATTERN, group.group_id, pattern, None) for pattern in unused)
    group = replace(group, patterns={p: found for p, found in group.patterns.items() if p not in unused})
    is_resolved = not member.pattern or member.pattern in group.patterns
    bump = (
        member.names != before.names
        or (member.pattern != before.pattern and is_resolved)
        or assignor != preferred(group)
    )
    if bump or group.is_stale:
        group = replace(group, is_stale=False)
        seen = metadata(group, s)
        bump = bump or seen != group.metadata
        group = replace(group, metadata=seen)
    if bump:
        group = replace(group, epoch=group.epoch + 1)
        records += (log.group_epoch(group),)
    return replace(work, group=group, records=work.records + records)


def metadata(group: Group, s: State) -> Metadata:
    """The topics of all members, as they are now (§19)."""
    return frozenset(t for member in group.members.values() for t in subscribed(group, member, s.topics))


def _targeted(work: Work, s: State) -> Work:
    """Compute the target if it is behind and the interval allows it (§7.1)."""
    group, interval_ms = work.group, setting_ms(s, work.group.group_id, "consumer.assignment.interval.ms")
    is_early = group.target_ms and interval_ms and s.wall_ms - group.target_ms < interval_ms
    if group.epoch == group.target_epoch or is_early:
        return work
    after = compute(group, s.topics, s.uniform_plan)
    after = replace(after, target_epoch=group.epoch, target_ms=s.wall_ms)
    moved = [each for each in after.members.values() if each.target != group.members[each.member_id].target]
    records = (*(log.target(group.group_id, each) for each in moved), log.target_epoch(after))
    member = after.members[work.member.member_id]
    return replace(work, group=after, member=member, records=work.records + records)


def _reconciled(work: Work, s: State, r: ConsumerGroupHeartbeat) -> tuple[Work, Member]:
    """This member takes its next step; the others take theirs in their own requests (§6)."""
    group, member, before = work.group, work.member, work.before
    given = Inputs(
        group.target_epoch,
        None if r.topic_partitions is None else frozenset(r.topic_partitions),
        (member.names, member.pattern) != (before.names, before.pattern),
        frozenset(topic.topic_id for topic in subscribed(group, member, s.topics)),
        frozenset(p for each in group.members.values() if each.member_id != member.member_id for p in each.held),
    )
    settled = reconcile(member, given)
    records = (log.current(group.group_id, settled),) if settled != member else ()
    return replace(work, group=with_member(group, settled), records=work.records + records), settled


def _assignment(r: ConsumerGroupHeartbeat, before: Member, after: Member) -> tuple[Partition, ...] | None:
    """Only in answer to a full request, or if it changed (§4.2)."""
    subscribes = r.subscribed_topic_names is not None or r.subscribed_topic_regex is not None
    is_full = r.rebalance_timeout_ms != -1 and r.topic_partitions is not None and subscribes
    is_news = set(before.assigned) != set(after.assigned)
    return tuple(sorted(after.assigned)) if r.member_epoch == 0 or is_full or is_news else None
