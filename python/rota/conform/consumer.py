"""A broker as the subject of a transcript of the newer protocol, in real time. It shows answers, not its log.

Its requests are never parked, so one connection asks them one after the other. Topics keep their names, so that
patterns match; each transcript has a group of its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

from rota.codec import Fields
from rota.conform.subject import BrokerSubject, error_name
from rota.conform.wire import Address, Connection, Limits, WireError
from rota.transcript.subject import Answer, Effect, Request

ANSWERED_WITHIN_S = 10.0
#: how long a pattern may take to be resolved: Kafka does it outside any request
RESOLVED_WITHIN_S = 0.25
#: how late a broker's timers may be
TIMER_S = 0.06
GROUP_RESOURCE, SET = 32, 0
TOPIC_EXISTS = 36
Partitions = list[tuple[str, list[int]]]


class ConsumerWire(BrokerSubject):
    """One transcript's group on a broker."""

    def __init__(self, address: Address, prefix: str) -> None:
        self.limits = Limits(time.monotonic() + 600.0, ANSWERED_WITHIN_S)
        self.connection = Connection(address, "c", self.limits, deque(maxlen=100))
        self.prefix = prefix
        self.now_ms = 0
        self.ids: dict[str, UUID] = {}
        self._find()

    def _find(self) -> None:
        """Wait until the broker coordinates the group: the first who asks makes it create the offsets topic."""
        asked = {"key_type": 0, "coordinator_keys": [self.named("g")]}
        until = time.monotonic() + ANSWERED_WITHIN_S
        while self.ask("FindCoordinator", 4, asked)["coordinators"][0]["error_code"]:
            self.limits.stopped.wait(self.limits.left_s(until))

    def submit(self, _now_ms: int, ticket: int, request: Request, _entropy: int) -> list[Effect]:
        fields = ASK[request.api](self, request.fields)
        return [Answer(ticket, request.api, fields)]

    def advance(self, now_ms: int) -> list[Effect]:
        span_s, self.now_ms = (now_ms - self.now_ms) / 1_000, now_ms
        if span_s:
            self.limits.stopped.wait(span_s + TIMER_S)
        return []

    def topics_changed(self, topics: list[tuple[str, int]], _now_ms: int) -> list[Effect]:
        """Create those that are missing."""
        for name, count in topics:
            topic = {"name": name, "num_partitions": count, "replication_factor": 1}
            told = self.ask("CreateTopics", 7, {"topics": [topic], "timeout_ms": 10_000})["topics"][0]
            if told["error_code"] not in (0, TOPIC_EXISTS):
                raise WireError(f"cannot create topic {name}: {told['error_message']}")
        asked = {"topics": [{"name": name} for name, _ in topics]}
        until = time.monotonic() + ANSWERED_WITHIN_S
        while any(topic["error_code"] for topic in self.ask("Metadata", 12, asked)["topics"]):
            self.limits.left_s(until)
        found = {topic["name"]: topic for topic in self.ask("Metadata", 12, asked)["topics"]}
        for name, count in topics:
            if len(found[name]["partitions"]) != count:
                raise WireError(f"topic {name} has {len(found[name]['partitions'])} partitions (expected {count})")
            self.ids[name] = found[name]["topic_id"]
        return []

    def recreate(self, topics: list[tuple[str, int]]) -> None:
        """Delete topics and make them again, with other ids."""
        names = [{"name": name, "topic_id": UUID(int=0)} for name, _ in topics]
        self.ask("DeleteTopics", 6, {"topics": names, "timeout_ms": 10_000})
        until = time.monotonic() + ANSWERED_WITHIN_S
        asked = {"topics": [{"name": name} for name, _ in topics]}
        while any(topic["error_code"] == 0 for topic in self.ask("Metadata", 12, asked)["topics"]):
            self.limits.left_s(until)
        self.topics_changed(topics, 0)

    def group_settings(self, group_id: str, settings: dict[str, int], _now_ms: int) -> None:
        configs = [{"name": n, "config_operation": SET, "value": str(value)} for n, value in settings.items()]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.named(group_id), "configs": configs}
        told = self.ask("IncrementalAlterConfigs", 1, {"resources": [resource]})["responses"][0]
        if told["error_code"]:
            raise WireError(f"cannot set {settings}: {told['error_message']}")

    def resolve_patterns(self, _group_id: str, _now_ms: int) -> list[Effect]:
        """Give the broker time to resolve them."""
        self.limits.stopped.wait(RESOLVED_WITHIN_S)
        return []

    def close(self) -> None:
        """Hang up."""
        self.connection.close()

    def ask(self, api: str, version: int, values: Fields) -> Fields:
        """Send and wait."""
        return self.connection.ask(api, version, values)

    def named(self, group_id: str) -> str:
        """The group on the broker; an id that is blank stays so."""
        return self.prefix + group_id if group_id.strip() else group_id

    def told(self, fields: Fields) -> Fields:
        """Error and message, with the group's own name."""
        message = fields["error_message"]
        shown = None if message is None else message.replace(self.prefix, "")
        return {"error": error_name(fields["error_code"]), "error_message": shown}

    def by_name(self, topics: list[Fields]) -> Partitions:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return sorted((names[each["topic_id"]], sorted(each["partitions"])) for each in topics)


def _heartbeat(subject: ConsumerWire, asked: Fields) -> Fields:
    owned = asked["topic_partitions"]
    given = None
    if owned is not None:
        given = [{"topic_id": subject.ids[topic], "partitions": indexes} for topic, indexes in owned]
    values = asked | {"group_id": subject.named(asked["group_id"]), "topic_partitions": given}
    fields = subject.ask("ConsumerGroupHeartbeat", asked["version"], values)
    assignment = fields["assignment"]
    shown = None if assignment is None else subject.by_name(assignment["topic_partitions"])
    names = ("member_id", "member_epoch", "heartbeat_interval_ms")
    return subject.told(fields) | {name: fields[name] for name in names} | {"assignment": shown}


def _describe(subject: ConsumerWire, asked: Fields) -> Fields:
    values = {"group_ids": [subject.named(asked["group_id"])]}
    (group,) = subject.ask("ConsumerGroupDescribe", 1, values)["groups"]
    members = [
        {
            "member_id": each["member_id"],
            "instance_id": each["instance_id"],
            "rack_id": each["rack_id"],
            "epoch": each["member_epoch"],
            "names": each["subscribed_topic_names"],
            "pattern": each["subscribed_topic_regex"],
            "assigned": subject.by_name(each["assignment"]["topic_partitions"]),
            "target": subject.by_name(each["target_assignment"]["topic_partitions"]),
        }
        for each in sorted(group["members"], key=lambda each: str(each["member_id"]))
    ]
    shown = {"state": group["group_state"], "epoch": group["group_epoch"], "target_epoch": group["assignment_epoch"]}
    return subject.told(group) | shown | {"assignor": group["assignor_name"], "members": members}


def _commit(subject: ConsumerWire, asked: Fields) -> Fields:
    topics = [
        {
            "name": topic,
            "partitions": [{"partition_index": i, "offset": offset, "leader_epoch": epoch, "metadata": text}],
        }
        for topic, parts in asked["topics"]
        for i, offset, epoch, text in parts
    ]
    names = ("generation", "member_id", "instance_id")
    values = {name: asked[name] for name in names} | {"group_id": subject.named(asked["group_id"]), "topics": topics}
    fields = subject.ask("OffsetCommit", asked["version"], values)
    found: dict[str, list[tuple[int, str]]] = {}
    for topic in fields["topics"]:
        results = [(each["partition_index"], error_name(each["error_code"])) for each in topic["partitions"]]
        found.setdefault(topic["name"], []).extend(results)
    return {"topics": [(topic, sorted(results)) for topic, results in sorted(found.items())]}


def _fetch(subject: ConsumerWire, asked: Fields) -> Fields:
    topics = [{"name": topic, "partition_indexes": indexes} for topic, indexes in asked["topics"]]
    group = {"group_id": subject.named(asked["group_id"]), "topics": topics}
    group |= {"member_id": asked["member_id"], "member_epoch": asked["member_epoch"]}
    (told,) = subject.ask("OffsetFetch", 9, {"groups": [group], "require_stable": asked["require_stable"]})["groups"]

    def part(each: Fields) -> tuple[Any, ...]:
        return (each["partition_index"], each["offset"], each["leader_epoch"], each["metadata"] or "", "NONE")

    topics_told = [(topic["name"], [part(each) for each in topic["partitions"]]) for topic in told["topics"]]
    error = error_name(told["error_code"])
    return {"error": error, "topics": topics_told if error == "NONE" else []}


ASK: dict[str, Callable[[ConsumerWire, Fields], Fields]] = {
    "ConsumerGroupHeartbeat": _heartbeat,
    "ConsumerGroupDescribe": _describe,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
}
