"""Transcripts over the wire in real time, on a server of our own: that what is asked of other brokers can be done."""

from __future__ import annotations

from pathlib import Path

import rota
from rota.transcript.text import Step
from tests.transcripts import on_broker, runner

CONFIG = {"group.initial.rebalance.delay.ms": "0"}
#: such that those who join one after the other meet in one generation
REAL_DELAY_MS = 400
FILES = [
    "admin/A11-delete-an-empty-group.txt",
    "admin/A12-delete-three-groups.txt",
    "admin/A20-delete-offsets-of-a-group-at-work.txt",
    "join/J25-superseded-join.txt",
    "join/J30-version-0.txt",
    "leave/L12-a-batch-of-everybody.txt",
    "offsets/O05-a-member-commits.txt",
    "traps/TRAP-20-stale-claims-are-relayed.txt",
]


def paths(names: list[str]) -> list[Path]:
    return [runner.VECTORS / name for name in names]


def play(files: list[Path], workers: int = 8) -> list[on_broker.Played]:
    settings = {"group.initial.rebalance.delay.ms": REAL_DELAY_MS}
    with rota.Server(settings=settings) as server:
        return list(on_broker.play_all(files, (server.host, server.port), CONFIG, workers))


def test_a_server_says_over_the_wire_what_transcripts_say() -> None:
    played = play(paths(FILES))
    assert len(played) == len(FILES)
    assert [one for one in played if one.skipped or one.expected != one.actual or one.departures] == []


def test_what_a_broker_says_otherwise_is_found(tmp_path: Path) -> None:
    written = (runner.VECTORS / "leave/L12-a-batch-of-everybody.txt").read_text()
    changed = tmp_path / "leave" / "L12-changed.txt"
    changed.parent.mkdir()
    changed.write_text(written.replace("$a:NONE", "$a:FENCED_INSTANCE_ID", 1))
    (played,) = play([changed])
    assert played.differs
    assert any("$a:FENCED_INSTANCE_ID" in line for line in played.expected)
    assert any("$a:NONE" in line for line in played.actual)


def test_what_only_a_log_or_a_setting_brings_about_is_left_out() -> None:
    names = ["gate/H10-loading.txt", "offsets/O13-topic-ids.txt", "retention/E03-a-simple-group.txt"]
    assert {one.path.name: one.skipped for one in play(paths(names))} == {
        "H10-loading.txt": "other settings",
        "O13-topic-ids.txt": "other settings",
        "E03-a-simple-group.txt": "other settings",
    }


def test_a_missing_answer_is_a_departure_and_a_different_one_is_not() -> None:
    superseded = ["a< NOT_COORDINATOR member=$a"]
    assert on_broker.kept_silent(superseded) == {"D1"}
    assert on_broker.kept_silent([*superseded, "b< NONE"]) == set()
    assert on_broker.differences(["a< NONE"], ["a< UNKNOWN_MEMBER_ID"]) == (["a< NONE"], ["a< UNKNOWN_MEMBER_ID"])
    assert on_broker.differences(["a< NONE protocol=consumer/range"], ["a< NONE protocol=~/range"]) == ([], [])


def test_who_leads_when_the_leader_is_gone_is_left_open() -> None:
    ours = ["b< NONE generation=G leader=$b member=$b members=$b:Sb,$c:Sc", "c< NONE generation=G leader=$b member=$c"]
    theirs = [
        "c< NONE generation=G leader=$c member=$c members=$b:Sb,$c:Sc",
        "b< NONE generation=G leader=$c member=$b",
    ]
    assert on_broker.open_choice(ours, theirs) == (on_broker.CHOICE,)
    assert on_broker.open_choice(ours, ["c< NONE generation=G+1 leader=$b member=$c"]) == ()


def test_the_moment_before_something_happens_is_met_with_time_to_spare() -> None:
    steps = [Step(1, "+9999ms"), Step(2, "a Heartbeat"), Step(3, "+1ms", effects=["b< NONE"])]
    assert [moment.step.text for moment in on_broker.moments(steps)] == ["+9399ms", "a Heartbeat", "+601ms"]


def test_moments_without_anybody_between_are_one() -> None:
    steps = [Step(1, "+1s", effects=["a< NONE"]), Step(2, "+499ms"), Step(3, "+1ms", effects=["b< NONE"])]
    (moment,) = on_broker.moments(steps)
    assert (moment.step.text, moment.expected) == ("+1500ms", ["a< NONE", "b< NONE"])


def test_departures_are_those_that_the_page_gives_a_transcript_of() -> None:
    assert on_broker.departures_of(runner.VECTORS / "join/U04-a-name-twice.txt") == ("D4",)
    assert on_broker.departures_of(runner.VECTORS / "join/J30-version-0.txt") == ()
