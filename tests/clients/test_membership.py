"""Members come, leave and die; each time the rest own every partition once (docs/protocol.md §5, §7, §8)."""

from __future__ import annotations

import pytest

from .family import EVERY_ASSIGNOR, LIBRDKAFKA, Family
from .scene import HEARTBEAT_INTERVAL_MS, SETTLE_WITHIN_S, Scene, partitions_of

# One client with each assignor, and each client with one.
every_assignor = pytest.mark.parametrize(
    ("family", "assignor"),
    [
        pytest.param(
            family,
            assignor,
            marks=[] if family is LIBRDKAFKA or assignor == family.assignors[0] else [pytest.mark.long],
            id=f"{family.name}-{assignor}",
        )
        for family, assignor in EVERY_ASSIGNOR
    ],
)


@pytest.mark.scenario("01 three members join over time")
@every_assignor
def test_each_new_member_gets_a_share_and_no_partition_has_two_owners(
    scene: Scene, family: Family, assignor: str
) -> None:
    topics = [scene.topic(4, "-a"), scene.topic(3, "-b")]
    everything = partitions_of(topics[0], 4) | partitions_of(topics[1], 3)
    members = []
    for _ in range(3):
        members.append(scene.member(family, topics, assignor))
        scene.settles(members, everything)


@pytest.mark.scenario("02 graceful leave")
@every_assignor
def test_the_rest_take_over_from_a_member_that_left_without_waiting_for_its_session(
    scene: Scene, family: Family, assignor: str
) -> None:
    session_timeout_ms = 40_000
    topic = scene.topic(4)
    members = [scene.member(family, [topic], assignor, session_timeout_ms=session_timeout_ms) for _ in range(3)]
    scene.settles(members, partitions_of(topic, 4))
    # The first member leads the group; its leave also moves the leadership.
    members.pop(0).leave()
    scene.settles(members, partitions_of(topic, 4), within_s=session_timeout_ms / 1000 / 2)


@pytest.mark.scenario("03 killed member expires")
@every_assignor
def test_a_killed_member_keeps_its_share_until_its_session_ends_and_then_loses_it(
    scene: Scene, family: Family, assignor: str
) -> None:
    session_timeout_ms = 3_000
    topic = scene.topic(4)
    survivor = scene.member(family, [topic], assignor, session_timeout_ms=session_timeout_ms)
    victim = scene.member(family, [topic], assignor, session_timeout_ms=session_timeout_ms)
    scene.settles([survivor, victim], partitions_of(topic, 4))

    killed_at_ms = victim.kill()
    scene.settles([survivor], partitions_of(topic, 4), within_s=session_timeout_ms / 1000 + SETTLE_WITHIN_S)

    # The session runs from the victim's last heartbeat, which was at most about one interval before.
    noticed_at_ms = survivor.of_kind("callback", since_ms=killed_at_ms)[0]["at_ms"]
    assert noticed_at_ms - killed_at_ms >= session_timeout_ms - 2 * HEARTBEAT_INTERVAL_MS, scene.story([survivor])


@pytest.mark.scenario("04 lost session")
@every_assignor
def test_a_member_that_missed_its_session_is_told_so_and_joins_again(
    scene: Scene, family: Family, assignor: str
) -> None:
    session_timeout_ms = 3_000
    topic = scene.topic(4)
    steady = scene.member(family, [topic], assignor, session_timeout_ms=session_timeout_ms)
    frozen = scene.member(family, [topic], assignor, session_timeout_ms=session_timeout_ms)
    scene.settles([steady, frozen], partitions_of(topic, 4))
    had = frozen.owned

    frozen.freeze()
    scene.settles([steady], partitions_of(topic, 4), within_s=session_timeout_ms / 1000 + SETTLE_WITHIN_S)
    told_before = len(frozen.callbacks())
    frozen.thaw()

    expected = "lost" if family.tells_lost else "revoked"
    first = scene.callback_after(frozen, told_before, [steady, frozen])
    assert first == (expected, had), frozen.story()
    scene.settles([steady, frozen], partitions_of(topic, 4))
