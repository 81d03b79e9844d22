"""What `rota groups` asks of a cluster, through kafka-python; its errors as one kind, with words for people."""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.errors import GroupIdNotFoundError, KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from rota._rota import RotaError

Partition = tuple[str, int]
"""Topic and index."""

MESSAGE_WAIT_S = 5.0
"""How long the messages at the committed offsets are waited for: their age is the lag in seconds."""
MEMBERLESS = ("Empty", "Dead")


class GroupsError(RotaError):
    """What a broker refused, or why it could not be asked: whose fault, and what to do."""


@dataclass(frozen=True)
class Listed:
    """One line of a list of groups."""

    group: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True)
class Member:
    """One member of a described group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[Partition]


@dataclass(frozen=True)
class Described:
    """One group with its members."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    members: list[Member]


@dataclass(frozen=True)
class Bounds:
    """The first and the next offset of a partition."""

    first: int
    end: int


def read_config(path: Path) -> dict[str, Any]:
    """A properties file as settings of the client library: `security.protocol=SASL_SSL` and so on, its own names."""
    settings: dict[str, Any] = {}
    known: Mapping[str, Any] = KafkaAdminClient.DEFAULT_CONFIG
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        key = name.replace(".", "_")
        if not equals or key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f": did you mean {near[0].replace('_', '.')}?" if near else ""
            raise GroupsError(f"{path}:{number}: `{text}` is no setting of the client library{hint}")
        settings[key] = _typed(known[key], value)
    return settings


def _typed(default: Any, value: str) -> Any:
    if isinstance(default, bool):
        return value.lower() == "true"
    return int(value) if isinstance(default, int) else value


@contextlib.contextmanager
def asking(what: str) -> Iterator[None]:
    """Turns the client library's errors into one line."""
    try:
        yield
    except (KafkaError, OSError) as error:
        name = type(error).__name__.removesuffix("Error")
        raise GroupsError(f"{what}: {name}: {error}" if str(error) else f"{what}: {name}") from error


def _at(partition: Partition) -> Any:
    return TopicPartition(*partition)


class Cluster:
    """A connection to a cluster, for as long as the `with` lasts."""

    def __init__(
        self, bootstrap_servers: str, config: Mapping[str, Any] | None = None, timeout_ms: int = 10_000
    ) -> None:
        self._config = {
            "bootstrap_servers": bootstrap_servers,
            "client_id": "rota-groups",
            "request_timeout_ms": timeout_ms,
            "bootstrap_timeout_ms": timeout_ms,
            **(config or {}),
        }
        with asking(f"no broker answers at {bootstrap_servers}: is it up, and is that its address?"):
            self._admin = KafkaAdminClient(**self._config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listed]:
        """All groups, by name; only those in one of the states, of one of the types."""
        with asking("the groups could not be listed"):
            found = self._admin.list_groups(states_filter=list(states) or None, types_filter=list(types) or None)
        lines = [
            Listed(one["group_id"], one.get("group_state", ""), one.get("group_type", ""), one["protocol_type"])
            for one in found
        ]
        return sorted(lines, key=lambda line: line.group)

    def describe(self, groups: Sequence[str]) -> list[Described]:
        """These groups with their members; a group that does not exist is an error that names it."""
        with asking(f"{', '.join(groups)} could not be described"):
            found = self._admin.describe_groups(list(groups)) if groups else {}
        return [self._described(found[group]) for group in groups]

    @staticmethod
    def _described(found: Mapping[str, Any]) -> Described:
        group = found["group_id"]
        if found["error"] is not None:
            if "GroupIdNotFound" in found["error"]:
                raise GroupsError(f"there is no group `{group}`")
            raise GroupsError(f"group `{group}` could not be described: {found['error']}")
        if found["group_state"] == "Dead":
            raise GroupsError(f"there is no group `{group}`")
        members = []
        for one in found["members"]:
            assignment = one["member_assignment"]
            parts = assignment.get("assigned_partitions", []) if isinstance(assignment, Mapping) else []
            held = sorted((part["topic"], index) for part in parts for index in part["partitions"])
            members.append(
                Member(one["member_id"], one.get("group_instance_id"), one["client_id"], one["client_host"], held)
            )
        return Described(group, found["group_state"], found["protocol_type"], found["protocol_data"], members)

    def committed(self, group: str) -> dict[Partition, int]:
        """Every committed offset of a group."""
        with asking(f"the offsets of group `{group}` could not be read"):
            found = self._admin.list_group_offsets({group: None})[group]
        return {(at.topic, at.partition): one.offset for at, one in sorted(found.items()) if one.offset >= 0}

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions of topics; one that does not exist is an error that names it."""
        wanted = sorted(set(topics))
        with asking("the topics could not be read"):
            found = {one["name"]: one for one in self._admin.describe_topics(wanted)} if wanted else {}
        absent = [topic for topic in wanted if not found.get(topic, {}).get("partitions")]
        if absent:
            raise GroupsError(f"there is no topic {', '.join(f'`{topic}`' for topic in absent)}")
        return {topic: sorted(one["partition_index"] for one in found[topic]["partitions"]) for topic in wanted}

    def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, Bounds]:
        """First and next offset of partitions; those that are gone are left out."""
        wanted = list(partitions)
        first, end = self._offsets(wanted, OffsetSpec.EARLIEST), self._offsets(wanted, OffsetSpec.LATEST)
        return {at: Bounds(first[at], end[at]) for at in wanted if at in first and at in end}

    def at_time(self, partitions: Iterable[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The first offset at or after a time; the end of a partition without such a message."""
        wanted = list(partitions)
        found = self._offsets(wanted, timestamp_ms)
        end = self._offsets(wanted, OffsetSpec.LATEST)
        return {at: found[at] if found.get(at, -1) >= 0 else end[at] for at in wanted}

    def _offsets(self, partitions: Sequence[Partition], spec: Any) -> dict[Partition, int]:
        with asking("the ends of partitions could not be read"):
            known = {topic for topic in self._admin.list_topics()}
            asked = {_at(partition): spec for partition in partitions if partition[0] in known}
            found = self._admin.list_partition_offsets(asked) if asked else {}
        return {(at.topic, at.partition): one.offset for at, one in found.items()}

    def ages(self, offsets: Mapping[Partition, int]) -> dict[Partition, float]:
        """How old the messages at these offsets are, in seconds; those that do not come in time are left out."""
        if not offsets:
            return {}
        config = {key: value for key, value in self._config.items() if key in KafkaConsumer.DEFAULT_CONFIG}
        with asking("the messages at the committed offsets could not be read"):
            consumer = KafkaConsumer(
                **config, enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=1
            )
            try:
                return self._ages(consumer, dict(offsets))
            finally:
                consumer.close()

    @staticmethod
    def _ages(consumer: Any, left: dict[Partition, int]) -> dict[Partition, float]:
        found = {}
        deadline = time.monotonic() + MESSAGE_WAIT_S
        while left and time.monotonic() < deadline:
            consumer.assign([_at(partition) for partition in left])
            for partition, offset in left.items():
                consumer.seek(_at(partition), offset)
            for at, messages in consumer.poll(1_000).items():
                found[at.topic, at.partition] = max(0.0, time.time() - messages[0].timestamp / 1_000)
                left.pop((at.topic, at.partition), None)
        return found

    def alter(self, group: str, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
        """Commits offsets for a group without members; what was refused, by partition."""
        with asking(f"the offsets of group `{group}` could not be changed"):
            told = {_at(partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}
            return self._refused(self._admin.alter_group_offsets(group, told))

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, str]:
        """Deletes committed offsets; what was refused, by partition."""
        with asking(f"the offsets of group `{group}` could not be deleted"):
            return self._refused(self._admin.delete_group_offsets(group, [_at(partition) for partition in partitions]))

    @staticmethod
    def _refused(codes: Mapping[Any, type[Exception]]) -> dict[Partition, str]:
        refused = {at: code for at, code in codes.items() if code is not NoError}
        return {(at.topic, at.partition): code.__name__.removesuffix("Error") for at, code in refused.items()}

    def delete(self, groups: Sequence[str]) -> dict[str, str]:
        """Deletes groups with their offsets; what was refused, by group."""
        with asking(f"{', '.join(groups)} could not be deleted"):
            codes = self._admin.delete_groups(list(groups))
        return {group: code.removesuffix("Error") for group, code in codes.items() if code != "OK"}

    def remove(self, group: str, members: Sequence[tuple[str | None, str | None]], reason: str) -> dict[str, str]:
        """Removes members, by (member id, instance id); what was refused, by whichever id was given."""
        told = [MemberToRemove(member_id=one, group_instance_id=other, reason=reason) for one, other in members]
        with asking(f"members of group `{group}` could not be removed"):
            codes = self._admin.remove_group_members(group, told)
        refused = {one: code for one, code in codes.items() if code is not NoError}
        return {
            one.group_instance_id or one.member_id: code.__name__.removesuffix("Error") for one, code in refused.items()
        }


__all__ = ["Bounds", "Cluster", "Described", "GroupIdNotFoundError", "GroupsError", "Listed", "Member", "read_config"]
