"""Static members: restarts without a rebalance, two processes with one instance id (docs/protocol.md §9); and a group
that is full (§4.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .client import Client, ClientError
from .eventually import eventually
from .family import FAMILIES, JAVA, Family
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

# Far longer than a new process takes to start, also on a busy machine: no session expires in these tests.
SESSION_TIMEOUT_MS = 60_000

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
families_that_can_be_fenced = pytest.mark.parametrize(
    "family", [family for family in FAMILIES if family.has_instance_id_in_heartbeats], ids=lambda family: family.name
)
families_that_cannot_be_fenced = pytest.mark.parametrize(
    "family",
    [family for family in FAMILIES if not family.has_instance_id_in_heartbeats],
    ids=lambda family: family.name,
)


def static_member(scene: Scene, family: Family, topic: str, instance: int) -> Client:
    return scene.member(family, [topic], instance_id=f"i{instance}", session_timeout_ms=SESSION_TIMEOUT_MS)


def static_members(scene: Scene, family: Family, topic: str, count: int) -> list[Client]:
    members = [static_member(scene, family, topic, instance) for instance in range(count)]
    scene.settles(members, partitions_of(topic, count))
    return members


def restart(scene: Scene, members: list[Client], topic: str, instance: int, *, orderly: bool) -> None:
    """Ends the process of a static member and starts another, which comes to own what the first one owned."""
    before = members[instance]
    had = before.owned
    if orderly:
        before.leave()
    else:
        before.kill()
    after = static_member(scene, before.family, topic, instance)
    members[instance] = after
    eventually(
        lambda: after.owned == had,
        SETTLE_WITHIN_S,
        f"{after!r} owns what its predecessor did, {sorted(had)}",
        lambda: scene.story(members),
    )


@pytest.mark.scenario("18 static restart")
@pytest.mark.parametrize("ending", ["closed", "killed"])
@every_family
def test_a_static_member_restarts_without_a_rebalance(scene: Scene, family: Family, ending: str) -> None:
    topic = scene.topic(2)
    members = static_members(scene, family, topic, 2)
    generation, told = scene.generation(), members[0].callbacks()
    restart(scene, members, topic, 1, orderly=ending == "closed")
    scene.settles(members, partitions_of(topic, 2))
    assert scene.generation() == generation
    assert members[0].callbacks() == told, scene.story(members)


@pytest.mark.scenario("19 rolling restart of five")
@pytest.mark.parametrize(
    "family",
    [pytest.param(family, marks=[pytest.mark.long] if family is JAVA else [], id=family.name) for family in FAMILIES],
)
def test_five_static_members_are_restarted_one_by_one_with_no_rebalance_at_all(scene: Scene, family: Family) -> None:
    topic = scene.topic(5)
    members = static_members(scene, family, topic, 5)
    generation, shares = scene.generation(), [member.owned for member in members]
    for instance in range(5):
        restart(scene, members, topic, instance, orderly=True)
    scene.settles(members, partitions_of(topic, 5))
    assert scene.generation() == generation
    assert [member.owned for member in members] == shares
    # Each process was assigned its share once, when it came, and got no callback since.
    for member, share in zip(members, shares, strict=True):
        assert member.callbacks() == [("assigned", share)], scene.story(members)


def told_of_fencing(member: Client, topic: str) -> dict[str, Any]:
    """The error that ends it; {} as long as there is none."""
    if member.family.tells_fencing_when_polled:
        return next((error for error in member.of_kind("error") if error["fatal"]), {})
    try:
        member.commit([(topic, 0, 0)])
    except ClientError as error:
        return error.error
    return {}


@pytest.mark.scenario("20 one instance id twice")
@families_that_can_be_fenced
def test_of_two_processes_with_one_instance_id_the_older_ends_with_a_fatal_error(scene: Scene, family: Family) -> None:
    topic = scene.topic(2)
    members = static_members(scene, family, topic, 2)
    generation, older = scene.generation(), members[1]
    had = older.owned
    newer = static_member(scene, family, topic, 1)
    fenced = eventually(
        lambda: told_of_fencing(older, topic), SETTLE_WITHIN_S, f"{older!r} is fenced", lambda: scene.story(members)
    )
    assert fenced["fatal"], fenced
    assert "fenced" in f"{fenced['name']} {fenced['text']}".lower(), fenced
    eventually(lambda: newer.owned == had, SETTLE_WITHIN_S, f"{newer!r} owns {sorted(had)}", newer.story)
    assert newer.of_kind("error") == []
    assert scene.generation() == generation


@pytest.mark.scenario("20 one instance id twice")
@families_that_cannot_be_fenced
def test_of_two_processes_whose_heartbeats_have_no_instance_id_the_older_takes_its_place_back(
    scene: Scene, family: Family
) -> None:
    # Evidence for what the table of families says: to the coordinator its heartbeat is that of an unknown member.
    topic = scene.topic(2)
    members = static_members(scene, family, topic, 2)
    older = members[1]
    newer = static_member(scene, family, topic, 1)

    def it_is_back() -> bool:
        took = newer.of_kind("callback")
        return bool(took) and any(
            event["name"] == "assigned" for event in older.of_kind("callback", since_ms=took[0]["at_ms"])
        )

    eventually(it_is_back, SETTLE_WITHIN_S, f"{older!r} joins again", lambda: scene.story([older, newer]))
    assert not [error for error in older.of_kind("error") if error["fatal"]], older.story()


@pytest.mark.scenario("21 group.max.size")
@every_family
def test_the_member_too_many_is_told_so_and_the_others_go_on(
    scene_with: Callable[[dict[str, str]], Scene], family: Family
) -> None:
    scene = scene_with({"group.max.size": "2"})
    topic = scene.topic(2)
    members = [scene.member(family, [topic]) for _ in range(2)]
    scene.settles(members, partitions_of(topic, 2))
    generation, told = scene.generation(), [member.callbacks() for member in members]

    refused = scene.client(family)
    scene.send_consume(refused, [topic])

    reply = refused.reply()  # aiokafka joins before it replies
    eventually(
        lambda: [error for error in [reply.get("error"), *refused.of_kind("error")] if is_about_size(family, error)],
        SETTLE_WITHIN_S,
        f"{refused!r} learns that the group is full",
        refused.story,
    )
    assert refused.owned == frozenset()
    assert scene.generation() == generation
    assert [member.callbacks() for member in members] == told

    scene.client(family).ask("produce", topic=topic, partition=0, values=["x"])
    eventually(
        lambda: [message for member in members for message in member.messages()],
        SETTLE_WITHIN_S,
        "a member reads on",
        lambda: scene.story(members),
    )
    for member in members:
        member.commit([(name, partition, 1) for name, partition in member.owned])


GROUP_MAX_SIZE_REACHED = 81


def is_about_size(family: Family, error: dict[str, object] | None) -> bool:
    """Whether the client names the error by its number, its name, or the words for it."""
    if error is None:
        return False
    if not family.knows_group_max_size:
        return error["text"] == "KafkaError: UnknownError()"
    words = f"{error['name']} {error['text']}".lower().replace("_", "").replace(" ", "")
    return error["code"] == GROUP_MAX_SIZE_REACHED or "maxsizereached" in words or "maximumsize" in words
