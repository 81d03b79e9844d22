"""A record batch in bytes, as Produce carries it: magic 2, uncompressed."""

from __future__ import annotations

import struct

TRANSACTIONAL = 0x10
CONTROL = 0x20
"""Attributes of a batch: of a transaction; with a marker."""
CASTAGNOLI = 0x82F63B78


def crc32c(data: bytes) -> int:
    """The checksum of a batch, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def batch(
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    attributes: int = TRANSACTIONAL,
    count: int = 1,
    timestamp_ms: int = 1_000,
    value: bytes = b"v",
) -> bytes:
    """Records with the same value, of at most 57 bytes."""
    # Length, attributes, two deltas, no key, the value, no headers. Lengths and deltas are less than 64.
    end = b"\x01" + bytes([2 * len(value)]) + value + b"\x00"
    length = bytes([2 * (3 + len(end))])
    records = b"".join(length + b"\x00\x00" + bytes([2 * delta]) + end for delta in range(count))
    times = struct.pack(">hiqq", attributes, count - 1, timestamp_ms, timestamp_ms)
    head = times + struct.pack(">qhi", producer_id, producer_epoch, sequence)
    summed = head + struct.pack(">i", count) + records
    return struct.pack(">qiibI", 0, 9 + len(summed), -1, 2, crc32c(summed)) + summed
