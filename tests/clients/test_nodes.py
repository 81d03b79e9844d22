"""A server with three nodes hands the group's partition of __consumer_offsets from one to another while clients use
it (docs/nodes.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import rota
from harness.peer import Nodes, fetch, fetched
from tests.journaled import journaled

from .client import Client
from .conftest import SETTINGS
from .eventually import eventually
from .family import FAMILIES, Family
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

PARTITIONS = 6
MOVES = 8
COMMITS_WITHIN_S = 30

pytestmark = [pytest.mark.only_on_rota, pytest.mark.slow]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])


@pytest.fixture
def three(tmp_path: Path) -> Iterator[rota.Server]:
    with journaled(tmp_path / "journal", nodes=3, settings=SETTINGS) as server:
        yield server


@pytest.fixture
def spread(three: rota.Server, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(three.bootstrap_servers, tmp_path, three)
    try:
        yield scene
    finally:
        scene.close()


class Load:
    """Messages that are produced, read and committed, and what was acknowledged."""

    def __init__(self, server: rota.Server, scene: Scene, topic: str) -> None:
        self.server, self.scene, self.topic = server, scene, topic
        self.members: list[Client] = []
        self.gone: list[Client] = []
        self.acknowledged: dict[int, int] = {}
        self.commits = 0
        self.refusals: list[str] = []
        self.produced = 0
        self._producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})

    def move(self) -> None:
        partition = self.server.partition_of(self.scene.group)
        self.server.move_partition(partition, self.server.owner(partition) % 3 + 1)

    def produce(self) -> None:
        for partition in range(PARTITIONS):
            self._producer.produce(self.topic, value=str(self.produced), partition=partition)
        assert self._producer.flush(SETTLE_WITHIN_S) == 0
        self.produced += 1

    def read(self) -> set[tuple[int, int]]:
        return {message[:2] for member in [*self.members, *self.gone] for message in member.messages()}

    def everything_is_read(self) -> None:
        expected = {(partition, offset) for partition in range(PARTITIONS) for offset in range(self.produced)}
        eventually(
            lambda: self.read() == expected,
            SETTLE_WITHIN_S,
            f"all {len(expected)} messages are read",
            lambda: self.scene.story(self.members),
        )

    def acknowledge(self, reply: dict[str, Any]) -> bool:
        """Whether the reply to a commit is that it counts."""
        if not reply["ok"]:
            self.refusals.append(reply["error"]["name"])
            return False
        for _, partition, offset in reply["offsets"]:
            assert offset >= self.acknowledged.get(partition, 0), f"partition {partition} went back to {offset}"
            self.acknowledged[partition] = offset
        self.commits += 1
        return True

    def commit(self, member: Client) -> None:
        """Commits what the member has read, as often as it takes."""

        def acknowledged() -> bool:
            member.send("commit", offsets=None)
            return self.acknowledge(member.reply())

        eventually(acknowledged, COMMITS_WITHIN_S, f"{member!r} commits", lambda: self.scene.story(self.members))

    def commit_across_a_move(self) -> None:
        """All members commit, and the partition moves before they have heard of it, or after."""
        for member in self.members:
            member.send("commit", offsets=None)
        self.move()
        for member in self.members:
            self.acknowledge(member.reply())

    def nothing_is_owned_twice(self) -> None:
        """Within one generation no two members own a partition."""
        before = self.scene.generation()
        shares = [member.owned for member in self.members]
        if before == self.scene.generation():
            assert sum(map(len, shares)) == len(frozenset().union(*shares)), self.scene.story(self.members)

    def what_was_acknowledged_is_there(self) -> None:
        with Nodes(self.server) as nodes:
            request = fetch(self.scene.group, list(range(PARTITIONS)), topic=self.topic)
            error, offsets = fetched(nodes.at(self.scene.group).ask(request))
        assert error == 0
        assert offsets == self.acknowledged


@pytest.mark.scenario("30 handover between nodes under load")
@every_family
def test_consumers_go_on_while_their_coordinator_moves(
    three: rota.Server, spread: Scene, family: Family, record_property: Callable[[str, object], None]
) -> None:
    topic = spread.topic(PARTITIONS)
    load = Load(three, spread, topic)
    load.members = [spread.member(family, [topic]) for _ in range(2)]
    spread.settles(load.members, partitions_of(topic, PARTITIONS))
    generation = spread.generation()
    for _ in range(MOVES):
        load.produce()
        load.everything_is_read()
        load.commit_across_a_move()
        load.produce()
        load.everything_is_read()
        for member in load.members:
            load.commit(member)
            load.nothing_is_owned_twice()
        load.what_was_acknowledged_is_there()
    assert spread.generation() == generation, "a move is no reason to rebalance"
    spread.settles(load.members, partitions_of(topic, PARTITIONS))
    record_property("counts", f"{MOVES} moves, {load.commits} commits, {len(load.refusals)} refused")


@pytest.mark.scenario("31 handover while members come and leave")
@every_family
def test_a_group_settles_whose_coordinator_moves_while_members_come_and_leave(
    three: rota.Server, spread: Scene, family: Family
) -> None:
    topic = spread.topic(PARTITIONS)
    load = Load(three, spread, topic)
    load.produce()
    for _ in range(3):
        joining = spread.client(family)
        spread.send_consume(joining, [topic])
        load.members.append(joining)
        load.move()
        load.nothing_is_owned_twice()
        assert joining.reply()["ok"]
        load.move()
        spread.settles(load.members, partitions_of(topic, PARTITIONS), within_s=2 * SETTLE_WITHIN_S)
        load.produce()
        load.everything_is_read()
        for member in load.members:
            load.commit(member)
        load.what_was_acknowledged_is_there()
    leaving = load.members.pop(0)
    load.gone.append(leaving)
    load.move()
    leaving.leave()
    load.move()
    spread.settles(load.members, partitions_of(topic, PARTITIONS), within_s=2 * SETTLE_WITHIN_S)
    load.produce()
    load.everything_is_read()
    for member in load.members:
        load.commit(member)
    load.what_was_acknowledged_is_there()
