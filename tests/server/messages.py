"""The topic APIs by hand, in layouts that are not flexible: Produce v8, Fetch v4, DeleteTopics v3."""

from __future__ import annotations

from dataclasses import dataclass

from harness.raw import FETCH, PRODUCE, Reader, blob, frame, i8, i16, i32, i64, string
from rota.conform.batches import crc32c

DELETE_TOPICS = 20

NONE, UNKNOWN_TOPIC_OR_PARTITION = 0, 3

NOW_MS = 1_700_000_000_000


def batch(value: bytes) -> bytes:
    """A batch of one record without a key; `value` has less than 50 bytes."""
    record = b"\0" + b"\0" + b"\0" + b"\x01" + bytes([len(value) * 2]) + value + b"\0"
    records = bytes([len(record) * 2]) + record
    summed = i16(0) + i32(0) + i64(NOW_MS) * 2 + i64(-1) + i16(-1) + i32(-1) + i32(1) + records
    return i64(0) + i32(9 + len(summed)) + i32(-1) + i8(2) + crc32c(summed).to_bytes(4, "big") + summed


def produce(partition: int, records: bytes, *, acks: int = -1, topic: str = "t", correlation: int = 7) -> bytes:
    data = i32(1) + i32(partition) + blob(records)
    body = string(None) + i16(acks) + i32(5_000) + i32(1) + string(topic) + data
    return frame(PRODUCE, 8, body, correlation=correlation)


def produced(answer: Reader) -> tuple[int, int]:
    """(error, base offset) of a Produce of one partition."""
    assert (answer.i32(), answer.string(), answer.i32()) == (1, "t", 1)
    answer.i32()
    return answer.i16(), int.from_bytes(answer.take(8), "big", signed=True)


def fetch(*partitions: int, offset: int = 0, max_wait_ms: int = 20_000, min_bytes: int = 1) -> bytes:
    wanted = b"".join(i32(partition) + i64(offset) + i32(1 << 20) for partition in partitions)
    body = i32(-1) + i32(max_wait_ms) + i32(min_bytes) + i32(1 << 20) + i8(0)
    return frame(FETCH, 4, body + i32(1) + string("t") + i32(len(partitions)) + wanted)


@dataclass(frozen=True)
class Fetched:
    """One partition of a Fetch answer."""

    partition: int
    error: int
    high_watermark: int
    records: bytes


def fetched(answer: Reader) -> list[Fetched]:
    answer.i32()
    assert (answer.i32(), answer.string()) == (1, "t")
    return [_fetched_partition(answer) for _ in range(answer.i32())]


def _fetched_partition(answer: Reader) -> Fetched:
    partition, error = answer.i32(), answer.i16()
    high_watermark = int.from_bytes(answer.take(8), "big", signed=True)
    answer.take(8)
    # Aborted transactions: an empty list where Kafka does not look at the partition, else null.
    assert answer.i32() == (0 if error == UNKNOWN_TOPIC_OR_PARTITION else -1)
    return Fetched(partition, error, high_watermark, answer.blob())


def delete_topic(topic: str) -> bytes:
    return frame(DELETE_TOPICS, 3, i32(1) + string(topic) + i32(5_000))


def deleted(answer: Reader) -> int:
    """The error of deleting one topic."""
    answer.i32()
    assert answer.i32() == 1
    answer.string()
    return answer.i16()
