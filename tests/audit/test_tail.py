"""What is new on a broker is read once and not passed over, whatever happens to the topic meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka import errors

from rota import _rota
from rota.audit.decoding import placed
from rota.audit.follow.advancing import SKIPPED, CheckpointError
from rota.audit.follow.broker import Broker, BrokerReader, EndedError
from rota.audit.follow.query import batch_of, check_format
from rota.audit.follow.tail import LostError, Position, Tail
from rota.audit.logs import OFFSETS
from rota.audit.promises import Finding
from rota.audit.rows import ARROW_SCHEMA
from rota.exits import MISUSED
from rota.groups.cluster import kind_of
from rota.groups.errors import GroupsError, Kind
from rota.groups.fetching import Fetched
from tests.audit.fake_feed import FakeFeed, Log, Record, commit, group_record, read_all
from tests.audit.test_follow import Kept

WHERE = "localhost:9092"
GROUP = "payments"


def log_of(*batches: list[Record]) -> Log:
    log = Log()
    for records in batches:
        log.append(*records)
    return log


def committing(batches: int) -> Log:
    """Batches of one, two and three commits."""
    return log_of(*([commit(GROUP, at)] * (at % 3 + 1) for at in range(batches)))


def places(rows: pa.Table) -> list[tuple[int, str]]:
    """Offsets and kinds."""
    return list(zip(rows["offset"].to_pylist(), rows["kind"].to_pylist(), strict=True))


@pytest.mark.parametrize("bytes_max", [1, 300, 1 << 20])
def test_each_offset_is_read_once(bytes_max: int) -> None:
    feed = FakeFeed(committing(20), Log(), committing(5))
    rows, end = read_all(Tail(WHERE, feed, partition_bytes=bytes_max))
    read = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    assert sorted(read) == [(partition, offset) for partition in (0, 2) for offset in range(feed.logs[partition].end)]
    assert Position.of_plain(json.loads(json.dumps(end.plain()))) == end
    assert set(rows["log"].to_pylist()) == {WHERE}


def test_another_address_of_the_cluster_goes_on_in_the_same_log() -> None:
    feed = FakeFeed(committing(3))
    _, end = read_all(Tail(WHERE, feed))
    feed.logs[0].append(commit(GROUP, 9))
    rows, _ = read_all(Tail("elsewhere:9092", feed), end)
    assert rows["log"].to_pylist() == [WHERE]


def test_what_was_planned_and_is_asked_for_again_is_fetched_again() -> None:
    tail = Tail(WHERE, FakeFeed(committing(20)), partition_bytes=300)
    end = tail.reach(Position())
    (planned,) = tail.chunks(Position(), end)
    (again,) = Tail(WHERE, tail.feed, partition_bytes=1).chunks(Position(), end)
    assert len(again.pieces) > 1
    assert [places(pa.Table.from_batches(chunk.rows())) for chunk in (again, planned)] == [
        [(offset, "offset") for offset in range(end.following[0][0])]
    ] * 2


@pytest.mark.parametrize("taken", [[0], [1, 2], [4], [0, 1, 2, 3, 4]])
def test_what_compaction_took_between_plan_and_reading_is_counted(taken: list[int]) -> None:
    log = log_of(*([commit(GROUP, at)] for at in range(5)))
    feed = FakeFeed(log)
    end = Tail(WHERE, feed).reach(Position())
    log.append(commit(GROUP, 5))
    for base in taken:
        del log.batches[base]
    (chunk,) = Tail(WHERE, feed).chunks(Position(), end)
    rows = pa.Table.from_batches(chunk.rows())
    compacted = [
        (row["offset"] + at) for row in rows.to_pylist() if row["kind"] == "compacted" for at in range(row["count"])
    ]
    assert compacted == taken
    assert [offset for offset, kind in places(rows) if kind == "offset"] == [at for at in range(5) if at not in taken]


def test_offsets_that_were_removed_before_they_were_read_are_said_and_counted() -> None:
    said: list[str] = []
    log = committing(6)
    feed = FakeFeed(log)
    tail = Tail(WHERE, feed, said.append)
    _, end = read_all(tail)
    seen = end.following[0][0]
    for _ in range(3):
        log.append(commit(GROUP, 1))
    log.first = seen + 2
    for base in (seen, seen + 1):
        del log.batches[base]
    rows, _ = read_all(tail, end)
    assert places(rows) == [(seen, "compacted"), (seen + 2, "offset")]
    assert rows["count"].to_pylist() == [2, None]
    assert [f"offsets {seen} to {seen + 1} of partition 0 were removed" in text for text in said] == [True]


def test_a_log_that_begins_late_is_read_from_there_without_a_word() -> None:
    said: list[str] = []
    log = Log(first=7)
    log.append(commit(GROUP, 1))
    rows, _ = read_all(Tail(WHERE, FakeFeed(log), said.append))
    assert (places(rows), said) == ([(0, "compacted"), (7, "offset")], [])


def test_a_topic_that_was_created_anew_ends_reading() -> None:
    feed = FakeFeed(committing(3))
    tail = Tail(WHERE, feed)
    _, end = read_all(tail)
    feed.id, feed.logs = "f" * 32, [committing(30)]
    for ask in (lambda: tail.reach(end), lambda: Tail(WHERE, feed).chunks(Position(), end)):
        with pytest.raises(LostError, match=r"was created anew.*another --checkpoint directory"):
            ask()


def test_a_log_that_ends_before_what_was_read_ends_reading() -> None:
    feed = FakeFeed(committing(9))
    tail = Tail(WHERE, feed)
    _, end = read_all(tail)
    feed.logs = [committing(2)]
    with pytest.raises(LostError, match=f"ends at offset {feed.logs[0].end}, but it was read up to"):
        tail.reach(end)
    with pytest.raises(LostError, match=f"ends at offset {feed.logs[0].end}, but it was read up to"):
        Tail(WHERE, feed).chunks(Position(), end)


def test_a_log_that_lost_what_was_read_and_grew_again_ends_reading() -> None:
    feed = FakeFeed(committing(3))
    tail = Tail(WHERE, feed)
    _, end = read_all(tail)
    feed.is_diverging = True
    with pytest.raises(LostError, match="has lost records that were read"):
        tail.reach(end)


def test_bytes_that_are_no_batch_end_reading() -> None:
    feed = FakeFeed(committing(3))
    feed.errors[0] = Fetched(b"\x01" * 99)
    with pytest.raises(LostError, match="at offset 0 is no batch"):
        Tail(WHERE, feed).reach(Position())


def test_a_partition_that_cannot_be_read_now_is_left_for_later() -> None:
    said: list[str] = []
    feed = FakeFeed(committing(3), committing(4))
    feed.errors[1] = Fetched(error="NotLeaderForPartition", is_transient=True)
    tail = Tail(WHERE, feed, said.append)
    rows, end = read_all(tail)
    tail.reach(end)
    assert (set(rows["partition"].to_pylist()), len(said)) == ({0}, 1)
    feed.errors.clear()
    rows, _ = read_all(tail, end)
    assert rows["partition"].to_pylist() == [1] * feed.logs[1].end


def test_a_partition_without_a_leader_is_said_and_left_for_later() -> None:
    said: list[str] = []
    feed = FakeFeed(committing(3), committing(4))
    feed.leaderless = (1,)
    tail = Tail(WHERE, feed, said.append)
    rows, end = read_all(tail)
    assert (set(rows["partition"].to_pylist()), len(said)) == ({0}, 1)
    with pytest.raises(GroupsError, match="without a leader now: 1"):
        tail.ends()
    feed.leaderless = ()
    rows, _ = read_all(tail, end)
    assert rows["partition"].to_pylist() == [1] * feed.logs[1].end


def test_a_partition_whose_records_were_all_removed_is_passed_over() -> None:
    log = committing(6)
    feed = FakeFeed(log)
    tail = Tail(WHERE, feed)
    _, end = read_all(tail)
    seen = end.following[0][0]
    log.batches.clear()
    log.first = seen + 9
    rows, later = read_all(tail, end)
    assert (places(rows), later.following[0][0]) == ([(seen, "compacted")], seen + 9)
    assert tail.reach(later) == later


@pytest.mark.parametrize("is_leaderless", [True, False])
def test_an_end_that_cannot_be_reached_now_is_no_end(is_leaderless: bool) -> None:
    feed = FakeFeed(committing(3), committing(4))
    goal = Tail(WHERE, feed).ends()
    if is_leaderless:
        feed.leaderless = (1,)
    else:
        feed.errors[1] = Fetched(error="NotLeaderForPartition", is_transient=True)
    with pytest.raises(GroupsError, match="cannot be read now: 1") as raised:
        read_all(Tail(WHERE, feed), goal=goal)
    assert raised.value.kind is Kind.UNREACHABLE


def test_a_forbidden_topic_is_an_error() -> None:
    feed = FakeFeed(committing(3))
    feed.errors[0] = Fetched(error="TopicAuthorizationFailed")
    with pytest.raises(GroupsError, match="an ACL forbids to read it"):
        Tail(WHERE, feed).reach(Position())


def test_a_goal_is_not_passed() -> None:
    feed = FakeFeed(log_of([commit(GROUP, at) for at in range(4)]))
    rows, end = read_all(Tail(WHERE, feed), goal={0: 3})
    assert (rows["offset"].to_pylist(), end.following[0][0]) == ([0, 1, 2], 3)
    rows, _ = read_all(Tail(WHERE, feed), end)
    assert rows["offset"].to_pylist() == [3]


def reader_of(feed: FakeFeed, said: Path) -> BrokerReader:
    return BrokerReader(Broker(WHERE, "", str(said)), lambda: feed)


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_broker_that_goes_away_and_comes_back_is_said_once_each(tmp_path: Path) -> None:
    feed, said = FakeFeed(committing(3)), tmp_path / "said"
    reader = reader_of(feed, said)
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    feed.failure = GroupsError(Kind.UNREACHABLE, "no answer from it")
    feed.logs[0].append(commit(GROUP, 7))
    assert [reader.latestOffset(first, limit) for _ in range(3)] == [first] * 3
    feed.failure = None
    later = reader.latestOffset(first, limit)
    assert [row.value.pieces[0].first_offset for row in reader.partitions(first, later)] == [first["next"]["0"][0]]
    assert reader.latestOffset(later, limit) == later
    assert [list(one) for one in told(said)] == [["says"], ["says"]]
    assert [one["says"] for one in told(said)] == [
        f"no answer from it; waiting for {WHERE}",
        f"{WHERE} answers again",
    ]
    assert feed.closed == 3


def test_who_reads_to_the_end_waits_for_a_broker_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.audit.follow.broker.PATIENCE_S", 0.0)
    feed, said = FakeFeed(committing(3)), tmp_path / "said"
    feed.failure = GroupsError(Kind.UNREACHABLE, "no answer from it")
    with pytest.raises(EndedError):
        reader_of(feed, said).prepareForTriggerAvailableNow()
    assert told(said) == [{"error": "no answer from it", "exit_code": Kind.UNREACHABLE.exit_code}]


def test_a_checkpoint_is_of_what_was_read(tmp_path: Path) -> None:
    check_format(tmp_path, is_of_broker=True)
    # No broker answered, so nothing was read.
    check_format(tmp_path)
    (tmp_path / "spark").mkdir()
    check_format(tmp_path)
    with pytest.raises(CheckpointError, match="is of directories, not of a broker"):
        check_format(tmp_path, is_of_broker=True)


def test_a_broker_that_the_client_does_not_know_yet_is_waited_for() -> None:
    assert kind_of(errors.UnknownBrokerIdError(2)) is Kind.UNREACHABLE


@pytest.mark.parametrize("is_there", [True, False])
def test_a_topic_that_is_not_there_now_is_waited_for(is_there: bool, tmp_path: Path) -> None:
    feed, said = FakeFeed(committing(3)), tmp_path / "said"
    feed.is_there = is_there
    reader = reader_of(feed, said)
    reached = reader.latestOffset({}, reader.getDefaultReadLimit())
    assert (bool(reached), len(told(said))) == (is_there, 0 if is_there else 1)


@pytest.mark.parametrize(
    ("failure", "id_", "exit_code"),
    [
        (GroupsError(Kind.REFUSED, "an ACL forbids it"), None, MISUSED),
        (None, "f" * 32, 2),
    ],
)
def test_what_will_not_pass_ends_following_with_its_reason(
    failure: GroupsError | None, id_: str | None, exit_code: int, tmp_path: Path
) -> None:
    feed, said = FakeFeed(committing(3)), tmp_path / "said"
    reader = reader_of(feed, said)
    first = reader.latestOffset({}, reader.getDefaultReadLimit())
    feed.failure, feed.id = failure, id_ or feed.id
    with pytest.raises(EndedError) as ended:
        reader.latestOffset(first, reader.getDefaultReadLimit())
    assert told(said) == [{"error": str(ended.value), "exit_code": exit_code}]


def stored(batches: list[tuple[int, list[Record]]]) -> list[list[tuple[int, int, bytes, bytes | None]]]:
    return [[(base + at, 0, *record) for at, record in enumerate(records)] for base, records in batches]


def found_from(*batches: tuple[int, list[Record]]) -> list[Finding]:
    """What is found in batches of records at these offsets, each from what was kept of the one before."""
    kept, found, following = Kept(), list[Finding](), 0
    for records in stored(list(batches)):
        count, columns = _rota.audit_decode(records, following)
        following = records[-1][0] + 1
        rows = placed(OFFSETS, WHERE, 0, count, columns)
        ordered = batch_of(tuple(row.values()) for row in pa.Table.from_batches([rows], ARROW_SCHEMA).to_pylist())
        found += kept.fold(OFFSETS, ordered)
    return found


@pytest.mark.parametrize("gap", [0, 1, 50])
@pytest.mark.parametrize(
    ("before", "behind", "name"),
    [
        ([group_record(GROUP, 7)], [group_record(GROUP, 1)], "generation back"),
        ([commit(GROUP, 70)], [commit(GROUP, 10)], "offset went back"),
    ],
)
def test_where_records_are_missing_a_group_may_have_begun_anew(
    before: list[Record], behind: list[Record], name: str, gap: int
) -> None:
    found = [one.name for one in found_from((0, before), (1 + gap, behind))]
    assert found == ([] if gap else [name])
    # From there on it is known again.
    again = [one.name for one in found_from((0, behind), (1 + gap, before), (2 + gap, behind))]
    assert again == [name]


def test_records_of_other_groups_and_of_no_known_type_are_counted_and_no_more() -> None:
    def key(record_type: int, group: bytes) -> bytes:
        return record_type.to_bytes(2, "big") + len(group).to_bytes(2, "big") + group

    records: list[Record] = [(key(kind, b"g"), b"value") for kind in (11, 11, 17, 9, 24)]
    found = found_from((0, records), (9, [(key(15, b"g"), None)]))
    counts = [(one.name, one.witness, one.generation) for one in found]
    assert sorted(counts) == [
        (SKIPPED, "share group", 1),
        (SKIPPED, "share group", 2),
        (SKIPPED, "streams group", 1),
        (SKIPPED, "unknown", 2),
    ]
    count, _ = _rota.audit_decode([(at, 0, key, value) for at, (key, value) in enumerate(records)])
    assert count == len(records)
