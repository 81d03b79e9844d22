"""Every transcript in python/rota/conform/vectors, in every mode, on the core and on the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.transcript import runner
from rota.transcript.core_subject import CoreSubject
from rota.transcript.model_subject import ModelSubject
from rota.transcript.subject import Answer, Effect
from rota.transcript.text import parse
from tests.protocol.coverage import uncovered_rows

RUNS = [run for path in runner.transcripts() for run in runner.runs(parse(path))]


@pytest.fixture(scope="session", autouse=True)
def _rewritten(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite", default=False):
        for path in runner.transcripts():
            runner.rewrite(path, CoreSubject)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name.replace(" ", "-"))
def test_the_core_does_what_the_transcript_says(run: runner.Run) -> None:
    fresh = next(again for again in runner.runs(parse(run.transcript.path)) if again.name == run.name)
    outcome = runner.play(fresh, CoreSubject(fresh.config))
    assert outcome.matches, "\n" + runner.report(fresh, outcome)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name.replace(" ", "-"))
def test_the_model_does_what_the_transcript_says(run: runner.Run) -> None:
    outcome = runner.play(run, ModelSubject(run.config))
    assert outcome.matches, "\n" + runner.report(run, outcome)


class Spoiled(CoreSubject):
    """The core with one planted fault: its `at`-th effect that is an answer is lost, or says something else."""

    def __init__(self, config: Mapping[str, str], fault: str, at: int) -> None:
        super().__init__(config)
        self.fault, self.left = fault, at

    def _plain(self, effects: Iterable[Any]) -> list[Effect]:
        spoiled: list[Effect] = []
        for effect in super()._plain(effects):
            hit = isinstance(effect, Answer) and self.left == 0
            self.left -= isinstance(effect, Answer)
            if not hit:
                spoiled.append(effect)
            elif isinstance(effect, Answer) and self.fault == "another error" and "error" in effect.fields:
                spoiled.append(replace(effect, fields=effect.fields | {"error": "INVALID_REQUEST"}))
        return spoiled


def answers_of(run: runner.Run) -> int:
    """How many answers the text of a run expects."""
    parts = [part for part in (run.given, run.part) if part]
    return sum("<" in effect for part in parts for step in part.steps for effect in step.effects)


@pytest.mark.parametrize("fault", ["a lost answer", "another error"])
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_the_answers_of_a_transcript_count(fault: str, every: int) -> None:
    """Those of every fourth run; with `make long`, of each."""
    unnoticed, planted = [], 0
    for run in RUNS[::every]:
        given = answers_of(replace(run, given=None, part=run.given)) if run.given else 0
        for at in range(given, answers_of(run)):
            planted += 1
            if runner.play(run, Spoiled(run.config, fault, at)).matches:
                unnoticed.append(f"{run.name}: answer {at + 1}")
    assert planted > 1_500 // every
    assert unnoticed == []


def test_every_row_about_dynamic_members_has_a_transcript() -> None:
    assert uncovered_rows() == []


def test_no_two_transcripts_have_one_name() -> None:
    names = [path.stem for path in runner.transcripts()]
    assert len(names) == len(set(names))


def test_every_row_runs_in_every_mode() -> None:
    modes: dict[Path, set[str]] = {}
    for run in RUNS:
        modes.setdefault(run.transcript.path, set()).add(run.mode)
    assert [path.name for path, seen in modes.items() if seen != {"now", "later", "failed"}] == []
