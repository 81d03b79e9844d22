"""`rota audit`: clean logs are clean, and what cannot be decided is said to be unknown."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from rota.audit import matrix, on_spark, report, session
from rota.audit import spark as on_spark_engine
from rota.audit.audit import Audit, Unreadable, Wanted, assembled, audit
from rota.audit.checks import CHECKS
from rota.audit.command import as_json, summary
from rota.audit.coverage import Line
from rota.audit.engines import local
from rota.audit.folds import Fold
from rota.audit.logs import parts_of
from rota.audit.names import instead_of
from rota.audit.on_spark import Where
from rota.audit.promises import Promised
from rota.audit.spark import SparkEngine
from rota.audit.stores import StoreError
from rota.cli import app

# One worker has the one Spark session; the first test waits for the audit of all logs.
pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
COVERED = [
    ("journal", "S1", "both"),
    ("journal", "S12", "query"),
    ("journal", "S13", "unknown"),
    ("offsets", "S1", "unknown"),
    ("offsets", "S12", "query"),
    ("offsets", "S13", "unknown"),
]
DECIDES = {"replay, query": "both", "–": "unknown"}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_clean_logs_raise_no_alarm(found: Audit, clean: Path, kafka: Path) -> None:
    logs = {str(clean), str(clean / "journal"), str(kafka)}
    assert [verdict for verdict in found.violations if verdict.log in logs] == []
    assert found.unreadable == []
    assert {line.log for line in found.coverage} >= logs


def test_the_exit_code_says_whether_something_must_not_be(found: Audit) -> None:
    assert found.exit_code == 1
    assert Audit(verdicts=found.observations).exit_code == 0
    assert Audit(verdicts=found.observations, fail_on="observation").exit_code == 1
    assert Audit(verdicts=found.verdicts, fail_on="nothing").exit_code == 0
    assert Audit(unreadable=[Unreadable("data", 0, 0, "unreadable", "")], fail_on="nothing").exit_code == 2
    assert Audit(unreadable=[Unreadable("data", 0, 0, "torn", "")]).exit_code == 0
    assert Audit(unreadable=[Unreadable("data", 0, 0, "unreadable", "")]).exit_code == 2


def test_every_event_of_the_journals_is_folded_again(found: Audit, clean: Path) -> None:
    folds = [fold for fold in found.folds if fold.log == str(clean / "journal")]
    assert sum(fold.compared for fold in folds) > 100
    assert [fold for fold in folds if fold.differences or fold.damage or fold.missing or fold.unchecked] == []


def test_the_model_answers_as_the_coordinator_did(found: Audit, clean: Path) -> None:
    asked = [opinion for opinion in found.opinions if opinion.log == str(clean / "journal")]
    assert sum(opinion.answers for opinion in asked) > 20
    assert [opinion.difference for opinion in asked if opinion.difference] == []


def test_what_kafkas_log_cannot_tell_is_unknown(found: Audit, kafka: Path, clean: Path) -> None:
    decided = {line.id: line.decided for line in found.coverage if line.log == str(kafka)}
    assert {identifier for identifier, by in decided.items() if by == "query"} >= {"S3", "S6", "S12", "S16"}
    assert decided["S15"] == decided["S20"] == "unknown"
    journal = {line.id: line.decided for line in found.coverage if line.log == str(clean / "journal")}
    assert journal == {identifier: by[0] for identifier, by in matrix.MATRIX.items()}


def test_the_page_has_the_matrix_and_every_check() -> None:
    lines = re.findall(r"^\| ([SLC]\d+) \| (.*?) \| (.*?) \| (.*?) \| (.*?) ?\|$", PAGE, re.MULTILINE)
    assert {row[0]: tuple(DECIDES.get(by, by) for by in row[1:4]) for row in lines} == matrix.MATRIX
    assert {row[0]: row[4] for row in lines if row[4]} == matrix.WHY_UNKNOWN
    named = dict(re.findall(r"^\| ([a-z ]+) \| ((?:[SLC]\d+)?) ?\| (?:records|journal) \|", PAGE, re.MULTILINE))
    assert named == {check.name: check.id for check in CHECKS} | {"replay": "S23", "model": "S23"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["data", "--group", "("], "--group is `(`"),
        (["data", "--since", "yesterday"], "--since is `yesterday`: give a time"),
        (["data", "--since", "2026-01-02", "--until", "2026-01-01"], "--since is `2026-01-02`, later than --until"),
    ],
)
def test_a_wrong_call_is_refused(arguments: list[str], says: str) -> None:
    ended = run(*arguments)
    assert ended.exit_code == 2
    assert says in ended.stderr


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing", "`missing`: there is no such directory"),
        ("file", "`file` is a file: give a data directory, a journal or the directory of a partition"),
        ("empty", "`empty` has no __consumer_offsets and no journal in it: give a data directory"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"], ["--follow"]])
def test_a_path_without_a_log_is_refused_before_anything_is_read(
    path: str, says: str, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").touch()
    Path("whole/__consumer_offsets-0").mkdir(parents=True)
    monkeypatch.setattr(session, "started", None)
    for paths in ([path], ["whole", path]):
        ended = run(*paths, *more)
        assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", f"rota: {says}\n")


def unreadable(tmp_path: Path) -> Path:
    """A log of one partition whose segment cannot be read."""
    (tmp_path / "data" / "__consumer_offsets-0" / f"{0:020}.log").mkdir(parents=True)
    return tmp_path / "data"


def test_where_nothing_can_be_read_it_is_said_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "started", None)
    ended = run(unreadable(tmp_path))
    assert ended.exit_code == 2
    assert str(tmp_path / "data") in ended.stdout.splitlines()[0]
    assert ended.stdout.startswith("unreadable: ")


def test_a_log_without_records_can_be_read_and_has_its_tables_and_its_report(tmp_path: Path) -> None:
    (tmp_path / "data" / "__consumer_offsets-0").mkdir(parents=True)
    (tmp_path / "data" / "__consumer_offsets-0" / f"{0:020}.log").touch()
    # In a process of its own: views of the session here are those of the audit that other tests look at.
    command = [sys.executable, "-m", "rota", "audit", "data", "--output", "tables", "--report", "report.html"]
    command += ["--progress"]
    ended = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "tables" / "verdicts").is_dir()
    assert (tmp_path / "report.html").exists()
    # Nothing of Java's and Spark's comes between.
    steps = ended.stderr.splitlines()
    assert {"rota: starting Spark", "rota: writing the tables"} <= set(steps)
    assert [line for line in steps if not line.startswith("rota: ")] == []
    assert ended.stdout.startswith("0 rows read, 0 groups audited; ")


def test_a_group_that_no_log_has_is_not_found(clean: Path) -> None:
    command = [sys.executable, "-m", "rota", "audit", str(clean), "--group", "payment"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    says = "rota: no group matches --group `payment`; the nearest is `payments`\n"
    assert (ended.returncode, ended.stdout) == (3, "")
    *steps, last = ended.stderr.splitlines(keepends=True)
    assert last == says
    # How far it is, on a machine that takes longer.
    assert [step for step in steps if not re.fullmatch(r"rota: .* \(after \d+ s\)\n", step)] == []


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([], "there are no groups"),
        (["b", "a"], "there are `a`, `b`"),
        (
            [f"group-{at}" for at in range(7)],
            "there are `group-0`, `group-1`, `group-2`, `group-3`, `group-4` and 2 more",
        ),
        (["orders", "billing"], "the nearest is `billing`"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_that_are(groups: list[str], says: str) -> None:
    assert instead_of("biling", groups) == says


def test_the_summary_counts_each_thing_once() -> None:
    logs = [Line(source, "data", identifier, by, "") for source, identifier, by in COVERED]
    fold = Fold("data/journal", 0, 3, 1, 1, 0, 0, 0, [], [], None)
    found = Audit(rows=1, groups=1, coverage=logs, folds=[fold])
    assert summary(found) == [
        "1 row read, 1 group audited; 1 event and 1 whole state folded again",
        "0 violations, 0 observations",
        "2 of 3 invariants decided, 1 unknown",
    ]


def of_groups(source: str, log: str, *names: str) -> Promised:
    return Promised(source, log, 0, 1, 0, [(name, False) for name in names], [], [], {})


def test_a_group_in_a_journal_and_in_the_log_beside_it_is_one() -> None:
    results = [
        of_groups("journal", "/a/journal", "orders"),
        of_groups("offsets", "/a", "billing", "orders"),
        of_groups("offsets", "/b", "orders"),
    ]
    assert assembled(Wanted([]), list(results)).groups == 3


def test_both_engines_give_the_same_bytes(
    spark: SparkSession, clean: Path, kafka: Path, lives: Path, planted: Path, planted_kafka: Path, worlds: Path
) -> None:
    wanted = Wanted([clean, kafka, lives, planted, planted_kafka, worlds])
    parts = parts_of(wanted.paths)
    here, there = (as_json(audit(wanted, parts, engine)) for engine in (local, SparkEngine(spark)))
    told = json.loads(here)
    assert len(told["verdicts"]) > 50
    assert there == here


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--engine", "local", "--output", "tables"], "--engine is `local`: --output needs Spark, leave out --engine"),
        (["--engine", "local", "--follow"], "--follow needs Spark"),
        (["--follow", "--junit", "audit.xml"], "need an end: leave out --follow"),
        (["--fail-on", "never"], "--fail-on is `never`: give one of violation, observation, nothing"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "__consumer_offsets-0").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    ended = run("data", *arguments)
    assert (ended.exit_code, says in ended.stderr) == (2, True), ended.output
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("option", ["--output", "--report"])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "{} is `{}`: No space left on device"),
        (
            PySparkRuntimeError("Caused by: java.io.IOException: full\n\tat x"),
            "{} is `{}`: Spark: a worker: {}; --verb",
        ),
        (StoreError("its package does not fit"), "its package does not fit"),
    ],
)
def test_tables_that_cannot_be_written_hide_no_verdict(
    option: str, error: Exception, says: str, planted_kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here(Where):
        @contextlib.contextmanager
        def started(self, *_: object) -> Iterator[Any]:
            yield None

    def fails(*_: object) -> None:
        raise error

    class Kept:
        fitting = contextlib.nullcontext

    for name, instead in {
        "SparkEngine": lambda *_, **__: local,
        "store_of": lambda *_: Kept(),
        "_write_tables": fails if option == "--output" else lambda *_: None,
    }.items():
        monkeypatch.setattr(on_spark_engine, name, instead)
    monkeypatch.setattr(report, "write", fails)
    monkeypatch.setattr(on_spark, "Where", Here)
    monkeypatch.setattr(session, "check_installed", lambda *_: None)
    place = tmp_path / "there"
    ended = run(planted_kafka, option, place)
    assert (ended.exit_code, "violation S12 two owners" in ended.stdout) == (2, True), ended.output
    assert says.format(option, place, "java.io.IOException: full") in ended.stderr.splitlines()[-1]


def test_a_log_is_audited_without_java_and_pyarrow(planted: Path) -> None:
    hidden = "import sys; sys.modules |= dict.fromkeys(('pyarrow', 'pyspark')); from rota.__main__ import run; run()"
    command = [sys.executable, "-c", hidden, "audit", str(planted), "--json"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": "/nonexistent"})
    assert (ended.returncode, ended.stderr) == (1, "")
    assert len(json.loads(ended.stdout)["verdicts"]) > 40


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = run(unreadable(tmp_path), "--engine", "spark")
    assert ended.exit_code == 2
    assert "needs Java 17 or newer: apt-get install openjdk-17-jre-headless" in ended.stderr
    assert "there is none" in ended.stderr


def test_an_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_452\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert session.java_version() == 8
    with pytest.raises(session.MissingError, match="this is Java 8"):
        session.check_installed()


def test_the_environment_says_how_large_the_heap_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    assert (session.heap(0), session.heap(session.LARGE_RECORDS)) == ("1g", "2g")
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    assert session.heap(session.LARGE_RECORDS) == "3g"


@pytest.mark.parametrize(("records", "files"), [(0, 1), (999_999, 1), (5_000_000, 10), (10**9, 16)])
def test_tables_of_large_logs_are_written_by_several_tasks(records: int, files: int) -> None:
    assert session.files_of(records, 4) == files


def test_the_command_prints_json_and_its_exit_code_says_that_input_is_missing(tmp_path: Path) -> None:
    ended = run(unreadable(tmp_path), "--json")
    assert ended.exit_code == 2
    (trouble,) = json.loads(ended.stdout)["unreadable"]
    assert (trouble["kind"], "Is a directory" in trouble["reason"]) == ("unreadable", True)


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--report", "nodir/report.html", "there is no such directory"),
        ("--report", ".", "it is a directory, give a file"),
        ("--output", "/proc/tables", "give a directory that can be written"),
        ("--master", "sparkk", "give local[N], spark://HOST:PORT"),
    ],
)
def test_what_spark_could_not_use_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "started", None)
    refused = run(tmp_path, option, value)
    assert (refused.exit_code, reason in refused.output) == (2, True), refused.output
