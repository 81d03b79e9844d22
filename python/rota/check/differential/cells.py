"""What the walk with the newer protocol reaches: cells of state, request, identity, epoch and owned partitions, and the
named situations. A run of some length has to see each of them at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota import model
from rota.check.differential.transaction_cells import SITUATIONS
from rota.model.consumer.data import IS_AWAY, LEAVES, UNRELEASED, UNREVOKED, ConsumerWrite, Group, Member, holder
from rota.model.consumer.queue import is_writing
from rota.model.consumer.write import JOIN, REBALANCE, SESSION, SYNC

Cell = tuple[str, str, str, str, str]
Effects = Sequence[model.Effect]
GROUP_STATES = ("none", "classic", "Empty", "Assigning", "Reconciling", "Stable")


def cell_of(s: model.State, request: model.Request) -> Cell | None:
    """The cell of a heartbeat: states of group and member, kind of request, identity, epoch, owned partitions."""
    if not isinstance(request, model.ConsumerGroupHeartbeat) or s.phase != "Active":
        return None
    group = s.consumers.get(request.group_id)
    state = group.state if group else "classic" if request.group_id in s.groups else "none"
    member = group.members.get(request.member_id) if group else None
    return (
        f"{state}/{_state(member)}",
        _kind(request),
        _identity(group, request),
        _epoch(member, request),
        _owned(member, request),
    )


def _state(member: Member | None) -> str:
    if member is None:
        return "-"
    return "away" if member.epoch == IS_AWAY else member.state


def _kind(r: model.ConsumerGroupHeartbeat) -> str:
    if r.member_epoch <= 0:
        return {0: "join", LEAVES: "leave", IS_AWAY: "away"}.get(r.member_epoch, "invalid")
    changes = r.subscribed_topic_names is not None or r.server_assignor is not None
    return "change" if changes else "beat"


def _identity(group: Group | None, r: model.ConsumerGroupHeartbeat) -> str:
    if r.instance_id is None:
        return "dynamic"
    static = holder(group, r.instance_id) if group else None
    if static is None:
        return "new instance"
    if static.member_id == r.member_id:
        return "own instance"
    return "instance away" if static.epoch == IS_AWAY else "instance of another"


def _epoch(member: Member | None, r: model.ConsumerGroupHeartbeat) -> str:
    if member is None or r.member_epoch <= 0:
        return "-"
    if r.member_epoch == member.epoch:
        return "current"
    if r.member_epoch == member.previous:
        return "previous"
    return "ahead" if r.member_epoch > member.epoch else "stale"


def _owned(member: Member | None, r: model.ConsumerGroupHeartbeat) -> str:
    if r.topic_partitions is None:
        return "null"
    owned, mine = set(r.topic_partitions), set(member.assigned) if member else set()
    if not owned:
        return "none"
    if owned == mine:
        return "exact"
    return "less" if owned < mine else "more"


def _answers(effects: Effects, error: str) -> bool:
    return any(isinstance(e, model.ConsumerHeartbeatAnswer) and e.error == error for e in effects)


def _asked(event: model.Event, kind: type) -> bool:
    return isinstance(event, model.Submit) and isinstance(event.request, kind)


def _members(s: model.State) -> dict[tuple[str, str], Member]:
    return {(g.group_id, m.member_id): m for g in s.consumers.values() for m in g.members.values()}


def _moved(before: model.State, after: model.State, old: str, new: str) -> bool:
    """A member went from one state to another."""
    then = _members(before)
    return any(at in then and then[at].state == old != m.state == new for at, m in _members(after).items())


def _expired(before: model.State, after: model.State, event: model.Event, kind: str) -> bool:
    """A timer of this kind was due, and its member is gone."""
    due = {(t.group_id, t.name) for t in before.timers if t.kind == kind and t.deadline_ms <= after.now_ms}
    return isinstance(event, model.Advance) and bool(due & (set(_members(before)) - set(_members(after))))


def _replaced(before: model.State, after: model.State) -> bool:
    """An instance id has another member."""
    owners = {(at[0], m.instance_id): at[1] for at, m in _members(before).items() if m.instance_id}
    return any(owners.get((at[0], m.instance_id), at[1]) != at[1] for at, m in _members(after).items() if m.instance_id)


def _undone(before: model.State, event: model.Event) -> bool:
    failed = isinstance(event, model.Appended) and event.error is not None
    return failed and any(is_writing(before, group_id) for group_id in before.consumers)


def _commit(effects: Effects, event: model.Event, error: str) -> bool:
    if not (_asked(event, model.OffsetCommit) and isinstance(event, model.Submit)):
        return False
    return any(isinstance(e, model.CommitAnswer) and any(p.error == error for p in e.partitions) for e in effects)


def _older_commit(before: model.State, event: model.Event, effects: Effects) -> bool:
    """A commit with an older epoch is stored."""
    if not isinstance(event, model.Submit) or not isinstance(event.request, model.OffsetCommit):
        return False
    request = event.request
    group = before.consumers.get(request.group_id or "")
    member = group.members.get(request.member_id) if group else None
    older = member is not None and 0 <= request.generation < member.epoch
    return older and any(isinstance(e, model.Append) for e in effects)


def _retried(before: model.State, event: model.Event, effects: Effects) -> bool:
    """A heartbeat with the previous epoch is accepted: the answer with the newer one was lost."""
    if not isinstance(event, model.Submit) or not isinstance(event.request, model.ConsumerGroupHeartbeat):
        return False
    cell = cell_of(before, event.request)
    return cell is not None and cell[3] == "previous" and not _answers(effects, "FENCED_MEMBER_EPOCH")


def _deleted(before: model.State, after: model.State, event: model.Event) -> bool:
    ended = isinstance(event, model.Appended) and event.error is None
    return ended and bool({f.group_id for f in before.appends if not f.late} - set(after.consumers) - {""})


def _loaded(after: model.State, event: model.Event, state: str) -> bool:
    return isinstance(event, model.Loaded) and any(m.state == state for m in _members(after).values())


@dataclass(frozen=True)
class Seen:
    """One event with the states around it and its effects."""

    before: model.State
    event: model.Event
    after: model.State
    effects: Effects


Sight = Callable[[Seen], bool]
SOMETIMES: dict[str, Sight] = {
    "a member has to revoke": lambda w: any(
        _moved(w.before, w.after, old, UNREVOKED) for old in ("STABLE", UNRELEASED)
    ),
    "a revocation is acknowledged": lambda w: _moved(w.before, w.after, UNREVOKED, "STABLE"),
    "acknowledged, and waits for others": lambda w: _moved(w.before, w.after, UNREVOKED, UNRELEASED),
    "the last partition is released": lambda w: _moved(w.before, w.after, UNRELEASED, "STABLE"),
    "a group is Assigning": lambda w: any(g.state == "Assigning" for g in w.after.consumers.values()),
    "a group is Empty": lambda w: any(g.state == "Empty" for g in w.after.consumers.values()),
    "a static member is replaced": lambda w: _replaced(w.before, w.after),
    "an instance is in use": lambda w: _answers(w.effects, "UNRELEASED_INSTANCE_ID"),
    "an instance is fenced": lambda w: _answers(w.effects, "FENCED_INSTANCE_ID"),
    "an epoch is fenced": lambda w: _answers(w.effects, "FENCED_MEMBER_EPOCH"),
    "a lost answer is asked for again": lambda w: _retried(w.before, w.event, w.effects),
    "a group is full": lambda w: _answers(w.effects, "GROUP_MAX_SIZE_REACHED"),
    "an assignor is unknown": lambda w: _answers(w.effects, "UNSUPPORTED_ASSIGNOR"),
    "a session ends": lambda w: _expired(w.before, w.after, w.event, SESSION),
    "a rebalance timeout ends": lambda w: _expired(w.before, w.after, w.event, REBALANCE),
    "a timer waits for an append": lambda w: any(isinstance(q.what, tuple) for q in w.after.queue),
    "a request waits for an append": lambda w: len(w.after.queue) > len(w.before.queue),
    "a request waits too long": lambda w: (
        isinstance(w.event, model.Advance) and len(w.after.queue) < len(w.before.queue)
    ),
    "an append fails": lambda w: _undone(w.before, w.event),
    "an append fails, and others wait": lambda w: _undone(w.before, w.event) and bool(w.before.queue),
    "a commit is stale": lambda w: _commit(w.effects, w.event, "STALE_MEMBER_EPOCH"),
    "a commit of an older epoch is stored": lambda w: _older_commit(w.before, w.event, w.effects),
    "a commit is of no member": lambda w: _commit(w.effects, w.event, "UNKNOWN_MEMBER_ID"),
    "a group is deleted": lambda w: _deleted(w.before, w.after, w.event),
    "a revoking member is loaded": lambda w: _loaded(w.after, w.event, UNREVOKED),
    "an unreleased member is loaded": lambda w: _loaded(w.after, w.event, UNRELEASED),
    "offsets of a subscribed topic stay": lambda w: any(
        isinstance(y, model.OffsetDeleteAnswer) and any(p.error == "GROUP_SUBSCRIBED_TO_TOPIC" for p in y.partitions)
        for y in w.effects
    ),
}


def _took_over(before: model.State, after: model.State) -> set[str]:
    """Groups that have become classic."""
    return {g for g in before.consumers if g not in after.consumers and g in after.groups and after.groups[g].members}


def _converted(w: Seen) -> bool:
    return any(before.members and name in w.after.consumers for name, before in _old(w.before) if before.members)


def _old(s: model.State) -> list[tuple[str, model.Group]]:
    return [(name, group) for name, group in s.groups.items() if name not in s.consumers]


def _returned(w: Seen) -> bool:
    """A conversion has failed, and its classic group is back."""
    return any(group.members for name, group in _old(w.after) if name in w.before.consumers) and _failed(w.event)


def _failed(event: model.Event) -> bool:
    return isinstance(event, model.Appended) and event.error is not None


def _kept(w: Seen, *errors: str) -> bool:
    """A group that was to become classic has not, for one of these errors of the log."""
    if not isinstance(w.event, model.Appended) or w.event.error not in errors:
        return False
    wanted = w.event.append_id
    whats = [f.what for f in w.before.appends if f.append_id == wanted]
    return any(isinstance(what, ConsumerWrite) and what.downgrade for what in whats)


def _of_classic_members(w: Seen, kind: type, error: str) -> bool:
    """A request of a classic member in a consumer group is answered so."""
    request = w.event.request if isinstance(w.event, model.Submit) else None
    inside = request is not None and getattr(request, "group_id", None) in w.before.consumers
    return inside and any(isinstance(e, kind) and getattr(e, "error", None) == error for e in w.effects)


def _changed_over(w: Seen, to_classic: bool) -> bool:
    """A member of a consumer group speaks the other protocol now."""
    then = _members(w.before)
    return any(
        at in then and bool(m.classic) == to_classic != bool(then[at].classic) for at, m in _members(w.after).items()
    )


CONVERTED: dict[str, Sight] = {
    "a classic group becomes a consumer group": _converted,
    "a consumer group becomes classic and rebalances": lambda w: any(
        w.after.groups[g].state == "PreparingRebalance" for g in _took_over(w.before, w.after)
    ),
    "a consumer group becomes classic and is Stable": lambda w: any(
        w.after.groups[g].state == "Stable" for g in _took_over(w.before, w.after)
    ),
    "a conversion upwards fails": _returned,
    "a conversion downwards fails": lambda w: _kept(w, "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR"),
    "a group is too large to become classic": lambda w: _kept(w, "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"),
    "a conversion is refused": lambda w: (
        _answers(w.effects, "GROUP_ID_NOT_FOUND")
        and any(
            isinstance(e, model.ConsumerHeartbeatAnswer) and "Cannot upgrade" in (e.error_message or "")
            for e in w.effects
        )
    ),
    "a parked JoinGroup ends with a conversion": lambda w: (
        any(isinstance(e, model.JoinAnswer) and e.error == "REBALANCE_IN_PROGRESS" for e in w.effects) and _converted(w)
    ),
    "a classic member joins a consumer group": lambda w: (
        any(m.classic and at not in _members(w.before) for at, m in _members(w.after).items()) and not _converted(w)
    ),
    "a classic member has to join again": lambda w: _of_classic_members(
        w, model.HeartbeatAnswer, "REBALANCE_IN_PROGRESS"
    ),
    "a classic member is heard": lambda w: _of_classic_members(w, model.HeartbeatAnswer, "NONE"),
    "a classic member gets its assignment": lambda w: _of_classic_members(w, model.SyncAnswer, "NONE"),
    "a classic member is behind": lambda w: _of_classic_members(w, model.SyncAnswer, "ILLEGAL_GENERATION"),
    "members leave by LeaveGroup": lambda w: (
        isinstance(w.event, model.Submit)
        and isinstance(w.event.request, model.LeaveGroup)
        and bool(set(_members(w.before)) - set(_members(w.after)))
    ),
    "a classic member becomes a consumer member": lambda w: _changed_over(w, False),
    "a consumer member becomes a classic member": lambda w: _changed_over(w, True),
    "a classic member does not join again in time": lambda w: _expired(w.before, w.after, w.event, JOIN),
    "a classic member does not sync in time": lambda w: _expired(w.before, w.after, w.event, SYNC),
    "a JoinGroup ends an Empty consumer group": lambda w: (
        isinstance(w.event, model.Submit)
        and isinstance(w.event.request, model.JoinGroup)
        and w.event.request.group_id in w.before.consumers
        and w.event.request.group_id not in w.after.consumers
    ),
    "a mixed group is loaded": lambda w: (
        isinstance(w.event, model.Loaded) and any(m.classic for m in _members(w.after).values())
    ),
}
SIGHTS: dict[str, Mapping[str, Callable[[Any], bool]]] = {
    "consumer": SOMETIMES,
    "conversion": CONVERTED,
    "transactions": SITUATIONS,
}


@dataclass
class Reached:
    """Cells and situations that a walk has reached, with how often."""

    walk: str = "consumer"
    cells: Counter[Cell] = field(default_factory=Counter)
    situations: Counter[str] = field(default_factory=Counter)

    def note(self, before: model.State, event: model.Event, after: model.State, effects: Effects) -> None:
        """One event of a coordinator of groups."""
        cell = cell_of(before, event.request) if isinstance(event, model.Submit) else None
        self.take(cell, Seen(before, event, after, effects))

    def take(self, cell: Cell | None, seen: Any) -> None:
        """One event, as the situations of the walk see it."""
        if cell is not None:
            self.cells[cell] += 1
        self.situations.update(name for name, holds in SIGHTS[self.walk].items() if holds(seen))

    def add(self, other: Reached) -> None:
        """What another walk has reached."""
        self.cells.update(other.cells)
        self.situations.update(other.situations)

    @property
    def unseen(self) -> list[str]:
        """Situations that never came."""
        return [name for name in SIGHTS[self.walk] if not self.situations[name]]
