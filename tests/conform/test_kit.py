"""What the kit compares, and what a rota server is found to answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.conform import evidence, judge, transcripts
from rota.conform.broker import Broker
from rota.conform.judge import REFERENCE, Verdict, explained, recorded
from rota.conform.rows import Row
from rota.conform.run import Options, Result, Run, catalogue, chosen
from rota.conform.said import Said
from rota.transcript.runner import VECTORS
from rota.transcript.text import Step
from tests.conform import page
from tests.conform.record import completed

DEPARTURES = (Path(__file__).parents[2] / "docs" / "departures.md").read_text(encoding="utf-8")
QUICK = [
    "admin/A11-delete-an-empty-group",
    "admin/A20-*",
    "fields/*",
    "join/J25-superseded-join",
    "join/J30-version-0",
    "leave/L12-*",
    "malformed/*",
    "matrix/none/*",
    "matrix/stable/Heartbeat *",
    "offsets/O05-*",
    "order/*",
    "ranges/*",
    "time/initial-delay*",
    "transactions/session/*",
    "transactions/timed-out/*, current",
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    settings = {"group.initial.rebalance.delay.ms": 400, "num.partitions": 8}
    with rota.Server(settings=settings) as running:
        yield running.bootstrap_servers


def conform(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["conform", *words])
    return result.exit_code, result.stdout


def test_rota_answers_as_kafka_did_or_as_its_departures_say(server: str) -> None:
    only = [word for pattern in QUICK for word in ("--only", pattern)]
    code, told = conform("--bootstrap-server", server, *only)
    assert code == 0, told
    assert "differs" not in told
    assert "explained: " in told


def test_json_has_every_row_and_its_verdict(server: str) -> None:
    code, told = conform("--bootstrap-server", server, "--only", "ranges/*", "--json")
    rows = {row["id"]: row for row in json.loads(told)["rows"]}
    assert code == 0
    assert rows["ranges/JoinGroup"] == {"id": "ranges/JoinGroup", "section": "17.3", "verdict": "same"}
    assert rows["ranges/ListOffsets"]["verdict"] == "explained"
    assert rows["ranges/ListOffsets"]["missing"] == ["1-11"]


def test_two_brokers_are_compared_with_each_other(server: str) -> None:
    with rota.Server(settings={"group.initial.rebalance.delay.ms": 400, "group.max.size": 1}) as other:
        words = ["--bootstrap-server", other.bootstrap_servers, "--against", server, "--only", "fields/Metadata-v8"]
        code, _ = conform(*words)
        assert code == 0
        code, told = conform(*words[:4], "--only", "leave/L12-a-batch-of-everybody")
    assert code == 1
    assert "DIFFERS leave/L12-a-batch-of-everybody" in told
    assert "+ b< GROUP_MAX_SIZE_REACHED" in told


def test_a_row_whose_setting_a_broker_has_not_is_left_out_and_said_to_be(server: str) -> None:
    rows = ["--only", "capacity/C01*", "--only", "gate/H10-loading", "--only", "ranges/JoinGroup"]
    code, told = conform("--bootstrap-server", server, *rows)
    assert code == 0
    assert "needs group.max.size=2 (1)" in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "capacity/C01*"], "no row was compared: needs group.max.size=2"),
        (["--only", "time/session*", "--longest", "0"], "no row was compared: waits for more than 0 s"),
        (["--only", "ranges/*", "--deadline", "0"], "no row was compared: the run took longer than 0 s"),
    ],
)
def test_a_run_that_compares_no_row_fails(server: str, words: list[str], says: str) -> None:
    ended = CliRunner().invoke(app, ["conform", "--bootstrap-server", server, *words])
    assert ended.exit_code == 1
    rows = len(chosen(catalogue(), words[1:2]))
    assert ended.stderr.splitlines() == [f"rota: 0 of {rows} rows compared, {rows} left out, 0 differ", f"rota: {says}"]


@pytest.mark.usefixtures("full_disk")
def test_a_recording_that_cannot_be_written_is_no_divergence(server: str, tmp_path: Path) -> None:
    file = tmp_path / "rota-0.1.0.json"
    words = ["--only", "ranges/JoinGroup", "--record", str(file)]
    ended = CliRunner().invoke(app, ["conform", "--bootstrap-server", server, *words])
    assert ended.exit_code == 2
    assert ended.stderr.endswith(f"rota: --record is `{file}`: No space left on device\n")


def test_a_run_that_ends_early_fails(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Run.result

    def second_is_late(run: Run, row: Row) -> Result:
        found = result(run, row)
        run.until = 0.0
        return found

    monkeypatch.setattr(Run, "result", second_is_late)
    words = ["--only", "ranges/JoinGroup", "--only", "ranges/Heartbeat", "--jobs", "1"]
    ended = CliRunner().invoke(app, ["conform", "--bootstrap-server", server, *words])
    assert ended.exit_code == 1
    assert ended.stderr.endswith("rota: 1 row left out: the run took longer than 600 s\n")


@pytest.mark.parametrize(
    ("setting", "value", "rows", "recorded_with"),
    [
        ("group.min.session.timeout.ms", 1_000, ["matrix/*/JoinGroup newcomer, session timeout too short"], 6_000),
        ("group.min.session.timeout.ms", 20_000, ["leave/L12-*", "fields/JoinGroup-v5"], 6_000),
        ("group.max.session.timeout.ms", 2_000_000, ["matrix/*/JoinGroup newcomer, session *"], 1_800_000),
        ("offset.metadata.max.bytes", 5_000, ["matrix/*/OffsetCommit leader, metadata too long"], 4_096),
    ],
)  # fmt: skip
def test_rows_that_a_setting_of_the_broker_decides_are_left_out(
    setting: str, value: int, rows: list[str], recorded_with: int
) -> None:
    settings = {"group.initial.rebalance.delay.ms": 400, "num.partitions": 8, setting: value}
    only = [
        word
        for pattern in [*rows, "admin/A11-delete-an-empty-group", "ranges/Heartbeat"]
        for word in ("--only", pattern)
    ]
    with rota.Server(settings=settings) as changed:
        code, told = conform("--bootstrap-server", changed.bootstrap_servers, *only)
    assert code == 0, told
    assert re.search(rf"needs {setting}={recorded_with}, and this broker has {value} \([1-9]", told), told


def test_a_broker_that_does_not_keep_to_the_setting_that_it_names_differs() -> None:
    with rota.Server(settings={"group.min.session.timeout.ms": 1_000}) as lax:
        broker = Broker((lax.host, lax.port))
        broker.contact()
        broker.delay_s = 0.2
        rows = chosen(catalogue(), ["matrix/none/JoinGroup newcomer, session timeout too short"])
        (result,) = Run(broker, Options(tries=1)).results(rows)
        broker.clean()
    assert result.verdict is Verdict.DIFFERS


def test_a_changed_transcript_differs(server: str) -> None:
    host, _, port = server.rpartition(":")
    broker = Broker((host, int(port)))
    broker.contact()
    broker.prepare()
    row = transcripts.row(VECTORS / "leave/L12-a-batch-of-everybody.txt")
    (result,) = Run(broker, Options(tries=1)).results([row])
    broker.clean()
    assert result.verdict is Verdict.SAME
    text = json.dumps([[each.step, each.answers] for each in result.evidence]).replace("$a:NONE", "$a:OTHER", 1)
    changed = [Said(step, tuple(answers)) for step, answers in json.loads(text)]
    verdict, difference = judge.judge(row.id, changed, result.evidence)
    assert verdict is Verdict.DIFFERS
    assert difference is not None
    assert any("$a:OTHER" in line for line in difference.missing)


def test_every_row_that_can_be_played_was_recorded() -> None:
    left_out = {row.id for row in catalogue() if row.left_out}
    ids = {row.id for row in catalogue()} - left_out
    missing = sorted(ids - set(recorded(REFERENCE).rows))
    waiting = {row.id for row in catalogue() if row.wait_s > 3_000 or not row.delay_s[1]}
    ours_alone = {row.id for row in catalogue() if any(name == "group.max.pending.members" for name, _ in row.settings)}
    assert [row for row in missing if row not in waiting | ours_alone] == []
    assert len(recorded(REFERENCE).rows) > 2_400


def test_a_new_recording_keeps_what_it_left_out_and_what_it_did_not_come_to(capsys: pytest.CaptureFixture[str]) -> None:
    short, long, stuck = "given/stable-ab", "traps/TRAP-03-retry-growth", "join/J25-superseded-join"
    before = recorded(REFERENCE)
    newer = {short: [Said("new", ("x",))], stuck: [Said("new"), Said("then", ("! stuck: b waits",))]}
    kept = completed(before, replace(before, rows=newer), longest_s=100)
    assert kept.rows[short] == newer[short]
    assert kept.rows[long] == before.rows[long]
    assert kept.rows[stuck] == before.rows[stuck]
    assert set(kept.rows) <= {row.id for row in catalogue() if row.wait_s > 100} | {short, stuck}
    assert f"did not come to the end of {stuck}" in capsys.readouterr().out


def test_a_recording_is_read_as_it_was_written() -> None:
    assert judge.load(judge.dump(recorded(REFERENCE))) == recorded(REFERENCE)


def test_every_explanation_is_of_a_row_and_a_departure() -> None:
    ids = {row.id for row in catalogue()}
    for row, departure in explained().items():
        assert row in ids
        assert re.search(rf"^## {re.escape(departure)}\b", DEPARTURES, re.M), departure


def test_an_explanation_explains_one_answer_only() -> None:
    row = "ranges/ListOffsets"
    kafka, own = recorded(REFERENCE).rows[row], recorded("rota").rows[row]
    assert judge.judge(row, kafka, own)[0] is Verdict.EXPLAINED
    assert judge.judge(row, kafka, [Said(own[0].step, ("1-3",))])[0] is Verdict.DIFFERS


def test_patterns_choose_rows() -> None:
    assert [row.id for row in chosen(catalogue(), ["ranges/Jo*"])] == ["ranges/JoinGroup"]


def test_an_answer_that_kafka_keeps_to_itself_is_a_departure_and_a_different_one_is_not() -> None:
    superseded = ["a< NOT_COORDINATOR member=$a"]
    assert evidence.kept_silent(superseded) == {"D1"}
    assert evidence.kept_silent([*superseded, "b< NONE"]) == set()
    assert evidence.differences(["a< NONE"], ["a< UNKNOWN_MEMBER_ID"]) == (["a< NONE"], ["a< UNKNOWN_MEMBER_ID"])
    assert evidence.differences(["a< NONE protocol=consumer/range"], ["a< NONE protocol=~/range"]) == ([], [])


def test_who_leads_when_the_leader_is_gone_is_left_open() -> None:
    ours = ["b< NONE generation=G leader=$b member=$b members=$b:Sb,$c:Sc", "c< NONE generation=G leader=$b member=$c"]
    theirs = [
        "c< NONE generation=G leader=$c member=$c members=$b:Sb,$c:Sc",
        "b< NONE generation=G leader=$c member=$b",
    ]
    assert evidence.leader_chosen(ours, theirs)
    assert not evidence.leader_chosen(ours, ["c< NONE generation=G+1 leader=$b member=$c"])


def test_the_moment_before_something_happens_is_met_with_time_to_spare() -> None:
    steps = [Step(1, "+9999ms"), Step(2, "a Heartbeat"), Step(3, "+1ms", effects=["b< NONE"])]
    assert [moment.step.text for moment in transcripts.moments(steps)] == ["+9399ms", "a Heartbeat", "+601ms"]


def test_moments_without_anybody_between_are_one() -> None:
    steps = [Step(1, "+1s", effects=["a< NONE"]), Step(2, "+499ms"), Step(3, "+1ms", effects=["b< NONE"])]
    (moment,) = transcripts.moments(steps)
    assert (moment.step.text, moment.expected) == ("+1500ms", ["a< NONE", "b< NONE"])


def test_every_row_in_which_kafka_3_9_parts_from_4_4_has_a_note() -> None:
    (older,) = [each for each in page.recordings() if each.version == "3.9.1"]
    parted = page.parted(catalogue(), older)
    noted = {row.id for note in page.notes() for row in chosen(parted, note.rows)}
    assert len(parted) > 50
    assert [row.id for row in parted if row.id not in noted] == []


def test_every_note_is_of_rows_that_part() -> None:
    systems = {f"{each.system}-{each.version}": each for each in page.recordings()}
    notes = page.notes()
    parted = {name: page.parted(catalogue(), systems[name]) for name in {note.system for note in notes}}
    assert [note.says for note in notes if chosen(parted[note.system], note.rows) == []] == []


def test_the_page_is_what_the_recordings_say() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "run `python -m tests.conform.page`"
