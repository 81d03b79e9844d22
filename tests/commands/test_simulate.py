"""`rota simulate` and `rota.simulate`: the same seed, the same bytes; figures that say something; clear refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rota import simulate
from rota.check import simulation
from rota.check.engines import Effort
from rota.cli import app
from tests.checks.tidy import ROOT

runner = CliRunner()
LINE = re.compile(r"^ *\d+ [\w/*]+ +[\w-]+( .*)?$")


def said(hash_seed: str) -> bytes:
    command = [sys.executable, "-m", "rota", "simulate", "--seed", "3"]
    done = subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True)
    return done.stdout


def test_the_same_seed_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    first = said("1")
    assert first == said("2")
    assert len(first.splitlines()) > 500


def test_every_line_has_the_columns_and_the_last_says_how_it_went() -> None:
    result = runner.invoke(app, ["simulate", "--seed", "3"])
    assert result.exit_code == 0
    *lines, last = result.stdout.splitlines()
    assert [line for line in lines if not LINE.match(line)] == []
    times = [int(line[:9]) for line in lines]
    assert times == sorted(times)
    assert last.startswith("seed 3 (classic): everything held; settled ")


def test_many_worlds_are_summed_and_every_kind_of_fault_struck() -> None:
    struck: set[str] = set()
    for option in ([], ["--cluster"]):
        result = runner.invoke(app, ["simulate", "--seeds", "0..40", "--json", *option])
        assert result.exit_code == 0
        total = json.loads(result.stdout)
        assert (total["seeds"], total["broken"]) == (40, None)
        struck |= {kind for kind, count in total["figures"]["struck"].items() if count > 0}
    assert struck == simulate.faults().keys()


def test_threads_change_nothing_but_the_time() -> None:
    *_, one = simulate.worlds(0, 24, threads=1)
    *_, four = simulate.worlds(0, 24, threads=4)
    assert one == four


def test_in_a_swarm_some_kinds_of_faults_are_left_out() -> None:
    kinds = [
        {fault["kind"] for fault in world.faults} for seed in range(8) if (world := simulate.world(seed, swarm=True))
    ]
    assert all(len(found) < len(simulate.faults()) // 2 for found in kinds)
    assert len({frozenset(found) for found in kinds}) > 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seeds", "7"], "give A..B"),
        (["--seeds", "7..7"], "there are no seeds from 7 to 7"),
        (["--seeds", "-1..7"], "give A..B"),
        (["--seeds", f"0..{2**64}"], "there are no seeds"),
        (["--seed", "1", "--seeds", "0..1"], "not both"),
        (["--minimise"], "needs --seed"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: list[str], words: str) -> None:
    result = runner.invoke(app, ["simulate", *options])
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_world_that_holds_is_not_minimised() -> None:
    result = runner.invoke(app, ["simulate", "--seed", "3", "--minimise"])
    assert result.exit_code == 1
    assert "does not break" in result.stderr


def test_a_picture_that_cannot_be_written_is_refused_before_the_world_runs(tmp_path: Path) -> None:
    for place, says in ((tmp_path, "it is a directory"), (tmp_path / "missing" / "world.svg", "no such directory")):
        ended = CliRunner().invoke(app, ["simulate", "--seed", "7", "--draw", str(place)])
        assert (ended.exit_code, ended.stdout) == (2, "")
        assert says in ended.stderr


def test_check_reports_the_simulators_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    # the rarest kind is in one world of thirty
    monkeypatch.setattr(simulation, "WORLDS_QUICKLY", 200)
    report = simulation.run(Effort(quick=True, processes=2), lambda *_: None)
    assert report.ok
    assert report.figures["worlds"] == 200
    assert report.figures["kinds of faults"] == len(simulate.faults())


def test_the_page_has_every_kind_of_fault() -> None:
    page = (ROOT / "docs/simulate.md").read_text()
    assert [f"| `{kind}` | {told} |" in page for kind, told in simulate.faults().items()] == [True] * len(
        simulate.faults()
    )
