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


@pytest.mark.parametrize("player", PLAYERS)
def test_an_answer_that_differs_is_found(player: str) -> None:
    name = "bidirectional/the-last-consumer-leaves"
    told = ROWS[name]
    for at, each in enumerate(told):
        if each.answers:
            planted = [*told[:at], Said(each.step, ("a< NONE generation=77",)), *told[at + 1 :]]
            assert differences(SESSIONS[name], planted, player)
    assert differences(replace(SESSIONS[name], steps=SESSIONS[name].steps[:-1]), told, player)
