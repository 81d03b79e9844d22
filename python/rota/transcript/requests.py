"""From the line of a step to a request. What the line leaves out comes from the actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rota
from rota.transcript import consumer
from rota.transcript.cast import DEFAULT_REBALANCE_MS, DEFAULT_SESSION_MS, Actor, Cast, StepError, duration_ms
from rota.transcript.subject import Request

NULLABLE = {"null": None, '""': ""}

#: The wall time at the beginning of a transcript.
WALL_EPOCH_MS = 1_700_000_000_000


def nullable(text: str) -> str | None:
    """`null`, `""`, or the text itself."""
    return NULLABLE.get(text, text)


class Words:
    """The words of one request line: positional ones, and options `key=value`. Each must be used."""

    def __init__(self, words: list[str]) -> None:
        self.positional = [word for word in words if "=" not in word or "/" in word.split("=", maxsplit=1)[0]]
        self.options = dict(word.split("=", 1) for word in words if word not in self.positional)

    def option(self, key: str, default: str) -> str:
        """The text of an option, marked as used; `default` if it is missing."""
        return self.options.pop(key, default)

    def flag(self, word: str) -> bool:
        """Whether the bare word is there, used up."""
        if word in self.positional:
            self.positional.remove(word)
            return True
        return False

    def end(self) -> None:
        """Refuse words and options that were not used."""
        rest = self.positional + list(self.options)
        if rest:
            raise StepError(f"`{rest[0]}` means nothing here")


def declare_member(cast: Cast, text: str) -> None:
    """`member c range:Sc,sticky:S2 session=6s rebalance=5m version=3 type=consumer`: what c offers from now on."""
    name, *rest = text.split()
    actor, words = cast.actor(name), Words(rest)
    if words.positional:
        actor.protocols = protocols(words.positional.pop(0))
    actor.session_ms = duration_ms(words.option("session", f"{actor.session_ms}ms"))
    actor.rebalance_ms = duration_ms(words.option("rebalance", f"{actor.rebalance_ms}ms"))
    actor.version = int(words.option("version", str(actor.version)))
    actor.protocol_type = words.option("type", actor.protocol_type).strip('"')
    words.end()


def protocols(text: str) -> list[tuple[str, bytes]]:
    """`range:Sa,sticky:Sb`, or `none`. `range:[t+u]` is a subscription to t and u."""
    if text == "none":
        return []
    return [(name, metadata_bytes(given)) for name, _, given in (part.partition(":") for part in text.split(","))]


def metadata_bytes(text: str) -> bytes:
    """A word, or `[t+u]`: the embedded protocol's subscription to these topics. `[t|t:0-2]`: version 1, with the
    partitions that the member owns."""
    if not is_embedded(text):
        return text.encode()
    names, has_owned, owned = text[1:-1].partition("|")
    topics = [topic for topic in names.split("+") if topic]
    if not has_owned:
        return rota.protocol.encode_subscription(rota.protocol.Subscription(topics, version=0))
    subscription = rota.protocol.Subscription(topics, owned_partitions=consumer.partitions(owned) or [], version=1)
    return rota.protocol.encode_subscription(subscription)


def assignment_bytes(text: str) -> bytes:
    """A word, or `[t:0-2]`: the embedded protocol's assignment of these partitions."""
    if not is_embedded(text):
        return text.encode()
    assignment = rota.protocol.Assignment(consumer.partitions(text[1:-1]) or [], version=1)
    return rota.protocol.encode_assignment(assignment)


def is_embedded(text: str) -> bool:
    """Whether the text stands for bytes of the embedded protocol."""
    return text.startswith("[") and text.endswith("]")


def build(cast: Cast, connection: str, api: str, rest: list[str]) -> Request:
    """The request that `connection` sends."""
    api = consumer.SHORT.get(api, api)
    if api not in BUILDERS:
        raise StepError(f"`{api}` is no request (expected one of {', '.join(BUILDERS)})")
    words = Words(rest)
    fields: dict[str, Any] = {"group_id": nullable(words.option("group", "g"))} if api != "ListGroups" else {}
    fields |= BUILDERS[api](cast, cast.actor(connection), words)
    words.end()
    return Request(api, fields)


def _identity(cast: Cast, actor: Actor, words: Words) -> dict[str, Any]:
    return {
        "member_id": cast.find_id(words.option("id", actor.member_id or '""')),
        "instance_id": nullable(words.option("instance", "null")),
    }


def _generation(cast: Cast, actor: Actor, words: Words) -> dict[str, Any]:
    return {"generation": cast.find_generation(words.option("generation", str(actor.generation)))}


def _join(cast: Cast, actor: Actor, words: Words) -> dict[str, Any]:
    if "protocols" in words.options:
        actor.protocols = protocols(words.option("protocols", ""))
    return _identity(cast, actor, words) | {
        "version": int(words.option("v", str(actor.version))),
        "client_id": actor.name,
        "client_host": "/127.0.0.1",
        "session_timeout_ms": duration_ms(words.option("session", f"{actor.session_ms}ms")),
        "rebalance_timeout_ms": duration_ms(words.option("rebalance", f"{actor.rebalance_ms}ms")),
        "protocol_type": words.option("type", actor.protocol_type).strip('"'),
        "protocols": actor.protocols,
    }


def _sync(cast: Cast, actor: Actor, words: Words) -> dict[str, Any]:
    plan = words.option("plan", "none")
    assignments = []
    for part in [] if plan == "none" else plan.split(","):
        who, _, what = part.partition(":")
        assignments.append((cast.find_id(who), assignment_bytes(what or f"X{who}")))
    fields = _identity(cast, actor, words) | _generation(cast, actor, words)
    return fields | {
        "version": int(words.option("v", "5")),
        "protocol_type": nullable(words.option("type", actor.told[0] or "null")),
        "protocol_name": nullable(words.option("name", actor.told[1] or "null")),
        "assignments": assignments,
    }


def _heartbeat(cast: Cast, actor: Actor, words: Words) -> dict[str, Any]:
    return _identity(cast, actor, words) | _generation(cast, actor, words)


def _leave(cast: Cast, actor: Actor, words: Words) -> dict[str, Any]:
    leavers = words.option("members", actor.member_id or '""')
    members = []
    for part in [] if leavers == "none" else leavers.split(","):
        who, _, instance = part.partition("/")
        members.append((cast.find_id(who or '""'), instance or None))
    return {"version": int(words.option("v", "5")), "members": members}


def _commit(cast: Cast, actor: Actor, words: Words) -> dict[str, Any]:
    """`t/0=5 t/1=6@3:meta`: topic, partition, offset, leader epoch, metadata (`m*4097`: 4,097 times m)."""
    fields = _identity(cast, actor, words) | _generation(cast, actor, words)
    retention = words.option("retention", "")
    topics: dict[str, list[tuple[int, int, int, str | None]]] = {}
    for word in words.positional:
        place, _, value = word.partition("=")
        topic, _, partition = place.partition("/")
        number, _, metadata = value.partition(":")
        offset, _, epoch = number.partition("@")
        text, _, times = metadata.partition("*")
        shown = None if metadata == "null" else text * int(times or 1)
        topics.setdefault(topic, []).append((int(partition), int(offset), int(epoch or -1), shown))
    words.positional = []
    return fields | {
        "version": int(words.option("v", "9")),
        "retention_time_ms": duration_ms(retention) if retention else None,
        "topics": list(topics.items()),
        "topic_ids": _topic_ids(words),
    }


def _fetch(_cast: Cast, _actor: Actor, words: Words) -> dict[str, Any]:
    """`t/0 t/1`, or `all`; `stable` asks for require_stable, `ids=t:7` asks for t as the topic with id 7."""
    stable, everything = words.flag("stable"), words.flag("all")
    topics = _places(words)
    member = nullable(words.option("id", "null"))
    return {
        "member_id": member,
        "member_epoch": int(words.option("epoch", "-1")),
        "require_stable": stable,
        "topics": None if everything else topics,
        "topic_ids": _topic_ids(words),
    }


def _places(words: Words) -> list[tuple[str, list[int]]]:
    """`t/0 t/1 u/0`, used up."""
    topics: dict[str, list[int]] = {}
    for word in words.positional:
        topic, _, partition = word.partition("/")
        topics.setdefault(topic, []).append(int(partition))
    words.positional = []
    return list(topics.items())


def _topic_ids(words: Words) -> list[tuple[str, int]]:
    """`ids=t:7,u:8`."""
    pairs = (pair.partition(":") for pair in words.option("ids", "").split(",") if pair)
    return [(topic, int(topic_id)) for topic, _, topic_id in pairs]


def _offset_delete(_cast: Cast, _actor: Actor, words: Words) -> dict[str, Any]:
    """`t/0 t/1`."""
    return {"topics": _places(words)}


def _describe(_cast: Cast, _actor: Actor, words: Words) -> dict[str, Any]:
    return {"version": int(words.option("v", "6"))}


def _list(_cast: Cast, _actor: Actor, words: Words) -> dict[str, Any]:
    states, types = words.option("states", ""), words.option("types", "")
    return {
        "states": [state.replace("_", " ") for state in states.split(",") if state],
        "types": [kind for kind in types.split(",") if kind],
    }


BUILDERS: dict[str, Callable[[Cast, Actor, Words], dict[str, Any]]] = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "DescribeGroup": _describe,
    "ListGroups": _list,
    "DeleteGroup": lambda _cast, _actor, _words: {},
    "OffsetDelete": _offset_delete,
    "ConsumerGroupHeartbeat": consumer.heartbeat,
    "ConsumerGroupDescribe": lambda _cast, _actor, _words: {},
}


def build_record(cast: Cast, words: list[str], now_ms: int) -> dict[str, Any]:
    """A record to load, ids made up: `group g generation=7 protocol=consumer/range leader=$a members=$a:Sa:Xa`,
    `offset g t/0=5@3:meta`, or either with `tombstone`. `ago=2d` dates it back; `ago=none`: the record has no time."""
    kind, group_id, *rest = words
    if kind not in ("group", "offset"):
        raise StepError("only `group` and `offset` records can be replayed")
    options = Words(rest)
    if kind == "offset":
        return {"kind": kind, "group_id": nullable(group_id) or ""} | _offset_record(options, now_ms)
    value = None if options.flag("tombstone") else _group_value(cast, options, now_ms)
    options.end()
    return {"kind": kind, "group_id": group_id, "value": value}


def _stamp(words: Words, now_ms: int) -> int:
    ago = words.option("ago", "0ms")
    return -1 if ago == "none" else WALL_EPOCH_MS + now_ms - duration_ms(ago)


def _offset_record(words: Words, now_ms: int) -> dict[str, Any]:
    tombstone = words.flag("tombstone")
    committed_ms = _stamp(words, now_ms)
    expires = words.option("expires", "")
    (place,) = words.positional
    topic, _, rest = place.partition("/")
    partition, _, shown = rest.partition("=")
    number, _, metadata = shown.partition(":")
    offset, _, epoch = number.partition("@")
    words.positional = []
    words.end()
    value = {
        "offset": int(offset or -1),
        "leader_epoch": int(epoch or -1),
        "metadata": metadata,
        "commit_timestamp_ms": committed_ms,
        "expire_timestamp_ms": committed_ms + duration_ms(expires) if expires else None,
    }
    return {"topic": topic, "partition": int(partition), "value": None if tombstone else value}


def _group_value(cast: Cast, words: Words, now_ms: int) -> dict[str, Any]:
    protocol_type, _, protocol_name = words.option("protocol", "consumer/range").partition("/")
    members = [_stored_member(cast, member) for member in words.option("members", "").split(",") if member]
    leader = words.option("leader", "")
    return {
        "protocol_type": protocol_type.removeprefix("-"),
        "generation": int(words.option("generation", "1")),
        "protocol_name": protocol_name if members else None,
        "leader": cast.find_id(leader) if leader else None,
        "state_timestamp_ms": _stamp(words, now_ms),
        "members": members,
    }


def _stored_member(cast: Cast, text: str) -> dict[str, Any]:
    who, subscription, assignment, *timeouts = text.removeprefix("$").split(":")
    session, _, rebalance = (timeouts or [""])[0].partition("/")
    name, _, instance_id = who.partition("/")
    member_id = f"{name}-00000000-0000-4000-8000-{len(cast.names):012x}"
    cast.bind(cast.actor(name), member_id)
    return {
        "member_id": member_id,
        "instance_id": instance_id or None,
        "client_id": name,
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": DEFAULT_REBALANCE_MS if not rebalance else _timeout_ms(rebalance),
        "session_timeout_ms": DEFAULT_SESSION_MS if not session else _timeout_ms(session),
        "subscription": metadata_bytes(subscription),
        "assignment": assignment.encode(),
    }


def _timeout_ms(text: str) -> int:
    return -1 if text == "none" else duration_ms(text)
