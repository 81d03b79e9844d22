"""Groups that change their protocol: model and core against the sessions recorded from Apache Kafka 4.4.0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.conform.said import Evidence, Said
from tests.conform.conversion import POLICIES, conversions
from tests.conform.conversion_kafka import EXPLAINED, PLAYERS, differences, in_order, recorded

SESSIONS = {conversion.name: conversion for conversion in conversions()}
ROWS = recorded().rows


def test_every_session_is_recorded() -> None:
    assert set(ROWS) == set(SESSIONS)
    assert {conversion.policy for conversion in SESSIONS.values()} == set(POLICIES)


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", SESSIONS)
def test_model_and_core_answer_as_kafka_does(player: str, name: str) -> None:
    assert differences(SESSIONS[name], ROWS[name], player) == []


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", EXPLAINED)
def test_what_is_explained_does_differ(player: str, name: str) -> None:
    assert in_order(PLAYERS[player](SESSIONS[name])) != in_order(ROWS[name])


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize(
    ("name", "granted"),
    [
        ("upgrade-of-an-interrupted-plan", "foo:3"),
        ("upgrade-behind-a-downgrade", "foo:3-5"),
        ("upgrade-before-a-member-syncs", "foo:5"),
    ],
)
def test_an_upgrade_grants_only_what_no_member_uses(player: str, name: str, granted: str) -> None:
    """docs/departures.md D21: a or b uses what Kafka grants."""

    def answer(told: Evidence) -> str:
        joins = [each for each in told if each.step == "m1 beat join foo"]
        return next(line for line in joins[-1].answers if "m1<" in line)

    assert answer(ROWS[f"bidirectional/{name}"]) == f"m1< NONE epoch=4 assignment={granted}"
    assert answer(PLAYERS[player](SESSIONS[f"bidirectional/{name}"])) == "m1< NONE epoch=4 assignment=none"


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", [name for name, departure in EXPLAINED.items() if departure == "D22"])
def test_classic_members_compute_a_target_that_is_due_when_no_other_member_is_left(player: str, name: str) -> None:
    """docs/departures.md D22: only the answers to Heartbeats differ, and they ask to join again."""
    theirs, ours = in_order(ROWS[name]), in_order(PLAYERS[player](SESSIONS[name]))
    differing = [(ours, theirs) for ours, theirs in zip(ours, theirs, strict=True) if ours != theirs]
    assert differing
    for ours_said, theirs_said in differing:
        assert "Heartbeat" in ours_said.step
        assert [line.split("< ")[1] for line in ours_said.answers] == ["REBALANCE_IN_PROGRESS"]
        assert [line.split("< ")[1] for line in theirs_said.answers] == ["NONE"]


def last_answer(told: Evidence, step: str) -> str:
    """The own line of the last step with this text."""
    name = step.split()[0]
    lines = [line for each in told if each.step == step for line in each.answers if line.startswith(f"{name}<")]
    return lines[-1].removeprefix(f"{name}< ")


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize(
    ("departure", "name", "step", "kafka", "rota"),
    [
        (
            "D23: a uses 3 to 5 until its next request",
            "a-replacement-before-a-member-gives-up",
            "s SyncGroup instance=i1",
            "NONE protocol=consumer/range assignment=[foo:3-5]",
            "REBALANCE_IN_PROGRESS",
        ),
        (
            "D23: 3 to 5 is the target of b",
            "a-replacement-while-another-waits",
            "b Heartbeat",
            "NONE",
            "REBALANCE_IN_PROGRESS",
        ),
        (
            "D24: a held nothing yet",
            "classic-describe-of-a-mixed-group",
            "x DescribeGroup v=5",
            "NONE PreparingRebalance protocol=consumer/- $a[a@/127.0.0.1]:-:[foo:3-5]",
            "NONE PreparingRebalance protocol=consumer/- $a[a@/127.0.0.1]:-:[none]",
        ),
        (
            "D25: m1 has the assignment of a, and b none",
            "a-replacement-by-a-consumer-while-another-waits",
            "d look",
            "NONE Stable 1/1 uniform $b:1[foo](none -> none) m1/i1:1[foo](foo:0-5 -> foo:0-5)",
            "NONE Stable 2/2 uniform $b:2[foo](foo:3-5 -> foo:3-5) m1/i1:2[foo](foo:0-2 -> foo:0-2)",
        ),
        (
            "D25: no member has a partition",
            "too-large-for-a-consumer-group",
            "d look",
            "NONE Stable 2/2 uniform $b/ib:2[foo](none -> none) m1/ia:2[foo](none -> none)",
            "NONE Reconciling 3/3 uniform $b/ib:2[foo](none -> foo:0-2) m1/ia:3[foo](foo:3-5 -> foo:3-5)",
        ),
    ],
)
def test_a_conversion_leaves_no_partition_to_two_members_or_to_none(
    player: str, departure: str, name: str, step: str, kafka: str, rota: str
) -> None:
    assert last_answer(in_order(ROWS[f"bidirectional/{name}"]), step) == kafka, departure
    told = PLAYERS[player](SESSIONS[f"bidirectional/{name}"])
    assert last_answer(in_order(told), step) == rota, departure


@pytest.mark.parametrize("player", PLAYERS)
def test_an_answer_that_differs_is_found(player: str) -> None:
    name = "bidirectional/the-last-consumer-leaves"
    told = ROWS[name]
    for at, each in enumerate(told):
        if each.answers:
            planted = [*told[:at], Said(each.step, ("a< NONE generation=77",)), *told[at + 1 :]]
            assert differences(SESSIONS[name], planted, player)
    assert differences(replace(SESSIONS[name], steps=SESSIONS[name].steps[:-1]), told, player)
