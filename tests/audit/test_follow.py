"""`rota audit --follow`: one pass finds what the whole audit finds, and a restart goes on where it stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from typer.testing import CliRunner

from rota.audit import session
from rota.audit.audit import Audit, Unreadable
from rota.audit.checks import MODEL, OBSERVATION
from rota.audit.follow import growth
from rota.audit.follow.advancing import FORMAT, CheckpointError, Remembered, advanced
from rota.audit.follow.growth import GrowthReader, Position, parts_from, parts_now, rows_now
from rota.audit.follow.query import ROWS, Skipped, Told, Verdicts, batch_of, started
from rota.audit.logs import JOURNAL, Part, partition_directories
from rota.audit.promises import Finding
from rota.audit.rows import ARROW_SCHEMA, rows_of
from rota.audit.verdict import Verdict
from rota.cli import app
from tests.clients.eventually import eventually

# One worker has the one Spark session; the first test waits for the audit of all logs.
pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

WITHIN_S = 600
# What the whole audit sums up, and one pass says as soon as it is so.
SUMMED_UP = frozenset({"storm", "never settles", "never answered"})

Identity = tuple[Any, ...]


def identity(log: str, partition: int, found: Any) -> Identity:
    """What makes a verdict this one."""
    rest = () if found.name in SUMMED_UP else (found.generation, found.last_offset)
    return (log, partition, found.name, found.group, *rest)


class Kept:
    """State between two batches, as a checkpoint keeps it."""

    def __init__(self) -> None:
        self.partition = Remembered()
        self.groups: dict[str, bytes] = {}

    def fold(self, source: str, rows: pa.RecordBatch) -> list[Finding]:
        found, self.partition, groups, _ = advanced(source, self.partition, self.groups.get, rows)
        self.groups |= groups
        return found


def rows_in(part: Part) -> pa.RecordBatch:
    """All rows of a part, as the stream gives them."""
    (table,) = pa.Table.from_batches(list(rows_of(part, has_entries=True)), ARROW_SCHEMA).combine_chunks().to_batches()
    return batch_of(tuple(row.values()) for row in reversed(table.to_pylist()))


def followed(directory: Path, part_bytes: int) -> Iterator[tuple[Identity, Finding]]:
    """What one pass finds in a directory, read in batches of so many bytes."""
    for log in partition_directories(directory):
        kept = Kept()
        for part, _ in parts_from(log, Position(), part_bytes):
            for found in kept.fold(part.source, rows_in(part)):
                yield identity(part.log, part.partition, found), found


def batch_verdicts(found: Audit, directory: Path) -> Counter[Identity]:
    of_directory = [one for one in found.verdicts if Path(one.log).is_relative_to(directory) and one.name != MODEL.name]
    return Counter(identity(one.log, one.partition, one) for one in of_directory)


@pytest.mark.parametrize("part_bytes", [1, 1 << 20])
def test_one_pass_finds_what_the_whole_audit_finds(found: Audit, planted: Path, part_bytes: int) -> None:
    told = Counter(told for told, _ in followed(planted, part_bytes))
    expected = batch_verdicts(found, planted)
    assert told - expected == Counter()
    assert expected - told == Counter()


@pytest.mark.parametrize("name", ["clean", "kafka", "lives", "worlds"])
def test_one_pass_raises_no_alarm_on_clean_logs(name: str, request: pytest.FixtureRequest) -> None:
    told = [found.name for _, found in followed(request.getfixturevalue(name), 1 << 20)]
    assert set(told) <= {"storm", "offset went back", "never settles"}


def grown(source: Path, target: Path, share: float) -> None:
    """Let the copy have that share of each segment's batches."""
    for log in partition_directories(source):
        at = target / log.relative_to(source)
        at.mkdir(parents=True, exist_ok=True)
        parts = [part for part, _ in parts_from(log, Position(), 1)]
        content = Path(parts[0].path).read_bytes() if parts else b""
        end = parts[max(0, int(len(parts) * share) - 1)].end if parts else 0
        (at / f"{0:020}.log").write_bytes(content[:end])


def run_once(spark: SparkSession, data: Path, checkpoint: Path) -> list[Verdict | Unreadable]:
    told: list[Told] = []
    query = started(spark, [data], checkpoint, told.append, once=True)
    try:
        assert query.awaitTermination(WITHIN_S)
    finally:
        query.stop()
    return [one for one in told if not isinstance(one, Skipped)]


def no_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=ROWS)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (b'{"format": 3}', "written by an earlier version"),
        (bytes([FORMAT + 1]), f"has format {FORMAT + 1}, this version of rota reads {FORMAT}"),
        (bytes([FORMAT]), "is damaged"),
        (b"", "is not of this version"),
    ],
)
def test_a_state_of_another_version_is_refused(place: bytes, says: str) -> None:
    with pytest.raises(CheckpointError, match=f"{says}.*another --checkpoint directory"):
        advanced(JOURNAL, Remembered(place), lambda _: None, no_rows())


@pytest.mark.parametrize(("number", "says"), [(None, "an older format"), (FORMAT + 1, f"format {FORMAT + 1}")])
def test_a_checkpoint_of_another_version_is_refused_before_spark_starts(
    number: int | None, says: str, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark").mkdir()
    if number is not None:
        (tmp_path / "format").write_text(f"{number}\n")
    monkeypatch.setattr(session, "started", None)
    ended = CliRunner().invoke(app, ["audit", str(clean), "--follow", "--checkpoint", str(tmp_path)])
    assert (ended.exit_code, f"the checkpoint has {says}" in ended.stderr) == (2, True), ended.output


def test_a_restart_goes_on_where_it_stopped_and_says_nothing_twice(
    spark: SparkSession, found: Audit, planted: Path, tmp_path: Path
) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    told: list[Verdict | Unreadable] = []
    for share in (0.4, 0.4, 1.0):
        grown(planted, data, share)
        more = run_once(spark, data, checkpoint)
        assert not [one for one in more if isinstance(one, Unreadable)]
        assert more if share == 1.0 or not told else not more
        told += more
    names = Counter(identity(one.log.replace(str(data), str(planted)), one.partition, one) for one in told)
    assert names == batch_verdicts(found, planted)
    kept = [json.loads(line) for file in (checkpoint / "verdicts").glob("*.jsonl") for line in file.open()]
    assert len(kept) == len(told)


class Frame:
    """The findings of a batch, as Spark's query gives them."""

    def __init__(self, *rows: Row) -> None:
        self.rows = rows

    def where(self, _: str) -> Frame:
        return self

    def drop(self, _: str) -> Frame:
        return self

    def collect(self) -> list[Row]:
        return list(self.rows)

    def unpersist(self) -> None:
        pass


def finding(offset: int) -> Row:
    found = Finding("generation back", "payments", 1, offset, offset, 0, [], "back")
    return Row(source=JOURNAL, log="data", partition=0, **found._asdict())


def test_a_verdict_is_told_also_if_the_process_ends_while_it_is_written(tmp_path: Path) -> None:
    def ends(_: Told) -> None:
        raise KeyboardInterrupt

    frame, told = cast("DataFrame", Frame(finding(7))), list[Told]()
    with pytest.raises(KeyboardInterrupt):
        Verdicts(tmp_path, ends).add(frame, 3)
    for _ in range(2):
        Verdicts(tmp_path, told.append).add(frame, 3)
    assert [one.name for one in told if isinstance(one, Verdict)] == ["generation back"]


def test_verdicts_are_sorted_here_so_that_a_batch_is_folded_once(tmp_path: Path) -> None:
    told: list[Told] = []
    frame = cast("DataFrame", Frame(finding(9), finding(7), finding(10)))
    Verdicts(tmp_path, told.append).add(frame, 0)
    assert [one.last_offset for one in told if isinstance(one, Verdict)] == [7, 9, 10]


def test_a_batch_that_is_half_there_is_left_for_later(clean: Path, tmp_path: Path) -> None:
    (log,) = [log for log in partition_directories(clean) if log.name.startswith("__consumer")][:1]
    copy = Path(shutil.copytree(log, tmp_path / log.name))
    (segment,) = copy.glob("*.log")
    whole = list(parts_from(copy, Position(), 1))
    content = segment.read_bytes()
    segment.write_bytes(content[:-3])
    before = list(parts_from(copy, Position(), 1))
    assert before == whole[:-1]
    segment.write_bytes(content)
    assert [at for _, at in parts_from(copy, before[-1][1], 1)] == [whole[-1][1]]


def test_a_segment_that_was_written_anew_is_read_from_the_right_batch(clean: Path, tmp_path: Path) -> None:
    (log,) = [log for log in partition_directories(clean) if log.name.startswith("__consumer")][:1]
    copy = Path(shutil.copytree(log, tmp_path / log.name))
    (segment,) = copy.glob("*.log")
    parts = list(parts_from(copy, Position(), 1))
    (_, seen), (following, _) = parts[3:5]
    # Compaction took the first two batches: the byte that was next is inside of another one now.
    segment.write_bytes(segment.read_bytes()[parts[1][0].end :])
    (again, _), *_ = parts_from(copy, seen, 1)
    assert (again.first_offset, again.next_offset) == (following.first_offset, following.next_offset)


@pytest.fixture
def two_segments(clean: Path, tmp_path: Path) -> list[Part]:
    """The parts, one for each batch, of a copied partition whose batches are in two segments."""
    (log,) = [log for log in partition_directories(clean) if log.name.startswith("__consumer")][:1]
    copy = Path(shutil.copytree(log, tmp_path / log.name))
    (segment,) = copy.glob("*.log")
    parts = [part for part, _ in parts_from(copy, Position(), 1)]
    middle, content = parts[len(parts) // 2], segment.read_bytes()
    segment.with_name(f"{middle.first_offset:020}.log").write_bytes(content[middle.start :])
    segment.write_bytes(content[: middle.start])
    return [part for part, _ in parts_from(copy, Position(), 1)]


def compact(directory: Path) -> None:
    """Puts one segment in the place of two, without their first batch."""
    first, second = sorted(directory.glob("*.log"))
    (begins, _), *_ = parts_from(directory, Position(), 1)
    first.write_bytes(first.read_bytes()[begins.end :] + second.read_bytes())
    second.unlink()


def offsets_of(found: Iterator[tuple[Part, Position]]) -> list[tuple[int, int]]:
    return [(part.first_offset, part.next_offset) for part, _ in found]


def test_a_segment_that_shrank_is_read_from_the_right_batch(clean: Path, tmp_path: Path) -> None:
    (log,) = [log for log in partition_directories(clean) if log.name.startswith("__consumer")][:1]
    copy = Path(shutil.copytree(log, tmp_path / log.name))
    (segment,) = copy.glob("*.log")
    parts = list(parts_from(copy, Position(), 1))
    _, seen = parts[-3]
    # Compaction left less than what was read: the byte that was next is behind the end.
    segment.write_bytes(segment.read_bytes()[parts[-3][0].start :])
    assert segment.stat().st_size < seen.byte
    assert offsets_of(parts_from(copy, seen, 1)) == offsets_of(iter(parts[-2:]))


def test_segments_that_compaction_joined_are_read_behind_what_was_seen(two_segments: list[Part]) -> None:
    directory = Path(two_segments[0].path).parent
    second = two_segments[-1].path
    at = next(index for index, part in enumerate(two_segments) if part.path == second) + 1
    *_, (_, seen) = list(parts_from(directory, Position(), 1))[: at + 1]
    compact(directory)
    assert seen.segment > 0
    assert not Path(second).exists()
    expected = [(part.first_offset, part.next_offset) for part in two_segments[at + 1 :]]
    assert expected
    assert offsets_of(parts_from(directory, seen, 1)) == expected


def test_a_segment_that_was_written_anew_behind_the_plan_is_read_where_its_records_are_now(
    two_segments: list[Part],
) -> None:
    path = Path(two_segments[0].path)
    first, *planned = [part for part in two_segments if part.path == str(path)]
    assert len(planned) > 2
    before = rows_of_all(planned)
    path.write_bytes(path.read_bytes()[first.end :])
    assert rows_of_all(planned) == before


def rows_of_all(parts: list[Part]) -> list[dict[str, Any]]:
    return [row for part in parts for batch in rows_now(part, 4 << 20, has_entries=False) for row in batch.to_pylist()]


def test_a_segment_that_compaction_removed_is_read_where_its_records_are_now(two_segments: list[Part]) -> None:
    directory = Path(two_segments[0].path).parent
    planned = [part for part in two_segments if part.path == two_segments[-1].path]
    assert len(planned) > 2
    before = rows_of_all(planned)
    compact(directory)
    assert rows_of_all(planned) == before
    assert {row["kind"] for row in before}.isdisjoint({"unreadable", "torn", "compacted"})


def test_a_segment_that_is_there_and_cannot_be_read_is_told(two_segments: list[Part]) -> None:
    path = Path(two_segments[-1].path)
    path.unlink()
    path.mkdir()
    (row,) = rows_of_all(two_segments[-1:])
    assert row["kind"] == "unreadable"


def test_listing_begins_again_when_compaction_removes_a_segment_meanwhile(
    two_segments: list[Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, byte_of = Path(two_segments[0].path).parent, growth._byte_of
    calls: list[Path] = []

    def compacted_meanwhile(path: Path, base: int, at: Position) -> int:
        calls.append(path)
        if len(calls) == 1:
            compact(directory)
        return byte_of(path, base, at)

    monkeypatch.setattr(growth, "_byte_of", compacted_meanwhile)
    found = [part for part, _ in parts_now(directory, Position(), 1)]
    assert [part.next_offset for part in found] == [part.next_offset for part in two_segments[1:]]


def test_listing_says_what_cannot_be_read(two_segments: list[Part]) -> None:
    path = Path(two_segments[-1].path)
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=path.name):
        parts_now(path.parent, Position(), 1)


def test_the_next_batch_is_bounded_for_each_partition(clean: Path) -> None:
    reader = GrowthReader([clean], 500, has_entries=False)
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    parts = [planned.value for planned in reader.partitions(first, second)]
    assert len(parts) <= len(first)
    assert all(part.end - part.start < 10_000 for part in parts)
    assert {part.next_offset for part in parts} <= {at["offset"] for at in second.values()}


# As on a machine so busy that no command ends in time, unless it takes more time.
NO_GRACE = """
from rota import interrupts
from rota.__main__ import run
interrupts._grace_s = 0.001
run()
"""


def test_the_command_follows_until_ctrl_c(planted: Path, tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    grown(planted, data, 0.5)
    words = ["audit", str(data), "--follow", "--json", "--checkpoint", str(checkpoint)]
    command = [sys.executable, "-c", NO_GRACE, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0) as running:
        try:
            eventually(lambda: any((checkpoint / "verdicts").glob("*.jsonl")), WITHIN_S, "the first verdicts")
            before = len(list((checkpoint / "verdicts").glob("*.jsonl")))
            grown(planted, data, 1.0)
            eventually(
                lambda: len(list((checkpoint / "verdicts").glob("*.jsonl"))) > before, WITHIN_S, "verdicts of what came"
            )
        finally:
            os.killpg(running.pid, signal.SIGINT)
        lines = [json.loads(line) for line in running.stdout or ()]
        errors = list(running.stderr or ())
    assert running.returncode == 1
    # Nothing of Java's and Spark's.
    assert [line for line in errors if not line.startswith("rota: ")] == []
    assert {line["severity"] for line in lines} >= {"violation", OBSERVATION}
    assert {line["log"] for line in lines} == {str(data), str(data / "journal")}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["data", "--once"], "need --follow"),
        (["data", "--follow", "--report", "report.html"], "leave out --follow"),
        (["no-such-place", "--follow"], "there is no such directory"),
    ],
)
def test_a_wrong_call_is_refused(arguments: list[str], says: str) -> None:
    ended = CliRunner().invoke(app, ["audit", *arguments])
    assert (ended.exit_code, says in ended.stderr) == (2, True), ended.stderr


def seen(offset: int, part: int, kind: str, **columns: Any) -> dict[str, Any]:
    """A row of a journal about the one group that there is."""
    of_row: dict[str, Any] = dict.fromkeys(ROWS.names)
    of_row |= {"offset": offset, "part": part, "sequence": offset, "at_ms": offset, "kind": kind, "group": "payments"}
    return of_row | columns


@pytest.mark.parametrize(("is_back", "expected"), [(True, []), (False, ["early expiry"])])
def test_a_member_that_a_reload_brings_back_may_expire(is_back: bool, expected: list[str]) -> None:
    """Its leaving had not become durable when the coordinator was moved: its session is what ends."""

    def joined(at: int, member: str, session_ms: int) -> list[dict[str, Any]]:
        generation = at
        asked = {"api": "JoinGroup", "ticket": at, "member": member, "mono_ms": at}
        told = {"api": "JoinGroup", "ticket": at, "member": member, "mono_ms": at, "error": "NONE"}
        told["generation"] = generation
        timeouts = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": session_ms}
        return [seen(at, 0, "request", **asked, **timeouts), seen(at, 1, "answer", **told)]

    held = {"mono_ms": 5, "generation": 1, "session_timeout_ms": 100, "rebalance_timeout_ms": 100, "note": "loaded"}
    rows = [
        seen(0, 0, "began", mono_ms=0, group=None),
        seen(1, 0, "loaded", mono_ms=0, group=None),
        *joined(2, "leaver", 100),
        *joined(3, "stayer", 10_000),
        seen(4, 0, "request", api="LeaveGroup", error="NONE", mono_ms=4),
        seen(4, 1, "leaver", member="leaver", error="NONE", mono_ms=4),
        seen(5, 0, "loaded", mono_ms=5, group=None),
        *([seen(5, 1, "held", member="leaver", **held)] if is_back else []),
        seen(6, 0, "timer", timer="Session", mono_ms=106),
    ]
    kept = Kept()
    batches = [pa.RecordBatch.from_pylist(rows[:at], schema=ROWS) for at in (4, len(rows))]
    assert [found.name for batch in batches for found in kept.fold(JOURNAL, batch)] == expected
