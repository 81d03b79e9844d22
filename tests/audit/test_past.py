"""`rota state` and `rota why --from`: a group as it was, from its journal or from records of Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rota import _rota, journal
from rota.audit.command import shown_time
from rota.cli import app

# The logs are written once, by one worker.
pytestmark = pytest.mark.xdist_group("audit")

MEMBERS_AT_MOST = 2


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def entries(data: Path, group: str) -> list[dict[str, Any]]:
    """What the journal has about a group, oldest first."""
    where = journal.journal_in(data)
    assert where is not None
    log = _rota.DataLog(where)
    lines = [line for partition in journal.partitions(log) for line in journal.entries(log, partition)]
    return sorted((line.fields() for line in lines if line.group == group), key=lambda entry: int(entry["wall_ms"]))


def joins(data: Path, group: str) -> list[dict[str, Any]]:
    asked = [(entry, entry["event"].get("Submitted", {}).get("request", {})) for entry in entries(data, group)]
    return [entry for entry, request in asked if "JoinGroup" in request]


def state_at(data: Path, at_ms: int) -> dict[str, Any]:
    told = run("state", "payments", "--from", data, "--at", shown_time(at_ms))
    assert told.exit_code == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_a_state_is_that_of_the_last_entry_before_the_instant(clean: Path) -> None:
    committed = next(entry for entry in entries(clean, "payments") if "OffsetCommit" in str(entry["event"]))
    group = state_at(clean, committed["wall_ms"])["group"]
    assert (group["state"], group["generation"]) == ("Stable", 2)
    assert 1 <= len(group["members"]) <= MEMBERS_AT_MOST
    last = json.loads(run("state", "payments", "--from", clean, "--json").stdout)
    assert last["group"]["generation"] > group["generation"]


def test_why_tells_what_a_rebalance_waited_for(clean: Path) -> None:
    second = next(entry for entry in joins(clean, "payments") if not entry["effects"])
    told = run("why", "payments", "--from", clean, "--at", shown_time(second["wall_ms"]))
    assert told.exit_code == 0, told.stderr
    assert "PreparingRebalance" in told.stdout
    assert "to rejoin" in told.stdout
    assert "joined" in told.stdout
    facts = json.loads(run("why", "payments", "--from", clean, "--at", shown_time(second["wall_ms"]), "--json").stdout)
    assert [wait["what"] for wait in facts["waiting"]] == ["Rejoin"]
    assert facts["sentence"] in told.stdout


def test_the_records_of_kafka_tell_what_was_durable(kafka: Path) -> None:
    told = json.loads((kafka.parent / "told.json").read_text())
    group = next(iter(told["listed"]))
    found = run("state", group, "--from", kafka, "--json")
    assert found.exit_code == 0, found.stderr
    assert set(json.loads(found.stdout)) == {"at", "partition", "offset", "group", "offsets"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["state", "nobody"], 1, "has nothing about group `nobody`"),
        (["state", "payments", "--at", "1999-01-01"], 1, "begins later"),
        (["why", "payments", "--at", "1999-01-01"], 1, "begins later"),
        (["why", "payments", "--at", "soon"], 2, "--at is `soon`"),
    ],
)
def test_what_the_logs_do_not_tell_is_said(clean: Path, arguments: list[str], code: int, says: str) -> None:
    ended = run(*arguments, "--from", clean)
    assert (ended.exit_code, says in ended.stderr) == (code, True), ended.stderr


def test_a_running_server_is_asked_about_now() -> None:
    ended = run("why", "payments", "--at", "2026-01-01")
    assert (ended.exit_code, "--at needs --from" in ended.stderr) == (2, True)
