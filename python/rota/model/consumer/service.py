"""Where the newer protocol meets the rest of the coordinator: requests, topics, timers, loading."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rota.model.consumer.admin import consumer_describe, resolve_patterns
from rota.model.consumer.checks import request_error
from rota.model.consumer.data import (
    ConsumerDescribeAnswer,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerWrite,
    Topic,
    subscribed_names,
)
from rota.model.consumer.heartbeat import heartbeat, refuse
from rota.model.consumer.queue import is_writing, refuse_all, taken, wait
from rota.model.consumer.records import ConsumerRecord, fold
from rota.model.consumer.removal import timer_over
from rota.model.consumer.write import JOIN, SYNC, arm_rebalance, arm_session, end_classic, is_armed, put, refused
from rota.model.requests import Submit
from rota.model.state import Group as ClassicGroup
from rota.model.state import State, emit
from rota.model.values import replace

__all__ = ["go_on", "loaded", "replay", "resolve_patterns", "submit", "timer_due", "topics_changed", "unloaded"]

PHASE_ERRORS = {"Loading": "COORDINATOR_LOAD_IN_PROGRESS", "Failed": "NOT_COORDINATOR", "Unloaded": "NOT_COORDINATOR"}


def submit(s: State, ticket: int, request: ConsumerGroupHeartbeat | ConsumerGroupDescribe, uuid: str) -> State:
    """The request is checked before the partition (§3.2, §3.3)."""
    error = PHASE_ERRORS.get(s.phase)
    if isinstance(request, ConsumerGroupDescribe):
        refused = error if request.group_id else "INVALID_GROUP_ID"
        if refused:
            return emit(s, ConsumerDescribeAnswer(ticket, refused, None, request.group_id))
        if is_writing(s, request.group_id):
            return wait(s, request.group_id, Submit(ticket, request, uuid))
        return consumer_describe(s, ticket, request)
    refusal = request_error(request)
    if refusal or error:
        return refuse(s, ticket, refusal or (error or "", None))
    if is_writing(s, request.group_id):
        return wait(s, request.group_id, Submit(ticket, request, uuid))
    return heartbeat(s, ticket, request, uuid)


def timer_due(s: State, kind: str, group_id: str, member_id: str) -> State:
    """A timer of a member (§10)."""
    return wait(s, group_id, (kind, member_id)) if is_writing(s, group_id) else timer_over(s, kind, group_id, member_id)


def go_on(s: State, group_id: str, error: str | None, handle: Callable[[State, Submit], State]) -> State:
    """An append of the group has ended: what waited for it goes on, until one of it appends (§4.4). `handle` is for
    requests of both protocols.
    """
    shell = s.groups.get(group_id)
    if shell and error is None and group_id not in s.consumers and not _is_kept(shell):
        s = end_classic(s, group_id)
    if group_id not in s.consumers:  # its expired timers are void
        s = replace(s, queue=tuple(q for q in s.queue if q.group_id != group_id or isinstance(q.what, Submit)))
    s, what = taken(s, group_id)
    while what is not None:
        s, what = taken(_resumed(s, group_id, what, handle), group_id)
    return s


def _is_kept(shell: ClassicGroup) -> bool:
    """Whether there is more to a group without a consumer group than its offsets, or some of these."""
    return bool(shell.offsets or shell.protocol_type or shell.pending or {shell.creating, shell.deleting} != {None})


def _resumed(
    s: State, group_id: str, what: Submit | tuple[str, str], handle: Callable[[State, Submit], State]
) -> State:
    """A timer counts only if it is not armed again, and that of a JoinGroup only if the member has not joined."""
    if isinstance(what, Submit):
        if isinstance(what.request, ConsumerGroupHeartbeat | ConsumerGroupDescribe):
            return submit(s, what.ticket, what.request, what.uuid)
        return handle(s, what)
    kind, member_id = what
    is_void = is_armed(s, kind, group_id, member_id) or (kind == JOIN and is_armed(s, SYNC, group_id, member_id))
    return s if is_void else timer_over(s, kind, group_id, member_id)


def topics_changed(s: State, topics: Iterable[Topic]) -> State:
    """Groups that subscribe to one that has changed look at the metadata again in their next heartbeat (§19.1)."""
    new = {topic.name: topic for topic in topics}
    changed = {name for name in new.keys() | s.topics.keys() if new.get(name) != s.topics.get(name)}
    stale = {key: replace(each, is_stale=True) for key, each in s.consumers.items() if changed & subscribed_names(each)}
    return replace(s, topics=new, consumers={**s.consumers, **stale})


def replay(s: State, record: ConsumerRecord) -> State:
    """Fold one record (§14.4)."""
    group, shell = fold(s.consumers.get(record.group_id), record), s.groups.get(record.group_id)
    is_over = group is None and shell and not _is_kept(shell)
    return put(end_classic(s, record.group_id) if is_over else s, record.group_id, group)


def loaded(s: State) -> State:
    """Sessions start, and rebalance timers of members that have something to give up; of a classic group with the same
    id only the offsets stay (§14.4).
    """
    for group_id, group in sorted(s.consumers.items()):
        if group_id in s.groups:
            s = end_classic(s, group_id)
        for member_id in group.members:
            s = arm_rebalance(arm_session(s, group_id, member_id), group_id, member_id)
    return s


def unloaded(s: State, error: str) -> State:
    """Requests that wait for an append are refused (classic §15.2)."""
    for group_id in sorted({f.group_id for f in s.appends if isinstance(f.what, ConsumerWrite)}):
        for flying in s.appends:
            if flying.group_id == group_id and isinstance(flying.what, ConsumerWrite):
                s = refused(s, flying.what, error)
        s = refuse_all(s, group_id, error)
    return s
