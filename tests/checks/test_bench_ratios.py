"""The table of ratios: what a line says, that a missing rival is one, and that a failure does not take the rest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benches import brokers
from benches.brokers import MissingError
from benches.ratios import __main__ as ratios
from benches.ratios import coordinator, sockets
from benches.ratios.row import Row, Wanted, as_json, at_least, at_most, faster, markdown, text
from benches.ratios.run import Plan, in_turns, jvm
from benches.rival import Rival
from rota.bench import processes
from rota.bench.alone import way
from rota.bench.figures import figure

ROOT = Path(__file__).resolve().parents[2]
QUICK = Plan(quick=True)
OURS = way("rota", [(1_000, 0.001), (1_000, 0.002)])
THEIRS = way("another", [(100, 0.001), (100, 0.001)])


def test_a_line_has_figures_ratio_goal_and_operations() -> None:
    row = faster("PERF-1", "a heartbeat", OURS, THEIRS, at_least(8))
    # Round by round: ten times as long, then five times.
    assert row.cells() == [
        "PERF-1",
        "a heartbeat",
        "1.5 us",
        "another",
        "10 us",
        "7.50x (5.00-10.00)",
        ">= 8",
        "not met",
        "2,000 / 200",
    ]


@pytest.mark.parametrize(
    ("wanted", "value", "verdict"),
    [
        (at_least(8), 8.0, "met"),
        (at_least(8), 7.9, "not met"),
        (at_most(1.15), 1.1, "met"),
        (at_most(0.25), 0.3, "not met"),
    ],
)
def test_what_is_wanted_may_be_much_or_little(wanted: Wanted, value: float, verdict: str) -> None:
    assert Row("PERF-5", "", "", ratio=figure([value]), wanted=wanted).verdict == verdict


def test_the_table_is_text_markdown_or_json() -> None:
    rows = [faster("PERF-1", "a|b", OURS, THEIRS, None), Row("PERF-6", "heartbeats", "tansu", note="no `tansu`")]
    assert text(rows).splitlines()[2].split() == ["PERF-6", "heartbeats", "tansu", "no", "`tansu`"]
    assert "| a\\|b |" in markdown(rows)
    read = json.loads(as_json("here", rows))
    assert read["rows"][0]["ratio"]["rounds"] == pytest.approx([10, 5])
    assert read["rows"][1]["ratio"] is None


def test_a_missing_rival_is_a_line_that_says_so() -> None:
    def rows(_: Plan) -> Iterator[Row]:
        yield faster("PERF-3", "before", OURS, THEIRS, None)
        raise MissingError("no `java`: Kafka is not measured")

    found, whole = ratios.measured(ratios.Part(("PERF-3",), rows), QUICK)
    assert whole
    assert [row.note for row in found] == ["", "no `java`: Kafka is not measured"]


def test_a_failure_is_a_line_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    def rows(_: Plan) -> Iterator[Row]:
        yield faster("PERF-3", "before", OURS, THEIRS, None)
        raise ZeroDivisionError

    found, whole = ratios.measured(ratios.Part(("PERF-3",), rows), QUICK)
    assert not whole
    assert found[1].note == "FAILED: ZeroDivisionError()"
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_rivals_take_turns() -> None:
    order: list[str] = []

    def run(name: str) -> tuple[int, float]:
        order.append(name)
        return 1, 1.0

    in_turns(QUICK, {"a": lambda: run("a"), "b": lambda: run("b")})
    assert order == ["a", "b"] * QUICK.rounds


def test_the_page_keeps_everything_but_the_table() -> None:
    page = ratios.PAGE.read_text(encoding="utf-8")
    once = ratios.written(page, ratios.section("here", "make ratios", [Row("PERF-3", "new", "")]))
    assert "| PERF-3 | new |" in once
    assert ratios.written(once, page[page.index(ratios.BEGIN) : page.index(ratios.END) + len(ratios.END)]) == page


def test_the_command_measures_what_it_is_asked_for() -> None:
    command = [sys.executable, "-m", "benches.ratios", "--quick", "--json", "PERF-4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["goal"], row["beside"]) for row in rows] == [
        ("PERF-4", "one Python call an event"),
        ("PERF-4", "the same arrays in a Rust loop"),
    ]
    assert all(len(row["ratio"]["rounds"]) == QUICK.rounds for row in rows)


def run_of(path: Path, *ratios_of: float | None) -> str:
    """A file with a run: a line for each ratio, without one a note. Returns its name."""
    rows = [
        Row("PERF-7", str(at), "Kafka", ours=f"run {path.stem}", ratio=figure([value]), wanted=at_least(3))
        if value is not None
        else Row("PERF-7", str(at), "Kafka", note="no `java`")
        for at, value in enumerate(ratios_of)
    ]
    path.write_text(as_json(f"machine of {path.stem}", rows), encoding="utf-8")
    return str(path)


def test_a_table_of_three_runs_says_in_how_many_a_goal_is_met(tmp_path: Path) -> None:
    given = {"a": (2.0, 3.5, 1.0, None), "b": (4.0, 3.1, 2.0, None), "c": (3.0, 9.0, 2.9, 5.0)}
    files = [run_of(tmp_path / f"{name}.json", *values) for name, values in given.items()]
    command = [sys.executable, "-m", "benches.ratios", "--from", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    where, _, *lines = done.stdout.splitlines()
    assert where == "machine of a; machine of b; machine of c"
    assert [re.split(" {2,}", line)[1:] for line in lines] == [
        ["0", "run c", "Kafka", "3.00x (2.00-4.00)", ">= 3", "met in 2 of 3"],
        ["1", "run a", "Kafka", "3.50x (3.10-9.00)", ">= 3", "met"],
        ["2", "run b", "Kafka", "2.00x (1.00-2.90)", ">= 3", "not met"],
        ["3", "run c", "Kafka", "5.00x (5.00-5.00)", ">= 3", "met"],
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["PERF-3", "--from", "one.json"], "--from measures nothing: leave out the goals and --quick"),
        (["--from", "none.json"], "No such file"),
        (["--quick", "--from", "one.json"], "--from measures nothing: leave out the goals and --quick"),
        (["--from", "pyproject.toml"], "pyproject.toml: this is no run of `--json`"),
    ],
)
def test_what_is_no_run_is_named(words: list[str], says: str) -> None:
    command = [sys.executable, "-m", "benches.ratios", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_an_unknown_goal_is_named() -> None:
    command = [sys.executable, "-m", "benches.ratios", "PERF-99"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "there is no PERF-99; there are PERF-1, " in done.stderr


def test_the_c_mock_takes_turns_with_rota() -> None:
    with processes.own_server(None) as ours, brokers.mock(None) as mock:
        (row,) = sockets.one_load(QUICK, sockets.Load(2, 1), ours, [mock])
    assert row.beside == "librdkafka's mock"
    assert row.ratio is not None
    assert "REFUSED" not in row.operations


@pytest.mark.java
@pytest.mark.parametrize(
    "what", ["shard", *(pytest.param(what, marks=pytest.mark.long) for what in ("restart", "keyed", "expiry"))]
)
def test_kafkas_classes_do_what_they_are_asked(what: str) -> None:
    with jvm(QUICK, what, 1_000) as rival:
        operations, seconds = rival.run()
        assert operations == (1_000 if what == "expiry" else 100_000)
        assert seconds > 0
        if what == "shard":
            assert int(rival.ask("bytes", 60)) > 1_000 * 100


@pytest.mark.java
def test_kafkas_service_tells_wall_and_processor_time_of_every_kind_of_run() -> None:
    with jvm(QUICK, "service", 1_000, lines=("run", "singly")) as rival:
        many, of_many = rival.run(), rival.run(line="processor")
        singly, of_singly = rival.run(line="singly"), rival.run(line="processor")
    assert (many[0], of_many[0], singly[0], of_singly[0]) == (100_000, 100_000, 20_000, 20_000)
    # More than the wall's by what ran at once, and it is asked for a little later.
    most = 1.1 * (os.cpu_count() or 1)
    assert 0 < of_many[1] < many[1] * most
    assert 0 < of_singly[1] < singly[1] * most


@pytest.mark.parametrize(("wall", "processor"), [("3000 2", "2000 2"), ("2000 2", "3000 2")])
def test_of_wall_and_processor_time_the_lesser_counts(wall: str, processor: str) -> None:
    script = f'while read line; do [ "$line" = run ] && echo {wall} || echo {processor}; done'
    with Rival(["sh", "-c", script]) as rival:
        operations, seconds = coordinator.on_threads(QUICK, rival, "run")
    assert operations == 2
    assert seconds == pytest.approx(2e-6)


def test_a_thread_that_waited_has_its_processor_time_and_no_more_than_wall_time() -> None:
    assert coordinator.on_one_thread(lambda: (3, 0.0)) == (3, 0.0)
    operations, seconds = coordinator.on_one_thread(lambda: (3, 1e9))
    assert operations == 3
    assert 0 < seconds < 1e9
