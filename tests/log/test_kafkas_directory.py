"""A data directory that Apache Kafka 4.4.0 wrote under real clients is served as the broker served it.

`kafka-4.4.0.tar.xz` was made by `python -m tests.log.record_kafka`; `make kafka-directory` compares with a new one.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition

import rota
from harness import peer
from harness.raw import DESCRIBE_GROUPS, LIST_GROUPS, NONE, Connection, compact, frame, varint
from tests.log.groups_told import Told, differences, told
from tests.log.record_kafka import GROUPS, MESSAGES, PARTITIONS, TOPIC

ARCHIVE = Path(__file__).with_name("kafka-4.4.0.tar.xz")
NOT_COORDINATOR, GROUP_ID_NOT_FOUND = 16, 69
WITHIN_S = 30


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, Told]:
    """The directory, and what the broker told."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "log", cast(Told, json.loads((tmp_path / "told.json").read_text()))


@pytest.mark.parametrize("take_over", [False, True])
def test_groups_members_and_offsets_are_told_as_the_broker_told_them(
    recorded: tuple[Path, Told], take_over: bool
) -> None:
    directory, broker = recorded
    assert {tuple(line[1:]) for line in broker["listed"].values()} == {
        ("Stable", "classic"),
        ("Empty", "classic"),
        ("Stable", "consumer"),
    }
    with rota.Server(data=directory, take_over=take_over) as server:
        assert differences(broker, told((server.host, server.port), GROUPS)) == []


def test_a_directory_of_kafka_is_only_read_until_it_is_taken_over(recorded: tuple[Path, Told]) -> None:
    directory, _ = recorded
    files = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    with rota.Server(data=directory) as server, Connection((server.host, server.port)) as connection:
        (error,) = peer.committed(connection.ask(peer.commit("commits", {0: 9})))
        assert error != NONE
        joined = peer.joined(connection.ask(peer.join("left", version=3)))
        sync = peer.sync("left", joined.generation, joined.member, {joined.member: b"plan"})
        assert peer.synced(connection.ask(sync)) == (NOT_COORDINATOR, b"")
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path in files} == files
    for _ in range(2):
        with (
            rota.Server(data=directory, take_over=True) as server,
            Connection((server.host, server.port)) as connection,
        ):
            assert peer.committed(connection.ask(peer.commit("commits", {0: 9}))) == {NONE}
            assert peer.joined(connection.ask(peer.join("left", version=3))).error == NONE
    with rota.Server(data=directory) as server, Connection((server.host, server.port)) as connection:
        assert peer.fetched(connection.ask(peer.fetch("commits", [0, 1]))) == (NONE, {0: 9, 1: 5})


def test_messages_that_kafka_compressed_are_consumed(recorded: tuple[Path, Told]) -> None:
    directory, _ = recorded
    with rota.Server(data=directory) as server:
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        messages = consumer.consume(MESSAGES, timeout=WITHIN_S)
        consumer.close()
    assert {message.value() for message in messages} == {b"message %d" % number for number in range(MESSAGES)}


def test_messages_of_topics_without_an_id_stay_when_the_directory_is_taken_over(recorded: tuple[Path, Told]) -> None:
    directory, _ = recorded
    before = {path: path.read_bytes() for path in directory.glob(f"{TOPIC}-*/*.log")}
    for metadata in directory.glob(f"{TOPIC}-*/partition.metadata"):
        metadata.unlink()
    for _ in range(2):
        with rota.Server(data=directory, take_over=True) as server:
            consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g", "log_level": 0})
            consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
            messages = consumer.consume(MESSAGES, timeout=WITHIN_S)
            consumer.close()
        assert {message.value() for message in messages} == {b"message %d" % number for number in range(MESSAGES)}
    assert {path: path.read_bytes() for path in directory.glob(f"{TOPIC}-*/*.log")} == before
    assert len(list(directory.glob(f"{TOPIC}-*/partition.metadata"))) == PARTITIONS


def test_a_group_of_the_newer_protocol_is_listed_by_its_type_and_no_classic_group(
    recorded: tuple[Path, Told],
) -> None:
    directory, _ = recorded
    with rota.Server(data=directory) as server, Connection((server.host, server.port)) as connection:
        for kind, names in [("consumer", {"newer"}), ("share", set()), ("streams", set())]:
            answer = connection.ask(frame(LIST_GROUPS, 5, varint(1) + varint(2) + compact(kind) + b"\0"))
            answer.take(7)
            found = set()
            for _ in range(answer.varint() - 1):
                found.add(answer.compact())
                assert [answer.compact() for _ in range(3)] == ["consumer", "Stable", kind]
                answer.take(1)
            assert found == names
        answer = connection.ask(frame(DESCRIBE_GROUPS, 6, varint(2) + compact("newer") + b"\0\0"))
        answer.take(6)
        assert (answer.i16(), answer.compact()) == (GROUP_ID_NOT_FOUND, "Group newer is not a classic group.")
