"""A record batch of a transaction in bytes, as Produce carries it: magic 2, uncompressed, one record."""

from __future__ import annotations

import struct

TRANSACTIONAL = 0x10
CASTAGNOLI = 0x82F63B78


def crc32c(data: bytes) -> int:
    """The checksum of a batch, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def batch(producer_id: int, producer_epoch: int, sequence: int, attributes: int = TRANSACTIONAL) -> bytes:
    """One record with the value `v` and the timestamp 1 s."""
    record = b"\x00\x00\x00\x01\x02v\x00"  # attributes, two deltas, no key, the value, no headers
    counted = struct.pack(">hiqqqhii", attributes, 0, 1_000, 1_000, producer_id, producer_epoch, sequence, 1)
    summed = counted + bytes([2 * len(record)]) + record
    return struct.pack(">qiibI", 0, 9 + len(summed), -1, 2, crc32c(summed)) + summed
