"""`rota check exploration`: the engine and its witness."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from rota import _rota
from rota.check import exploration
from rota.check.engines import Effort
from rota.cli import app

# Bounds with fewer states than these tests ask for.
SMALL = 1
JOIN = 'a JoinGroup id="" protocols=range:[t] session=3000ms rebalance=2000ms v=3'
WAY = f"# S9: wrong\nrows\ndoc\nconfig group.min.session.timeout.ms=0 group.initial.rebalance.delay.ms=0\n---\n{JOIN}\n"


def test_every_state_within_the_bounds_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "STATES_QUICKLY", 300)
    told: list[int] = []
    report = exploration.run(Effort(quick=True, processes=2), lambda done, _of, _job: told.append(done))
    assert report.ok, report.failures
    assert int(report.figures["states"]) >= 300 * (len(_rota.exploration_bounds()) - SMALL)
    assert len(told) > len(_rota.exploration_bounds())


def test_as_many_states_are_visited_as_are_asked_for() -> None:
    few, more = (exploration.run(Effort(processes=2, states=states), lambda *_: None) for states in (20, 400))
    bounds = len(_rota.exploration_bounds()) - SMALL
    assert 20 * bounds <= int(few.figures["states"]) < 400 * bounds <= int(more.figures["states"])


def test_one_protocol_is_explored_alone() -> None:
    found = {
        name: exploration.run(Effort(processes=2, states=20), lambda *_: None, exploration.bounds_of(name))
        for name in exploration.PROTOCOLS
    }
    newer = {name: report.figures["of the newer protocol"] for name, report in found.items()}
    assert newer == {"classic": 0, "consumer": found["consumer"].figures["states"]}
    assert int(found["classic"].figures["states"]) > 0


def test_bounds_that_are_named_are_explored_alone() -> None:
    words = ["check", "exploration", "--bounds", "full-group", "--bounds", "single", "--json"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    (report,) = json.loads(ended.stdout)
    assert report["figures"]["bounds"] == "2 (2 seen whole)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--bounds", "wide"], "rota: --bounds is `wide`: give one of single, narrow, "),
        (["--protocol", "consumer", "--bounds", "single"], "rota: --bounds is `single`: give one of consumers, "),
    ],
)
def test_bounds_that_are_not_there_are_refused(words: list[str], says: str) -> None:
    ended = CliRunner().invoke(app, ["check", "exploration", *words])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(says)


def test_a_violation_is_shown_with_what_the_core_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> dict[str, Any]:
        way = WAY + "+0ms\nstored\na' Heartbeat id=$nobody generation=1\n"
        return {"states": 1, "transitions": 1, "complete": False, "cells": [], "violation": ("S9", "wrong", way)}

    monkeypatch.setattr(_rota, "explore", broken)
    report = exploration.run(Effort(quick=True, processes=1), lambda *_: None, ["dynamic"])
    (failure,) = report.failures
    assert not report.ok
    assert "S9 within the bounds `dynamic`: wrong" in failure
    assert "\n  a< NONE generation=1 protocol=consumer/range leader=$a member=$a" in failure
    assert "# a' Heartbeat id=$nobody generation=1: no actor got the id `$nobody`" in failure


def test_a_violation_of_the_newer_protocol_is_shown_as_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> dict[str, Any]:
        way = "Ask(0, Join(1), Answered)\nCrash(false)\n"
        return {"states": 1, "transitions": 1, "complete": False, "cells": [], "violation": ("C2", "wrong", way)}

    monkeypatch.setattr(_rota, "explore", broken)
    report = exploration.run(Effort(quick=True, processes=1), lambda *_: None, ["conversion"])
    assert report.failures == ["C2 within the bounds `conversion`: wrong\n\nAsk(0, Join(1), Answered)\nCrash(false)"]


def test_bounds_that_nobody_knows_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"unknown bounds `wide`.*narrow"):
        _rota.explore("wide", 10, 1)


def test_what_progress_raises_ends_the_exploration() -> None:
    def enough(_known: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _rota.explore("dynamic", 100_000, 1, enough)
