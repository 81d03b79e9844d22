"""A group's committed offsets outlive its members (docs/protocol.md §10, §11)."""

from __future__ import annotations

import pytest

from .eventually import eventually
from .family import FAMILIES, Family
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@pytest.mark.scenario("06 commit and resume")
@every_family
def test_a_new_consumer_resumes_where_the_group_committed(scene: Scene, family: Family) -> None:
    topic = scene.topic(2)
    tools = scene.client(family)

    def produce(first: int, count: int) -> None:
        for partition in (0, 1):
            values = [f"{partition}:{i}" for i in range(first, first + count)]
            tools.ask("produce", topic=topic, partition=partition, values=values)

    def expected(first: int, end: int) -> list[tuple[int, int, str]]:
        return [(partition, i, f"{partition}:{i}") for partition in (0, 1) for i in range(first, end)]

    produce(0, 20)
    one = scene.member(family, [topic])
    eventually(lambda: len(one.messages()) == 40, SETTLE_WITHIN_S, "the first member read all of it", one.story)
    assert sorted(one.messages()) == expected(0, 20)
    assert one.commit() == {0: 20, 1: 20}
    produce(20, 10)
    eventually(lambda: len(one.messages()) == 60, SETTLE_WITHIN_S, "the first member read on, uncommitted", one.story)
    one.leave()

    two = scene.member(family, [topic])
    eventually(lambda: len(two.messages()) >= 20, SETTLE_WITHIN_S, "the second member read the uncommitted", two.story)
    assert sorted(two.messages()) == expected(20, 30), two.story()
    # Only part of what was read is committed, and the member dies without a word.
    assert two.commit([(topic, 0, 25), (topic, 1, 30)]) == {0: 25, 1: 30}
    two.kill()

    produce(30, 5)
    three = scene.member(family, [topic])
    scene.settles([three], partitions_of(topic, 2))
    eventually(lambda: len(three.messages()) >= 15, SETTLE_WITHIN_S, "the third member read the rest", three.story)
    rest = [(0, i, f"0:{i}") for i in range(25, 35)] + [(1, i, f"1:{i}") for i in range(30, 35)]
    assert sorted(three.messages()) == rest, three.story()
