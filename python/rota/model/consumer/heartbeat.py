"""ConsumerGroupHeartbeat, step by step (§4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.model.answers import NONE
from rota.model.consumer import records as log
from rota.model.consumer.checks import Refusal, member_error
from rota.model.consumer.conversion import (
    end_parked,
    is_unsettled,
    taken,
    upgrade_error,
    upgrade_records,
    upgraded,
)
from rota.model.consumer.data import (
    Classic,
    ConsumerAnswer,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    Group,
    Member,
    Partition,
    holder,
    metadata,
    subscribed,
    with_member,
    without_members,
)
from rota.model.consumer.reconcile import Inputs, reconcile
from rota.model.consumer.records import ConsumerRecord
from rota.model.consumer.removal import leave, without_unused
from rota.model.consumer.target import compute, preferred
from rota.model.consumer.write import (
    JOIN,
    SYNC,
    arm_rebalance,
    arm_session,
    disarm,
    owed,
    setting_ms,
    write,
)
from rota.model.records import GroupRecord, Record
from rota.model.state import Group as ClassicGroup
from rota.model.state import State, cancel, emit
from rota.model.values import replace


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
    name = r.group_id
    group, classic = s.consumers.get(name), s.groups.get(name)
    if group is None and r.member_epoch > 0:
        message = f"Group {name} is not a consumer group." if classic else f"Consumer group {name} not found."
        return refuse(s, ticket, ("GROUP_ID_NOT_FOUND", message))
    if group is None and classic and classic.state != "Empty":
        return _upgrade(s, ticket, r, classic)
    ended = (GroupRecord(r.group_id, None),) if classic and group is None else ()
    return _served(s, ticket, r, group or Group(r.group_id), *ended)


def _upgrade(s: State, ticket: int, r: ConsumerGroupHeartbeat, classic: ClassicGroup) -> State:
    """A join meets a classic group that is not Empty. What is parked there ends even if it is then refused (§16.1)."""
    error = upgrade_error(s, classic)
    if error:
        return refuse(s, ticket, error)
    s = end_parked(s, r.group_id)
    group = upgraded(s, classic)
    if isinstance(group, tuple):
        return refuse(s, ticket, group)
    first: tuple[Record, ...] = (GroupRecord(r.group_id, None), *upgrade_records(group))
    return _served(s, ticket, r, group, *first, former=s.groups[r.group_id])


def _served(
    s: State, ticket: int, r: ConsumerGroupHeartbeat, group: Group, *first: Record, former: ClassicGroup | None = None
) -> State:
    """Steps 2 to 10 of §4.3, behind the records of the first. `former` is the classic group that is converted; what it
    rebalanced for, or had to, is due (departure D25).
    """
    error = member_error(group, r, s.config.group_consumer_max_size)
    if error:
        return refuse(s, ticket, error)
    assignor = "" if former and is_unsettled(former, group) else preferred(group)
    work, settled = stepped(s, assignor, found(group, r), r)
    interval_ms = setting_ms(s, r.group_id, "consumer.heartbeat.interval.ms")
    shown = (settled.member_id, settled.epoch, interval_ms, _assignment(r, work.before, settled))
    answer = ConsumerHeartbeatAnswer(ticket, NONE, None, *shown)
    s = taken(s, r.group_id) if former else s
    s = settle(s, work, settled, (*first, *work.records), answer, upgraded=former)
    for member_id in work.group.members if former else ():
        s = arm_session(s, r.group_id, member_id)
    return s


def settle(
    s: State, work: Work, settled: Member, records: tuple[Record, ...], answer: ConsumerAnswer, **more: Any
) -> State:
    """Write what a request has made of its group, and arm the timers of its member (§4.3, steps 9 and 10)."""
    group_id, member_id = work.group.group_id, settled.member_id
    gone = [work.replaced.member_id] if work.replaced and work.replaced.member_id != member_id else []
    freed = gone if settled.classic else [*gone, member_id]
    s = write(s, group_id, work.group, records, answer, lost=owed(s, group_id, freed), **more)
    s = disarm(s, group_id, *gone)
    if not settled.classic:
        s = cancel(cancel(s, JOIN, group_id, member_id), SYNC, group_id, member_id)
    s = arm_session(s, group_id, member_id) if records or "joined" not in more else s  # §10: joined
    changes_over = (work.before.classic is None) != (settled.classic is None)
    return arm_rebalance(s, group_id, member_id) if settled != work.member or changes_over else s


def stepped(
    s: State, assignor: str, work: Work, r: ConsumerGroupHeartbeat, classic: Classic | None = None
) -> tuple[Work, Member]:
    """Steps 3 to 8 of §4.3. `assignor` was the preferred one, `classic` is set for a JoinGroup (§18.2)."""
    return _reconciled(_targeted(_bumped(_updated(work, r, classic), s, assignor), s), s, r)


def found(group: Group, r: ConsumerGroupHeartbeat, *, replaces: bool = True) -> Work:
    """Find or create the member, or replace a static one (§9.1, §9.2)."""
    static = holder(group, r.instance_id)
    if static is None or r.member_epoch > 0 or not replaces:
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


def _updated(work: Work, r: ConsumerGroupHeartbeat, classic: Classic | None) -> Work:
    """Put the request over the member's fields; null leaves them (§4.1)."""
    old, names, timeout_ms = work.member, r.subscribed_topic_names, r.rebalance_timeout_ms
    wants: dict[str, Any] = {"instance_id": r.instance_id, "rack_id": r.rack_id, "assignor": r.server_assignor}
    wants |= {"names": None if names is None else frozenset(names), "pattern": r.subscribed_topic_regex}
    wants |= {"rebalance_timeout_ms": None if timeout_ms == -1 else timeout_ms}
    given = {name: value for name, value in wants.items() if value is not None}
    member = replace(old, client_id=r.client_id, client_host=r.client_host, classic=classic, **given)
    group = with_member(work.group, member)
    is_new = member.member_id not in work.group.members
    changed = (log.subscription(group.group_id, member),) if is_new or member != old else ()
    return replace(work, group=group, member=member, records=work.records + changed)


def _bumped(work: Work, s: State, assignor: str) -> Work:
    """The group epoch rises with the input of the assignment (§5.2). `assignor` was the preferred one."""
    group, member, before = work.group, work.member, work.before
    group, records = without_unused(group)
    is_resolved = not member.pattern or member.pattern in group.patterns
    bump = member.names != before.names or (member.pattern != before.pattern and is_resolved)
    bump = bump or assignor != preferred(group)
    if bump or group.is_stale:
        seen = metadata(group, s.topics)
        bump = bump or seen != group.metadata
        group = replace(group, is_stale=False, metadata=seen)
    if bump:
        group = replace(group, epoch=group.epoch + 1)
        records += (log.group_epoch(group),)
    return replace(work, group=group, records=work.records + records)


def is_target_due(group: Group, s: State) -> bool:
    """Whether the target is behind, and the interval allows another (§7.1). A time to come is over (departure D26)."""
    interval_ms = setting_ms(s, group.group_id, "consumer.assignment.interval.ms")
    is_early = group.target_ms and 0 <= s.wall_ms - group.target_ms < interval_ms
    return group.epoch != group.target_epoch and not is_early


def _targeted(work: Work, s: State) -> Work:
    """Compute the target if it is due (§7.1)."""
    group = work.group
    if not is_target_due(group, s):
        return work
    after = replace(compute(group, s.topics, s.uniform_plan), target_epoch=group.epoch, target_ms=s.wall_ms)
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
