"""One event at a time (docs/protocol.md §16 for time, §10.3 for the log)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rota.model import requests
from rota.model.admin import describe_group, list_groups
from rota.model.answers import NONE, Effect
from rota.model.consumer import queue
from rota.model.consumer import service as consumer
from rota.model.consumer.classic import classic_request, is_for_members
from rota.model.consumer.data import ConsumerGroupDescribe, ConsumerGroupHeartbeat, ConsumerWrite
from rota.model.consumer.ends import ended as consumer_ended
from rota.model.consumer.records import ConsumerRecord
from rota.model.consumer.write import TIMERS
from rota.model.deletion import delete_group, deletion_failed, offset_delete
from rota.model.gate import gate, gate_answer
from rota.model.join import join_group
from rota.model.leave import leave_group
from rota.model.load import loaded, replay, unload
from rota.model.log import forget_unwritten, keep_promise, keep_unwritten, offset_error
from rota.model.offsets import fetched, fold_offset, offset_commit, offset_fetch, topics_deleted
from rota.model.rebalance import complete_join_phase, creation_ended, fold_tombstone, initial_delay_over, release
from rota.model.records import OffsetRecord
from rota.model.refusals import refusal
from rota.model.requests import Appended, DeleteGroup, Event, JoinGroup, OffsetDelete, OffsetFetch, Submit
from rota.model.retention import clean
from rota.model.sessions import heartbeat, pending_over, session_over
from rota.model.state import (
    Creation,
    InFlight,
    Plan,
    Promise,
    Replacement,
    State,
    Waiter,
    cancel,
    change,
    emit,
    wait_for_append,
)
from rota.model.statics import replacement_ended
from rota.model.sync import plan_ended, sync_group, sync_timer_over
from rota.model.values import replace

WALL_CLOCK_AT_ZERO_MS = 1_700_000_000_000
HANDLERS: dict[type, Callable[[State, int, Any], State]] = {
    requests.SyncGroup: sync_group,
    requests.Heartbeat: heartbeat,
    requests.LeaveGroup: leave_group,
    requests.OffsetCommit: offset_commit,
    requests.DescribeGroup: describe_group,
    requests.ListGroups: list_groups,
    DeleteGroup: delete_group,
    OffsetDelete: offset_delete,
}


def step(s: State, now_ms: int, event: Event, wall_ms: int | None = None) -> tuple[State, tuple[Effect, ...]]:
    """What `event` makes of `state` at `now_ms`, and its effects in order (docs/protocol.md §16, §21). Time
    may not go back.

    `wall_ms`, since the Unix epoch, goes into records; without it the wall clock began at 1,700,000,000,000.
    """
    s = replace(s, now_ms=now_ms, wall_ms=WALL_CLOCK_AT_ZERO_MS + now_ms if wall_ms is None else wall_ms, effects=())
    match event:
        case Submit():
            s = _submit(s, event)
        case requests.Advance():
            s = _advance(s)
        case Appended():
            s = _appended(s, event)
        case requests.TopicsDeleted():
            s = topics_deleted(s, event.topics) if s.phase == "Active" else s
        case requests.TopicsChanged():
            s = consumer.topics_changed(s, event.topics)
        case requests.GroupSettings():
            s = replace(s, settings={**s.settings, event.group_id: dict(event.settings)})
        case requests.ResolvePatterns():
            s = consumer.resolve_patterns(s, event.group_id)
        case requests.Replay():
            s = replay(replace(s, wall_ms=-1), event.record)  # a group without a record has no state timestamp yet
        case requests.Loaded():
            s = loaded(s)
        case requests.LoadFailed():
            s = replace(s, phase="Failed", groups={}, consumers={}) if s.phase == "Loading" else s
        case requests.Unload():
            s = unload(s)
    return replace(s, effects=()), s.effects


def next_deadline(s: State) -> int | None:
    """When `Advance` has something to do, in ms (docs/protocol.md §16.1)."""
    return s.timers[0].deadline_ms if s.timers else None


def _submit(s: State, event: Submit) -> State:
    if isinstance(event.request, ConsumerGroupHeartbeat | ConsumerGroupDescribe):
        return consumer.submit(s, event.ticket, event.request, event.uuid)
    error = gate(s, event.request)
    if error != NONE:
        return replace(s, effects=(gate_answer(event.ticket, event.request, error),))
    return _handle(s, event)


def _handle(s: State, event: Submit) -> State:
    """A request that passed the gate. Some wait for the end of a group that is being deleted (§12.3)."""
    if is_for_members(s, event.request):
        return classic_request(s, event)
    if isinstance(event.request, JoinGroup | DeleteGroup | OffsetDelete):
        group = s.groups.get(event.request.group_id or "")
        if group and group.deleting is not None:
            return wait_for_append(s, event, group.deleting)
    if isinstance(event.request, OffsetFetch):
        return offset_fetch(s, event, event.request)
    if isinstance(event.request, JoinGroup):
        return join_group(s, event.ticket, event.request, event.uuid)
    return HANDLERS[type(event.request)](s, event.ticket, event.request)


def _advance(s: State) -> State:
    """What is due fires in order; what is armed meanwhile waits for the next time (docs/protocol.md §16.1, §21)."""
    for timer in [timer for timer in s.timers if timer.deadline_ms <= s.now_ms]:
        if timer in s.timers:
            s = cancel(s, timer.kind, timer.group_id, timer.name)
            s = _fire(s, timer.kind, timer.group_id, timer.name)
    return s


def _fire(s: State, kind: str, group_id: str, name: str) -> State:
    """docs/protocol.md §16.2, last column."""
    match kind:
        case "Session":
            return session_over(s, group_id, name)
        case "Pending":
            return pending_over(s, group_id, name)
        case "InitialDelay":
            return initial_delay_over(s, group_id)
        case "Join":
            return complete_join_phase(s, group_id)
        case "Sync":
            return sync_timer_over(s, group_id)
        case kind if kind in TIMERS:
            return consumer.timer_due(s, kind, group_id, name)
        case queue.WAIT:
            return queue.wait_over(s, int(name))
        case "Cleaner":
            return clean(s)
        case "Waiter":
            waiter = next(waiter for waiter in s.waiters if waiter.event.ticket == int(name))
            return _no_longer_waiting(s, waiter)
    return _append_too_slow(s, int(name))


def _append_too_slow(s: State, append_id: int) -> State:
    """The request is answered; the records may still arrive (docs/protocol.md §10.3)."""
    flying = next(flying for flying in s.appends if flying.append_id == append_id)
    s = _end(s, flying, "REQUEST_TIMED_OUT")
    return replace(s, appends=tuple(replace(f, late=True) if f.append_id == append_id else f for f in s.appends))


def _appended(s: State, event: Appended) -> State:
    """Ends count in the order of the appends (docs/protocol.md §10.3)."""
    end = event.error or NONE
    s = replace(s, appends=tuple(replace(f, end=end) if f.append_id == event.append_id else f for f in s.appends))
    while s.appends and s.appends[0].end is not None:
        flying = s.appends[0]
        s = cancel(replace(s, appends=s.appends[1:]), "Append", "", str(flying.append_id))
        error = None if flying.end == NONE else flying.end
        s = _end(_logged(s, flying) if error is None else deletion_failed(s, flying), flying, error)
        for waiter in [waiter for waiter in s.waiters if waiter.append_id == flying.append_id]:
            s = _go_on(s, waiter, error)
        if isinstance(flying.what, ConsumerWrite):
            s = consumer.go_on(s, flying.group_id, error, _handle)
    return s


def _go_on(s: State, waiter: Waiter, error: str | None) -> State:
    """The append that a request waited for has ended. A bad end sends a client that wanted to fetch to look for the
    coordinator (docs/protocol.md §11.3, §12.3).
    """
    s, event = _forget(s, waiter), waiter.event
    if not isinstance(event.request, OffsetFetch):
        return _handle(s, event)
    if error is None:
        return emit(s, fetched(s, event.ticket, event.request))
    told = offset_error(error)
    told = "NOT_COORDINATOR" if told == "COORDINATOR_NOT_AVAILABLE" else told
    return emit(s, refusal(event.ticket, event.request, told))


def _forget(s: State, waiter: Waiter) -> State:
    s = replace(s, waiters=tuple(other for other in s.waiters if other != waiter))
    return cancel(s, "Waiter", "", str(waiter.event.ticket))


def _no_longer_waiting(s: State, waiter: Waiter) -> State:
    """It took too long (docs/protocol.md §11.3, §12.3)."""
    if isinstance(waiter.event.request, OffsetFetch):
        return _go_on(s, waiter, "REQUEST_TIMED_OUT")
    return emit(_forget(s, waiter), refusal(waiter.event.ticket, waiter.event.request, "COORDINATOR_NOT_AVAILABLE"))


def _logged(s: State, flying: InFlight) -> State:
    """The log has these records now, and something of the group (docs/protocol.md §10.3)."""
    s = forget_unwritten(s, flying.records)
    for record in (record for record in flying.records if not isinstance(record, ConsumerRecord)):
        if isinstance(record, OffsetRecord):
            s = fold_offset(s, record)
        elif record.group_id in s.groups and not (isinstance(flying.what, ConsumerWrite) and flying.what.upgraded):
            s = fold_tombstone(s, record.group_id) if record.value is None else change(s, record.group_id, durable=True)
        s = release(s, record.group_id)
    return s


def _end(s: State, flying: InFlight, error: str | None) -> State:
    """docs/protocol.md §10.3."""
    match flying.what:
        case Creation():
            return creation_ended(s, flying, error)
        case Plan():
            return plan_ended(s, flying, flying.what, error)
        case Replacement():
            return replacement_ended(s, flying, flying.what, error)
        case Promise():
            return keep_promise(s, flying, flying.what, error)
        case ConsumerWrite():
            return consumer_ended(s, flying, flying.what, error)
    return keep_unwritten(s, flying.records) if error else s
