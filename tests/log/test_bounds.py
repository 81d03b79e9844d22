"""What a directory has and what a start reads is bounded by what is alive in it, not by what was ever written."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer

import rota
from harness import peer
from harness.raw import NONE, Connection, Reader
from rota._rota import DataLog
from rota.log import OFFSETS_TOPIC, records
from tests.clients.eventually import eventually

SEGMENT_BYTES = 65_536
PARTITIONS = 2
KEYS = 50
OFFSETS = 200_000
AHEAD = 20
# Segments: one that is written, what was not yet compacted, and as much again while a compaction writes, which on a
# busy machine is behind by some. The write-ahead file is ended after as many bytes as a segment has, and up to four
# of them wait for a checkpoint. All that is written is ten times as much.
DISK_BYTES_MAX = PARTITIONS * 12 * SEGMENT_BYTES + 8 * SEGMENT_BYTES
RECORD_BYTES = 50
WITHIN_S = 60
SETTINGS: dict[str, str | int | bool] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": PARTITIONS,
    "offsets.topic.segment.bytes": SEGMENT_BYTES,
}


def bytes_of(directory: Path) -> int:
    """Of the disk, not of names: a file that vanishes meanwhile has none."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def test_200_000_commits_to_few_keys_leave_a_small_directory_and_a_short_start(tmp_path: Path) -> None:
    data, peak = tmp_path / "data", 0
    with rota.Server(data=data, settings=SETTINGS) as server, Connection((server.host, server.port)) as connection:
        server.create_topic("orders", KEYS)
        sent, answered = 0, 0
        while answered < OFFSETS // KEYS:
            while sent < OFFSETS // KEYS and sent - answered < AHEAD:
                connection.send(peer.commit(f"group-{sent % 2}", dict.fromkeys(range(KEYS), sent)))
                sent += 1
            answer = Reader(connection.receive())
            answer.i32()
            assert peer.committed(answer) == {NONE}
            answered += 1
            if answered % 100 == 0:
                peak = max(peak, bytes_of(data))
        health = server.health()
        assert health is not None
        assert health.compactions > 10
    print(f"{OFFSETS} commits: at most {peak} bytes on disk, {health.compactions} compactions")
    assert peak < DISK_BYTES_MAX, f"{OFFSETS} commits, {peak} bytes"

    log = DataLog(data)
    ends = [end for topic, _, _, end in log.partitions() if topic == OFFSETS_TOPIC]
    assert sum(ends) >= OFFSETS
    read = sum(len(list(records(log, partition))) for partition in range(PARTITIONS))
    print(f"{read} records are read at the start")
    assert read < DISK_BYTES_MAX // RECORD_BYTES < OFFSETS
    with rota.Server(data=data, settings=SETTINGS) as server:
        report = server.start_report()
        assert report is not None
        assert (report.groups, report.offsets, report.lines) == (2, 2 * KEYS, [])


def test_messages_are_dropped_when_they_are_older_than_their_topic_keeps_them(tmp_path: Path) -> None:
    settings = SETTINGS | {"log.retention.check.interval.ms": 50}
    with rota.Server(data=tmp_path / "data", settings=settings) as server:
        server.create_topic("orders")
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "linger.ms": 0, "log_level": 0})
        now_ms = time.time_ns() // 1_000_000
        old_ms = now_ms - 8 * 86_400_000
        for timestamp_ms in (old_ms, now_ms):
            for _ in range(300):
                producer.produce("orders", bytes(1_000), timestamp=timestamp_ms)
                assert producer.flush(WITHIN_S) == 0
        folder = tmp_path / "data" / "orders-0"

        def first_offset() -> int:
            return min(int(path.stem) for path in folder.glob("*.log"))

        eventually(lambda: first_offset() >= 200, WITHIN_S, "segments are dropped", lambda: f"from {first_offset()}")
        first = first_offset()
        # A segment with one message that is young enough stays as it is.
        assert first <= 300
        assert bytes_of(folder) >= 300 * 1_000
