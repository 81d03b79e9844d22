"""Every transcript in tests/vectors, in every mode, on the core."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts import runner
from tests.transcripts.core_subject import CoreSubject
from tests.transcripts.coverage import uncovered_rows
from tests.transcripts.text import parse

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
