"""`rota check differential` finds a coordinator that answers wrongly, and shows it in a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rota
from rota.check.differential import engine
from rota.check.engines import Effort
from rota.cli import app
from rota.transcript import runner
from rota.transcript.core_subject import CoreSubject
from rota.transcript.model_subject import ModelSubject
from rota.transcript.subject import Subject
from rota.transcript.text import parse

Change = Callable[[Any, Any], Any]
REAL = rota.coordinator.Coordinator


@dataclass
class Wrong:
    """The real coordinator, but what it answers to a request goes through `change`."""

    real: rota.coordinator.Coordinator
    change: Change

    def submit(self, now_ms: int, ticket: int, request: Any, *, entropy: int) -> list[Any]:
        return [self.change(request, effect) for effect in self.real.submit(now_ms, ticket, request, entropy=entropy)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def welcome_strangers(_request: Any, effect: Any) -> Any:
    """A planted bug: an unknown member is answered NONE."""
    is_stranger = (
        isinstance(effect, rota.protocol.HeartbeatAnswer) and effect.error == rota.protocol.ErrorCode.UNKNOWN_MEMBER_ID
    )
    return rota.protocol.HeartbeatAnswer(effect.ticket, rota.protocol.ErrorCode.NONE) if is_stranger else effect


def panic(request: Any, effect: Any) -> Any:
    """A planted bug: something that no error was made for."""
    if isinstance(request, rota.protocol.LeaveGroup):
        raise OverflowError("more leavers than members")
    return effect


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Puts a wrong coordinator into the place of the real one."""
    return lambda change: monkeypatch.setattr(
        rota.coordinator, "Coordinator", lambda *a, **k: Wrong(REAL(*a, **k), change)
    )


def test_a_wrong_answer_is_shown_by_a_transcript_of_one_request(
    plant: Callable[[Change], None], tmp_path: Path
) -> None:
    plant(welcome_strangers)
    result = CliRunner().invoke(app, ["check", "differential", "--steps", "6000", "--jobs", "1"])
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    found, _, text = result.stdout.partition("# what core and model disagree on")
    assert "effects[0].error: core <ErrorCode.NONE: 0>, model <ErrorCode.UNKNOWN_MEMBER_ID: 25>" in found
    path = tmp_path / "witness.txt"
    path.write_text(f"# a witness{text}")
    [*_, section] = parse(path).sections
    assert len(section.steps) == 1
    assert [effect.split("< ")[1] for effect in section.steps[0].effects] == ["UNKNOWN_MEMBER_ID"]
    assert played(path, ModelSubject)
    assert not played(path, CoreSubject)


def played(path: Path, subject: Callable[[dict[str, str]], Subject]) -> bool:
    """Whether the witness in this file happens as it is written."""
    *_, run = runner.runs(parse(path))
    return runner.play(run, subject(run.config)).matches


def test_what_the_coordinator_raises_is_a_finding(plant: Callable[[Change], None]) -> None:
    plant(panic)
    report = engine.run(Effort(steps=6_000, processes=1), lambda *_: None)
    assert not report.ok
    assert "OverflowError: more leavers than members" in report.failures[0]
    assert len(report.failures) == 1, "only the smallest"


@pytest.mark.parametrize("processes", [1, 2])
def test_it_takes_the_steps_that_it_was_asked_for(processes: int) -> None:
    signs: list[tuple[int, int, str]] = []
    report = engine.run(Effort(steps=2_400, seed=3, processes=processes), lambda *sign: signs.append(sign))
    assert report.ok
    assert report.failures == []
    assert (report.figures["steps"], report.figures["runs"], report.figures["seed"]) == (2_400, 40, 3)
    assert signs == [(1_200, 2_400, "steps"), (2_400, 2_400, "steps")]
