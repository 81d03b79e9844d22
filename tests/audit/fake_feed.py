"""A topic in memory, as a broker serves it to `rota.audit.follow.tail`; and records for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rota import _rota
from rota.audit.follow.tail import Position, Tail
from rota.audit.rows import ARROW_SCHEMA
from rota.groups.cluster import Bounds
from rota.groups.errors import GroupsError
from rota.groups.fetching import At, Fetched, Topic
from rota.protocol import GroupRecord, GroupValue, OffsetRecord, OffsetValue

TOPIC_ID = "0123456789abcdef0123456789abcdef"
Record = tuple[bytes, bytes | None]


def commit(group: str, offset: int | None) -> Record:
    """An offset of `orders-0`; None: a tombstone."""
    record = OffsetRecord(group, "orders", 0, None if offset is None else OffsetValue(offset))
    return record.key_bytes(), record.value_bytes()


def group_record(group: str, generation: int | None) -> Record:
    """A group without members; None: a tombstone."""
    record = GroupRecord(group, None if generation is None else GroupValue("consumer", generation))
    return record.key_bytes(), record.value_bytes()


def other_record(record_type: int, group: str, value: bytes | None = b"value") -> Record:
    """A record that nothing is checked of, such as type 11: of a share group, 17: of a streams group."""
    return record_type.to_bytes(2, "big") + len(group).to_bytes(2, "big") + group.encode() + b"rest", value


@dataclass
class Log:
    """One partition: its batches, by base offset."""

    batches: dict[int, list[Record]] = field(default_factory=dict)
    first: int = 0

    @property
    def end(self) -> int:
        return max((base + len(records) for base, records in self.batches.items()), default=self.first)

    def append(self, *records: Record) -> None:
        """One batch."""
        self.batches[self.end] = list(records)

    def sent(self, offset: int, bytes_max: int) -> bytes:
        """Whole batches, at least one, and half of the next one."""
        found = b""
        for base, records in sorted(self.batches.items()):
            if base + len(records) <= offset:
                continue
            batch = _rota.write_batch(base, [(base, key, value) for key, value in records])
            if found and len(found) + len(batch) > bytes_max:
                return found + batch[: len(batch) // 2]
            found += batch
        return found


class FakeFeed:
    """Implements `Feed`."""

    def __init__(self, *logs: Log) -> None:
        self.logs = list(logs)
        self.id = TOPIC_ID
        self.is_there = True
        self.is_diverging = False
        self.errors: dict[int, Fetched] = {}
        """By partition: what is sent instead of its batches."""
        self.leaderless: tuple[int, ...] = ()
        self.failure: GroupsError | None = None
        """What every question raises."""
        self.closed = 0

    def topic(self) -> Topic | None:
        if self.failure is not None:
            raise self.failure
        leaders = {partition: 1 for partition in range(len(self.logs)) if partition not in self.leaderless}
        return Topic(self.id, leaders, self.leaderless) if self.is_there else None

    def bounds(self, partition: int) -> Bounds | None:
        return Bounds(self.logs[partition].first, self.logs[partition].end)

    def stable_ends(self, topic: Topic) -> dict[int, int]:
        assert topic.id == self.id
        return {partition: log.end for partition, log in enumerate(self.logs)}

    def fetch(self, topic: Topic, places: Mapping[int, At], bytes_max: int) -> dict[int, Fetched]:
        assert topic.id == self.id
        return {partition: self._answer(partition, at, bytes_max) for partition, at in places.items()}

    def _answer(self, partition: int, at: At, bytes_max: int) -> Fetched:
        log = self.logs[partition]
        if partition in self.errors:
            return self.errors[partition]
        if not log.first <= at.offset <= log.end:
            return Fetched(error="OffsetOutOfRange")
        return Fetched(log.sent(at.offset, bytes_max), is_diverging=self.is_diverging)

    def close(self) -> None:
        self.closed += 1


START = Position()


def read_all(tail: Tail, start: Position = START, goal: dict[int, int] | None = None) -> tuple[pa.Table, Position]:
    """All rows behind a position, and where they end."""
    batches: list[pa.RecordBatch] = []
    while (end := tail.reach(start, goal)) != start:
        chunks = tail.chunks(start, end)
        if not chunks and end.following == start.following:
            return pa.Table.from_batches(batches, ARROW_SCHEMA), end
        batches += [batch for chunk in chunks for batch in chunk.rows()]
        start = end
    return pa.Table.from_batches(batches, ARROW_SCHEMA), start
