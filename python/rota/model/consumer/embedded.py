"""Subscriptions and assignments of classic members, as bytes of the embedded protocol (classic §18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rota.model.consumer.data import Partition, Topic
from rota.model.vote import Bytes

NEWEST = 3
Named = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Subscription:
    """What a member's metadata says. Version 0 has no owned partitions (§18.2)."""

    version: int
    topics: tuple[str, ...]
    owned: Named = ()
    rack_id: str | None = None


def subscription(data: bytes) -> Subscription:
    """Raises ValueError for bytes that are none."""
    reader = Bytes(data)
    version = _version(reader)
    topics = tuple(reader.text() for _ in range(reader.count()))
    _user_data(reader)
    owned = _partitions(reader) if version >= 1 else ()
    if version >= 2:
        reader.number(4)  # the generation of the owned partitions
    return Subscription(version, topics, owned, reader.text_or_null() if version >= NEWEST else None)


def assigned(data: bytes) -> Named:
    """The partitions of an assignment; none of an empty one (§16.2). Raises ValueError."""
    if not data:
        return ()
    reader = Bytes(data)
    _version(reader)
    found = _partitions(reader)
    _user_data(reader)
    return found


def assignment(metadata: bytes, partitions: Iterable[Partition], topics: Mapping[str, Topic]) -> bytes:
    """An assignment in the version of the subscription, without topics that are gone (§18.3)."""
    names = {topic.topic_id: topic.name for topic in topics.values()}
    places = sorted((names[topic_id], index) for topic_id, index in partitions if topic_id in names)
    found: dict[str, list[int]] = {}
    for name, index in places:
        found.setdefault(name, []).append(index)
    octets = subscription(metadata).version.to_bytes(2) + len(found).to_bytes(4)
    for name, indexes in found.items():
        octets += len(name.encode()).to_bytes(2) + name.encode() + len(indexes).to_bytes(4)
        octets += b"".join(index.to_bytes(4) for index in indexes)
    return octets + b"\xff\xff\xff\xff"


def _version(reader: Bytes) -> int:
    version = reader.number(2)
    if version < 0:
        raise ValueError("a negative version")
    return min(version, NEWEST)


def _user_data(reader: Bytes) -> None:
    reader.take(max(reader.number(4), 0))


def _partitions(reader: Bytes) -> Named:
    found = []
    for _ in range(reader.count()):
        topic = reader.text()
        found += [(topic, reader.number(4)) for _ in range(reader.count())]
    return tuple(found)
