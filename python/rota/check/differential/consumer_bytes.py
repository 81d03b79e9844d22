"""The records of consumer groups from their bytes (docs/consumer-protocol.md §14.1), as the model has them.

It shares no code with the core's encoder. A group record's metadata is here the hash that stands for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from rota.model.consumer import records as log
from rota.model.consumer.data import STABLE, UNRELEASED, UNREVOKED, Classic, Partition

T = TypeVar("T")
STATES = {0: STABLE, 1: UNREVOKED, 2: UNRELEASED}


class Malformed(AssertionError):  # noqa: N818 - it is what is looked for
    """The bytes are no record of a consumer group."""


class Reader:
    """The fields of a record, in order."""

    def __init__(self, octets: bytes) -> None:
        self.octets, self.at = octets, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.octets):
            raise Malformed(f"{self.octets.hex()} ends at {len(self.octets)}, {count} bytes are wanted at {self.at}")
        self.at += count
        return self.octets[self.at - count : self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack(f">{form}", self.take(struct.calcsize(form)))[0])

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            (octet,) = self.take(1)
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return value
            shift += 7

    def text(self) -> str | None:
        length = self.varint()
        return None if length == 0 else self.take(length - 1).decode()

    def word(self) -> str:
        text = self.text()
        if text is None:
            raise Malformed(f"{self.octets.hex()}: null at {self.at}")
        return text

    def array(self, each: Callable[[], T]) -> list[T]:
        return [each() for _ in range(self.varint() - 1)]

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}

    def end(self) -> None:
        if self.at != len(self.octets):
            raise Malformed(f"{self.octets.hex()}: {len(self.octets) - self.at} bytes are left")


def decoded(key: bytes, value: bytes | None) -> log.ConsumerRecord:
    """One record."""
    names = Reader(key)
    kind = names.number("h")
    if kind not in VALUES:
        raise Malformed(f"key type {kind}")
    group_id = names.take(names.number("H")).decode()
    name = names.take(names.number("H")).decode() if kind in (log.MEMBER, log.TARGET, log.CURRENT, log.PATTERN) else ""
    names.end()
    if value is None:
        return log.ConsumerRecord(kind, group_id, name, None)
    fields = Reader(value)
    if fields.number("h") != 0:
        raise Malformed(f"the version of {value.hex()}")
    found = VALUES[kind](fields)
    fields.end()
    return log.ConsumerRecord(kind, group_id, name, found)


def _group(r: Reader) -> Any:
    epoch, tags = r.number("i"), r.tags()
    return log.GroupEpoch(epoch, int.from_bytes(tags[0], "big", signed=True) if tags else 0)  # type: ignore[arg-type]


def _member(r: Reader) -> log.Subscription:
    instance_id, rack_id, client_id, client_host = r.text(), r.text(), r.word(), r.word()
    names, pattern = tuple(r.array(r.word)), r.word()
    value = log.Subscription(
        instance_id, rack_id, client_id, client_host, names, pattern, r.number("i"), assignor=r.text()
    )
    classic = Reader(r.tags().get(0, b""))
    if classic.number("b") == 0:
        classic.end()
        return value
    session_timeout_ms = classic.number("i")
    protocols = tuple(classic.array(lambda: (classic.word(), _protocol_metadata(classic))))
    classic.tags()
    classic.end()
    return replace(value, classic=Classic(session_timeout_ms, protocols))


def _protocol_metadata(r: Reader) -> bytes:
    metadata = r.take(r.varint() - 1)
    r.tags()
    return metadata


def _target_epoch(r: Reader) -> log.TargetEpoch:
    epoch, tags = r.number("i"), r.tags()
    return log.TargetEpoch(epoch, int.from_bytes(tags[0], "big") if tags else 0)


def _topic(r: Reader) -> tuple[list[Partition], dict[int, bytes]]:
    topic_id = int.from_bytes(r.take(16), "big")
    partitions = [(topic_id, index) for index in r.array(lambda: r.number("i"))]
    return partitions, r.tags()


def _target(r: Reader) -> log.Target:
    partitions = [partition for found, _ in r.array(lambda: _topic(r)) for partition in found]
    r.tags()
    return log.Target(tuple(partitions))


def _held(r: Reader) -> tuple[tuple[Partition, int], ...]:
    held: list[tuple[Partition, int]] = []
    for partitions, tags in r.array(lambda: _topic(r)):
        epochs = Reader(tags[0])
        granted = epochs.array(lambda one=epochs: one.number("i"))  # type: ignore[misc]
        held += zip(partitions, granted, strict=True)
    return tuple(held)


def _current(r: Reader) -> log.Current:
    epoch, previous, state = r.number("i"), r.number("i"), r.number("b")
    value = log.Current(epoch, previous, STATES[state], _held(r), _held(r))
    r.tags()
    return value


def _pattern(r: Reader) -> log.Pattern:
    topics = tuple(r.array(r.word))
    r.take(16)
    r.tags()
    return log.Pattern(topics)


VALUES: dict[int, Callable[[Reader], Any]] = {
    log.GROUP: _group,
    log.TOPICS: _group,
    log.MEMBER: _member,
    log.TARGET_EPOCH: _target_epoch,
    log.TARGET: _target,
    log.CURRENT: _current,
    log.PATTERN: _pattern,
}
