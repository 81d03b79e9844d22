"""The core does what the model does with the newer protocol: Hypothesis for shape and shrinking, seeded runs for
volume. `DIFFERENTIAL_EXAMPLES` and `DIFFERENTIAL_RUNS` make it longer; `make differential` is the long run.

Runs that once showed a difference are in `differential_runs`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import rota
from rota.check.differential import engine, recording, volume
from rota.check.differential.cells import GROUP_STATES, Reached
from rota.check.differential.consumer_bytes import Malformed, decoded
from rota.check.differential.walks import CONSUMER
from rota.check.engines import Effort
from rota.cli import app
from rota.model.consumer import records as log
from rota.model.state import State, Timer
from tests.checks.machine import ConsumerCoreAndModel, explored
from tests.checks.planted_consumer import BUGS, Wrong

EXAMPLES = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "60"))
RUNS = int(os.environ.get("DIFFERENTIAL_RUNS", "360"))
PARTS = 2
RECORDED = sorted((Path(__file__).parent / "differential_runs").glob("*.txt"))
#: Seeds within which every planted bug is found.
SEEDS_OF_A_BUG = 60
CELLS_MIN = 500
MEMBER_STATES = {"-", "STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS", "away"}


@pytest.mark.parametrize("part", range(PARTS))
def test_core_and_model_agree_wherever_hypothesis_leads_them(part: int) -> None:
    explored(ConsumerCoreAndModel, part, EXAMPLES // PARTS)


def test_a_run_does_not_stop_at_every_deadline_of_weeks() -> None:
    """Within a rebalance timeout of 24 days the cleaner is due 300,000 times."""
    state = replace(State(), timers=(Timer(2**31, 0, "ConsumerRebalance", "g", "m"),))
    both: Any = SimpleNamespace(state=state, now_ms=0)
    maker = CONSUMER.maker(both, volume.Seeded(0))
    passed = [maker.to_deadline() for _ in range(20)]
    assert {step.stops for step in passed} == {False}
    assert {step.span_ms - 2**31 for step in passed} == {-1, 0, 1}


def test_core_and_model_agree_on_seeded_runs_which_reach_every_situation() -> None:
    reached = Reached()
    for seed in range(RUNS):
        _, failure = volume.run(seed, walk=CONSUMER, reached=reached)
        if failure:
            found = volume.shorten(failure)
            pytest.fail(f"seed {seed}: {found.error}\n\n{recording.text(found)}")
    assert reached.unseen == []
    assert len(reached.cells) >= CELLS_MIN
    assert {cell[0].partition("/")[0] for cell in reached.cells} == set(GROUP_STATES)
    assert {cell[0].partition("/")[2] for cell in reached.cells} == MEMBER_STATES
    assert {cell[3] for cell in reached.cells} == {"-", "current", "previous", "stale", "ahead"}
    assert {cell[4] for cell in reached.cells} == {"null", "none", "exact", "less", "more"}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_run_that_once_differed_holds(path: Path) -> None:
    config, steps = recording.read(path.read_text(encoding="utf-8"))
    assert steps
    assert volume.error_of(config, steps) is None


# ---- the checkers are checked


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rota.coordinator, "Coordinator", lambda config, **more: Wrong(BUGS[name], config, **more))
    found = (volume.run(seed, walk=CONSUMER)[1] for seed in range(SEEDS_OF_A_BUG))
    assert next(filter(None, found), None) is not None, BUGS[name].says


def test_a_difference_is_shown_as_a_run_that_can_be_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = BUGS["assignments-are-not-told"]
    with monkeypatch.context() as patched:
        patched.setattr(rota.coordinator, "Coordinator", lambda config, **more: Wrong(wrong, config, **more))
        report = engine.run(Effort(steps=600, processes=1, protocol="consumer"), lambda *_: None)
        assert (report.engine, report.ok) == ("differential/consumer", False)
        error, _, run = report.failures[0].partition("\n\n")
        path = tmp_path / "run.txt"
        path.write_text(f"# a comment\n{run}\n")
        again = CliRunner().invoke(app, ["check", "differential", "--replay", str(path)])
        assert (again.exit_code, error.splitlines()[1] in again.stdout) == (1, True)
    assert "assignment: core None" in error
    held = CliRunner().invoke(app, ["check", "differential", "--replay", "-"], input=run)
    assert held.exit_code == 0


@pytest.mark.parametrize("words", [["--protocol", "newer"], ["--replay", "absent.txt"], ["--replay", "-"]])
def test_wrong_options_are_refused(words: list[str]) -> None:
    result = CliRunner().invoke(app, ["check", "differential", *words], input="no step")
    assert result.exit_code == 2
    assert words[0] in result.stderr


def test_a_run_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = BUGS["revoking-takes-any-time"]
    monkeypatch.setattr(rota.coordinator, "Coordinator", lambda config, **more: Wrong(wrong, config, **more))
    failures = [failure for seed in range(20) if (failure := volume.run(seed, walk=CONSUMER)[1])]
    assert failures
    for failure in failures:
        assert recording.read(recording.text(failure)) == (failure.config, failure.steps)


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("000300036734", None, "ends"),
        ("00030003673431ff", None, "left"),
        ("00090003673431", None, "key type 9"),
        ("00030003673431", "000100000002010008cd678b47627ef587", "version"),
        ("00030003673431", "00000000000201000800", "ends"),
    ],
)
def test_bytes_that_are_no_record_are_refused(key: str, value: str | None, wrong: str) -> None:
    with pytest.raises(Malformed, match=wrong):
        decoded(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


def test_the_records_of_the_page_are_read() -> None:
    """docs/consumer-protocol.md §14.1 has these bytes."""
    topic = 0x456201A8F0CB4641B126EEC81CE002D7
    member = decoded(
        bytes.fromhex("0005000367343100016d"),
        bytes.fromhex("0000000002630b2f3132372e302e302e3102046f6e65010000ea600001000100"),
    )
    assert member.name == "m"
    assert member.value == log.Subscription(None, None, "c", "/127.0.0.1", ("one",), "", 60_000, None)
    current = decoded(
        bytes.fromhex("0008000367343100016d"),
        bytes.fromhex("000000000002000000000002456201a8f0cb4641b126eec81ce002d7020000000001000502000000020100"),
    )
    assert current.value == log.Current(2, 0, "STABLE", (((topic, 0), 2),), ())
