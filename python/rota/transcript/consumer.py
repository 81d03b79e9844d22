"""The newer protocol in transcripts: its requests from the words of a step, its answers and records as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rota.transcript.cast import Actor, Cast, duration_ms, duration_text

if TYPE_CHECKING:
    from rota.transcript.requests import Words

Fields = dict[str, Any]
#: What a step may say instead of the API's name.
SHORT = {"beat": "ConsumerGroupHeartbeat", "look": "ConsumerGroupDescribe"}
DEFAULT_REBALANCE_MS = 60_000
USUAL_INTERVAL_MS = 5_000
NULLABLE = {"null": None, '""': ""}


def heartbeat(cast: Cast, actor: Actor, words: Words) -> Fields:
    """`m1 beat join foo,bar` is a full join. `m1 beat epoch=2 owns=foo:0-2 names=foo`: what is not said is null, but
    for the epoch, which is the last that m1 received."""
    joins = words.flag("join")
    names = words.option("names", "null")
    if joins and words.positional:
        names = words.positional.pop(0)
    given = {
        "instance_id": words.option("instance", "null"),
        "rack_id": words.option("rack", "null"),
        "subscribed_topic_regex": words.option("pattern", "null"),
        "server_assignor": words.option("assignor", "null"),
    }
    return {name: NULLABLE.get(text, text) for name, text in given.items()} | {
        "member_id": cast.find_id(_text(words.option("id", actor.name))),
        "member_epoch": int(words.option("epoch", "0" if joins else str(actor.generation))),
        "rebalance_timeout_ms": duration_ms(words.option("rebalance", f"{DEFAULT_REBALANCE_MS if joins else -1}ms")),
        "subscribed_topic_names": _listed(names),
        "topic_partitions": partitions(words.option("owns", "none" if joins else "null")),
        "client_id": "c",
        "version": int(words.option("v", "1")),
    }


def _text(text: str) -> str:
    return NULLABLE.get(text, text) or ""


def _listed(text: str) -> list[str] | None:
    if text == "null":
        return None
    return [] if text == "none" else [_text(name) for name in text.split(",")]


def partitions(text: str) -> list[tuple[str, list[int]]] | None:
    """`foo:0-2+5,bar:0`, `none`, `null`."""
    if text == "null":
        return None
    found = []
    for part in [] if text == "none" else text.split(","):
        topic, _, places = part.partition(":")
        ends = [span.partition("-") for span in places.split("+")]
        found.append((topic, [i for low, _, high in ends for i in range(int(low), int(high or low) + 1)]))
    return found


def shown(topics: Iterable[tuple[str, Iterable[int]]]) -> str:
    """Topics and partitions as text."""
    return ",".join(f"{topic}:{spans(indexes)}" for topic, indexes in sorted(topics)) or "none"


def spans(indexes: Iterable[int]) -> str:
    """`0-2+5`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return "+".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def heartbeat_answer(cast: Cast, fields: Fields) -> str:
    """`NONE epoch=2 assignment=foo:0-5`. Interval and member id are shown where they are unusual, an id that the
    subject made up as `?`.
    """
    if fields["error"] != "NONE":
        unusual = [n for n in ("member_id", "member_epoch", "heartbeat_interval_ms", "assignment") if fields[n]]
        return " ".join([_refused(cast, fields), *(f"{name}={fields[name]}" for name in unusual)])
    line = f"NONE epoch={fields['member_epoch']}"
    if fields["member_id"] not in cast.actors:
        line += " member=?"
    usual_ms = USUAL_INTERVAL_MS if fields["member_epoch"] >= 0 else 0
    if fields["heartbeat_interval_ms"] != usual_ms:
        line += f" interval={duration_text(fields['heartbeat_interval_ms'])}"
    return line + ("" if fields["assignment"] is None else f" assignment={shown(fields['assignment'])}")


def _refused(cast: Cast, fields: Fields) -> str:
    """The error and its message; the reason for an invalid pattern is that of the library that parses it."""
    error, message = str(fields["error"]), fields["error_message"]
    for member_id, name in cast.names.items():
        message = message and message.replace(member_id, name)
    return error if message is None or error == "INVALID_REGULAR_EXPRESSION" else f'{error} "{message}"'


def describe_answer(cast: Cast, fields: Fields) -> str:
    """`NONE Stable 3/3 uniform m1:3[foo](foo:0-2 -> foo:0-2)`: group and target epoch, then per member its epoch,
    subscription, assignment and target."""
    if fields["error"] != "NONE":
        return _refused(cast, fields)
    words = [f"NONE {fields['state']} {fields['epoch']}/{fields['target_epoch']} {fields['assignor']}"]
    for member in sorted(fields["members"], key=lambda member: cast.show_id(member["member_id"])):
        name = cast.show_id(member["member_id"]) + (f"/{member['instance_id']}" if member["instance_id"] else "")
        name += f"@{member['rack_id']}" if member["rack_id"] else ""
        subscription = "+".join(sorted(member["names"])) + (f"~{member['pattern']}" if member["pattern"] else "")
        held = f"{shown(member['assigned'])} -> {shown(member['target'])}"
        words.append(f"{name}:{member['epoch']}[{subscription}]({held})")
    return " ".join(words)


def record(said: Fields) -> str:
    """One record of a consumer group: its kind, whose it is, and what it says."""
    kind, body = said["kind"].removeprefix("consumer_"), said["value"]
    line = " ".join(word for word in (kind, said["name"]) if word)
    return f"{line} tombstone" if body is None else f"{line} {VALUES[kind](body)}"


def _current(body: Fields) -> str:
    line = f"{body['epoch']}/{body['previous']} {body['state']} {_held(body['assigned'])}"
    return line + (f" revoking {_held(body['revoking'])}" if body["revoking"] else "")


def _member(body: Fields) -> str:
    words = ["+".join(body["names"]) or "none"]
    words += [f"{name}={body[name]}" for name in ("instance_id", "rack_id", "pattern", "assignor") if body[name]]
    if body["rebalance_timeout_ms"] != DEFAULT_REBALANCE_MS:
        words.append(f"rebalance={duration_text(body['rebalance_timeout_ms'])}")
    return " ".join(words)


def _held(held: list[tuple[str, int, int]]) -> str:
    """`foo:0-2@2`: partitions and their assignment epochs."""
    parts: dict[tuple[str, int], list[int]] = {}
    for topic, index, epoch in held:
        parts.setdefault((topic, epoch), []).append(index)
    return ",".join(f"{topic}:{spans(found)}@{epoch}" for (topic, epoch), found in sorted(parts.items())) or "none"


VALUES: dict[str, Callable[[Fields], str]] = {
    "group": lambda body: f"{body['epoch']}" + ("" if body["has_hash"] else " without hash"),
    "member": _member,
    "target-epoch": lambda body: f"{body['epoch']}" + ("" if body["timestamp_ms"] else " at 0"),
    "target": lambda body: shown(body["partitions"]),
    "current": _current,
    "pattern": lambda body: "+".join(body["topics"]) or "none",
}
