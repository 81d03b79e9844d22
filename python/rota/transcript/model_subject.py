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
        settings = {name.replace(".", "_"): int(value) for name, value in config.items()}
        self.state = model.State(model.Config(**settings))

    def step(self, now_ms: int, event: model.Event) -> list[Effect]:
        """One event."""
        self.state, effects = model.step(self.state, now_ms, event)
        return [_plain(effect) for effect in effects]

    def replay(self, record: dict[str, Any]) -> None:
        """Fold one record of the log that is being loaded."""
        self.step(self.state.now_ms, model.Replay(_to_model_record(record)))

    def loaded(self, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Loaded())

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        asked = REQUESTS[request.api](request.fields)
        return self.step(now_ms, model.Submit(ticket, asked, str(UUID(int=entropy, version=4))))

    def advance(self, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Advance())

    def next_deadline(self) -> int | None:
        return model.next_deadline(self.state)

    def appended(self, append_id: int, error: str | None, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Appended(append_id, error))

    def topics_deleted(self, topics: list[str], now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.TopicsDeleted(tuple(topics)))

    def unload(self, now_ms: int) -> list[Effect]:
        return self.step(now_ms, model.Unload())

    def explain(self, _group_id: str) -> Explanation | None:
        return None

    def check_invariants(self) -> None:
        """Nothing here: tests/checks/test_differential.py checks them on the model."""


def _pairs(entries: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(entry) for entry in entries)


def _commit_request(fields: dict[str, Any]) -> model.Request:
    offsets = [
        (topic, partition, offset, leader_epoch, metadata)
        for topic, partitions in fields["topics"]
        for partition, offset, leader_epoch, metadata in partitions
    ]
    rest = {key: value for key, value in fields.items() if key not in ("topics", "topic_ids")}
    return model.OffsetCommit(offsets=tuple(offsets), topic_ids=_pairs(fields.get("topic_ids", ())), **rest)


def _fetch_request(fields: dict[str, Any]) -> model.Request:
    places = None if fields["topics"] is None else _places(fields["topics"])
    ids = _pairs(fields.get("topic_ids", ()))
    return model.OffsetFetch(fields["group_id"], places, fields["require_stable"], ids)


def _places(topics: Any) -> tuple[tuple[str, int], ...]:
    return tuple((topic, index) for topic, indexes in topics for index in indexes)


REQUESTS: dict[str, Callable[[dict[str, Any]], model.Request]] = {
    "JoinGroup": lambda fields: model.JoinGroup(**(fields | {"protocols": _pairs(fields["protocols"])})),
    "SyncGroup": lambda fields: model.SyncGroup(**(fields | {"assignments": _pairs(fields["assignments"])})),
    "Heartbeat": lambda fields: model.Heartbeat(**fields),
    "LeaveGroup": lambda fields: model.LeaveGroup(**(fields | {"members": _pairs(fields["members"])})),
    "OffsetCommit": _commit_request,
    "OffsetFetch": _fetch_request,
    "DescribeGroup": lambda fields: model.DescribeGroup(**fields),
    "ListGroups": lambda fields: model.ListGroups(tuple(fields["states"]), tuple(fields["types"])),
    "DeleteGroup": lambda fields: model.DeleteGroup(fields["group_id"]),
    "OffsetDelete": lambda fields: model.OffsetDelete(fields["group_id"], _places(fields["topics"])),
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


def _plain(effect: model.Effect) -> Effect:
    if isinstance(effect, model.Append):
        return Append(effect.append_id, [_record(record) for record in effect.records])
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


def _record(record: model.Record) -> dict[str, Any]:
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
