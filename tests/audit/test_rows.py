"""Logs as rows, without Spark: what is read, and that what cannot be read is said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import rota
from rota import _rota
from rota.audit.logs import JOURNAL, OFFSETS, Part, parts_of
from rota.audit.rows import ARROW_SCHEMA, rows_of
from rota.conform.consumer import ConsumerWire

# The logs are written once, by one worker.
pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

JOIN = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["orders"],
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": [],
}


def rows(parts: list[Part], **wanted: Any) -> list[dict[str, Any]]:
    return [row for part in parts for batch in rows_of(part, **wanted) for row in batch.to_pylist()]


def kinds(found: list[dict[str, Any]]) -> set[str]:
    return {row["kind"] for row in found}


def segment_of(directory: Path, source: str) -> Path:
    """The largest segment of a log."""
    parts = [part for part in parts_of([directory]) if part.source == source]
    return Path(max(parts, key=lambda part: part.end).path)


def test_every_entry_and_every_record_of_a_directory_is_read(clean: Path) -> None:
    found = rows(parts_of([clean]))
    assert not kinds(found) & {"unreadable", "torn", "compacted", "other"}
    assert kinds(found) >= {"began", "loaded", "request", "answer", "plan", "listed", "timer", "append", "appended"}
    assert kinds(found) >= {"group", "member", "assigned", "subscribed", "offset", "commit", "leaver", "unloaded"}
    offsets = [row for row in found if row["source"] == OFFSETS and row["kind"] == "offset"]
    assert {(row["group"], row["topic"], row["committed"]) for row in offsets} >= {("payments", "orders", 5)}


def test_a_loaded_state_names_its_consumer_groups(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for start in range(2):
        with rota.Server(data=data, journal=True) as server:
            if start == 0:
                host, _, port = server.bootstrap_servers.rpartition(":")
                wire = ConsumerWire((host, int(port)), "")
                joined = wire.ask("ConsumerGroupHeartbeat", 1, JOIN)
                assert joined["error_code"] == 0
                wire.close()
    found = rows(parts_of([data]))
    loaded = [(row["kind"], row["group"]) for row in found if row["note"] == "loaded"]
    assert loaded == [("consumer", "g")]
    assert [row for row in rows(parts_of([data]), groups=["other"]) if row["note"] == "loaded"] == []


def test_small_parts_have_the_rows_of_large_ones(clean: Path) -> None:
    whole, parts = parts_of([clean]), parts_of([clean], part_bytes=500)
    assert len(parts) > 2 * len(whole)
    assert rows(parts) == rows(whole)


def test_only_what_is_asked_for_is_read(clean: Path) -> None:
    parts = parts_of([clean])
    everything = rows(parts)
    chosen = rows(parts, groups=["payments"])
    assert {row["group"] for row in chosen} == {"payments", None}
    assert [row for row in everything if row["group"] == "payments"] == [row for row in chosen if row["group"]]
    middle = sorted(row["at_ms"] for row in everything if row["at_ms"])[len(everything) // 2]
    late = rows(parts, since_ms=middle)
    marks = {"began", "gap", "loaded", "state", "held"}
    assert all(row["at_ms"] >= middle for row in late if row["kind"] not in marks)
    assert len([row for row in late if row["kind"] not in marks]) == len(
        [row for row in everything if row["at_ms"] >= middle and row["kind"] not in marks]
    )


def test_a_directory_of_kafka_is_read_and_its_newer_records_are_named(kafka: Path) -> None:
    found = rows(parts_of([kafka]))
    assert "unreadable" not in kinds(found)
    assert kinds(found) >= {"group", "member", "offset", "consumer_group", "consumer_member", "consumer_assigned"}
    assert not [row for row in found if row["note"] == "its value is not understood"]


def test_a_batch_with_a_wrong_checksum_is_said_and_the_others_are_read(clean: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(clean, tmp_path / "copy"))
    segment = segment_of(copy, JOURNAL)
    whole = len(rows([part for part in parts_of([copy]) if part.path == str(segment)]))
    damaged = bytearray(segment.read_bytes())
    damaged[100] ^= 0xFF
    segment.write_bytes(damaged)
    found = rows([part for part in parts_of([copy]) if part.path == str(segment)])
    (said,) = [row for row in found if row["kind"] == "unreadable"]
    assert "checksum" in said["note"]
    assert 1 < len(found) < whole


def test_a_torn_tail_is_no_damage_but_bytes_before_the_end_are(clean: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(clean, tmp_path / "copy"))
    segment = segment_of(copy, OFFSETS)
    segment.write_bytes(segment.read_bytes()[:-5])
    assert [row["kind"] for row in rows(parts_of([copy])) if row["kind"] in {"torn", "unreadable"}] == ["torn"]
    shutil.copy(segment, segment.with_name(f"{10**6:020}.log"))
    assert "unreadable" in kinds(rows(parts_of([copy])))


@pytest.mark.parametrize("header_byte", [8, 16], ids=["length", "format"])
def test_a_batch_without_a_header_is_said_and_those_behind_it_are_read(
    header_byte: int, clean: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(clean, tmp_path / "copy"))
    for ahead in copy.glob("rota.wal.*"):
        ahead.unlink()  # it may have what is damaged here
    segment = segment_of(copy, OFFSETS)
    damaged = bytearray(segment.read_bytes())
    second = 12 + int.from_bytes(damaged[8:12], "big")

    def of_segment() -> list[dict[str, Any]]:
        return rows([part for part in parts_of([copy]) if part.path == str(segment)])

    whole = of_segment()
    damaged[second + header_byte] ^= 0x55
    segment.write_bytes(damaged)
    found = of_segment()
    (said,) = [row for row in found if row["kind"] in {"unreadable", "torn", "compacted"}]
    assert (said["kind"], said["offset"]) == ("unreadable", 1)
    assert [row for row in found if row != said] == [row for row in whole if row["offset"] != 1]


def test_entries_of_a_later_version_are_refused_by_number(clean: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(clean, tmp_path / "copy"))
    segment = segment_of(copy, JOURNAL)
    log = _rota.DataLog(segment.parent.parent)
    partition = int(segment.parent.name.rpartition("-")[2])
    entries = log.records("__rota_journal", partition, 0, 2)
    later = [(at_ms, key, b"\x09" + (value or b"")[1:]) for _, at_ms, _, key, value in entries]
    segment.write_bytes(_rota.write_batch(0, later))
    found = rows([part for part in parts_of([copy]) if part.path == str(segment)])
    assert [row["kind"] for row in found] == ["unreadable"] * 2
    assert "version 9" in found[0]["note"]


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_place_without_a_log_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (said,) = rows(parts_of([tmp_path / name]))
    assert said["kind"] == "unreadable"
    assert name in said["note"]


def test_a_file_that_may_not_be_read_is_said(clean: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(clean, tmp_path / "copy"))
    segment = segment_of(copy, OFFSETS)
    segment.unlink()
    segment.symlink_to(segment.parent / "gone")
    found = [row for row in rows(parts_of([copy])) if row["kind"] == "unreadable"]
    assert [segment.name in row["note"] for row in found] == [True]


def test_missing_offsets_are_counted(clean: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(clean, tmp_path / "copy"))
    segment = segment_of(copy, OFFSETS)
    content = segment.read_bytes()
    first_bytes = 12 + int.from_bytes(content[8:12], "big")
    segment.write_bytes(content[first_bytes:])
    found = [row for row in rows(parts_of([copy])) if row["kind"] == "compacted"]
    assert [(row["offset"], row["count"]) for row in found] == [(0, 1)]


def test_the_columns_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    assert [name for name in ARROW_SCHEMA.names if f"`{name}`" not in page] == []
