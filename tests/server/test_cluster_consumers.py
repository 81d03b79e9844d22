"""Consumers of four client projects, by both protocols, on three servers over an engine: each server is killed in turn,
and one is paused. All groups read on, and no acknowledged commit is lost."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness import postgres
from rota.cluster.looking import image
from tests.clients.client import Client
from tests.clients.conftest import SETTINGS
from tests.clients.eventually import eventually
from tests.clients.family import FAMILIES, FRANZ_GO, KAFKA_PYTHON, Family
from tests.clients.scene import Scene, partitions_of
from tests.server.cluster_on_engines import READY_WITHIN_S, Fleet

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(900), pytest.mark.xdist_group("cluster-on-etcd")]
needs_etcd = pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)")
needs_postgres = pytest.mark.skipif(not postgres.is_installed(), reason="PostgreSQL is not installed")

WITHIN_S = 120.0
PARTITIONS = 3
CLASSIC, NEWER = "classic", "consumer"
# A server that comes back changes what metadata says of the topic, and kafka-python can forget to join again after
# such a change, with any broker (tests/clients/family.py).
GROUPS = [(family, CLASSIC) for family in (*FAMILIES, FRANZ_GO) if family is not KAFKA_PYTHON]
GROUPS += [(family, NEWER) for family, _ in GROUPS if family.has_consumer_protocol]


class Group:
    """Two members of one family."""

    def __init__(self, scene: Scene, family: Family, protocol: str, topic: str) -> None:
        self.name, self.scene, self.topic = f"{family.name}, {protocol}", scene, topic
        self.acknowledged: dict[int, int] = {}
        self.members = [scene.client(family) for _ in range(2)]
        for member in self.members:
            scene.send_consume(member, [topic], group_protocol=protocol)
        for member in self.members:
            assert member.reply()["ok"], f"{self.name} could not subscribe"

    def story(self) -> str:
        return f"{self.name}\n{self.scene.story(self.members)}"

    def settles(self) -> None:
        self.scene.settles(self.members, partitions_of(self.topic, PARTITIONS), READY_WITHIN_S)

    def has_read(self, count: int) -> None:
        """Waits until all messages of each partition are read."""
        wanted = {(at, offset) for at in range(PARTITIONS) for offset in range(count)}

        def are_read() -> bool:
            return wanted <= {message[:2] for member in self.members for message in member.messages()}

        eventually(are_read, WITHIN_S, f"{count} messages of each partition are read", self.story)

    def commits(self) -> None:
        """Both members commit what they have read, as often as it takes."""
        for member in self.members:
            eventually(partial(self._commits, member), WITHIN_S, f"{member!r} commits", self.story)

    def _commits(self, member: Client) -> bool:
        member.send("commit", offsets=None)
        reply = member.reply()
        for _, at, offset in reply["offsets"] if reply["ok"] else []:
            assert offset >= self.acknowledged.get(at, 0), f"{self.name}: partition {at} went back to {offset}"
            self.acknowledged[at] = offset
        return bool(reply["ok"])

    def keeps_its_commits(self) -> None:
        """What was acknowledged is there."""
        asker = Consumer({"bootstrap.servers": self.scene.bootstrap, "group.id": self.scene.group, "log_level": 0})
        with closing(asker):
            found = asker.committed([TopicPartition(self.topic, at) for at in self.acknowledged], WITHIN_S)
        offsets = {row.partition: row.offset for row in found}
        assert all(offsets[at] >= offset for at, offset in self.acknowledged.items()), (self.name, offsets)


class Stage:
    """The servers, a topic, and a group of each kind."""

    def __init__(self, fleet: Fleet, folder: Path, ends: ExitStack) -> None:
        self.fleet, self.produced = fleet, 0
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in fleet.ports)
        fleet.joined()
        scenes = [ends.enter_context(closing(Scene(bootstrap, folder))) for _ in GROUPS]
        self.topic = scenes[0].topic(PARTITIONS)
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        runs_here = [(scene, *of) for scene, of in zip(scenes, GROUPS, strict=True) if of[0].missing() is None]
        self.groups = [Group(scene, family, protocol, self.topic) for scene, family, protocol in runs_here]
        for group in self.groups:
            group.settles()

    def others_own_all(self, node_id: int) -> None:
        """Waits until other servers than this one own all partitions of `__consumer_offsets`."""
        operator = self.fleet.operator()

        def look() -> bool:
            return all(row.is_held and row.owner != node_id for row in image(operator).partitions)

        eventually(look, READY_WITHIN_S, f"others own the partitions of server {node_id}", self.fleet.logs)

    def goes_on(self) -> None:
        """A message for each partition, which all groups read and commit."""
        for at in range(PARTITIONS):
            self.producer.produce(self.topic, value=str(self.produced), partition=at)
        assert self.producer.flush(WITHIN_S) == 0
        self.produced += 1
        for group in self.groups:
            group.has_read(self.produced)
        for group in self.groups:
            group.commits()


@pytest.fixture(
    params=[
        pytest.param("etcd", marks=needs_etcd),
        pytest.param("postgresql", marks=[needs_postgres, pytest.mark.long]),
    ]
)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    options = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with Fleet(tmp_path, request.param, has_data=True, options=options) as fleet, ExitStack() as ends:
        yield Stage(fleet, tmp_path, ends)


def test_groups_of_every_client_go_on(stage: Stage) -> None:
    stage.goes_on()
    for server in stage.fleet.servers:
        server.kill()
        server.start()
        stage.goes_on()
    paused = stage.fleet.servers[0]
    paused.signal(signal.SIGSTOP)
    stage.others_own_all(1)
    paused.signal(signal.SIGCONT)
    stage.goes_on()
    for group in stage.groups:
        group.keeps_its_commits()
