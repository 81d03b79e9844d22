"""What operators do with admin clients: set and delete offsets, delete groups, look at the cluster and at settings."""

from __future__ import annotations

import pytest

from .family import JAVA, KAFKA_PYTHON, LIBRDKAFKA, Family
from .scene import Scene

with_admin_tools = pytest.mark.parametrize("family", [LIBRDKAFKA, KAFKA_PYTHON, JAVA], ids=lambda family: family.name)


@pytest.mark.scenario("24 admin sets and deletes offsets, deletes groups")
@with_admin_tools
def test_offsets_are_set_and_deleted_and_a_group_is_deleted(scene: Scene, family: Family) -> None:
    topic = scene.topic(1)
    told = scene.client(family).ask("tidy", group=scene.group, topic=topic)["result"]
    assert (told["offset"], told.get("offsets_left", 0), told["left"]) == (41, 0, False)
    assert told["refused"].upper().replace("_", "").startswith("GROUPIDNOTFOUND"), told


@pytest.mark.scenario("25 admin describes the cluster and a topic's settings")
@with_admin_tools
def test_the_cluster_and_the_settings_of_a_topic_are_described(scene: Scene, family: Family, broker: str) -> None:
    told = scene.client(family).ask("cluster", topic=scene.topic(1))["result"]
    assert told == {"nodes": [broker], "cleanup_policy": "delete"}
