"""Invariants of docs/protocol.md as functions over the model's states, by the ids of python/rota/specs/vocabulary.toml.

Each gives complaints that begin with its id. The core checks its own state by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from rota import model
from rota.model import Group, State
from rota.model.consumer.write import TIMERS
from rota.model.state import UNGROUPED_TIMERS, Promise

EDGES = {
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
}
# A step may take several edges, but only along these.
REACHABLE = EDGES | {
    (first, last)
    for first, middle in EDGES
    for other, last in EDGES
    if middle == other == "PreparingRebalance" and first != last
}
FENCING = {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}


def deadline(s: State, kind: str, group_id: str, name: str = "") -> int | None:
    """When a timer fires, in ms; None if it is not armed."""
    wanted = (kind, group_id, name)
    return next((t.deadline_ms for t in s.timers if (t.kind, t.group_id, t.name) == wanted), None)


def check_state(s: State) -> list[str]:
    """What must hold in every state; while it loads a coordinator promises nothing (S33)."""
    if s.phase != "Active":
        return []
    found = [f"{group.group_id!r}: {line}" for group in s.groups.values() for line in _group(s, group)]
    found += [
        f"S19: append {flying.append_id} has a requester and no deadline"
        for flying in s.appends
        if isinstance(flying.what, Promise) and flying.what.answer and not flying.late
        if deadline(s, "Append", "", str(flying.append_id)) is None
    ]
    found += [
        f"L4: ticket {waiter.event.ticket} waits without a deadline"
        for waiter in s.waiters
        if deadline(s, "Waiter", "", str(waiter.event.ticket)) is None
    ]
    return found


def _group(s: State, group: Group) -> Iterator[str]:
    ids = [member.member_id for member in group.members]
    if (group.leader in ids) != bool(ids) or (group.leader is not None) != bool(ids):
        yield f"S3: leader {group.leader} of {ids}"
    if group.state == "Empty" and ids:
        yield f"S6: Empty with {ids}"
    if group.state in ("CompletingRebalance", "Stable") and not (ids and group.protocol_name):
        yield f"S6: {group.state} with members {ids} and protocol {group.protocol_name}"
    for member in group.members:
        if group.state in ("CompletingRebalance", "Stable") and group.protocol_name not in dict(member.protocols):
            yield f"S10: {member.member_id} does not list {group.protocol_name}"
        if member.join and group.state != "PreparingRebalance" and member.replacing is None:
            yield f"S18: {member.member_id} is parked in JoinGroup in {group.state}"
        if member.sync and group.state != "CompletingRebalance":
            yield f"S18: {member.member_id} is parked in SyncGroup in {group.state}"
        armed = deadline(s, "Session", group.group_id, member.member_id) is not None
        if not armed and (member.is_new or not (member.join or member.sync)):
            yield f"S19: {member.member_id} has no session timer"
    instances = [member.instance_id for member in group.members if member.instance_id is not None]
    if len(set(instances)) != len(instances) or len(set(ids)) != len(ids):
        yield f"S16: {ids} with {instances}"
    if set(group.pending) & set(ids):
        yield f"S21: {group.pending} pending beside {ids}"
    yield from _timers(s, group)


def _timers(s: State, group: Group) -> Iterator[str]:
    others = (*UNGROUPED_TIMERS, *TIMERS)
    own = [t for t in s.timers if t.group_id == group.group_id and t.kind not in others]
    armed = [timer.kind for timer in own if not timer.name]
    joining = [kind for kind in armed if kind in ("Join", "InitialDelay")]
    if len(joining) != (group.state == "PreparingRebalance" and not group.held):
        yield f"S19: {group.state} with {joining}"
    if ("Sync" in armed) != any(member.owes_sync for member in group.members):
        yield f"S19: the sync timer is {'' if 'Sync' in armed else 'not '}armed"
    for member_id in group.pending:
        if deadline(s, "Pending", group.group_id, member_id) is None:
            yield f"S19: pending {member_id} has no timer"
    names = {timer.name for timer in own if timer.name}
    unknown = names - {member.member_id for member in group.members} - set(group.pending)
    if unknown:
        yield f"S19: timers of {unknown}"


def check_step(before: State, event: model.Event, after: State, effects: tuple[model.Effect, ...]) -> list[str]:
    """What must hold between a state and the next."""
    found = []
    for group_id, group in after.groups.items():
        old = before.groups.get(group_id)
        converted = group_id in before.consumers or group_id in after.consumers
        if old is None or old.deleting is not None or before.phase != "Active" or converted:
            continue  # no life before this one, or it may just have ended
        if group.state != old.state and (old.state, group.state) not in REACHABLE:
            found.append(f"S5: {group_id!r} went from {old.state} to {group.state}")
        if group.generation < old.generation:
            found.append(f"S4: {group_id!r} went from generation {old.generation} to {group.generation}")
    if isinstance(event, model.Submit):
        error = next((getattr(e, "error", None) for e in effects if getattr(e, "ticket", None) == event.ticket), None)
        if error in FENCING and before.groups != after.groups:
            found.append(f"S14: refused with {error}, but the groups changed")
    return found + [line for effect in effects for line in _told(after, effect)]


def _told(s: State, effect: model.Effect) -> Iterator[str]:
    if isinstance(effect, model.JoinAnswer) and effect.error == "NONE":
        leads = effect.member_id == effect.leader
        if bool(effect.members) != leads:
            yield f"S9: {effect.member_id} gets {len(effect.members)} members, but the leader is {effect.leader}"
    group = s.groups.get(effect.group_id) if isinstance(effect, model.DescribeAnswer) else None
    if group is not None and not group.durable and isinstance(effect, model.DescribeAnswer) and effect.state != "Dead":
        yield f"S26: {effect.group_id} is described before it is durable"
