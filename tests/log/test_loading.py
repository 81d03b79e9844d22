"""What a start loads: more than one segment, more than is read at once, and nothing though the log has an end."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

import rota
from rota import _rota
from rota.cli import app
from rota.log import OFFSETS_TOPIC

PARTITIONS, GROUPS = 200, 6
SETTINGS = {"offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 1_000_000}
METADATA = "m" * 4_000


def client(server: rota.Server, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group, "log_level": 0})


def commit(server: rota.Server, group: str, metadata: str) -> None:
    consumer = client(server, group)
    offsets = [TopicPartition("orders", at, at + 1, metadata) for at in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def committed(server: rota.Server, group: str) -> list[tuple[int, str | None]]:
    consumer = client(server, group)
    found = consumer.committed([TopicPartition("orders", at) for at in range(PARTITIONS)], timeout=30)
    consumer.close()
    return [(part.offset, part.metadata) for part in found]


def test_records_in_several_segments_and_batches_larger_than_what_is_read_at_once_are_all_loaded(
    tmp_path: Path,
) -> None:
    groups = [f"g{at}" for at in range(GROUPS)]
    with rota.Server(data=tmp_path / "data", settings=SETTINGS) as server:
        server.create_topic("orders", PARTITIONS)
        for group in groups:
            commit(server, group, METADATA)
    segments = list((tmp_path / "data").glob(f"{OFFSETS_TOPIC}-0/*.log"))
    assert len(segments) >= GROUPS, "each batch of 800 kB begins a segment"
    with rota.Server(data=tmp_path / "data", settings=SETTINGS) as server:
        for group in groups:
            assert committed(server, group) == [(at + 1, METADATA) for at in range(PARTITIONS)]


def test_a_partition_that_has_an_end_and_no_record_before_it_is_loaded(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data", settings=SETTINGS) as server:
        server.create_topic("orders", PARTITIONS)
        commit(server, "gone", "")
    for segment in (tmp_path / "data").glob(f"{OFFSETS_TOPIC}-0/*.log"):
        segment.write_bytes(bytes(segment.stat().st_size))
    assert CliRunner().invoke(app, ["log", "repair", str(tmp_path / "data")]).exit_code == 0
    (end,) = [end for topic, _, _, end in _rota.DataLog(tmp_path / "data").partitions() if topic == OFFSETS_TOPIC]
    assert end >= PARTITIONS, "no offset is given twice"
    with rota.Server(data=tmp_path / "data", settings=SETTINGS) as server:
        assert committed(server, "gone") == [(-1001, None)] * PARTITIONS
        commit(server, "g", "")
        assert committed(server, "g") == [(at + 1, "") for at in range(PARTITIONS)]
