"""`rota check`: one table, plain data, properties in words, and exit codes that mean something."""

import json

import pytest
from typer.testing import CliRunner

from rota.check import proofs
from rota.check.engines import Report, table
from rota.cli import app

runner = CliRunner()
GOOD = Report("proofs", True, 1.25, {"obligations": 12_000, "proved": 12_000})
BAD = Report("proofs", False, 1.0, {"obligations": 2, "proved": 1}, ["refuted: consecution S3 leave\nbefore, ..."])


def reporting(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "run", lambda *_: report)


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
    [data] = json.loads(runner.invoke(app, ["check", "--json"]).stdout)
    assert data["engine"] == "proofs"
    assert data["figures"]["obligations"] == 12_000


def test_without_z3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = runner.invoke(app, ["check", "proofs"])
    assert result.exit_code == 2
    assert "pip install 'rota[check]'" in result.output


def test_a_property_is_explained() -> None:
    result = runner.invoke(app, ["check", "proofs", "--explain", "s3"])
    assert result.exit_code == 0
    assert "a group with members has one of them as leader" in result.stdout
    assert "docs/protocol.md §5.6" in result.stdout
    assert "heir is a stranger" in result.stdout


def test_a_property_that_does_not_exist_is_misuse() -> None:
    result = runner.invoke(app, ["check", "proofs", "--explain", "S99"])
    assert result.exit_code == 2
    assert "there is no property `S99`" in result.output


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
    report = proofs.report([unknown, survivor], quick=False, seconds=60.0)
    assert not report.ok
    assert report.failures == ["unknown: consecution S3 leave", "not noticed: the planted bug `any plan`"]
