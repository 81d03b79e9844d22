"""`rota audit --bootstrap-server` finds in what a broker sends what `rota audit` finds in the broker's files."""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from typer.testing import CliRunner

from rota import exits
from rota.audit.audit import Audit, NoGroupError, Wanted, audit
from rota.audit.engines import local
from rota.audit.follow.command import From
from rota.audit.live import AS_BYTES, audit_broker
from rota.audit.logs import OFFSETS_TOPIC, parts_of, records_of
from rota.audit.verdict import Verdict
from rota.cli import app
from rota.groups.cluster import Cluster
from rota.groups.errors import GroupsError, Kind
from tests.audit.conftest import KAFKA
from tests.audit.fake_feed import other_record

WHERE = "localhost:9092"


class Sent(NamedTuple):
    """A record as the client library has it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Broker:
    """A cluster and its consumer, which sends some records at once."""

    def __init__(self, records: dict[int, list[Sent]], at_once: int = 3, stops_at: int | None = None) -> None:
        self.records = records
        self.at_once = at_once
        self.stops_at = stops_at
        self.next = dict.fromkeys(records, 0)
        self.paused: set[int] = set()

    def partitions(self, topics: list[str]) -> dict[str, list[int]]:
        return {topic: sorted(self.records) for topic in topics if self.records}

    @contextlib.contextmanager
    def consumer(self, _: int, isolation_level: str) -> Iterator[Broker]:
        assert isolation_level == "read_committed"
        yield self

    def beginning_offsets(self, places: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: list[Any]) -> dict[Any, int]:
        # Behind the last record is the marker of a transaction.
        return {at: self.records[at.partition][-1].offset + 2 for at in places}

    def assign(self, places: list[Any]) -> None:
        self.places = places

    def seek(self, at: Any, offset: int) -> None:
        self.next[at.partition] = offset

    def pause(self, *places: Any) -> None:
        self.paused |= {at.partition for at in places}

    def position(self, at: Any) -> int:
        return self.next[at.partition]

    def poll(self, timeout_ms: int, max_records: int) -> dict[Any, list[Sent]]:
        assert timeout_ms < max_records
        told = {}
        for at in self.places:
            if at.partition in self.paused or self.next[at.partition] == self.stops_at:
                continue
            rest = [one for one in self.records[at.partition] if one.offset >= self.next[at.partition]]
            told[at] = rest[: self.at_once]
            self.next[at.partition] = (
                (rest[self.at_once :] or [rest[-1]])[0].offset
                if len(rest) > self.at_once
                else (self.records[at.partition][-1].offset + 2)
            )
        return {at: records for at, records in told.items() if records}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of Kafka with planted faults."""
    place = tmp_path_factory.mktemp("live")
    with tarfile.open(KAFKA) as archive:
        archive.extractall(place, filter="data")
    ended = CliRunner().invoke(app, ["plant", str(place / "log"), str(place / "planted")])
    assert ended.exit_code == 0, ended.output
    return place / "planted"


def sent(directory: Path) -> dict[int, list[Sent]]:
    found: dict[int, list[Sent]] = {}
    for part in parts_of([directory]):
        of_partition = found.setdefault(part.partition, [])
        of_partition += [Sent(offset, at_ms, key, value) for offset, at_ms, _, key, value in records_of(part)]
    return found


def plain(verdict: Verdict) -> Verdict:
    """Without what names the log."""
    return verdict._replace(log="", reproduce="")


def audited(broker: Broker, wanted: Wanted, still_s: float = 30) -> Audit:
    return audit_broker(cast("Cluster", broker), WHERE, wanted, lambda _: None, still_s)


@pytest.mark.parametrize("at_once", [1, 3, 1_000])
def test_what_a_broker_sends_is_audited_like_its_files(faulty: Path, at_once: int) -> None:
    of_files = audit(Wanted([faulty]), parts_of([faulty]), local)
    found = audited(Broker(sent(faulty), at_once), Wanted([]))
    assert len(found.verdicts) >= 5
    assert [plain(one) for one in found.verdicts] == [plain(one) for one in of_files.verdicts]
    assert (found.groups, found.rows, found.unreadable) == (of_files.groups, of_files.rows, [])
    assert [line._replace(log="") for line in found.coverage] == [line._replace(log="") for line in of_files.coverage]
    assert {one.log for one in found.verdicts} == {WHERE}
    for one in found.verdicts:
        count = one.last_offset - one.first_offset + 1
        place = f"--partition {one.partition} --offset {one.first_offset} --max-messages {count} "
        kind = "Offsets" if one.name == "offset went back" else "GroupMetadata"
        shown = f"--formatter org.apache.kafka.tools.consumer.{kind}MessageFormatter"
        assert one.reproduce.endswith(f"{place}{AS_BYTES if one.id.startswith('C') else shown}")
    assert {one.id[:1] for one in found.verdicts} >= {"", "C", "S"}


def test_offsets_that_compaction_took_make_the_order_unknown(faulty: Path) -> None:
    records = {partition: [one for one in of if one.offset != 1] for partition, of in sent(faulty).items()}
    found = audited(Broker(records), Wanted([]))
    decided = {line.id: line.decided for line in found.coverage}
    assert (decided["S12"], decided["S4"]) == ("query", "unknown")


def test_a_broker_that_falls_silent_is_unreadable_from_there(faulty: Path) -> None:
    found = audited(Broker(sent(faulty), 2, stops_at=2), Wanted([]), still_s=0.01)
    assert found.exit_code == 2
    assert {(one.offset, one.kind) for one in found.unreadable} == {(2, "unreadable")}


def test_a_group_that_is_not_there_is_told_with_its_neighbours(faulty: Path) -> None:
    with pytest.raises(NoGroupError, match="the nearest is `members`"):
        audited(Broker(sent(faulty)), Wanted([], group="member"))


def test_a_group_that_is_not_checked_is_known() -> None:
    broker = Broker({0: [Sent(0, 1, *other_record(11, "shared"))]})
    found = audited(broker, Wanted([], group="shared"))
    assert (found.groups, dict(found.skipped), found.exit_code) == (0, {"share group": 1}, 0)


def test_a_topic_that_cannot_be_read_is_an_error_with_its_reasons() -> None:
    with pytest.raises(GroupsError, match=f"{WHERE} has no topic {OFFSETS_TOPIC}.*or an ACL forbids it"):
        audited(Broker({}), Wanted([]))


def test_without_a_broker_the_exit_code_says_so() -> None:
    command = ["audit", "--bootstrap-server", "127.0.0.1:1"]
    ended = CliRunner().invoke(app, command)
    assert (ended.exit_code, "127.0.0.1:1 refuses connections" in ended.stderr) == (5, True), ended.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupsError(Kind.REFUSED, "the topics could not be read: TopicAuthorizationFailed"), exits.MISUSED),
        (GroupsError(Kind.NOT_FOUND, "the topics could not be read: UnknownTopicOrPartition"), exits.MISUSED),
        (GroupsError(Kind.UNREACHABLE, "the topics could not be read: timed out"), exits.UNREACHABLE),
    ],
)
def test_a_broker_that_refuses_is_no_violation_and_no_missing_group(
    error: GroupsError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Refusing(contextlib.nullcontext["Refusing"]):
        def __enter__(self) -> Refusing:
            return self

        def partitions(self, _topics: list[str]) -> dict[str, list[int]]:
            raise error

    monkeypatch.setattr("rota.groups.options.connected", lambda *_: Refusing())
    ended = CliRunner().invoke(app, ["audit", "--bootstrap-server", WHERE])
    assert (ended.exit_code, ended.stderr.splitlines()[-1]) == (code, f"rota: {error}"), ended.output
    with pytest.raises(SystemExit) as following:
        From(WHERE, None).check()
    assert (following.value.code, capsys.readouterr().err) == (code, f"rota: {error}\n")
