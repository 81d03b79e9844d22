"""`rota state` and `rota why --from`: a group as it was, from its journal or from records of Kafka."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

import rota
from harness import peer
from harness.raw import NONE, Connection
from rota import _rota, journal
from rota.audit.command import instant_ms, shown_time
from rota.audit.logs import OFFSETS_TOPIC
from rota.cli import app
from tests.audit.conftest import GROUPS_A_START
from tests.audit.fake_feed import Record, group_record, other_record
from tests.audit.fake_feed import commit as commit_record

# The logs are written once, by one worker.
pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

META_PROPERTIES = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def entries(data: Path, group: str) -> list[dict[str, Any]]:
    """What the journal has about a group, oldest first."""
    where = journal.journal_in(data)
    assert where is not None
    log = _rota.DataLog(where)
    lines = [line for partition in journal.partitions(log) for line in journal.entries(log, partition)]
    return sorted((line.fields() for line in lines if line.group == group), key=lambda entry: int(entry["wall_ms"]))


def expiry(data: Path) -> tuple[str, int]:
    """A group, and an instant at which a session of it has ended and no member has rejoined yet."""
    for number in range(GROUPS_A_START):
        group = f"group-0-{number}"
        of_group = entries(data, group)
        ended = next(entry for entry in of_group if entry["event"].get("Advanced", {}).get("timer") == "Session")
        later = [entry["wall_ms"] for entry in of_group[of_group.index(ended) + 1 :] if joins_again(entry)]
        if later and later[0] > ended["wall_ms"]:
            return group, ended["wall_ms"]
    raise AssertionError("every group was back within the millisecond")


def joins_again(entry: dict[str, Any]) -> bool:
    return "JoinGroup" in entry["event"].get("Submitted", {}).get("request", {})


def commit(data: Path) -> tuple[str, int]:
    """A group, and an instant at which its members commit and none has left or joined yet."""
    for number in range(GROUPS_A_START):
        group = f"group-0-{number}"
        of_group = entries(data, group)
        committed = next(entry for entry in of_group if "OffsetCommit" in str(entry["event"]))
        later = of_group[of_group.index(committed) + 1 :]
        moves = [entry["wall_ms"] for entry in later if "LeaveGroup" in str(entry["event"]) or joins_again(entry)]
        if moves and moves[0] > committed["wall_ms"]:
            return group, committed["wall_ms"]
    raise AssertionError("every group went on within the millisecond")


def test_a_state_is_that_of_the_last_entry_before_the_instant(lives: Path) -> None:
    committed_in, at_ms = commit(lives)
    told = run("state", committed_in, "--from", lives, "--at", shown_time(at_ms))
    assert told.exit_code == 0, told.stderr
    group = json.loads(told.stdout)["group"]
    assert (group["state"], group["generation"], len(group["members"])) == ("Stable", 2, 2)
    last = json.loads(run("state", "group-0-0", "--from", lives, "--json").stdout)
    assert (last["group"]["state"], last["group"]["generation"]) == ("Empty", 6)


def test_why_tells_what_a_rebalance_waited_for(lives: Path) -> None:
    group, at_ms = expiry(lives)
    asked = ("why", group, "--from", lives, "--at", shown_time(at_ms))
    told = run(*asked)
    assert told.exit_code == 0, told.stderr
    facts = json.loads(run(*asked, "--json").stdout)
    assert [wait["what"] for wait in facts["waiting"]] == ["Rejoin"]
    assert facts["rebalances"][-1]["cause"] == "SessionExpired"
    assert told.stdout.startswith(f"{shown_time(at_ms)} {group}: PreparingRebalance for")
    assert facts["sentence"] in told.stdout
    assert "to rejoin" in facts["sentence"]


def test_the_records_of_kafka_tell_what_was_durable(kafka: Path) -> None:
    told = json.loads((kafka.parent / "told.json").read_text())
    group = next(iter(told["listed"]))
    found = run("state", group, "--from", kafka, "--json")
    assert found.exit_code == 0, found.stderr
    assert set(json.loads(found.stdout)) == {"at", "partition", "offset", "group", "offsets"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["state", "nobody"], 3, "has nothing about group `nobody`; there are `group-0-0`, `group-0-1`, "),
        (["why", "grup-0-0"], 3, "has nothing about group `grup-0-0`; the nearest is `group-0-0`"),
        (["state", "group-0-0", "--at", "1999-01-01"], 3, "begins later"),
        (["why", "group-0-0", "--at", "1999-01-01"], 3, "begins later"),
        (["why", "group-0-0", "--at", "soon"], 2, "--at is `soon`"),
    ],
)
def test_what_the_logs_do_not_tell_is_said(lives: Path, arguments: list[str], code: int, says: str) -> None:
    ended = run(*arguments, "--from", lives)
    assert (ended.exit_code, says in ended.stderr) == (code, True), ended.stderr


def committed(server: rota.Server, group: str, offset: int) -> None:
    """Commit without members."""
    with Connection((server.host, server.port)) as connection:
        assert peer.committed(connection.ask(peer.commit(group, {0: offset}))) == {NONE}


def test_a_group_that_only_whole_states_of_a_journal_have_is_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for has_journal in (False, True):
        with rota.Server(data=data, journal=has_journal) as server:
            if not has_journal:
                server.create_topic("orders", 1)
                committed(server, "waiting", 7)
            else:
                committed(server, "other", 1)
    told = run("state", "waiting", "--from", data)
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert "mono_ms" in found  # as only a journal has it
    assert [(topic, index, value["offset"]) for topic, index, value in found["group"]["offsets"]] == [("orders", 0, 7)]
    assert run("why", "waiting", "--from", data).exit_code == 0
    ended = run("state", "wating", "--from", data)
    assert (ended.exit_code, "has nothing about group `wating`; the nearest is `waiting`" in ended.stderr) == (3, True)


def test_a_group_that_the_journal_does_not_have_is_told_from_the_log_of_groups(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with rota.Server(data=data, journal=True) as server:
        server.create_topic("orders", 1)
        committed(server, "other", 1)
    with rota.Server(data=data) as server:
        committed(server, "waiting", 7)
    told = run("state", "waiting", "--from", data)
    assert (told.exit_code, json.loads(told.stdout)["offsets"]) == (0, {"orders-0": 7})


class Starts(NamedTuple):
    """A server that was stopped and started again, with one group that has no members."""

    data: Path
    entries: list[journal.Line]
    """Of the journal of its partition."""
    stop: int
    """Which of them is the end of the first start."""

    def wall_ms(self, entry: int) -> int:
        return _rota.journal_time(self.entries[entry].value)[1]


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Starts:
    data = tmp_path_factory.mktemp("starts") / "data"
    for start in range(2):
        with rota.Server(data=data, journal=True, settings={"offsets.topic.num.partitions": 1}) as server:
            if start == 0:
                server.create_topic("orders", 1)
            committed(server, "waiting", start)
    where = journal.journal_in(data)
    assert where is not None
    found = list(journal.entries(_rota.DataLog(where), 0))
    return Starts(data, found, next(at for at, line in enumerate(found) if line.fields()["event"] == "Unloaded"))


def journal_of(entries: list[journal.Line], directory: Path) -> Path:
    partition = directory / "__rota_journal-0"
    partition.mkdir(parents=True)
    (directory / "meta.properties").write_text(META_PROPERTIES)
    batch = [(_rota.journal_time(line.value)[1], line.group.encode(), line.value) for line in entries]
    (partition / f"{0:020}.log").write_bytes(_rota.write_batch(0, batch))
    return directory


@pytest.mark.parametrize(
    ("is_stopped", "is_loading", "says"),
    [
        (True, False, "the coordinator was not loaded after"),
        (True, True, "the coordinator was not loaded after"),
        (False, True, "the coordinator was not loaded after"),
        (False, False, "the journal ends at"),
    ],
)
def test_without_a_coordinator_the_last_state_is_told_and_of_when_it_is(
    starts: Starts, is_stopped: bool, is_loading: bool, says: str, tmp_path: Path
) -> None:
    entries = starts.entries[: starts.stop + is_stopped]
    known = shown_time(starts.wall_ms(len(entries) - 1))
    data = journal_of(entries + starts.entries[starts.stop + 1 :][:is_loading], tmp_path)
    later = shown_time(starts.wall_ms(-1) + 86_400_000)
    note = f"{says} {known}: this is the state at that time"
    asked = ("waiting", "--from", data, "--at", later)
    for command in ("state", "why"):
        found = json.loads(run(command, *asked, "--json").stdout)
        assert (found["at"], found["note"]) == (known, note)
    assert run("why", *asked).stdout.endswith(f"\n  {note}\n")
    last = json.loads(run("state", "waiting", "--from", data).stdout)
    assert ("note" in last, last["at"]) == (False, known)
    assert [value["offset"] for _, _, value in last["group"]["offsets"]] == [0]


def test_before_the_journal_begins_a_group_is_told_from_the_log_of_groups(starts: Starts, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(starts.data, data, ignore=shutil.ignore_patterns("journal"))
    journal_of(starts.entries[starts.stop + 1 :], data / "journal")
    told = run("state", "waiting", "--from", data, "--at", shown_time(starts.wall_ms(starts.stop)))
    assert (told.exit_code, json.loads(told.stdout)["offsets"]) == (0, {"orders-0": 0})


def log_of(directory: Path, *records: tuple[int, Record]) -> Path:
    """A directory of Kafka with these records, each with its wall milliseconds."""
    partition = directory / f"{OFFSETS_TOPIC}-0"
    partition.mkdir()
    (directory / "meta.properties").write_text(META_PROPERTIES)
    batch = _rota.write_batch(0, [(wall_ms, *record) for wall_ms, record in records])
    (partition / f"{0:020}.log").write_bytes(batch)
    return directory


def test_records_behind_a_later_one_are_later_also_if_the_clock_went_back(tmp_path: Path) -> None:
    log = log_of(tmp_path, (100, group_record("g", 1)), (300, commit_record("g", 5)), (200, group_record("g", 2)))
    found = json.loads(run("state", "g", "--from", log, "--at", shown_time(250)).stdout)
    assert (found["offset"], found["group"]["generation"], found["offsets"]) == (0, 1, {})
    found = json.loads(run("state", "g", "--from", log, "--at", shown_time(300)).stdout)
    assert (found["offset"], found["group"]["generation"], list(found["offsets"].values())) == (2, 2, [5])


@pytest.mark.parametrize(("key_type", "about"), [(11, "share group"), (17, "streams group")])
def test_a_group_of_another_kind_is_told_by_its_type(key_type: int, about: str, tmp_path: Path) -> None:
    one, two = other_record(key_type, "g"), other_record(key_type + 1, "g")
    gone = [(500 + at, (key, None)) for at, (key, _) in enumerate((one, two))]
    log = log_of(tmp_path, (100, one), (200, commit_record("g", 5)), (300, two), *gone)
    for at, expected in ((100, {"type": about}), (500, {"type": about}), (501, None)):
        found = json.loads(run("state", "g", "--from", log, "--at", shown_time(at)).stdout)
        assert found["group"] == expected, at
    assert "there are `g`\n" in run("state", "other", "--from", log).stderr


def test_a_group_that_is_not_checked_is_known(tmp_path: Path) -> None:
    log = log_of(tmp_path, (100, other_record(17, "streams")), (200, group_record("classic", 1)))
    told = run("audit", log, "--group", "stre.*")
    assert (told.exit_code, "not checked: 1 record of streams groups\n" in told.stdout) == (0, True), told.output
    unknown = run("audit", log, "--group", "streems")
    assert (unknown.exit_code, "the nearest is `streams`" in unknown.stderr) == (3, True)


@pytest.mark.parametrize("at", [[], ["--at", "2026-01-31T13:30:20"], ["--at", "9999-12-31T23:59:59.999999"]])
@pytest.mark.parametrize("command", ["state", "why"])
def test_an_entry_of_another_version_is_damage(command: str, at: list[str], tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(META_PROPERTIES)
    partition = tmp_path / "__rota_journal-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(_rota.write_batch(0, [(0, b"g", b"\x02abc")]))
    ended = run(command, "g", "--from", tmp_path, *at)
    assert (ended.exit_code, ended.exception.__class__) == (1, SystemExit)
    assert "partition 0, offset 0: " in ended.stderr
    assert "version 2" in ended.stderr


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("9999-12-31T23:59:59.999999", 253_402_300_799_999),
        ("2026-01-31T13:30:20.0015", 1_769_866_220_001),
        ("1969-12-31T23:59:59.9995", -1),
    ],
)
def test_an_instant_is_rounded_down(text: str, at_ms: int) -> None:
    assert instant_ms("--at", text) == at_ms


def test_an_instant_behind_the_last_year_is_refused(lives: Path) -> None:
    ended = run("state", "g", "--from", lives, "--at", "9999-12-31T23:59:59-05:00")
    assert (ended.exit_code, "--at is `9999-12-31T23:59:59-05:00`" in ended.stderr) == (2, True)


def test_a_running_server_is_asked_about_now() -> None:
    ended = run("why", "payments", "--at", "2026-01-01")
    assert (ended.exit_code, "--at needs --from" in ended.stderr) == (2, True)


@pytest.mark.parametrize("with_journal", [False, True])
def test_a_server_without_groups_has_no_such_group(with_journal: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with rota.Server(data=data, journal=with_journal):
        pass
    ended = run("state", "orders", "--from", data)
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert ended.stderr.endswith("group `orders`; there are no groups\n"), ended.stderr
    (tmp_path / "empty").mkdir()
    assert run("state", "orders", "--from", tmp_path / "empty").stderr.endswith("give a data directory\n")
