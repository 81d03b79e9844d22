"""Clients recover from a network that drops connections, loses and delays answers, and from a node that is down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from tests.journaled import journaled

from .client import Client
from .conftest import SETTINGS
from .eventually import eventually
from .family import FAMILIES, Family
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

PARTITIONS = 2

pytestmark = [pytest.mark.only_on_rota, pytest.mark.slow]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[rota.Server]:
    with journaled(tmp_path / "journal", settings=SETTINGS) as server:
        yield server


class Reading:
    """One member that reads two partitions and commits what it has read."""

    def __init__(self, server: rota.Server, scene: Scene, family: Family) -> None:
        self.server, self.scene = server, scene
        self.topic = scene.topic(PARTITIONS)
        self.produced = 0
        self.member: Client = scene.member(family, [self.topic], session_timeout_ms=30_000)
        scene.settles([self.member], partitions_of(self.topic, PARTITIONS))
        self.reads_on()

    def reads_on(self) -> None:
        """It reads what is new, and its commit is stored."""
        for partition in range(PARTITIONS):
            self.server.produce(self.topic, [str(self.produced)], partition=partition)
        self.produced += 1
        expected = {(partition, offset) for partition in range(PARTITIONS) for offset in range(self.produced)}
        eventually(
            lambda: {message[:2] for message in self.member.messages()} == expected,
            SETTLE_WITHIN_S,
            f"all {len(expected)} messages are read",
            self.member.story,
        )
        self.member.commit()
        committed = {(self.topic, partition): self.produced for partition in range(PARTITIONS)}
        assert self.server.committed(self.scene.group) == committed


METADATA_CHANGED = "cached metadata has changed"
"""The reason that Java gives."""


@pytest.fixture
def reading(server: rota.Server, family: Family, tmp_path: Path) -> Iterator[Reading]:
    scene = Scene(server.bootstrap_servers, tmp_path, server)
    try:
        yield Reading(server, scene, family)
    finally:
        server.faults.reset()
        scene.close()


def assert_only_metadata_made_it_join(reading: Reading, before: int | None) -> None:
    """The member stayed in its group since generation `before`.

    Java starts again with its bootstrap servers when it reaches no node (`metadata.recovery.strategy=rebootstrap`): it
    forgets all topics for a moment, and may join again for that reason alone.
    """
    assert before is not None
    since = [one for one in reading.server.explain(reading.scene.group).rebalances if one.from_generation >= before]
    assert [str(one) for one in since if METADATA_CHANGED not in one.reason] == []


@pytest.mark.scenario("37 connections dropped")
@every_family
def test_a_member_whose_connections_are_dropped_stays_in_its_group(reading: Reading) -> None:
    before = reading.scene.generation()
    for _ in range(3):
        assert reading.server.faults.drop_connections() > 0
        reading.reads_on()
    assert_only_metadata_made_it_join(reading, before)


@pytest.mark.scenario("38 answer lost")
@every_family
def test_a_commit_whose_answer_is_lost_is_made_again(reading: Reading) -> None:
    before = reading.scene.generation()
    lost = reading.server.faults.drop_answers("OffsetCommit")
    reading.reads_on()
    assert (lost.count, lost.left) == (1, 0)
    reading.reads_on()
    assert reading.scene.generation() == before


@pytest.mark.scenario("39 answers delayed")
@every_family
def test_a_member_whose_answers_are_late_stays_in_its_group(reading: Reading) -> None:
    before = reading.scene.generation()
    with reading.server.faults.delay_answers(300) as late:
        reading.reads_on()
        eventually(lambda: late.count > 10, SETTLE_WITHIN_S, "ten answers were late", reading.member.story)
    reading.reads_on()
    assert reading.scene.generation() == before


@pytest.mark.scenario("40 node down")
@every_family
def test_a_member_whose_only_node_was_down_goes_on(reading: Reading) -> None:
    before = reading.scene.generation()
    with reading.server.faults.stop_node(1):
        assert reading.server.faults.down_nodes() == [1]
    reading.reads_on()
    assert_only_metadata_made_it_join(reading, before)
