"""`rota check`: one table, plain data, properties in words, and exit codes that mean something."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from rota.check import exploration, proofs
from rota.check.differential import engine
from rota.check.engines import Effort, Progress, Report, each, table
from rota.check.registry import ENGINES
from rota.cli import app

runner = CliRunner()
#: Every engine has one report, the random walk one for each protocol.
REPORTS = sum(len(engine.protocols) for engine in ENGINES)
GOOD = Report("proofs", True, 1.25, {"obligations": 12_000, "proved": 12_000})
BAD = Report("proofs", False, 1.0, {"obligations": 2, "proved": 1}, ["refuted: consecution S3 leave\nbefore, ..."])


def reporting(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine reports this."""
    for each_engine in ENGINES:
        monkeypatch.setattr(f"{each_engine.module}.run", lambda *_, **__: report)


def test_the_table_has_one_line_for_each_engine() -> None:
    lines = table([GOOD, BAD]).splitlines()
    assert [line.split()[0] for line in lines] == ["engine", "proofs", "proofs"]
    assert "12,000" in lines[1]
    assert "FAILED" in lines[2]


@pytest.mark.parametrize("command", [["check"], ["check", "proofs"], ["check", "--quick"]])
def test_it_ends_with_0_when_everything_holds(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reporting(GOOD, monkeypatch)
    result = runner.invoke(app, command)
    assert result.exit_code == 0
    assert "holds" in result.stdout


def test_it_ends_with_1_and_the_counter_example_when_something_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    reporting(BAD, monkeypatch)
    result = runner.invoke(app, ["check", "proofs"])
    assert result.exit_code == 1
    assert "refuted: consecution S3 leave" in result.stdout


def test_json_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    reporting(GOOD, monkeypatch)
    reports = json.loads(runner.invoke(app, ["check", "--json"]).stdout)
    assert len(reports) == REPORTS
    assert reports[0]["figures"]["obligations"] == 12_000


def test_an_option_in_front_of_an_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reporting(GOOD, monkeypatch)
    for options in (["--quick"], ["--json"], ["--seed", "0"], ["--jobs", "1"]):
        ended = runner.invoke(app, ["check", *options, "exploration"])
        assert (ended.exit_code, ended.stdout) == (2, "")
        assert f"as in `rota check exploration {options[0]}`" in ended.stderr


def without_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "z3" else find_spec(name))


def test_without_z3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_z3(monkeypatch)
    result = runner.invoke(app, ["check", "proofs"])
    assert result.exit_code == 2
    assert "pip install '.[check]'" in result.output


def test_without_z3_the_other_engines_run_and_it_ends_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    reporting(GOOD, monkeypatch)
    without_z3(monkeypatch)
    result = runner.invoke(app, ["check", "--json"])
    assert result.exit_code == 2
    assert len(json.loads(result.stdout)) == REPORTS - 1
    assert "left out: the proofs need Z3: pip install '.[check]'" in result.stderr


@pytest.mark.parametrize(
    "options",
    [["--steps", "0"], ["--seed", "-1"], ["--jobs", "0"], ["--fast"], ["prove"], ["exploration", "--states", "0"]],
)
def test_what_it_does_not_understand_is_misuse(options: list[str]) -> None:
    assert runner.invoke(app, ["check", *options]).exit_code == 2


@pytest.mark.parametrize(
    ("command", "effort", "bounds"),
    [
        (
            ["differential", "--quick", "--seed", "7", "--steps", "60", "--jobs", "3", "--protocol", "consumer"],
            Effort(quick=True, seed=7, steps=60, processes=3, protocol="consumer"),
            None,
        ),
        (
            ["exploration", "--states", "90", "--jobs", "3"],
            Effort(processes=3, states=90),
            exploration.bounds_of(None),
        ),
        (
            ["exploration", "--protocol", "consumer", "--jobs", "3"],
            Effort(processes=3),
            exploration.bounds_of("consumer"),
        ),
    ],
)
def test_the_options_reach_the_engine(
    command: list[str], effort: Effort, bounds: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Effort, Sequence[str] | None]] = []

    def run(
        effort: Effort, _progress: Progress, protocol: str | None = None, names: Sequence[str] | None = None
    ) -> Report:
        asked.append((effort if protocol is None else replace(effort, protocol=protocol), names))
        return GOOD

    for asked_for in (engine, exploration):
        monkeypatch.setattr(asked_for, "run", run)
    assert runner.invoke(app, ["check", *command]).exit_code == 0
    assert asked == [(effort, bounds)]


def test_an_interruption_ends_with_130_and_prints_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_effort: Effort, _progress: Progress) -> Report:
        raise KeyboardInterrupt

    reporting(GOOD, monkeypatch)
    monkeypatch.setattr(f"{ENGINES[-1].module}.run", interrupted)
    result = runner.invoke(app, ["check"])
    assert result.exit_code == 130
    assert result.stdout.count("holds") == REPORTS - 1
    assert f"{ENGINES[-1].name} was interrupted" in result.stderr


def test_ctrl_c_ends_all_its_processes() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rota", "check", "differential", "--steps", "100000000", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "rota: differential ...\n"
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)  # which ends when the last of them has closed its stderr
    assert process.returncode == 130
    assert said == "rota: differential was interrupted\n"


@pytest.mark.parametrize("processes", [1, 2])
def test_every_job_is_done_once(processes: int) -> None:
    assert sorted(each(abs, range(-9, 0), processes)) == list(range(1, 10))


def test_a_property_is_explained() -> None:
    result = runner.invoke(app, ["check", "proofs", "--explain", "s3"])
    assert result.exit_code == 0
    assert "a group with members has one of them as leader" in result.stdout
    assert "docs/protocol.md §5.6" in result.stdout
    assert "heir is not a member" in result.stdout
    as_json = json.loads(runner.invoke(app, ["check", "proofs", "--explain", "s3", "--json"]).stdout)
    assert as_json == {"id": "s3", "text": result.stdout.removesuffix("\n")}


def test_a_property_that_does_not_exist_is_misuse() -> None:
    result = runner.invoke(app, ["check", "proofs", "--explain", "S99"])
    assert result.exit_code == 2
    assert "there is no property `S99`: did you mean `S9`" in result.output
    assert len(result.output) < 200


def test_a_report_counts_what_failed() -> None:
    unknown = {
        "kind": "consecution",
        "action": "leave",
        "claim": "S3",
        "verdict": "unknown",
        "seconds": 60.0,
        "shown": "",
    }
    survivor = {"kind": "mutant", "name": "any plan", "breaks": [], "shown": ""}
    needed = unknown | {"kind": "necessity", "claim": "dead", "verdict": "proved"}
    noticed = survivor | {"name": "leaderless", "breaks": ["S3"]}
    report = proofs.report([unknown, needed, survivor, noticed], quick=False, seconds=60.0)
    assert not report.ok
    assert report.failures[:2] == ["unknown: consecution S3 leave", "not noticed: the planted bug `any plan`"]
    unneeded = "\n".join(report.failures[2:])
    assert all(f"not needed: without `{name}` nothing breaks" in unneeded for name in ("minted", "S1"))
    assert "`dead`" not in unneeded
    assert "`S3`" not in unneeded
