"""Clients of Java and Go that process exactly once on three servers over etcd, while each server is killed in turn.

The servers keep their messages in directories, so that each of them can be killed: the one that coordinates the
transactions, the one that coordinates the group, and the leaders of inputs and outputs. `make kill` kills them all
under Kafka Streams, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.eventually import eventually
from tests.clients.family import FRANZ_GO, JAVA, need
from tests.clients.reading import read
from tests.clients.scene import Scene
from tests.clients.streams_application import running
from tests.server.cluster_on_engines import READY_WITHIN_S, SERVERS, Fleet

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("cluster-on-etcd"),
    pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)"),
]

KILLS = int(os.environ.get("ROTA_KILLS", "1"))
WITHIN_S = 120.0
PARTITIONS, INPUTS, IN_A_TRANSACTION = 3, 300, 5


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, "etcd", has_data=True) as fleet:
        yield fleet


@pytest.fixture
def scene(fleet: Fleet, tmp_path: Path) -> Iterator[Scene]:
    fleet.joined()
    scene = Scene(",".join(f"127.0.0.1:{port}" for port in fleet.ports), tmp_path)
    with contextlib.closing(scene):
        yield scene


@pytest.mark.java
@pytest.mark.long
def test_counts_of_kafka_streams_are_exact(fleet: Fleet, scene: Scene, tmp_path: Path) -> None:
    need(JAVA)
    with running(scene, tmp_path) as application:
        for server in fleet.servers[:KILLS]:
            application.give()
            application.is_at_work()
            server.kill()
            server.start()
            application.is_done()


def test_sessions_of_franz_go_copy_every_input_once(fleet: Fleet, scene: Scene) -> None:
    need(FRANZ_GO)
    source, sink = scene.topic(PARTITIONS, "-source"), scene.topic(PARTITIONS, "-sink")
    copier = scene.client(FRANZ_GO)
    asked = {"transactional_id": scene.name, "group": scene.group, "topics": [source], "topic": sink}
    copier.send("copy", **asked, count=IN_A_TRANSACTION, within_ms=10_000)
    producer = Producer({"bootstrap.servers": scene.bootstrap, "enable.idempotence": True})
    inputs: list[str] = []

    def story() -> str:
        return f"{len(_read(scene, sink))} of {len(inputs)} are copied\n{copier.story()}\n{fleet.logs()}"

    def are_copied(count: int) -> bool:
        return len(_read(scene, sink)) >= count

    for server in (None, *fleet.servers):
        before = len(inputs)
        inputs += [f"m{number}" for number in range(before, before + INPUTS)]
        for number, value in enumerate(inputs[before:]):
            producer.produce(source, value=value, partition=number % PARTITIONS)
        assert producer.flush(READY_WITHIN_S) == 0
        eventually(partial(are_copied, before + 1), WITHIN_S, "inputs are copied", story)
        if server is not None:
            server.kill()
            server.start()
        eventually(partial(are_copied, len(inputs)), WITHIN_S, "all inputs are copied", story)
    assert _read(scene, sink) == sorted(f"{each}, copied" for each in inputs)


def _read(scene: Scene, topic: str) -> list[str]:
    return read(scene.bootstrap, topic, PARTITIONS)


assert SERVERS == PARTITIONS, "each server leads a partition of a topic"
