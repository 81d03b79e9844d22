"""What a group subscribes to changes while it is stable; its leader notices and rejoins (docs/protocol.md §4.7)."""

from __future__ import annotations

import pytest

from .family import FAMILIES, Family
from .scene import Scene, partitions_of

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@pytest.mark.scenario("07 pattern sees a new topic")
@every_family
def test_a_pattern_subscription_takes_in_a_topic_that_is_created_later(scene: Scene, family: Family) -> None:
    first = scene.topic(2, "-first")
    members = [
        scene.member(family, [], pattern=f"^{scene.name}-.*", poll_ms=family.poll_through_change_ms) for _ in range(2)
    ]
    scene.settles(members, partitions_of(first, 2))
    second = scene.topic(3, "-second")
    scene.settles(members, partitions_of(first, 2) | partitions_of(second, 3))


@pytest.mark.scenario("08 a topic grows")
@every_family
def test_the_partitions_that_a_topic_gains_are_owned(scene: Scene, family: Family) -> None:
    topic = scene.topic(2)
    members = [scene.member(family, [topic], poll_ms=family.poll_through_change_ms) for _ in range(2)]
    scene.settles(members, partitions_of(topic, 2))
    scene.grow(topic, 5)
    scene.settles(members, partitions_of(topic, 5))
