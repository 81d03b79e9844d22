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
def test_an_upgrade_without_a_plan_grants_only_what_no_member_uses(player: str) -> None:
    """docs/departures.md D21: a uses 0 to 2, and b 3 to 5."""
    name = "bidirectional/upgrade-of-an-interrupted-plan"

    def answer(told: Evidence) -> str:
        return next(line for each in told if each.step == "m1 beat join foo" for line in each.answers if "m1<" in line)

    assert answer(ROWS[name]) == "m1< NONE epoch=4 assignment=foo:3"
    assert answer(PLAYERS[player](SESSIONS[name])) == "m1< NONE epoch=4 assignment=none"


@pytest.mark.parametrize("player", PLAYERS)
def test_an_answer_that_differs_is_found(player: str) -> None:
    name = "bidirectional/the-last-consumer-leaves"
    told = ROWS[name]
    for at, each in enumerate(told):
        if each.answers:
            planted = [*told[:at], Said(each.step, ("a< NONE generation=77",)), *told[at + 1 :]]
            assert differences(SESSIONS[name], planted, player)
    assert differences(replace(SESSIONS[name], steps=SESSIONS[name].steps[:-1]), told, player)
