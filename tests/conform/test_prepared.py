"""Requests about ids in a Prepare state get the answers that Apache Kafka 4.4.0 was recorded with."""

from __future__ import annotations

import json

import pytest

import rota
from tests.conform.prepared import ENDS, HELD, HERE, RECORDED, Answers, play

EXPLAINED: dict[str, str] = {}
"""What rota answers otherwise, with the reason, by state and request."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    with rota.Server() as server:
        for topic in (HERE, HELD):
            server.create_topic(topic, 2)
        return play((server.host, server.port), server.faults.hold_markers, server.faults.release_markers)


@pytest.mark.parametrize("name", ENDS)
def test_a_prepare_state_answers_as_kafka_does(answers: Answers, name: str) -> None:
    recorded: Answers = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert len(recorded[name]) > 150
    differences = {
        request: f"{theirs}, not {answers[name].get(request)}"
        for request, theirs in recorded[name].items()
        if answers[name].get(request) != theirs
    }
    assert differences == {}
