"""The cells are what the core does and what the model says, all are explained, and a core that differs is noticed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.conform.columns import columns
from rota.conform.matrix import State, states
from rota.transcript.core_subject import CoreSubject
from rota.transcript.model_subject import ModelSubject
from rota.transcript.runner import SubjectFactory
from rota.transcript.subject import Answer, Effect
from tests.protocol.cells import compute
from tests.protocol.why import RULES, Rule

STATES = states()
PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


@pytest.mark.parametrize("subject", [CoreSubject, ModelSubject], ids=["core", "model"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_core_and_model_do_what_the_cells_say(state: State, subject: SubjectFactory) -> None:
    actual = compute(state, subject)
    assert [cell.column for cell in actual] == [cell.column for cell in state.cells]
    differing = [
        f"{written.column}\n  - {written.effects} ({written.section})\n  + {cell.effects} ({cell.section})"
        for written, cell in zip(state.cells, actual, strict=True)
        if written != cell
    ]
    assert not differing, "\n".join([state.title, *differing])


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_a_state_is_the_one_that_it_says_it_is(state: State) -> None:
    described = next(cell.effects for cell in state.cells if cell.column == "DescribeGroup v5")
    word = {
        "None": "Dead",
        "Empty, being created": "Dead",  # its record is not durable: no answer shows it
        "Loading": "COORDINATOR_LOAD_IN_PROGRESS",
        "Unloaded": "NOT_COORDINATOR",
    }.get(state.state, state.state.split(",")[0].replace("Preparing", "PreparingRebalance"))
    word = word.replace("Completing", "CompletingRebalance")
    assert re.search(rf"\b{word}\b", described), described


def test_every_request_is_asked_in_some_state_and_most_in_many() -> None:
    asked = {cell.column for state in STATES for cell in state.cells}
    assert asked == {column.name for column in columns()}
    assert sum(len(state.cells) for state in STATES) > 2_000


def test_every_rule_explains_a_cell() -> None:
    sections = {cell.section for state in STATES for cell in state.cells}
    assert sections == {rule.section for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.section)
def test_every_rule_names_a_section_of_the_protocol_page(rule: Rule) -> None:
    section = re.match(r"[\d.]+", rule.section)
    assert section is not None
    assert re.search(rf"^##+ {re.escape(section[0])} ", PROTOCOL, re.M), rule.section


def test_every_error_of_a_classic_group_is_in_some_cell() -> None:
    seen = {name for state in STATES for cell in state.cells for name in re.findall(r"[A-Z][A-Z_]{3,}", cell.effects)}
    elsewhere = {
        "COORDINATOR_NOT_AVAILABLE",  # a coordinator that has not started or a Dead group: no request finds one here
        "NOT_LEADER_OR_FOLLOWER",  # errors of the log, not of requests: transcripts with `refused`
    }
    wanted = {
        "UNKNOWN_MEMBER_ID",
        "ILLEGAL_GENERATION",
        "REBALANCE_IN_PROGRESS",
        "FENCED_INSTANCE_ID",
        "MEMBER_ID_REQUIRED",
        "GROUP_MAX_SIZE_REACHED",
        "INCONSISTENT_GROUP_PROTOCOL",
        "INVALID_GROUP_ID",
        "INVALID_SESSION_TIMEOUT",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR",
        "GROUP_ID_NOT_FOUND",
        "NON_EMPTY_GROUP",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "UNKNOWN_SERVER_ERROR",
        "OFFSET_METADATA_TOO_LARGE",
    }
    assert {name for name in wanted | elsewhere if name in rota.protocol.ErrorCode.__members__} == wanted | elsewhere
    assert wanted - seen == set()


class Lenient(CoreSubject):
    """The core with one planted fault: it answers a Heartbeat NONE where it should say `error`."""

    error = ""

    def _plain(self, effects: Iterable[Any]) -> list[Effect]:
        plain = super()._plain(effects)
        return [
            replace(effect, fields=effect.fields | {"error": "NONE"})
            if isinstance(effect, Answer) and effect.api == "Heartbeat" and effect.fields["error"] == self.error
            else effect
            for effect in plain
        ]


@pytest.mark.parametrize("error", ["ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID"])
def test_a_core_that_lets_somebody_through_is_noticed(error: str) -> None:
    def lenient(config: Mapping[str, str]) -> Lenient:
        subject = Lenient(config)
        subject.error = error
        return subject

    static = next(state for state in STATES if state.name == "stable-replaced")
    differing = sum(
        written.effects != cell.effects
        for written, cell in zip(static.cells, compute(static, lenient), strict=True)
        if written.column.startswith("Heartbeat")
    )
    assert differing >= 2
