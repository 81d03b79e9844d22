"""Bugs planted around the compiled coordinator: requests, effects, events and settings that go through a change. Each
stands for a bug of the newer protocol that the core could have; the lockstep has to find every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import rota
from rota.protocol import CommitAnswer, CommittedPartition, ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer, ErrorCode

REAL = rota.coordinator.Coordinator
CURRENT, TARGET, GROUP = b"\0\x08", b"\0\x07", b"\0\x03"


def _changed(message: Any, **fields: Any) -> Any:
    """A message with other fields."""
    said = {name: getattr(message, name) for name in message.__match_args__} | fields
    if isinstance(message, ConsumerGroupHeartbeat):
        return ConsumerGroupHeartbeat(said.pop("group_id"), said.pop("member_id"), said.pop("member_epoch"), **said)
    return type(message)(**said)


def _heartbeats(**fields: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A change of the fields of every heartbeat."""

    def change(request: Any) -> Any:
        if not isinstance(request, ConsumerGroupHeartbeat):
            return request
        return _changed(request, **{name: of(request) for name, of in fields.items()})

    return change


def _without(kind: bytes) -> Callable[[Any], Any]:
    """Appends without the records of a type; something is always left."""

    def change(effect: Any) -> Any:
        if not isinstance(effect, rota.coordinator.Append):
            return effect
        kept = [r for r in effect.records if getattr(r, "key", b"")[:2] != kind]
        return rota.coordinator.Append(effect.append_id, kept or effect.records)

    return change


def _forgiven(effect: Any) -> Any:
    if isinstance(effect, CommitAnswer) and any(p.error == ErrorCode.STALE_MEMBER_EPOCH for p in effect.partitions):
        stored = [CommittedPartition(p.topic, p.partition, ErrorCode.NONE) for p in effect.partitions]
        return CommitAnswer(effect.ticket, stored)
    return effect


def _silent(effect: Any) -> Any:
    is_news = isinstance(effect, ConsumerHeartbeatAnswer) and effect.assignment
    return _changed(effect, assignment=None) if is_news else effect


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Bug:
    """What it means, and what it changes."""

    says: str
    breaks: str
    request: Callable[[Any], Any] = _same
    effect: Callable[[Any], Any] = _same
    topics: Callable[[Sequence[Any], set[str]], Sequence[Any]] = lambda topics, _known: topics
    record: Callable[[Any], bool] = lambda _record: True
    result: Callable[[Any], Any] = _same
    config: Mapping[str, int | str] = field(default_factory=dict)
    late_ms: int = 0
    at_once: bool = False


BUGS: dict[str, Bug] = {
    "null-acknowledges": Bug(
        "a heartbeat that reports nothing acknowledges a revocation",
        "C6",
        _heartbeats(topic_partitions=lambda r: r.topic_partitions or ()),
    ),
    "reports-are-ignored": Bug(
        "what a member reports as owned does not count",
        "C18",
        _heartbeats(topic_partitions=lambda r: () if r.member_epoch == 0 else None),
    ),
    "away-is-gone": Bug(
        "a static member that goes away is removed",
        "C10",
        _heartbeats(member_epoch=lambda r: -1 if r.member_epoch == -2 else r.member_epoch),
    ),
    "instances-are-forgotten": Bug("every member is dynamic", "C10", _heartbeats(instance_id=lambda _: None)),
    "assignors-are-ignored": Bug("no member names an assignor", "C7", _heartbeats(server_assignor=lambda _: None)),
    "revoking-takes-any-time": Bug(
        "the rebalance timeout of a member does not count",
        "C16",
        _heartbeats(rebalance_timeout_ms=lambda r: 2**31 - 1 if r.rebalance_timeout_ms != -1 else -1),
    ),
    "stale-commits-are-accepted": Bug("a commit with a stale epoch is answered as stored", "C11", effect=_forgiven),
    "assignments-are-not-told": Bug("an answer leaves out the assignment", "C8", effect=_silent),
    "answered-at-once": Bug("an answer does not wait for its records", "C9", at_once=True),
    "failures-are-stored": Bug("a failed append counts as durable", "C9", result=lambda _: 0),
    "positions-are-not-written": Bug("the current assignment is not in the log", "C13", effect=_without(CURRENT)),
    "targets-are-not-loaded": Bug(
        "loading skips targets", "C13", record=lambda record: getattr(record, "key", b"")[:2] != TARGET
    ),
    "epochs-are-not-loaded": Bug(
        "loading skips the group epoch", "C3", record=lambda record: getattr(record, "key", b"")[:2] != GROUP
    ),
    "growth-is-not-seen": Bug(
        "a topic that grows is as it was",
        "C7",
        topics=lambda topics, known: [topic for topic in topics if topic[0] not in known],
    ),
    "targets-at-any-time": Bug(
        "the assignment interval does not count", "C7", config={"group.consumer.assignment.interval.ms": 0}
    ),
    "one-too-many": Bug("a full group takes one more", "C17", config={"group.consumer.max.size": 4}),
    "timers-are-late": Bug("every timer fires a millisecond late", "C16", late_ms=1),
}


class Wrong:
    """The real coordinator with a bug."""

    def __init__(self, bug: Bug, config: Mapping[str, Any], **more: Any) -> None:
        self.bug, self.known = bug, set[str]()
        self.real = REAL({**config, **bug.config}, **more)

    def submit(self, now_ms: int, ticket: int, request: Any, *, entropy: int) -> list[Any]:
        effects = self.real.submit(now_ms, ticket, self.bug.request(request), entropy=entropy)
        return self._effects(now_ms, effects)

    def advance(self, now_ms: int) -> list[Any]:
        early_ms = max(now_ms - self.bug.late_ms, self.real.now_ms)
        return self._effects(now_ms, self.real.advance(early_ms))

    def appended(self, append_id: int, result: Any, now_ms: int) -> list[Any]:
        return self._effects(now_ms, self.real.appended(append_id, self.bug.result(result), now_ms))

    def topics_changed(self, topics: Sequence[Any], now_ms: int) -> list[Any]:
        given = self.bug.topics(topics, self.known)
        self.known |= {topic[0] for topic in topics}
        return self.real.topics_changed(given, now_ms)

    def replay(self, record: Any, offset: int, timestamp_ms: int) -> None:
        if self.bug.record(record):
            self.real.replay(record, offset, timestamp_ms)

    def _effects(self, now_ms: int, effects: list[Any]) -> list[Any]:
        told = [self.bug.effect(effect) for effect in effects]
        for effect in effects if self.bug.at_once else ():
            if isinstance(effect, rota.coordinator.Append):
                told += self.real.appended(effect.append_id, 0, now_ms)
        return told

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)
