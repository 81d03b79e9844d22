"""Calls of the rebalance callbacks and their order, with eager and with cooperative assignors."""

from __future__ import annotations

import pytest

from .client import Client, Owned
from .family import EAGER, EVERY_ASSIGNOR, Family
from .scene import Scene, partitions_of

EAGER_CASES = [(family, assignor) for family, assignor in EVERY_ASSIGNOR if assignor in EAGER]
COOPERATIVE_CASES = [(family, assignor) for family, assignor in EVERY_ASSIGNOR if assignor not in EAGER]


def cases(some: list[tuple[Family, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("family", "assignor"), some, ids=[f"{f.name}-{a}" for f, a in some])


def first_time(member: Client, callback: str) -> float:
    """When (ms) the member's callback was first called with partitions."""
    return min(float(e["at_ms"]) for e in member.of_kind("callback") if e["name"] == callback and e["partitions"])


@pytest.mark.scenario("05 callbacks in order")
@cases(EAGER_CASES)
def test_an_eager_member_gives_up_everything_before_it_is_assigned_anything(
    scene: Scene, family: Family, assignor: str
) -> None:
    topic = scene.topic(4)
    everything = partitions_of(topic, 4)
    old = scene.member(family, [topic], assignor)
    scene.settles([old], everything)
    new = scene.member(family, [topic], assignor)
    scene.settles([old, new], everything)
    kept, moved = old.owned, new.owned
    old.leave()
    scene.settles([new], everything)

    owned: Owned = frozenset()
    for callback, partitions in old.callbacks():
        if callback == "assigned":
            assert not owned, f"assigned before the last assignment was revoked\n{old.story()}"
            owned = partitions
        else:
            assert (callback, partitions) == ("revoked", owned), old.story()
            owned = frozenset()
    assert old.callbacks()[:3] == [("assigned", everything), ("revoked", everything), ("assigned", kept)], old.story()
    assert new.callbacks() == [("assigned", moved), ("revoked", moved), ("assigned", everything)], new.story()
    assert first_time(old, "revoked") <= first_time(new, "assigned"), scene.story([old, new])


@pytest.mark.scenario("05 callbacks in order")
@cases(COOPERATIVE_CASES)
def test_a_cooperative_member_gives_up_only_what_moves(scene: Scene, family: Family, assignor: str) -> None:
    topic = scene.topic(4)
    everything = partitions_of(topic, 4)
    old = scene.member(family, [topic], assignor)
    scene.settles([old], everything)
    new = scene.member(family, [topic], assignor)
    scene.settles([old, new], everything)
    moved = new.owned

    assert old.callbacks() == [("assigned", everything), ("revoked", moved)], old.story()
    assert new.callbacks() == [("assigned", moved)], new.story()
    assert first_time(old, "revoked") <= first_time(new, "assigned"), scene.story([old, new])

    new.leave()
    scene.settles([old], everything)
    assert old.callbacks()[2:] == [("assigned", moved)], old.story()
