"""Bugs of conversion, and of classic members in a consumer group, planted around the compiled coordinator. The lockstep
has to find every one.
"""

from __future__ import annotations

from typing import Any

import rota
from rota.protocol import (
    ErrorCode,
    GroupRecord,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    SyncAnswer,
)
from tests.checks.planted_consumer import Bug, _changed, _same, _without

MEMBER, CURRENT = b"\0\x05", b"\0\x08"
POLICY = "group.consumer.migration.policy"


def _rejoining(request: Any) -> Any:
    """JoinGroups with another list of protocols."""
    if not isinstance(request, JoinGroup) or not request.member_id:
        return request
    return _joining(
        request, protocols=[(name, bytes(data)[:2] + b"\0\0\0\0\xff\xff\xff\xff") for name, data in request.protocols]
    )


def _joining(request: Any, **fields: Any) -> Any:
    said = {name: getattr(request, name) for name in request.__match_args__} | fields
    return JoinGroup(said.pop("group_id"), said.pop("member_id"), **said)


def _at_ease(effect: Any) -> Any:
    if isinstance(effect, HeartbeatAnswer) and effect.error == ErrorCode.REBALANCE_IN_PROGRESS:
        return HeartbeatAnswer(effect.ticket, ErrorCode.NONE)
    return effect


def _leads(effect: Any) -> Any:
    if isinstance(effect, JoinAnswer) and effect.error == ErrorCode.NONE and effect.leader == "":
        return _changed(effect, leader=effect.member_id)
    return effect


def _empty_handed(effect: Any) -> Any:
    return _changed(effect, assignment=b"") if isinstance(effect, SyncAnswer) and effect.assignment else effect


def _not_ended(effect: Any) -> Any:
    """Appends without the tombstone of the classic group."""
    if not isinstance(effect, rota.coordinator.Append) or len(effect.records) < 2:
        return effect
    kept = [r for r in effect.records if not (isinstance(r, GroupRecord) and r.value is None)]
    return rota.coordinator.Append(effect.append_id, kept or effect.records)


def _forgiven(effect: Any) -> Any:
    if isinstance(effect, JoinAnswer) and effect.error == ErrorCode.REBALANCE_IN_PROGRESS:
        return _changed(effect, error=ErrorCode.NONE)
    return effect


def _silent(request: Any) -> Any:
    if isinstance(request, Heartbeat):
        return Heartbeat(request.group_id, "nobody", request.generation)
    return request


def _stays(request: Any) -> Any:
    if isinstance(request, LeaveGroup):
        return LeaveGroup(request.group_id, list(request.members)[:1], version=request.version)
    return request


BUGS: dict[str, Bug] = {
    "policies-are-ignored": Bug("every policy allows both ways", "C14", config={POLICY: "bidirectional"}),
    "no-way-up": Bug("no classic group is converted", "C14", config={POLICY: "downgrade"}),
    "no-way-down": Bug("no consumer group becomes classic", "C20", config={POLICY: "upgrade"}),
    "too-large-downwards": Bug("a group of any size becomes classic", "C17", config={"group.max.size": 100}),
    "too-large-upwards": Bug("a consumer group of any size", "C17", config={"group.consumer.max.size": 100}),
    "owned-partitions-are-ignored": Bug("metadata reports nothing as owned", "C6", _rejoining),
    "at-ease": Bug("a classic member is never told to join again", "C20", effect=_at_ease),
    "leads": Bug("a member of a group without leader leads", "C14", effect=_leads),
    "empty-handed": Bug("SyncGroup gives nothing", "C2", effect=_empty_handed),
    "not-ended": Bug("the classic group is not ended in the log", "C13", effect=_not_ended),
    "parked-requests-succeed": Bug("a parked JoinGroup succeeds in a conversion", "C14", effect=_forgiven),
    "heartbeats-are-lost": Bug("a classic member is not heard", "C16", _silent),
    "only-the-first-leaves": Bug("LeaveGroup removes one member", "C14", _stays),
    "members-are-not-written": Bug("the members are not in the log", "C13", effect=_without(MEMBER)),
    "positions-are-not-written": Bug("assignments are not in the log", "C13", effect=_without(CURRENT)),
    "failures-are-stored": Bug("a failed append counts as durable", "C9", result=lambda _: 0),
    "answered-at-once": Bug("an answer does not wait for its records", "C9", at_once=True),
    "timers-are-late": Bug("every timer fires a millisecond late", "C16", _same, late_ms=1),
}
