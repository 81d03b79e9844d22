"""What a group becomes when it changes its protocol: from classic to consumer (§16), and back (§17)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rota.model.answers import JoinAnswer, SyncAnswer
from rota.model.consumer import embedded
from rota.model.consumer import records as log
from rota.model.consumer.checks import Refusal
from rota.model.consumer.data import STABLE, UNREVOKED, Classic, Group, Held, Member, Topic, metadata, with_member
from rota.model.consumer.write import end_classic
from rota.model.state import Group as ClassicGroup
from rota.model.state import Member as ClassicMember
from rota.model.state import State, alter, arm_session, emit
from rota.model.values import replace
from rota.model.vote import vote

NO_UPGRADE = "Cannot upgrade classic group {} to consumer group because {}."


def upgrade_error(s: State, classic: ClassicGroup) -> Refusal | None:
    """Whether a classic group that is not Empty may become a consumer group (§16.1)."""
    is_too_large = len(classic.members) > s.config.group_consumer_max_size
    reasons = (
        (s.config.group_consumer_migration_policy not in ("bidirectional", "upgrade"), "online upgrade is disabled"),
        (classic.protocol_type != "consumer", "the group does not use the consumer embedded protocol"),
        (is_too_large, "the group size exceeds the consumer group maximum size"),
    )
    reason = next((text for is_wrong, text in reasons if is_wrong), None)
    return None if reason is None else _no_upgrade(classic.group_id, reason)


def _no_upgrade(group_id: str, reason: str) -> Refusal:
    return "GROUP_ID_NOT_FOUND", NO_UPGRADE.format(group_id, reason)


def upgraded(s: State, classic: ClassicGroup) -> Group | Refusal:
    """The consumer group that a classic one becomes (§16.2)."""
    group = Group(classic.group_id, classic.generation, classic.generation)
    members = sorted(classic.members, key=lambda each: each.member_id)
    try:
        found = [_upgraded(member, classic, s) for member in members]
    except ValueError:
        return _no_upgrade(classic.group_id, "the embedded consumer protocol is malformed")
    # A partition belongs to the member that SyncGroup gave it, and only then to one that reports it.
    claims = [(each, held) for kind in ("assigned", "revoking") for each in found for held in [getattr(each, kind)]]
    owner = {partition: each.member_id for each, held in reversed(claims) for partition in held}
    for member, each in zip(members, found, strict=True):
        own = {p: epoch for p, epoch in each.assigned.items() if owner[p] == each.member_id}
        more = {p: epoch for p, epoch in each.revoking.items() if owner[p] == each.member_id and p not in own}
        own, more = (own, more) if member.assignment else (more, {})
        state = UNREVOKED if more else each.state
        group = with_member(group, replace(each, state=state, assigned=own, revoking=more, target=frozenset(own)))
    return replace(group, metadata=metadata(group, s.topics))


def _upgraded(member: ClassicMember, classic: ClassicGroup, s: State) -> Member:
    """A member with what its metadata and its assignment say, and all that it reports. Raises ValueError."""
    offers = dict(member.protocols)
    chosen = offers.get(classic.protocol_name or "", next(iter(offers.values()), b""))
    told = embedded.subscription(chosen)

    def held(places: Iterable[tuple[str, int]]) -> Held:
        known = sorted((s.topics[name].topic_id, at) for name, at in places if name in s.topics)
        return dict.fromkeys(known, classic.generation)

    who = (member.member_id, member.instance_id, told.rack_id, member.client_id, member.client_host)
    wants = (frozenset(told.topics), "", member.rebalance_timeout_ms, None)
    stands = (classic.generation, classic.generation, STABLE)
    owns = (held(embedded.assigned(member.assignment)), held(told.owned), None)
    return Member(*who, *wants, *stands, *owns, Classic(member.session_timeout_ms, member.protocols))


def is_unsettled(classic: ClassicGroup, group: Group) -> bool:
    """Whether a classic group with members rebalances, or has to: a partition is assigned to none (departure D25)."""
    assigned = {partition for each in group.members.values() for partition in each.assigned}
    is_whole = all((topic.topic_id, at) in assigned for topic in group.metadata for at in range(topic.partitions))
    return bool(classic.members) and not (is_whole and classic.state == "Stable")


def upgrade_records(group: Group) -> tuple[log.ConsumerRecord, ...]:
    """Behind the end of the classic group (§16.2)."""
    group_id, members = group.group_id, tuple(group.members.values())
    return (
        *(log.subscription(group_id, each) for each in members),
        log.group_epoch(group),
        *(log.target(group_id, each) for each in members),
        log.target_epoch(group),
        *(log.current(group_id, each) for each in members),
    )


def end_parked(s: State, group_id: str) -> State:
    """Parked requests get REBALANCE_IN_PROGRESS, and their members a session (§16.2)."""
    for member in s.groups[group_id].members:
        if member.join:
            s = emit(s, JoinAnswer(member.join.ticket, "REBALANCE_IN_PROGRESS", member_id=member.member_id))
        if member.sync:
            s = emit(s, SyncAnswer(member.sync.ticket, "REBALANCE_IN_PROGRESS"))
        s = alter(s, group_id, member.member_id, join=None, sync=None)
        if not any((t.kind, t.group_id, t.name) == ("Session", group_id, member.member_id) for t in s.timers):
            s = arm_session(s, group_id, member.member_id)
    return s


def downgraded(group: Group, gone: Collection[str], s: State, is_stable: bool = False) -> ClassicGroup | None:
    """The classic group that a consumer group becomes without these members, if it does (§17). One that is not Stable
    rebalances: it has no leader, and members have what they held.
    """
    rest = [member for member_id, member in group.members.items() if member_id not in gone]
    fits = 0 < len(rest) <= s.config.group_max_size and (group.too_many is None or len(rest) < group.too_many)
    allowed = s.config.group_consumer_migration_policy in ("bidirectional", "downgrade")
    if not (allowed and fits and all(member.classic for member in rest)):
        return None
    classic = ClassicGroup(group.group_id, s.now_ms, s.wall_ms, "Stable", group.epoch, "consumer", durable=True)
    members = tuple(_downgraded(each, each.classic, s.topics, is_stable) for each in rest if each.classic)
    classic = replace(classic, members=members, leader=rest[0].member_id if is_stable else None)
    return replace(classic, protocol_name=vote(classic))


def _downgraded(member: Member, classic: Classic, topics: Mapping[str, Topic], is_stable: bool) -> ClassicMember:
    """A member with its target, or with what it held (§17.2)."""
    part = (member.target or frozenset()) if is_stable else member.held
    who = (member.member_id, member.instance_id, member.client_id, member.client_host)
    offers = (classic.session_timeout_ms, member.rebalance_timeout_ms, classic.protocols)
    return ClassicMember(*who, *offers, embedded.assignment(classic.protocols[0][1], part, topics))


def taken(s: State, group_id: str) -> State:
    """A classic group is no longer one; its offsets stay (§16.2)."""
    s = end_classic(s, group_id)
    kinds = ("Session", "Pending", "InitialDelay", "Join", "Sync")
    return replace(s, timers=tuple(t for t in s.timers if t.group_id != group_id or t.kind not in kinds))
