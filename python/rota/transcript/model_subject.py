"""The model as a subject: `rota.model`, whose data is the runner's but for its shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple
from itertools import groupby
from typing import Any
from uuid import UUID

from rota import model
from rota.transcript.subject import Answer, Append, Effect, Explanation, Request


class ModelSubject:
    """One state of the model, stepped. It does not explain: that is no part of the protocol."""

    shows = frozenset({"log", "unload"})

    def __init__(self, config: Mapping[str, str]) -> None:
        own = model.Config.__dataclass_fields__
        named = {name.replace(".", "_"): value for name, value in config.items()}
        settings = {name: value if own[name].type == "str" else int(value) for name, value in named.items()}
        self.state = model.State(model.Config(**settings))  # type: ignore[arg-type]
        self.topics = Topics()

    def step(self, now_ms: int, event: model.Event) -> list[Effect]:
        """One event."""
        self.state, effects = model.step(self.state, now_ms, event)
        return [_plain(effect, self.topics) for effect in effects]

    def replay(self, record: dict[str, Any]) -> None:
        """Fold one record of the log that is being loaded."""
        self.step(self.state.now_ms, model.Replay(_to_model_record(record)))

    def loaded(self, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Loaded())

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        asked = REQUESTS[request.api](self.topics, request.fields)
        return self.step(now_ms, model.Submit(ticket, asked, str(UUID(int=entropy, version=4))))

    def advance(self, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Advance())

    def next_deadline(self) -> int | None:
        return model.next_deadline(self.state)

    def appended(self, append_id: int, error: str | None, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Appended(append_id, error))

    def topics_deleted(self, topics: list[str], now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.TopicsDeleted(tuple(topics)))

    def topics_changed(self, topics: list[tuple[str, int]], now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.TopicsChanged(self.topics.changed(topics)))

    def group_settings(self, group_id: str, settings: dict[str, int], now_ms: int) -> None:
        self.step(now_ms, model.GroupSettings(group_id, tuple(settings.items())))

    def resolve_patterns(self, group_id: str, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.ResolvePatterns(group_id))

    def unload(self, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Unload())

    def explain(self, _group_id: str) -> Explanation | None:
        return None

    def check_invariants(self) -> None:
        """Nothing here: tests/checks/test_differential.py checks them on the model."""


class Topics:
    """The topics of a run: a name that comes again after its topic was deleted gets a new id."""

    def __init__(self) -> None:
        self.now: dict[str, model.Topic] = {}
        self.names: dict[int, str] = {}

    def changed(self, topics: list[tuple[str, int]]) -> tuple[model.Topic, ...]:
        """These topics exist now."""
        before, self.now = self.now, {}
        for name, count in topics:
            topic_id = before[name].topic_id if name in before else len(self.names) + 1
            self.names[topic_id] = name
            self.now[name] = model.Topic(name, topic_id, count)
        return tuple(self.now.values())

    def id_of(self, name: str) -> int:
        """0 for a topic that does not exist."""
        return self.now[name].topic_id if name in self.now else 0

    def by_topic(self, partitions: Any) -> list[tuple[str, list[int]]]:
        """(topic id, partition) as names with their partitions."""
        found: dict[str, list[int]] = {}
        for topic_id, index in sorted(partitions):
            found.setdefault(self.names[topic_id], []).append(index)
        return list(found.items())


def _pairs(entries: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(entry) for entry in entries)


def _commit_request(topics: Topics, fields: dict[str, Any]) -> model.Request:
    offsets = [
        (topic, partition, offset, leader_epoch, metadata)
        for topic, partitions in fields["topics"]
        for partition, offset, leader_epoch, metadata in partitions
    ]
    rest = {key: value for key, value in fields.items() if key not in ("topics", "topic_ids")}
    return model.OffsetCommit(offsets=tuple(offsets), topic_ids=_ids(topics, fields), **rest)


def _ids(topics: Topics, fields: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """Those of the request, or those of the topics that exist."""
    given = _pairs(fields.get("topic_ids", ()))
    return given or tuple((name, topics.id_of(name)) for name, _ in fields["topics"] or () if topics.id_of(name))


def _fetch_request(_topics: Topics, fields: dict[str, Any]) -> model.Request:
    places = None if fields["topics"] is None else _places(fields["topics"])
    ids = _pairs(fields.get("topic_ids", ()))
    member = (fields.get("member_id"), fields.get("member_epoch", -1))
    return model.OffsetFetch(fields["group_id"], places, fields["require_stable"], ids, *member)


def _places(topics: Any) -> tuple[tuple[str, int], ...]:
    return tuple((topic, index) for topic, indexes in topics for index in indexes)


def _consumer_heartbeat(topics: Topics, fields: dict[str, Any]) -> model.Request:
    names, owned = fields["subscribed_topic_names"], fields["topic_partitions"]
    given = None if owned is None else tuple((topics.id_of(topic), index) for topic, index in _places(owned))
    more = {"subscribed_topic_names": None if names is None else tuple(names), "topic_partitions": given}
    return model.ConsumerGroupHeartbeat(**fields | more)


REQUESTS: dict[str, Callable[[Topics, dict[str, Any]], model.Request]] = {
    "JoinGroup": lambda _topics, fields: model.JoinGroup(**(fields | {"protocols": _pairs(fields["protocols"])})),
    "SyncGroup": lambda _topics, fields: model.SyncGroup(**(fields | {"assignments": _pairs(fields["assignments"])})),
    "Heartbeat": lambda _topics, fields: model.Heartbeat(**fields),
    "LeaveGroup": lambda _topics, fields: model.LeaveGroup(**(fields | {"members": _pairs(fields["members"])})),
    "OffsetCommit": _commit_request,
    "OffsetFetch": _fetch_request,
    "DescribeGroup": lambda _topics, fields: model.DescribeGroup(**fields),
    "ListGroups": lambda _topics, fields: model.ListGroups(tuple(fields["states"]), tuple(fields["types"])),
    "DeleteGroup": lambda _topics, fields: model.DeleteGroup(fields["group_id"]),
    "OffsetDelete": lambda _topics, fields: model.OffsetDelete(fields["group_id"], _places(fields["topics"])),
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "ConsumerGroupDescribe": lambda _topics, fields: model.ConsumerGroupDescribe(fields["group_id"]),
}

APIS: dict[type, str] = {
    model.JoinAnswer: "JoinGroup",
    model.SyncAnswer: "SyncGroup",
    model.HeartbeatAnswer: "Heartbeat",
    model.LeaveAnswer: "LeaveGroup",
    model.CommitAnswer: "OffsetCommit",
    model.FetchAnswer: "OffsetFetch",
    model.DescribeAnswer: "DescribeGroup",
    model.ListAnswer: "ListGroups",
    model.DeleteAnswer: "DeleteGroup",
    model.OffsetDeleteAnswer: "OffsetDelete",
}


def _plain(effect: model.Effect, topics: Topics) -> Effect:
    if isinstance(effect, model.Append):
        return Append(effect.append_id, [_record(record, topics) for record in effect.records])
    if isinstance(effect, model.ConsumerHeartbeatAnswer | model.ConsumerDescribeAnswer):
        return _consumer_answer(effect, topics)
    fields = {name: getattr(effect, name) for name in type(effect).__dataclass_fields__ if name != "ticket"}
    if isinstance(effect, model.CommitAnswer | model.OffsetDeleteAnswer):
        fields["topics"] = _by_topic([(each.topic, each.partition, each.error) for each in fields.pop("partitions")])
    elif isinstance(effect, model.FetchAnswer):
        fields["topics"] = _by_topic([astuple(each)[:-1] for each in fields.pop("partitions")])
    for name in ("members", "groups"):
        if name in fields:
            fields[name] = [astuple(each) for each in fields[name]]
    return Answer(effect.ticket, APIS[type(effect)], fields)


def _by_topic(entries: list[tuple[Any, ...]]) -> list[tuple[str, list[Any]]]:
    return [(topic, [entry[1:] for entry in group]) for topic, group in groupby(entries, key=lambda entry: entry[0])]


def _consumer_answer(effect: model.ConsumerHeartbeatAnswer | model.ConsumerDescribeAnswer, topics: Topics) -> Answer:
    fields = {name: getattr(effect, name) for name in type(effect).__dataclass_fields__ if name != "ticket"}
    if isinstance(effect, model.ConsumerHeartbeatAnswer):
        if effect.assignment is not None:
            fields["assignment"] = topics.by_topic(effect.assignment)
        return Answer(effect.ticket, "ConsumerGroupHeartbeat", fields)
    fields["members"] = [
        {name: getattr(each, name) for name in ("member_id", "instance_id", "rack_id", "epoch", "names", "pattern")}
        | {"assigned": topics.by_topic(each.assigned), "target": topics.by_topic(each.target or ())}
        for each in effect.members
    ]
    return Answer(effect.ticket, "ConsumerGroupDescribe", fields)


CONSUMER_KINDS = {3: "group", 4: "topics", 5: "member", 6: "target-epoch", 7: "target", 8: "current", 16: "pattern"}


def _consumer_record(record: model.ConsumerRecord, topics: Topics) -> dict[str, Any]:
    value: dict[str, Any] | None = None
    if record.value is not None:
        value = {name: getattr(record.value, name) for name in type(record.value).__dataclass_fields__}
        for name in {"assigned", "revoking"} & set(value):
            value[name] = [(topics.names[place[0]], place[1], epoch) for place, epoch in value[name]]
        if "partitions" in value:
            value["partitions"] = topics.by_topic(value["partitions"])
        if "metadata" in value:
            value["has_hash"] = bool(value.pop("metadata"))
    kind = f"consumer_{CONSUMER_KINDS[record.kind]}"
    return {"kind": kind, "group_id": record.group_id, "name": record.name, "value": value}


def _record(record: model.Record, topics: Topics) -> dict[str, Any]:
    if isinstance(record, model.ConsumerRecord):
        return _consumer_record(record, topics)
    kind = "offset" if isinstance(record, model.OffsetRecord) else "group"
    return {"kind": kind} | asdict(record)


def _to_model_record(record: dict[str, Any]) -> model.Record:
    value = record["value"]
    if record["kind"] == "offset":
        place = (record["group_id"], record["topic"], record["partition"])
        return model.OffsetRecord(*place, None if value is None else model.OffsetValue(**value))
    if value is None:
        return model.GroupRecord(record["group_id"], None)
    members = tuple(model.MemberValue(**member) for member in value["members"])
    group = model.GroupValue(**({"state_timestamp_ms": -1} | value | {"members": members}))
    return model.GroupRecord(record["group_id"], group)
