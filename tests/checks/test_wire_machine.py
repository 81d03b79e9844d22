"""A server answers over TCP what the model says, in frames that kafka-python wrote and reads.

`WIRE_EXAMPLES` makes it longer.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rota import model
from rota.check.differential.lockstep import Difference
from rota.check.differential.steps import Ask, Pass, Step
from tests.checks import wire_frames
from tests.checks.wire_machine import ServerAndModel, Wire

EXAMPLES = int(os.environ.get("WIRE_EXAMPLES", "40"))
PARTS = 4
JOIN = model.JoinGroup("g", "", (("range", b"Sa"),), client_id="a", session_timeout_ms=10_000)


def run(machine: type[ServerAndModel], examples: int, phases: Collection[Phase] = tuple(Phase)) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_server_and_model_agree_wherever_hypothesis_leads_them(part: int) -> None:
    run(type(f"ServerAndModel{part}", (ServerAndModel,), {}), EXAMPLES // PARTS)


def play(wire: Wire, steps: Iterable[Step]) -> None:
    try:
        for step in steps:
            wire.play(step)
        wire.finish()
    finally:
        wire.close()


def a_group_of_one(version: int) -> list[Step]:
    return [
        Ask(1, "a", replace(JOIN, version=version)),
        Ask(2, "a", replace(JOIN, member_id="@1", version=version)),
        Pass(3_000, True),
        Ask(3, "a", model.SyncGroup("g", "@1", 1, (("@1", b"X"),), "consumer", "range")),
        Ask(4, "a", model.Heartbeat("g", "@1", 1)),
        Ask(5, "a", model.DescribeGroup("g")),
        Ask(6, "a", model.OffsetCommit("g", (("t", 0, 5, -1, "m"),), "@1", 1)),
        Pass(10_000, True),
        Ask(7, "a", model.Heartbeat("g", "@1", 1)),
    ]


@pytest.mark.parametrize("version", range(4, 10))
def test_a_group_of_one_lives_and_ends_as_in_the_model(version: int) -> None:
    wire = Wire({})
    play(wire, a_group_of_one(version))
    assert wire.answered == 7


def test_what_the_log_holds_is_not_answered_until_it_is_released() -> None:
    wire = Wire({})
    wire.hold()
    wire.play(Ask(1, "a", model.OffsetCommit("g", (("t", 0, 5, -1, "m"),))))
    assert (wire.answered, list(wire.waiting)) == (0, [1])
    wire.release()
    assert (wire.answered, list(wire.waiting)) == (1, [])
    wire.close()


class Off(Wire):
    """A model with a planted fault: one field of one kind of answer is another."""

    kind: type = model.JoinAnswer
    fields: dict[str, Any]

    def _step_model(self, events: Iterable[model.Event]) -> list[model.Effect]:
        return [
            replace(effect, **self.fields) if type(effect) is self.kind else effect
            for effect in super()._step_model(events)
        ]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (model.JoinAnswer, {"generation": 7}),
        (model.JoinAnswer, {"leader": "somebody"}),
        (model.JoinAnswer, {"members": ()}),
        (model.SyncAnswer, {"assignment": b"Y"}),
        (model.HeartbeatAnswer, {"error": "REBALANCE_IN_PROGRESS"}),
        (model.DescribeAnswer, {"protocol_type": "connect"}),
        (model.CommitAnswer, {"partitions": (model.CommittedPartition("t", 0, "ILLEGAL_GENERATION"),)}),
    ],
)
def test_one_other_field_in_an_answer_is_noticed(kind: type, fields: dict[str, Any]) -> None:
    wire = Off({})
    wire.kind, wire.fields = kind, fields
    with pytest.raises(Difference, match=r"server .*\n model "):
        play(wire, a_group_of_one(9))


class Late(Wire):
    """A model with a planted fault: whatever an answer arms ends a millisecond late."""

    def _step_model(self, events: Iterable[model.Event]) -> list[model.Effect]:
        effects = super()._step_model(events)
        late = (replace(timer, deadline_ms=timer.deadline_ms + bool(effects)) for timer in self.state.timers)
        self.state = replace(self.state, timers=tuple(sorted(late)))
        return effects


def test_a_deadline_that_is_a_millisecond_late_is_noticed() -> None:
    with pytest.raises(Difference, match="has members"):
        play(Late({}), a_group_of_one(9))


def test_an_answer_that_does_not_come_and_one_too_many_are_noticed() -> None:
    class Silent(Wire):
        def _step_model(self, events: Iterable[model.Event]) -> list[model.Effect]:
            return [each for each in super()._step_model(events) if not isinstance(each, model.HeartbeatAnswer)]

    with pytest.raises(Difference, match="ticket 4 waits, but the server answers"):
        play(Silent({}), a_group_of_one(9))


def test_hypothesis_finds_a_planted_fault() -> None:
    class Leaderless(Off):
        kind, fields = model.JoinAnswer, {"leader": ""}

    class Planted(ServerAndModel):
        def wire_with(self, config: dict[str, int]) -> Wire:
            return Leaderless(config)

    with pytest.raises(Difference, match="JoinGroupResponse"):
        run(Planted, 100, [Phase.generate])


def test_the_model_s_words_are_kafka_s_errors() -> None:
    said = {"UNKNOWN_MEMBER_ID": 25, "FENCED_INSTANCE_ID": 82, "MEMBER_ID_REQUIRED": 79, "NOT_COORDINATOR": 16}
    assert {word: wire_frames.ERRORS[word] for word in said} == said
