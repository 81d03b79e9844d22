"""Random sessions of the newer protocol, at two rota servers, which are alike unless a difference is planted."""

from __future__ import annotations

import random
import shutil

import pytest

import rota
from rota.conform.evidence import Difference
from tests.conform import consumer_fuzz
from tests.conform.consumer_director import Plan
from tests.conform.consumer_fuzz import Tally, search, with_broker, with_core
from tests.conform.consumer_plans import departure
from tests.conform.consumer_sides import HASHED, SETTINGS, Stage, ascending
from tests.conform.systems import kafka

SEARCHED_S = 8.0


def stage(server: rota.Server) -> Stage:
    host, _, port = server.bootstrap_servers.rpartition(":")
    return Stage((host, int(port)), ascending)


def reproducible(rng: random.Random) -> Plan:
    """Two servers make up other member ids for classic members, and put new topics in another order; clocks differ."""
    plan = Plan.drawn(rng)
    plan.converts = plan.topics = plan.timers = plan.interval = False
    return plan


def searched(one: rota.Server, other: rota.Server, within_s: float) -> Tally:
    opened = with_broker(stage(one), stage(other))
    return search(opened, within_s, told=lambda _text: None, drawn=reproducible)


def test_two_servers_answer_the_same_sessions_alike() -> None:
    with rota.Server(settings=SETTINGS) as one, rota.Server(settings=SETTINGS) as other:
        tally = searched(one, other, SEARCHED_S)
    assert tally.findings == [], str(tally.findings[0])
    assert tally.sessions >= 2
    assert tally.requests > tally.sessions


def test_a_planted_difference_is_found_and_shrunk() -> None:
    smaller = {**SETTINGS, "group.consumer.max.size": "1"}
    with rota.Server(settings=SETTINGS) as one, rota.Server(settings=smaller) as other:
        tally = searched(one, other, 120.0)
    (finding,) = tally.findings
    assert 2 <= len(finding.steps) <= 5, str(finding)
    assert any("GROUP_MAX_SIZE_REACHED" in line for line in finding.difference.unexpected), str(finding)


def looked(plan: str, assignor: str = "uniform", epochs: str = "3/3") -> list[str]:
    first, second = plan.split()
    return [f"d< NONE Stable {epochs} {assignor} m1:3[foo](none -> {first}) m2:3[foo](none -> {second})"]


@pytest.mark.parametrize(
    ("theirs", "ours", "answers", "expected"),
    [
        (looked("foo:0-1 foo:2-3"), looked("foo:2-3 foo:0-1"), ((), ()), "D16"),
        (looked("foo:0-1 foo:2-3"), looked("foo:2 foo:0-1+3"), ((), ()), ""),
        (looked("foo:0-1 foo:2-3", "range"), looked("foo:2-3 foo:0-1", "range"), ((), ()), ""),
        (looked("foo:0-1 foo:2-3"), looked("foo:2-3 foo:0-1"), (("m1< NONE epoch=3",), ("m1< X",)), ""),
        (looked("foo:0-1 foo:2-3"), looked("foo:0-1 foo:2-3", epochs="4/4"), ((), ()), ""),
    ],
)
def test_a_plan_explains_nothing_else(
    theirs: list[str], ours: list[str], answers: tuple[tuple[str, ...], tuple[str, ...]], expected: str
) -> None:
    difference = Difference("m1 beat", *answers)
    assert departure(["m1 beat join foo", "m2 beat join foo"], difference, theirs, ours) == expected


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [("m1 beat epoch=-1 instance=i1", "D14"), ("m1 beat epoch=-1 instance=i2", "")],
)
def test_a_member_that_left_takes_no_other_instance(leaves: str, expected: str) -> None:
    steps = ["m1 beat join foo instance=i2", leaves, "m1 beat join foo instance=i1"]
    difference = Difference("m1 beat", ("m1< NONE epoch=3",), ("m1< X",))
    plan = looked("none none")
    assert departure(steps, difference, plan, plan) == expected


@pytest.mark.parametrize(
    ("steps", "told", "expected"),
    [
        (["b JoinGroup"], "Group g not found.", "D18"),
        (["a OffsetCommit foo/0=5", "b JoinGroup"], "Group g is not a consumer group.", "D18"),
        (["b JoinGroup"], "Group g is not a consumer group.", ""),
        (["a OffsetCommit foo/0=5", "b JoinGroup"], "Group g not found.", "D18"),
        (["b JoinGroup", "m1 beat"], "Group g not found.", ""),
    ],
)
def test_an_empty_group_ends_when_a_join_meets_it_and_keeps_its_offsets(
    steps: list[str], told: str, expected: str
) -> None:
    theirs, ours = "d< NONE Empty 4/4 uniform", f'd< GROUP_ID_NOT_FOUND "{told}"'
    difference = Difference(f"{steps[-1]}, and a look", (theirs,), (ours,))
    assert departure(steps, difference, [theirs], [ours]) == expected


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.xdist_group("kafka-broker")
def test_core_and_kafka_answer_the_same_sessions_alike() -> None:
    if absent := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.skip(f"needs {', '.join(absent)}")
    with kafka("broker")(SETTINGS) as address:
        host, _, port = address.rpartition(":")
        opened = with_core(Stage((host, int(port)), HASHED), "bidirectional")
        tally = consumer_fuzz.search(opened, 30.0, told=lambda _text: None)
    assert tally.findings == [], str(tally.findings[0])
    assert tally.sessions >= 5
