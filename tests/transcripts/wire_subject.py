"""A broker as a subject: every request on a connection of its own, in real time. It shows answers, not its log."""

from __future__ import annotations

import selectors
import socket
import struct
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import rota
from rota.conform.codec import Api, Fields, apis, read_answer, write_request
from rota.transcript.subject import Answer, Effect, Explanation, Request

Address = tuple[str, int]
ANSWER_WITHIN_S = 30.0
#: after everything before it was answered, how long an answer may be on its way
GRACE_S = 0.012
#: how late a broker's timers may be
TIMER_S = 0.06
#: how late an answer may be that is known to come
EXPECTED_WITHIN_S = 3.0
PARTITIONS = 8
TOPICS = ("t", "u", "v", "w")
#: stands for a field that the version of an answer does not have
ABSENT = "~"
FIRST_JOIN_WITH_NULL_PROTOCOL = 7
FIRST_LEAVE_WITH_MEMBERS = 3
NOT_YET = {14, 15, 16}


class Line:
    """One connection with at most one request on it."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.client_id = client_id
        self.socket = socket.create_connection(address, ANSWER_WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.correlation_id = 0

    def send(self, api: Api, version: int, values: Mapping[str, Any]) -> None:
        self.correlation_id += 1
        frame = write_request(api, version, self.correlation_id, self.client_id, values)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes | None:
        """Reads what has come; a whole frame, if there is one now."""
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionError(f"the broker closed the connection of {self.client_id}")
        self.received += data
        if len(self.received) < 4:
            return None
        (length,) = struct.unpack_from(">i", self.received)
        if len(self.received) < 4 + length:
            return None
        frame = bytes(self.received[4 : 4 + length])
        del self.received[: 4 + length]
        return frame

    def ask(self, name: str, version: int, values: Mapping[str, Any]) -> Fields:
        """Sends and waits."""
        self.send(apis()[name], version, values)
        while (frame := self.receive()) is None:
            pass
        return read_answer(apis()[name], version, frame)[1]


@dataclass
class Asked:
    """A request on its way."""

    ticket: int
    request: Request
    api: Api
    version: int


@dataclass
class Broker:
    """Where the sessions go: one address, the topics of transcripts under names of their own, names for groups.

    Several may share the topics that one has created.
    """

    address: Address
    topics: dict[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stamp = uuid.uuid4().hex[:8]
        self.count = 0
        self.control = Line(self.address, "conform")
        self.owns_topics = not self.topics
        if self.owns_topics:
            self._create_topics()

    def _create_topics(self) -> None:
        self.topics = {name: f"conform-{self.stamp}-{name}" for name in TOPICS}
        wanted = [
            {"name": name, "num_partitions": PARTITIONS, "replication_factor": 1} for name in self.topics.values()
        ]
        self.control.ask("CreateTopics", 5, {"topics": wanted, "timeout_ms": 10_000})
        found = {"coordinators": [{"error_code": 15}]}
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while found["coordinators"][0]["error_code"] != 0 and time.monotonic() < deadline:
            found = self.control.ask("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["conform"]})
        self._await_topics(deadline)
        self._await_coordinators(deadline)

    def _await_topics(self, deadline: float) -> None:
        names = list(self.topics.values())
        while time.monotonic() < deadline:
            asked = {"topics": [{"name": name} for name in names]}
            found = self.control.ask("Metadata", 8, asked)["topics"]
            if all(topic["error_code"] == 0 and len(topic["partitions"]) == PARTITIONS for topic in found):
                return
        raise TimeoutError(f"topics {names} did not come into being")

    def _await_coordinators(self, deadline: float) -> None:
        """Every partition of the offsets topic is loaded; with so many names each is asked."""
        names = [f"conform-{self.stamp}-{number}" for number in range(1_000)]
        while time.monotonic() < deadline:
            found = self.control.ask("DescribeGroups", 5, {"groups": names})["groups"]
            if not any(group["error_code"] in NOT_YET for group in found):
                return
        raise TimeoutError("some partitions of the offsets topic have no coordinator")

    def new_group(self) -> str:
        self.count += 1
        return f"conform-{self.stamp}-{self.count}"

    def line(self, client_id: str) -> Line:
        """A connection nobody uses."""
        for index, line in enumerate(self.lines):
            if line.client_id == client_id:
                return self.lines.pop(index)
        return Line(self.address, client_id)

    def close(self) -> None:
        if self.owns_topics:
            self.control.ask("DeleteTopics", 4, {"topic_names": list(self.topics.values()), "timeout_ms": 10_000})
        for line in [self.control, *self.lines]:
            line.socket.close()


class WireSubject:
    """One transcript's groups on a broker, under names of their own."""

    shows: frozenset[str] = frozenset()

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.prefix = broker.new_group() + "."
        self.now_ms = 0
        #: as the newest JoinGroup had it
        self.protocol_type = ""
        #: how many answers the next step is known to have
        self.expected = 0
        self.waiting: dict[socket.socket, tuple[Line, Asked]] = {}
        self.selector = selectors.DefaultSelector()

    def replay(self, record: dict[str, Any]) -> None:
        raise NotImplementedError("a broker loads its own log")

    def loaded(self, _now_ms: int) -> list[Effect]:
        return []

    def submit(self, _now_ms: int, ticket: int, request: Request, _entropy: int) -> list[Effect]:
        line = self.broker.line(request.fields.get("client_id", "x"))
        api, version, values = REQUESTS[request.api](self, request.fields)
        line.send(api, version, values)
        self.waiting[line.socket] = (line, Asked(ticket, request, api, version))
        self.selector.register(line.socket, selectors.EVENT_READ)
        return self.collect()

    def collect(self, until: float = 0.0) -> list[Effect]:
        """What was answered by the time that a later request of the same group is answered, and a grace; at least
        until then."""
        effects: list[Effect] = []
        self.broker.control.ask("DescribeGroups", 5, {"groups": [self.name("g")]})
        graced = max(until, time.monotonic() + GRACE_S)
        while self.waiting or until > time.monotonic():
            is_short = self.waiting and len(effects) < self.expected
            left = graced + (EXPECTED_WITHIN_S if is_short else 0.0) - time.monotonic()
            if left <= 0:
                break
            for key, _ in self.selector.select(left):
                line, asked = self.waiting[key.fileobj]  # type: ignore[index]
                frame = line.receive()
                if frame is None:
                    continue
                correlation_id, fields = read_answer(asked.api, asked.version, frame)
                assert correlation_id == line.correlation_id
                self.selector.unregister(line.socket)
                del self.waiting[line.socket]
                self.broker.lines.append(line)
                effects.append(Answer(asked.ticket, asked.request.api, ANSWERS[asked.request.api](self, asked, fields)))
        return sorted(effects, key=lambda effect: effect.ticket if isinstance(effect, Answer) else 0)

    def advance(self, now_ms: int) -> list[Effect]:
        span_s, self.now_ms = (now_ms - self.now_ms) / 1_000, now_ms
        return self.collect(time.monotonic() + span_s + TIMER_S)

    def next_deadline(self) -> int | None:
        return None

    def appended(self, append_id: int, error: str | None, now_ms: int) -> list[Effect]:
        raise NotImplementedError("a broker keeps its log to itself")

    def topics_deleted(self, topics: list[str], now_ms: int) -> list[Effect]:
        raise NotImplementedError("the topics of a broker are not a group's to delete")

    def unload(self, now_ms: int) -> list[Effect]:
        raise NotImplementedError("a broker is not unloaded from outside")

    def explain(self, _group_id: str) -> Explanation | None:
        return None

    def check_invariants(self) -> None:
        pass

    def close(self) -> None:
        """Hangs up on whoever still waits."""
        for line, _ in self.waiting.values():
            line.socket.close()

    def name(self, group_id: str | None) -> str | None:
        return self.prefix + group_id if group_id else group_id

    def shown(self, text: str | None) -> str | None:
        return None if text is None else text.replace(self.prefix, "")

    def topic(self, name: str) -> str:
        return self.broker.topics[name]

    def topic_shown(self, name: str) -> str:
        return next(short for short, long in self.broker.topics.items() if long == name)


def renamed(metadata: bytes, name: Callable[[str], str]) -> bytes:
    """A subscription to topics of other names; other bytes as they are."""
    if not metadata.startswith(b"\0\0"):
        return metadata
    topics = [name(topic) for topic in rota.decode_subscription(metadata).topics]
    return rota.encode_subscription(rota.Subscription(topics, version=0))


def error_name(code: int) -> str:
    return rota.ErrorCode(code).name if code in set(rota.ErrorCode) else str(code)


Built = tuple[Api, int, Fields]


def _of(name: str, subject: WireSubject, fields: Fields, version: int, more: Fields) -> Built:
    return apis()[name], version, fields | {"group_id": subject.name(fields["group_id"])} | more


def _join(subject: WireSubject, fields: Fields) -> Built:
    subject.protocol_type = fields["protocol_type"]
    protocols = [{"name": name, "metadata": renamed(metadata, subject.topic)} for name, metadata in fields["protocols"]]
    return _of("JoinGroup", subject, fields, fields["version"], {"protocols": protocols})


def _sync(subject: WireSubject, fields: Fields) -> Built:
    plan = [{"member_id": member_id, "assignment": data} for member_id, data in fields["assignments"]]
    more: Fields = {"assignments": plan}
    if fields["protocol_type"] == ABSENT:  # the join's answer did not say it, so it is what was asked for
        more["protocol_type"] = subject.protocol_type
    return _of("SyncGroup", subject, fields, fields["version"], more)


def _heartbeat(subject: WireSubject, fields: Fields) -> Built:
    return _of("Heartbeat", subject, fields, 4, {})


def _leave(subject: WireSubject, fields: Fields) -> Built:
    members = [{"member_id": member_id, "instance_id": instance} for member_id, instance in fields["members"]]
    more: Fields = {"members": members}
    if fields["version"] < 3:
        more["member_id"] = members[0]["member_id"]
    return _of("LeaveGroup", subject, fields, fields["version"], more)


def _commit(subject: WireSubject, fields: Fields) -> Built:
    topics = [
        {
            "name": subject.topic(topic),
            "partitions": [
                {"partition_index": index, "offset": offset, "leader_epoch": epoch, "metadata": metadata}
                for index, offset, epoch, metadata in parts
            ],
        }
        for topic, parts in fields["topics"]
    ]
    retention = -1 if fields["retention_time_ms"] is None else fields["retention_time_ms"]
    return _of("OffsetCommit", subject, fields, fields["version"], {"topics": topics, "retention_time_ms": retention})


def _fetch(subject: WireSubject, fields: Fields) -> Built:
    topics = None
    if fields["topics"] is not None:
        topics = [{"name": subject.topic(topic), "partition_indexes": indexes} for topic, indexes in fields["topics"]]
    return _of("OffsetFetch", subject, fields, 7, {"topics": topics})


def _describe(subject: WireSubject, fields: Fields) -> Built:
    return apis()["DescribeGroups"], fields["version"], {"groups": [subject.name(fields["group_id"])]}


def _list(_subject: WireSubject, fields: Fields) -> Built:
    return apis()["ListGroups"], 5, {"states_filter": fields["states"], "types_filter": fields["types"]}


def _delete(subject: WireSubject, fields: Fields) -> Built:
    return apis()["DeleteGroups"], 2, {"groups_names": [subject.name(fields["group_id"])]}


def _offset_delete(subject: WireSubject, fields: Fields) -> Built:
    topics = [
        {"name": subject.topic(topic), "partitions": [{"partition_index": index} for index in indexes]}
        for topic, indexes in fields["topics"]
    ]
    return _of("OffsetDelete", subject, fields, 0, {"topics": topics})


REQUESTS: dict[str, Callable[[WireSubject, Fields], Built]] = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "DescribeGroup": _describe,
    "ListGroups": _list,
    "DeleteGroup": _delete,
    "OffsetDelete": _offset_delete,
}


def _error(fields: Fields) -> Fields:
    return {"error": error_name(fields["error_code"])}


def _absent(fields: Fields) -> str | None:
    return ABSENT if fields["error_code"] == 0 else None


def _joined(subject: WireSubject, asked: Asked, fields: Fields) -> Fields:
    names = ("generation", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id")
    absent = {"protocol_type": _absent(fields), "skip_assignment": False}
    # Kafka's order is that of a hash table
    members = sorted(
        (each["member_id"], each.get("instance_id"), renamed(each["metadata"], subject.topic_shown))
        for each in fields["members"]
    )
    joined = _error(fields) | {name: fields.get(name, absent.get(name)) for name in names} | {"members": members}
    if asked.version < FIRST_JOIN_WITH_NULL_PROTOCOL and joined["protocol_name"] == "":
        joined["protocol_name"] = None
    return joined


def _synced(_subject: WireSubject, _asked: Asked, fields: Fields) -> Fields:
    absent = _absent(fields)
    protocol = {name: fields.get(name, absent) for name in ("protocol_type", "protocol_name")}
    return _error(fields) | protocol | {"assignment": fields["assignment"]}


OF_ONE_LEAVER = {"NONE", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}


def _left(_subject: WireSubject, asked: Asked, fields: Fields) -> Fields:
    if asked.version < FIRST_LEAVE_WITH_MEMBERS and error_name(fields["error_code"]) in OF_ONE_LEAVER:
        leaver, _ = asked.request.fields["members"][0]
        return _error(fields) | {"members": [(leaver, None, error_name(fields["error_code"]))]}
    members = [
        (each["member_id"], each["instance_id"], error_name(each["error_code"])) for each in fields.get("members", ())
    ]
    return _error(fields) | {"members": members}


def _committed(subject: WireSubject, _asked: Asked, fields: Fields) -> Fields:
    return {
        "topics": [
            (
                subject.topic_shown(topic["name"]),
                [(each["partition_index"], error_name(each["error_code"])) for each in topic["partitions"]],
            )
            for topic in fields["topics"]
        ]
    }


def _fetched(subject: WireSubject, asked: Asked, fields: Fields) -> Fields:
    def part(each: Fields) -> tuple[Any, ...]:
        return (
            each["partition_index"],
            each["offset"],
            each["leader_epoch"],
            each["metadata"],
            error_name(each["error_code"]),
        )

    topics = [
        (subject.topic_shown(topic["name"]), [part(each) for each in topic["partitions"]])
        for topic in fields["topics"]
        if topic["name"] in subject.broker.topics.values()
    ]
    if asked.request.fields["topics"] is None:  # in Kafka's order of a hash table
        topics.sort()
    return _error(fields) | {"topics": topics}


def _described(subject: WireSubject, _asked: Asked, fields: Fields) -> Fields:
    group = fields["groups"][0]
    members = [
        (
            each["member_id"],
            each.get("instance_id"),
            each["client_id"],
            each["client_host"],
            renamed(each["metadata"], subject.topic_shown),
            each["assignment"],
        )
        for each in group["members"]
    ]
    return {
        "error": error_name(group["error_code"]),
        "error_message": subject.shown(group.get("error_message")),
        "state": group["state"],
        "protocol_type": group["protocol_type"],
        "protocol_name": group["protocol_name"],
        "members": sorted(members),
    }


def _listed(subject: WireSubject, _asked: Asked, fields: Fields) -> Fields:
    groups = [
        (each["group_id"].removeprefix(subject.prefix), each["protocol_type"], each["state"])
        for each in fields["groups"]
        if each["group_id"].startswith(subject.prefix)
    ]
    return _error(fields) | {"groups": sorted(groups)}


def _deleted(_subject: WireSubject, _asked: Asked, fields: Fields) -> Fields:
    return _error(fields["results"][0]) | {"error_message": None}


def _offsets_deleted(subject: WireSubject, asked: Asked, fields: Fields) -> Fields:
    return _error(fields) | _committed(subject, asked, fields)


ANSWERS: dict[str, Callable[[WireSubject, Asked, Fields], Fields]] = {
    "JoinGroup": _joined,
    "SyncGroup": _synced,
    "Heartbeat": lambda _subject, _asked, fields: _error(fields),
    "LeaveGroup": _left,
    "OffsetCommit": _committed,
    "OffsetFetch": _fetched,
    "DescribeGroup": _described,
    "ListGroups": _listed,
    "DeleteGroup": _deleted,
    "OffsetDelete": _offsets_deleted,
}
