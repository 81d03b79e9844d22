"""One Spark session for all tests of the audit, and the logs that they read."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import rota
from harness.spark import environment
from rota.audit.audit import Audit, Wanted
from rota.audit.logs import parts_of
from rota.audit.session import started
from rota.audit.spark import Logs, audit_with_tables
from rota.cli import app
from rota.simulate.journal import Journal
from tests.audit.lives import live as live_raw
from tests.audit.lives import live_newer
from tests.clients.eventually import eventually

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 3,
}
WITHIN_S = 60
GROUPS_A_START = 12
NEWER_A_START = 5
NEWER_KIND = "held by two"
WORLDS = 30
KAFKA = Path(__file__).parent.parent / "log" / "kafka-4.4.0.tar.xz"


@pytest.fixture(scope="session", autouse=True)
def _starts_quickly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with started("local[2]") as session:
        yield session


def consumer(server: rota.Server, group: str, instance: str | None = None, *, is_newer: bool = False) -> Consumer:
    settings: dict[str, str | int | float | bool | None] = {
        "bootstrap.servers": server.bootstrap_servers,
        "group.id": group,
        "log_level": 0,
    }
    if is_newer:
        settings["group.protocol"] = "consumer"
    else:
        settings |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
    found = Consumer(settings | ({} if instance is None else {"group.instance.id": instance}))
    found.subscribe(["orders"])
    return found


def settle(*consumers: Consumer) -> None:
    """Poll until the four partitions are shared out."""

    def is_settled() -> bool:
        for member in consumers:
            member.poll(0.05)
        return sum(len(member.assignment()) for member in consumers) == 4 and all(c.assignment() for c in consumers)

    eventually(is_settled, WITHIN_S, "the partitions are shared out")


def commit(*consumers: Consumer) -> None:
    """Commit an offset for each partition that they own."""
    for member in consumers:
        member.commit(
            offsets=[TopicPartition("orders", at.partition, 5) for at in member.assignment()], asynchronous=False
        )


def live(server: rota.Server, group: str) -> None:
    """Two members, one of them static: join, commit, move to another node, replace, leave."""
    first, static = consumer(server, group), consumer(server, group, "i1")
    settle(first, static)
    commit(first, static)
    server.move_partition(server.partition_of(group), 2)
    replacement = consumer(server, group, "i1")
    settle(first, replacement)
    first.close()
    settle(replacement)
    replacement.close()
    static.close()


def convert(server: rota.Server, group: str) -> None:
    """Two classic members. One is replaced by a member of the newer protocol and comes back."""
    first, second = consumer(server, group), consumer(server, group)
    settle(first, second)
    second.close()
    newer = consumer(server, group, is_newer=True)
    settle(first, newer)
    commit(first, newer)
    newer.close()
    second = consumer(server, group)
    settle(first, second)
    first.close()
    second.close()


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with its journal: real consumers, two starts of the server."""
    data = tmp_path_factory.mktemp("clean") / "data"
    for start in range(2):
        with rota.Server(data=data, journal=True, settings=SETTINGS, nodes=2) as server:
            if start == 0:
                server.create_topic("orders", 4)
            live(server, "payments")
            live(server, f"billing-{start}")
            convert(server, f"moving-{start}")
    return data


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that Apache Kafka 4.4 wrote under real clients."""
    place = tmp_path_factory.mktemp("kafka")
    with tarfile.open(KAFKA) as archive:
        archive.extractall(place, filter="data")
    return place / "log"


@pytest.fixture(scope="session")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups with room for every fault, and a start of the server behind another one."""
    data = tmp_path_factory.mktemp("lives") / "data"
    for start in range(2):
        with rota.Server(data=data, journal=True, settings=SETTINGS) as server:
            if start == 0:
                server.create_topic("orders", 4)
            live_raw(server, [f"group-{start}-{number}" for number in range(GROUPS_A_START)])
            live_newer(server, [f"newer-{start}-{number}" for number in range(NEWER_A_START)])
    return data


@pytest.fixture(scope="session")
def planted(lives: Path) -> Path:
    """A copy of them with one fault a group, of every kind."""
    target = lives.parent / "planted"
    ended = CliRunner().invoke(app, ["plant", str(lives), str(target)])
    assert (ended.exit_code, ended.stderr) == (0, "")
    return target


@pytest.fixture(scope="session")
def planted_kafka(kafka: Path) -> Path:
    """A copy of the directory of Kafka with one fault a group."""
    target = kafka.parent / "planted"
    ended = CliRunner().invoke(app, ["plant", str(kafka), str(target)])
    assert (ended.exit_code, NEWER_KIND in ended.stdout) == (0, True), ended.stderr
    return target


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of simulated worlds: coordinators that crash, move and are fenced."""
    directory = tmp_path_factory.mktemp("simulated") / "worlds"
    with Journal(directory) as journal:
        *_, total = journal.worlds(0, WORLDS)
    assert total.broken is None
    return directory


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="session")
def found(
    spark: SparkSession,
    clean: Path,
    kafka: Path,
    lives: Path,
    planted: Path,
    planted_kafka: Path,
    worlds: Path,
    tables: Path,
) -> Audit:
    """One audit of all of them."""
    logs = [clean, kafka, lives, planted, planted_kafka, worlds]
    return audit_with_tables(spark, Wanted(logs, output=tables), Logs(parts_of(logs), []))
