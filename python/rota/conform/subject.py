"""A broker as the subject of a transcript, in real time: requests on connections of their own. It shows answers, not
its log."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rota
from rota.codec import Api, Fields, apis
from rota.conform.broker import NotServedError, Visit
from rota.conform.older import Offer, needed
from rota.conform.wire import Connection
from rota.transcript.player import Player
from rota.transcript.subject import Answer, Effect, Explanation, Request

#: after everything before it was answered, how long an answer may be on its way
GRACE_S = 0.012
#: how late a broker's timers may be
TIMER_S = 0.06
#: how late an answer may be that is known to come, and the initial delay twice: a second member prolongs it
EXPECTED_WITHIN_S = 3.0
#: stands for a field that the version of an answer does not have
ABSENT = "~"
#: of metadata that is null in an answer; Apache Kafka has "" where there is none
NULL = "null"
FIRST_JOIN_WITH_NULL_PROTOCOL = 7
FIRST_LEAVE_WITH_MEMBERS = 3


@dataclass
class Asked:
    """A request on its way."""

    ticket: int
    request: Request
    api: Api
    version: int


class BrokerSubject:
    """What a broker lets no transcript do from outside, and what it does not show."""

    shows: frozenset[str] = frozenset()

    def replay(self, record: dict[str, Any]) -> None:
        raise NotImplementedError("a broker loads its own log")

    def loaded(self, _now_ms: int) -> list[Effect]:
        return []

    def next_deadline(self) -> int | None:
        return None

    def appended(self, append_id: int, error: str | None, now_ms: int) -> list[Effect]:
        raise NotImplementedError("a broker keeps its log to itself")

    def topics_deleted(self, topics: list[str], now_ms: int) -> list[Effect]:
        raise NotImplementedError("the topics of a broker are not a transcript's to delete")

    def unload(self, now_ms: int) -> list[Effect]:
        raise NotImplementedError("a broker is not unloaded from outside")

    def explain(self, _group_id: str) -> Explanation | None:
        return None

    def check_invariants(self) -> None:
        pass


class WireSubject(BrokerSubject):
    """One transcript's groups on a broker, under names of their own."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.now_ms = 0
        self.offer = Offer()
        #: how many answers the next step is known to have
        self.expected = 0
        self.expected_within_s = EXPECTED_WITHIN_S + 2 * (visit.broker.delay_s or 0.0)
        self.waiting: dict[socket.socket, tuple[Connection, Asked]] = {}
        self.selector = selectors.DefaultSelector()

    def player(self, *, loading: bool) -> Player:
        """Who plays a transcript to this subject; a broker whose ids have a shape of their own may give any."""
        player = Player(self, loading)
        player.cast.any_ids = not self.visit.broker.has_usual_ids
        return player

    def submit(self, _now_ms: int, ticket: int, request: Request, _entropy: int) -> list[Effect]:
        connection = self.visit.borrow(request.fields.get("client_id", "x"))
        api, version, values = REQUESTS[request.api](self, request.fields)
        version = self._served(api, version, values)
        connection.send(api, version, values)
        self.waiting[connection.socket] = (connection, Asked(ticket, request, api, version))
        self.selector.register(connection.socket, selectors.EVENT_READ)
        return self.collect()

    def _served(self, api: Api, wanted: int, values: Fields) -> int:
        """The version to ask in; raises NotServedError if it cannot say what the wanted one does."""
        version = self.visit.broker.newest(api.name, wanted)
        oldest = needed(api.name, values, self.offer)
        if version < oldest <= wanted:
            raise NotServedError(f"{api.name} v{oldest}")
        return version

    def collect(self, until: float = 0.0) -> list[Effect]:
        """What was answered by the time that a later request of the same group is answered, and a grace; at least
        until then."""
        effects: list[Effect] = []
        self.visit.settle("g")
        graced = max(until, time.monotonic() + GRACE_S)
        while self.waiting or until > time.monotonic():
            is_short = self.waiting and len(effects) < self.expected
            end = graced + (self.expected_within_s if is_short else 0.0)
            if end <= time.monotonic():
                break
            for key, _ in self.selector.select(self.visit.limits.left_s(end)):
                effects += self._receive(key.fileobj)  # type: ignore[arg-type]
        return sorted(effects, key=lambda effect: effect.ticket if isinstance(effect, Answer) else 0)

    def _receive(self, source: socket.socket) -> list[Effect]:
        connection, asked = self.waiting[source]
        # What can be read need not be an answer yet.
        source.settimeout(0.0)
        frame = connection.receive()
        if frame is None:
            return []
        fields = connection.read(frame)
        self.selector.unregister(source)
        del self.waiting[source]
        self.visit.give_back(connection)
        return [Answer(asked.ticket, asked.request.api, ANSWERS[asked.request.api](self, asked, fields))]

    def advance(self, now_ms: int) -> list[Effect]:
        span_s, self.now_ms = (now_ms - self.now_ms) / 1_000, now_ms
        return self.collect(time.monotonic() + span_s + TIMER_S)

    def close(self) -> None:
        """Nothing more is read."""
        self.selector.close()


def renamed(metadata: bytes, name: Callable[[str], str]) -> bytes:
    """A subscription to topics of other names; other bytes as they are."""
    if not metadata.startswith(b"\0\0"):
        return metadata
    topics = [name(topic) for topic in rota.protocol.decode_subscription(metadata).topics]
    return rota.protocol.encode_subscription(rota.protocol.Subscription(topics, version=0))


def error_name(code: int) -> str:
    return rota.protocol.ErrorCode(code).name if code in set(rota.protocol.ErrorCode) else str(code)


Built = tuple[Api, int, Fields]


def _of(name: str, subject: WireSubject, fields: Fields, version: int, more: Fields) -> Built:
    return apis()[name], version, fields | {"group_id": subject.visit.name(fields["group_id"])} | more


def _join(subject: WireSubject, fields: Fields) -> Built:
    subject.offer = Offer(fields["protocol_type"], tuple(name for name, _ in fields["protocols"]))
    protocols = [
        {"name": name, "metadata": renamed(metadata, subject.visit.topic)} for name, metadata in fields["protocols"]
    ]
    return _of("JoinGroup", subject, fields, fields["version"], {"protocols": protocols})


def _sync(subject: WireSubject, fields: Fields) -> Built:
    plan = [{"member_id": member_id, "assignment": data} for member_id, data in fields["assignments"]]
    more: Fields = {"assignments": plan}
    if fields["protocol_type"] == ABSENT:  # the join's answer did not say it, so it is what was asked for
        more["protocol_type"] = subject.offer.protocol_type
    return _of("SyncGroup", subject, fields, fields["version"], more)


def _heartbeat(subject: WireSubject, fields: Fields) -> Built:
    return _of("Heartbeat", subject, fields, 4, {})


def _leave(subject: WireSubject, fields: Fields) -> Built:
    members = [{"member_id": member_id, "instance_id": instance} for member_id, instance in fields["members"]]
    more: Fields = {"members": members, "member_id": members[0]["member_id"] if members else ""}
    return _of("LeaveGroup", subject, fields, fields["version"], more)


def _commit(subject: WireSubject, fields: Fields) -> Built:
    topics = [
        {
            "name": subject.visit.topic(topic),
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
        topics = [
            {"name": subject.visit.topic(topic), "partition_indexes": indexes} for topic, indexes in fields["topics"]
        ]
    return _of("OffsetFetch", subject, fields, 7, {"topics": topics})


def _describe(subject: WireSubject, fields: Fields) -> Built:
    return apis()["DescribeGroups"], fields["version"], {"groups": [subject.visit.name(fields["group_id"])]}


def _list(_subject: WireSubject, fields: Fields) -> Built:
    return apis()["ListGroups"], 5, {"states_filter": fields["states"], "types_filter": fields["types"]}


def _delete(subject: WireSubject, fields: Fields) -> Built:
    return apis()["DeleteGroups"], 2, {"groups_names": [subject.visit.name(fields["group_id"])]}


def _offset_delete(subject: WireSubject, fields: Fields) -> Built:
    topics = [
        {"name": subject.visit.topic(topic), "partitions": [{"partition_index": index} for index in indexes]}
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
        (each["member_id"], each.get("instance_id"), renamed(each["metadata"], subject.visit.topic_shown))
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
                subject.visit.topic_shown(topic["name"]),
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
            each.get("leader_epoch", -1),
            NULL if each["metadata"] is None else each["metadata"],
            error_name(each["error_code"]),
        )

    topics = [
        (subject.visit.topic_shown(topic["name"]), [part(each) for each in topic["partitions"]])
        for topic in fields["topics"]
        if topic["name"] in subject.visit.broker.topics.values()
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
            renamed(each["metadata"], subject.visit.topic_shown),
            each["assignment"],
        )
        for each in group["members"]
    ]
    return {
        "error": error_name(group["error_code"]),
        "error_message": subject.visit.shown(group.get("error_message")),
        "state": group["state"],
        "protocol_type": group["protocol_type"],
        "protocol_name": group["protocol_name"],
        "members": sorted(members),
    }


def _listed(subject: WireSubject, _asked: Asked, fields: Fields) -> Fields:
    groups = [
        (each["group_id"].removeprefix(subject.visit.prefix), each["protocol_type"], each["state"])
        for each in fields["groups"]
        if each["group_id"].startswith(subject.visit.prefix)
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
