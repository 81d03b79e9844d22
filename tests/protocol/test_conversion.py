"""Groups that change their protocol: the core against the sessions recorded from Apache Kafka 4.4.0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.conform.said import Said
from tests.conform.conversion import POLICIES, conversions
from tests.conform.conversion_kafka import EXPLAINED, differences, in_order, on_the_core, recorded

SESSIONS = {conversion.name: conversion for conversion in conversions()}
ROWS = recorded().rows


def test_every_session_is_recorded() -> None:
    assert set(ROWS) == set(SESSIONS)
    assert {conversion.policy for conversion in SESSIONS.values()} == set(POLICIES)


@pytest.mark.parametrize("name", SESSIONS)
def test_the_core_answers_as_kafka_does(name: str) -> None:
    assert differences(SESSIONS[name], ROWS[name]) == []


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_is_explained_does_differ(name: str) -> None:
    assert in_order(on_the_core(SESSIONS[name])) != in_order(ROWS[name])


def test_an_answer_that_differs_is_found() -> None:
    name = "bidirectional/the-last-consumer-leaves"
    told = ROWS[name]
    for at, each in enumerate(told):
        if each.answers:
            planted = [*told[:at], Said(each.step, ("a< NONE generation=77",)), *told[at + 1 :]]
            assert differences(SESSIONS[name], planted)
    assert differences(replace(SESSIONS[name], steps=SESSIONS[name].steps[:-1]), told)
