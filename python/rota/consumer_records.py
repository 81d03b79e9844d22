"""Records of consumer groups (KIP-848) in a log: key types 3 to 8 and 16 of `__consumer_offsets`."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from rota import _rota
from rota.why.words import counted, printable

UUID_BYTES = 16

#: The folds of these kinds are lists by member id or pattern, under this name.
LISTS = {"member": "members", "target": "targets", "assignment": "assignments", "pattern": "patterns"}
#: The other kinds, by the name of their fold.
SINGLES = {"epoch": "group_epoch", "target epoch": "target_epoch"}


class ConsumerGroupRecord(NamedTuple):
    """One record of a consumer group."""

    group_id: str
    kind: str
    """`epoch`, `member`, `target epoch`, `target`, `assignment`, `pattern`, or `partition metadata`."""
    name: str | None
    """The member id or the pattern that it is about."""
    value: Any
    """None: a tombstone."""

    def fields(self) -> dict[str, Any]:
        """The fields of the record, for JSON."""
        name = {} if self.name is None else {"pattern" if self.kind == "pattern" else "member_id": self.name}
        return {"type": f"consumer group {self.kind}", "group": self.group_id, **name, "value": self.value}

    def text(self) -> str:
        """`orders, member m1: epoch 3, Stable, owns 4 partitions`."""
        about = "" if self.name is None else f", {'pattern' if self.kind == 'pattern' else 'member'} "
        return f"{printable(self.group_id)}{about}{printable(self.name or '')}{self._what()}"

    def _what(self) -> str:
        if self.value is None:
            return f": {self.kind} deleted"
        match self.kind:
            case "epoch":
                return f": group epoch {self.value['epoch']}"
            case "target epoch":
                return f": target assignment of epoch {self.value['epoch']}"
            case "target":
                return f": target of {_count(self.value['partitions'])}"
            case "member":
                return f": {_subscription(self.value)}"
            case "assignment":
                return f": {_assignment(self.value)}"
            case "pattern":
                return f": matches {', '.join(map(printable, self.value['topics'])) or 'no topic'}"
            case _:
                return f": {self.kind}"


def consumer_record(record: _rota.Record) -> _rota.Record | ConsumerGroupRecord:
    """The record, in its own form if it is of a consumer group. Raises RecordError."""
    if not isinstance(record, _rota.UnknownRecord):
        return record
    decoded = _rota.consumer_record(record.key, record.value)
    if decoded is None:
        return record
    group_id, kind, name, value = decoded
    return ConsumerGroupRecord(group_id, kind, name, _with_ids(value))


def fold(state: dict[str, Any] | None, record: ConsumerGroupRecord) -> dict[str, Any] | None:
    """What a log tells of a consumer group after one more record; None: nothing is left of it."""
    folded = {**(state or {})}
    if record.kind in SINGLES:
        folded[SINGLES[record.kind]] = record.value
    elif record.kind in LISTS and record.name is not None:
        named = {**folded.get(LISTS[record.kind], {}), record.name: record.value}
        folded[LISTS[record.kind]] = {name: value for name, value in named.items() if value is not None}
    return folded if any(folded.values()) else None


def _with_ids(value: Any) -> Any:
    """The value with topic ids as Kafka prints them."""
    if not isinstance(value, dict):
        return value
    return {_topic_id(key) if isinstance(key, int) else key: _with_ids(part) for key, part in value.items()}


def _topic_id(topic_id: int) -> str:
    return base64.urlsafe_b64encode(topic_id.to_bytes(UUID_BYTES)).decode().rstrip("=")


def _count(partitions: dict[str, list[int]]) -> str:
    return counted(sum(len(indexes) for indexes in partitions.values()), "partition")


def _subscription(value: dict[str, Any]) -> str:
    topics = [printable(topic) for topic in value["topics"]]
    wanted = [*topics, *([f"pattern {printable(value['pattern'])}"] if value["pattern"] else [])]
    instance = f", instance {printable(value['instance_id'])}" if value["instance_id"] else ""
    protocol = "" if value["classic"] is None else ", classic protocol"
    return f"client {printable(value['client_id'])}{instance}{protocol}, subscribes to {', '.join(wanted) or 'nothing'}"


def _assignment(value: dict[str, Any]) -> str:
    revoking = f", has to give up {_count(value['revoking'])}" if value["revoking"] else ""
    return f"epoch {value['epoch']}, {value['state']}, owns {_count(value['assigned'])}{revoking}"
