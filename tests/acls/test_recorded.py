"""What a server answers to users without some rights is what Kafka 4.4 with StandardAuthorizer answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rota
from tests.acls.asking import played
from tests.acls.record import PASSWORDS, RECORDED, RECORDED_CLASSIC
from tests.acls.steps import CLASSIC_STEPS, EXPLAINED
from tests.acls.user_steps import DEPARTURES, EVERY_STEP

SETTINGS: dict[str, str | int] = {"super.users": "User:admin", "group.initial.rebalance.delay.ms": 0}
KAFKA: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    with rota.Server(sasl="PLAIN", users=PASSWORDS, acls=[], settings=SETTINGS) as server:
        answered = played((server.host, server.port), PASSWORDS, EVERY_STEP)
        assert server.panics == 0
    return answered


def without_messages(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_messages(inner) for key, inner in value.items() if key != "error_message"}
    return [without_messages(each) for each in value] if isinstance(value, list) else value


def test_every_step_was_recorded() -> None:
    assert sorted(KAFKA) == sorted(step.title for step in EVERY_STEP)
    assert set(KAFKA) >= set(EXPLAINED)


@pytest.mark.parametrize("title", [step.title for step in EVERY_STEP])
def test_the_answer_is_that_of_kafka(answers: dict[str, Any], title: str) -> None:
    of_kafka, of_rota = KAFKA[title], answers[title]
    if title.startswith("DescribeUserScramCredentials"):
        # The users of PLAIN are not users of SCRAM in Kafka.
        of_rota["results"] = [result for result in of_rota["results"] if result["user"] not in PASSWORDS]
    if title in DEPARTURES:
        assert of_kafka != of_rota
        assert {result["user"]: result["error_code"] for result in of_rota["results"]} == DEPARTURES[title]
        return
    if title in EXPLAINED:
        assert of_kafka != of_rota, f"{title} does not differ: {EXPLAINED[title]}"
        of_kafka, of_rota = without_messages(of_kafka), without_messages(of_rota)
    assert of_rota == of_kafka


def test_without_the_newer_protocol_rights_do_not_matter() -> None:
    of_kafka = json.loads(RECORDED_CLASSIC.read_text("utf-8"))
    settings = SETTINGS | {"group.coordinator.rebalance.protocols": "classic"}
    with rota.Server(sasl="PLAIN", users=PASSWORDS, acls=[], settings=settings) as server:
        answers = played((server.host, server.port), PASSWORDS, CLASSIC_STEPS)
    # Kafka has no message; rota's says how to go on.
    assert without_messages(answers) == without_messages(of_kafka)
