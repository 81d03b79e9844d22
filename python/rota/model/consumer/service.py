"""Where the newer protocol meets the rest of the coordinator: requests, topics, timers, loading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rota.model.consumer.admin import consumer_describe, resolve_patterns
from rota.model.consumer.checks import request_error
from rota.model.consumer.data import (
    ConsumerDescribeAnswer,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    Topic,
)
from rota.model.consumer.heartbeat import heartbeat, refuse
from rota.model.consumer.records import ConsumerRecord, fold
from rota.model.consumer.removal import timer_over
from rota.model.consumer.write import arm_rebalance, arm_session, put
from rota.model.state import State, emit

__all__ = ["loaded", "replay", "resolve_patterns", "submit", "timer_over", "topics_changed"]

PHASE_ERRORS = {"Loading": "COORDINATOR_LOAD_IN_PROGRESS", "Failed": "NOT_COORDINATOR", "Unloaded": "NOT_COORDINATOR"}


def submit(s: State, ticket: int, request: ConsumerGroupHeartbeat | ConsumerGroupDescribe, uuid: str) -> State:
    """The request is checked before the partition (§3.2, §3.3)."""
    error = PHASE_ERRORS.get(s.phase)
    if isinstance(request, ConsumerGroupDescribe):
        if error:
            return emit(s, ConsumerDescribeAnswer(ticket, error, None, request.group_id))
        return consumer_describe(s, ticket, request)
    refusal = request_error(request)
    if refusal or error:
        return refuse(s, ticket, refusal or (error or "", None))
    return heartbeat(s, ticket, request, uuid)


def topics_changed(s: State, topics: Iterable[Topic]) -> State:
    """Groups look at the metadata again in their next heartbeat (§19.1)."""
    s = replace(s, topics={topic.name: topic for topic in topics})
    return replace(s, consumers={name: replace(group, is_stale=True) for name, group in s.consumers.items()})


def replay(s: State, record: ConsumerRecord) -> State:
    """Fold one record (§14.4)."""
    return put(s, record.group_id, fold(s.consumers.get(record.group_id), record))


def loaded(s: State) -> State:
    """Sessions start, and rebalance timers of members that have something to give up (§14.4)."""
    for group_id, group in sorted(s.consumers.items()):
        for member_id in group.members:
            s = arm_rebalance(arm_session(s, group_id, member_id), group_id, member_id)
    return s
