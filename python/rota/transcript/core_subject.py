"""The core as a subject: `rota.coordinator.Coordinator`, driven in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

import rota
from rota.transcript.subject import Answer, Append, Effect, Explanation, Request, Wait


class CoreSubject:
    """One `Coordinator`. The log numbers appends in the order in which it receives them."""

    shows = frozenset({"log", "explain", "unload"})

    def __init__(self, config: Mapping[str, str]) -> None:
        self.coordinator = self.begin(config)
        self.next_offset = 0
        self.offsets: dict[int, int] = {}

    def begin(self, config: Mapping[str, str]) -> Any:
        """What is driven: anything with the verbs of `rota.coordinator.Coordinator`."""
        return rota.coordinator.Coordinator(config)

    def replay(self, record: dict[str, Any]) -> None:
        """Fold one record of the log that is being loaded."""
        self.coordinator.replay(_to_rota_record(record), self.next_offset, 0)
        self.next_offset += 1

    def loaded(self, now_ms: int) -> list[Effect]:
        return self._plain(self.coordinator.loaded(now_ms))

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        asked = REQUESTS[request.api](request.fields)
        return self._plain(self.coordinator.submit(now_ms, ticket, asked, entropy=entropy))

    def advance(self, now_ms: int) -> list[Effect]:
        return self._plain(self.coordinator.advance(now_ms))

    def next_deadline(self) -> int | None:
        deadline_ms: int | None = self.coordinator.next_deadline()
        return deadline_ms

    def appended(self, append_id: int, error: str | None, now_ms: int) -> list[Effect]:
        result = rota.protocol.ErrorCode[error] if error else self.offsets[append_id]
        return self._plain(self.coordinator.appended(append_id, result, now_ms))

    def topics_deleted(self, topics: list[str], now_ms: int) -> list[Effect]:
        return self._plain(self.coordinator.topics_deleted(topics, now_ms))

    def unload(self, now_ms: int) -> list[Effect]:
        return self._plain(self.coordinator.unload(now_ms))

    def explain(self, group_id: str) -> Explanation | None:
        told = self.coordinator.explain(group_id)
        if told is None:
            return None
        waiting = [Wait(wait.what, wait.member_id, wait.until_ms) for wait in told.waiting]
        last = told.rebalances[-1] if told.rebalances else None
        open_cause = (last.cause, last.member_id) if last and last.settled_ms is None else None
        return Explanation(told.state, told.generation, told.since_ms, waiting, open_cause)

    def check_invariants(self) -> None:
        self.coordinator.check_invariants()

    def _plain(self, effects: Iterable[Any]) -> list[Effect]:
        plain: list[Effect] = []
        for effect in effects:
            if isinstance(effect, rota.coordinator.Append):
                self.offsets[effect.append_id] = self.next_offset
                self.next_offset += len(effect.records)
                plain.append(Append(effect.append_id, [_record(record) for record in effect.records]))
            else:
                api, fields = ANSWERS[type(effect)]
                plain.append(Answer(effect.ticket, api, fields(effect)))
        return plain


class ConsumerCoreSubject(CoreSubject):
    """The same with groups of the newer protocol. It shows answers; the records of these groups are left out."""

    shows = frozenset({"unload"})

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self.topics = Topics()

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        if request.api in CONSUMER_REQUESTS:
            asked = CONSUMER_REQUESTS[request.api](self.topics, request.fields)
        else:
            asked = REQUESTS[request.api](request.fields)
        return self._settled(self.coordinator.submit(now_ms, ticket, asked, entropy=entropy))

    def advance(self, now_ms: int) -> list[Effect]:
        return self._settled(self.coordinator.advance(now_ms))

    def topics_changed(self, topics: list[tuple[str, int]], now_ms: int) -> list[Effect]:
        """These topics exist now, and no others."""
        gone, changed = self.topics.changed(topics)
        effects = self.coordinator.topics_deleted(gone, now_ms) if gone else []
        return self._settled([*effects, *self.coordinator.topics_changed(changed, now_ms)])

    def group_settings(self, group_id: str, settings: dict[str, int], _now_ms: int) -> None:
        self.coordinator.configure_group(group_id, settings)

    def resolve_patterns(self, _group_id: str, now_ms: int) -> list[Effect]:
        """The core resolves patterns when its clock moves on."""
        return self.advance(now_ms)

    def _settled(self, effects: Iterable[Any]) -> list[Effect]:
        """Answers, with every append made durable at once."""
        plain: list[Effect] = []
        pending = list(effects)
        while pending:
            effect = pending.pop(0)
            if isinstance(effect, rota.coordinator.Append):
                self.next_offset += 1
                now_ms = self.coordinator.now_ms
                pending += self.coordinator.appended(effect.append_id, self.next_offset, now_ms)
            elif type(effect) in CONSUMER_ANSWERS:
                api, fields = CONSUMER_ANSWERS[type(effect)]
                plain.append(Answer(effect.ticket, api, fields(self.topics, effect)))
            else:
                plain += self._plain([effect])
        return plain


class Topics:
    """The topics of a run by name and id. A name that comes again after its topic was deleted gets a new id."""

    def __init__(self) -> None:
        self.now: dict[str, tuple[int, int]] = {}
        self.names: dict[int, str] = {}

    def changed(self, topics: list[tuple[str, int]]) -> tuple[list[str], list[tuple[str, int, int]]]:
        """(names that are gone, (name, id, partitions) of those that are new or have another count)."""
        gone = [name for name in self.now if name not in dict(topics)]
        changed = []
        for name, count in topics:
            topic_id = self.now[name][0] if name in self.now else len(self.names) + 1
            self.names[topic_id] = name
            if self.now.get(name) != (topic_id, count):
                changed.append((name, topic_id, count))
        self.now = {name: (self.now[name][0] if name in self.now else self.id_of(name), n) for name, n in topics}
        return gone, changed

    def id_of(self, name: str) -> int:
        """The latest id of that name; 0: there is none."""
        return max((topic_id for topic_id, known in self.names.items() if known == name), default=0)

    def named(self, partitions: Iterable[tuple[int, Iterable[int]]]) -> list[tuple[str, list[int]]]:
        """(id, partitions) as (name, partitions)."""
        return [(self.names[topic_id], list(indexes)) for topic_id, indexes in partitions]


def _consumer_heartbeat(topics: Topics, fields: dict[str, Any]) -> Any:
    given = dict(fields)
    owned = given.pop("topic_partitions")
    ids = None if owned is None else [(topics.id_of(name), indexes) for name, indexes in owned]
    return rota.protocol.ConsumerGroupHeartbeat(topic_partitions=ids, **given)


def _consumer_fetch(_topics: Topics, fields: dict[str, Any]) -> Any:
    places = None if fields["topics"] is None else [(name, i) for name, indexes in fields["topics"] for i in indexes]
    member = {name: fields[name] for name in ("member_id", "member_epoch") if name in fields}
    return rota.protocol.OffsetFetch(fields["group_id"], places, fields["require_stable"], **member)


CONSUMER_REQUESTS: dict[str, Callable[[Topics, dict[str, Any]], Any]] = {
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "ConsumerGroupDescribe": lambda _topics, fields: rota.protocol.ConsumerGroupDescribe(fields["group_id"]),
    "OffsetFetch": _consumer_fetch,
}


def _consumer_heartbeat_answer(topics: Topics, answer: Any) -> dict[str, Any]:
    names = ("error_message", "member_id", "member_epoch", "heartbeat_interval_ms")
    given = (
        None
        if answer.assignment is None
        else topics.named((each.topic_id, each.partitions) for each in answer.assignment)
    )
    return _picked(*names)(answer) | {"assignment": given}


def _consumer_describe_answer(topics: Topics, answer: Any) -> dict[str, Any]:
    def held(partitions: Any) -> list[tuple[str, list[int]]]:
        return topics.named((each.topic_id, each.partitions) for each in partitions)

    members = [
        {
            "member_id": each.member_id,
            "instance_id": each.instance_id,
            "rack_id": each.rack_id,
            "epoch": each.member_epoch,
            "names": each.subscribed_topic_names,
            "pattern": each.subscribed_topic_regex,
            "assigned": held(each.assignment),
            "target": held(each.target_assignment),
        }
        for each in answer.members
    ]
    shown = {"state": answer.group_state, "epoch": answer.group_epoch, "target_epoch": answer.assignment_epoch}
    return _picked("error_message")(answer) | shown | {"assignor": answer.assignor_name, "members": members}


CONSUMER_ANSWERS: dict[type, tuple[str, Callable[[Topics, Any], dict[str, Any]]]] = {
    rota.protocol.ConsumerHeartbeatAnswer: ("ConsumerGroupHeartbeat", _consumer_heartbeat_answer),
    rota.protocol.ConsumerDescribeAnswer: ("ConsumerGroupDescribe", _consumer_describe_answer),
}


def _join_request(fields: dict[str, Any]) -> Any:
    rest = {key: value for key, value in fields.items() if key not in ("group_id", "member_id")}
    return rota.protocol.JoinGroup(fields["group_id"], fields["member_id"], **rest)


def _sync_request(fields: dict[str, Any]) -> Any:
    places = ("group_id", "member_id", "generation", "assignments")
    rest = {key: value for key, value in fields.items() if key not in places}
    return rota.protocol.SyncGroup(*(fields[place] for place in places), **rest)


def _commit_request(fields: dict[str, Any]) -> Any:
    offsets = [
        ((topic, partition), (offset, metadata, leader_epoch))
        for topic, partitions in fields["topics"]
        for partition, offset, leader_epoch, metadata in partitions
    ]
    rest = {key: value for key, value in fields.items() if key not in ("group_id", "topics")}
    return rota.protocol.OffsetCommit(fields["group_id"], offsets, **rest)


def _fetch_request(fields: dict[str, Any]) -> Any:
    topics = fields["topics"]
    places = None if topics is None else [(topic, index) for topic, indexes in topics for index in indexes]
    return rota.protocol.OffsetFetch(
        fields["group_id"], places, fields["require_stable"], topic_ids=fields.get("topic_ids", [])
    )


def _offset_delete_request(fields: dict[str, Any]) -> Any:
    return rota.protocol.OffsetDelete(
        fields["group_id"], [(topic, index) for topic, indexes in fields["topics"] for index in indexes]
    )


REQUESTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "JoinGroup": _join_request,
    "SyncGroup": _sync_request,
    "Heartbeat": lambda fields: rota.protocol.Heartbeat(
        fields["group_id"], fields["member_id"], fields["generation"], instance_id=fields["instance_id"]
    ),
    "LeaveGroup": lambda fields: rota.protocol.LeaveGroup(
        fields["group_id"], fields["members"], version=fields["version"]
    ),
    "OffsetCommit": _commit_request,
    "OffsetFetch": _fetch_request,
    "DescribeGroup": lambda fields: rota.protocol.DescribeGroup(fields["group_id"], version=fields["version"]),
    "ListGroups": lambda fields: rota.protocol.ListGroups(fields["states"], fields["types"]),
    "DeleteGroup": lambda fields: rota.protocol.DeleteGroup(fields["group_id"]),
    "OffsetDelete": _offset_delete_request,
}


def _picked(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda answer: {"error": answer.error.name} | {name: getattr(answer, name) for name in names}


def _with_members(names: tuple[str, ...], member: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], dict[str, Any]]:
    return lambda answer: _picked(*names)(answer) | {"members": [member(each) for each in answer.members]}


def _by_topic(partitions: Iterable[Any], shown: Callable[[Any], tuple[Any, ...]]) -> list[tuple[str, list[Any]]]:
    return [
        (topic, [shown(each) for each in group]) for topic, group in groupby(partitions, key=lambda each: each.topic)
    ]


def _commit_answer(answer: Any) -> dict[str, Any]:
    return {"topics": _by_topic(answer.partitions, lambda each: (each.partition, each.error.name))}


def _fetch_answer(answer: Any) -> dict[str, Any]:
    def fetched(each: Any) -> tuple[Any, ...]:
        return each.partition, each.offset, each.leader_epoch, each.metadata, each.error.name

    return {"error": answer.error.name, "topics": _by_topic(answer.partitions, fetched)}


def _list_answer(answer: Any) -> dict[str, Any]:
    groups = [(group.group_id, group.protocol_type, group.state) for group in answer.groups]
    return {"error": answer.error.name, "groups": groups}


JOIN_FIELDS = ("generation", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id")
DESCRIBE_FIELDS = ("error_message", "state", "protocol_type", "protocol_name")
ANSWERS: dict[type, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    rota.protocol.JoinAnswer: (
        "JoinGroup",
        _with_members(JOIN_FIELDS, lambda each: (each.member_id, each.instance_id, each.metadata)),
    ),
    rota.protocol.SyncAnswer: ("SyncGroup", _picked("protocol_type", "protocol_name", "assignment")),
    rota.protocol.HeartbeatAnswer: ("Heartbeat", _picked()),
    rota.protocol.LeaveAnswer: (
        "LeaveGroup",
        _with_members((), lambda each: (each.member_id, each.instance_id, each.error.name)),
    ),
    rota.protocol.CommitAnswer: ("OffsetCommit", _commit_answer),
    rota.protocol.FetchAnswer: ("OffsetFetch", _fetch_answer),
    rota.protocol.DescribeAnswer: (
        "DescribeGroup",
        _with_members(
            DESCRIBE_FIELDS,
            lambda each: (
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.metadata,
                each.assignment,
            ),
        ),
    ),
    rota.protocol.ListAnswer: ("ListGroups", _list_answer),
    rota.protocol.DeleteAnswer: ("DeleteGroup", _picked()),
    rota.protocol.OffsetDeleteAnswer: (
        "OffsetDelete",
        lambda answer: {"error": answer.error.name} | _commit_answer(answer),
    ),
}

OFFSET_FIELDS = ("offset", "leader_epoch", "metadata", "commit_timestamp_ms", "expire_timestamp_ms")
GROUP_FIELDS = ("protocol_type", "generation", "protocol_name", "leader")
MEMBER_FIELDS = (
    "member_id",
    "instance_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "session_timeout_ms",
    "subscription",
    "assignment",
)


def _fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _record(record: Any) -> dict[str, Any]:
    value = record.value
    if isinstance(record, rota.protocol.OffsetRecord):
        place = {"kind": "offset"} | _fields(record, ("group_id", "topic", "partition"))
        return place | {"value": None if value is None else _fields(value, OFFSET_FIELDS)}
    if value is None:
        return {"kind": "group", "group_id": record.group_id, "value": None}
    members = [_fields(member, MEMBER_FIELDS) for member in value.members]
    return {"kind": "group", "group_id": record.group_id, "value": _fields(value, GROUP_FIELDS) | {"members": members}}


def _to_rota_record(record: dict[str, Any]) -> Any:
    value = record["value"]
    if record["kind"] == "offset":
        place = (record["group_id"], record["topic"], record["partition"])
        return rota.protocol.OffsetRecord(*place, None if value is None else rota.protocol.OffsetValue(**value))
    if value is None:
        return rota.protocol.GroupRecord(record["group_id"], None)
    members = [rota.protocol.MemberValue(**member) for member in value["members"]]
    return rota.protocol.GroupRecord(record["group_id"], rota.protocol.GroupValue(**(value | {"members": members})))
