"""Kafka's dump tool, with its decoder of group and offset records, finds in our segments what we wrote."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

import rota
from harness import kafka_tools
from tests.log.groups_told import told
from tests.log.record_kafka import GROUPS, play

ROOT = Path(__file__).resolve().parents[2]
RECORD = re.compile(r"^\| offset: (\d+) .*? key: (\{.*?\}\}) payload: (.*)$")


def text_at(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def ours(line: str) -> tuple[int, dict[str, object], dict[str, object] | None]:
    """A line of `write_offsets`: offset, and what the tool is to say of key and value."""
    offset, key_text, value_text = line.split()
    key = bytes.fromhex(key_text)
    (kind,) = struct.unpack_from(">h", key)
    group, at = text_at(key, 2)
    decoded: dict[str, object] = {"group": group}
    if kind == 1:
        topic, at = text_at(key, at)
        decoded |= {"topic": topic, "partition": struct.unpack_from(">i", key, at)[0]}
    if value_text == "-":
        return int(offset), decoded, None
    value = bytes.fromhex(value_text)
    if kind == 1:
        committed = struct.unpack_from(">q", value, 2)[0]
        return int(offset), decoded, {"offset": committed, "leaderEpoch": -1, "metadata": "m"}
    protocol_type, at = text_at(value, 2)
    return int(offset), decoded, {"protocolType": protocol_type, "generation": struct.unpack_from(">i", value, at)[0]}


def test_kafkas_dump_tool_finds_what_we_wrote(tmp_path: Path) -> None:
    absent = [tool for tool in ("java", "mvn", "cargo") if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
    # With the features of the Rust tests, which have built it.
    build = ["cargo", "build", "--quiet", "-p", "rota-log", "-p", "rota-python", "--features", "rota-python/tests"]
    subprocess.run([*build, "--example", "write_offsets"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    write = [target / "debug/examples/write_offsets", tmp_path / "data"]
    written = subprocess.run(write, check=True, capture_output=True, text=True).stdout.splitlines()
    expected = [ours(line) for line in written]
    assert len(expected) > 20

    segments = sorted((tmp_path / "data" / "__consumer_offsets-3").glob("*.log"))
    assert len(segments) > 1
    lines = kafka_tools.dumped("--offsets-decoder", "--deep-iteration", files=segments)
    batches = [line for line in lines if line.startswith("baseOffset: ")]
    assert batches
    assert all("isvalid: true" in line and "partitionLeaderEpoch: 5 " in line for line in batches)
    assert any("deleteHorizonMs: OptionalLong[" in line for line in batches), "compaction met tombstones"

    found = [match.groups() for match in map(RECORD.match, lines) if match]
    assert [int(offset) for offset, _, _ in found] == [offset for offset, _, _ in expected]
    for (_, key, payload), (offset, expected_key, expected_value) in zip(found, expected, strict=True):
        assert json.loads(key)["data"] == expected_key, offset
        if expected_value is None:
            assert payload in ("", "<DELETE>"), offset
        else:
            value = json.loads(payload)["data"]
            assert {name: value[name] for name in expected_value} == expected_value, offset


def dumped(data: Path) -> dict[str, dict[str, object]]:
    """What Kafka's tool finds last for each key of all partitions: key as JSON, value; a tombstone takes it away."""
    found: dict[str, dict[str, object]] = {}
    for folder in sorted(data.glob("__consumer_offsets-*")):
        segments = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size]
        if not segments:
            continue
        lines = kafka_tools.dumped("--offsets-decoder", files=segments)
        for match in filter(None, map(RECORD.match, lines)):
            _, key, payload = match.groups()
            if payload in ("", "<DELETE>"):
                found.pop(key, None)
            else:
                found[key] = json.loads(payload)["data"]
    return found


def test_kafkas_dump_tool_shows_what_a_server_told_its_clients(tmp_path: Path) -> None:
    if absent := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.skip(f"needs {', '.join(absent)}")
    data = tmp_path / "data"
    settings: dict[str, str | int | bool] = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 2}
    with rota.Server(data=data, settings=settings) as server:
        members = play(server.bootstrap_servers, newer=False)
        groups = [group for group in GROUPS if group != "newer"]
        answers = told((server.host, server.port), groups)
        # Not closed before: that would take them out of their groups.
    for member in members:
        member.close()
    found = dumped(data)
    expected: dict[str, object] = {}
    for group, offsets in answers["offsets"].items():
        for topic, partition, offset, *_, metadata, _ in offsets:
            key = {"group": group, "topic": topic, "partition": partition}
            expected[json.dumps(key, sort_keys=True)] = (offset, metadata)
    at = {key: json.loads(key) for key in found}
    stored = {
        json.dumps(at[key]["data"], sort_keys=True): (value["offset"], value["metadata"])
        for key, value in found.items()
        if at[key]["type"] == "1"
    }
    assert stored == expected
    of_groups = {at[key]["data"]["group"]: value for key, value in found.items() if at[key]["type"] == "2"}
    assert set(of_groups) <= set(groups)
    for group, described in answers["described"].items():
        if described["protocol_type"]:
            value = of_groups[group]
            found_members = value["members"]
            assert isinstance(found_members, list)
            ids = sorted((member["memberId"], member["groupInstanceId"]) for member in found_members)
            assert ids == sorted((member["member"], member["instance"]) for member in described["members"])
            assert value["protocolType"] == described["protocol_type"]
            assert (value["protocol"] or "") == described["protocol"]
        else:
            assert group not in of_groups
