"""Records of consumer groups in a log, as `rota log dump` and `rota state` show them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.conform.consumer import ConsumerWire
from rota.consumer_records import ConsumerGroupRecord, fold

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.assignment.interval.ms": "0",
    # No session ends during a test.
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
}
JOINS = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["foo"], "topic_partitions": []}
STAYS = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}


def call(*arguments: object) -> str:
    told = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert told.exit_code == 0, told.output
    return told.stdout


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A directory with the directories `data` and `journal` of a server. m1 and m2 have joined, and m1 is asked to give
    partitions up."""
    with rota.Server(settings=SETTINGS, data=tmp_path / "data", journal=tmp_path / "journal") as server:
        host, _, port = server.bootstrap_servers.rpartition(":")
        wire = ConsumerWire((host, int(port)), "")
        wire.topics_changed([("foo", 6)], 0)
        for member_id, epoch in (("m1", 0), ("m2", 0), ("m1", 2)):
            request = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "instance_id": None}
            others = {"rack_id": None, "subscribed_topic_regex": None, "server_assignor": None}
            said = JOINS if epoch == 0 else STAYS
            assert wire.ask("ConsumerGroupHeartbeat", 1, request | others | said)["error_code"] == 0
        wire.close()
    return tmp_path


def test_a_dump_says_what_each_record_means(written: Path) -> None:
    lines = call("log", "dump", written / "data", "--group", "g", "--source", "offsets").splitlines()
    told = [re.sub(r"^\d+:\d+ ", "", line) for line in lines]
    assert told == [
        "consumer group g, member m1: client c, subscribes to foo",
        "consumer group g: group epoch 2",
        "consumer group g, member m1: target of 6 partitions",
        "consumer group g: target assignment of epoch 2",
        "consumer group g, member m1: epoch 2, Stable, owns 6 partitions",
        "consumer group g, member m2: client c, subscribes to foo",
        "consumer group g: group epoch 3",
        "consumer group g, member m1: target of 3 partitions",
        "consumer group g, member m2: target of 3 partitions",
        "consumer group g: target assignment of epoch 3",
        "consumer group g, member m2: epoch 3, UnreleasedPartitions, owns 0 partitions",
        "consumer group g, member m1: epoch 2, UnrevokedPartitions, owns 3 partitions, has to give up 3 partitions",
    ]


def test_a_group_of_a_record_moves_no_cursor() -> None:
    assert ConsumerGroupRecord("g\x1b[2J\n", "epoch", None, {"epoch": 3}).text() == r"g\x1b[2J\n: group epoch 3"


def test_a_dump_in_json_has_every_field(written: Path) -> None:
    output = call("log", "dump", written / "data", "--group", "g", "--source", "offsets", "--json")
    last = json.loads(output.splitlines()[-1])
    assert (last["type"], last["group"], last["member_id"]) == ("consumer group assignment", "g", "m1")
    value = last["value"]
    assert (value["epoch"], value["previous_epoch"], value["state"]) == (2, 2, "UnrevokedPartitions")
    [(topic_id, kept)] = value["assigned"].items()
    assert value["revoking"] == {topic_id: [3, 4, 5]}
    assert (kept, len(topic_id)) == ([0, 1, 2], 22)


@pytest.mark.parametrize("source", ["data", "journal"])
def test_the_state_of_the_group_is_read_from_its_records_and_from_the_journal(written: Path, source: str) -> None:
    told: Any = json.loads(call("state", "g", "--from", written / source))
    group = told["group"]
    if source == "journal":
        assert (group["state"], group["epoch"], group["target_epoch"]) == ("Reconciling", 3, 3)
        [one, other] = group["members"]
        assert (one["member_id"], one["epoch"], one["revoking"]) == ("m1", 2, [["foo", 3], ["foo", 4], ["foo", 5]])
        assert (other["member_id"], other["epoch"], len(other["target"])) == ("m2", 3, 3)
    else:
        assert (group["group_epoch"]["epoch"], group["target_epoch"]["epoch"]) == (3, 3)
        assert {name: one["epoch"] for name, one in group["assignments"].items()} == {"m1": 2, "m2": 3}
        assert set(group["members"]) == set(group["targets"]) == {"m1", "m2"}


def test_why_reads_a_consumer_group_from_the_journal(written: Path) -> None:
    told = call("why", "g", "--from", written / "journal")
    assert re.search(r" g: Reconciling for \d+\.\d s, epoch 3: waiting for ", told)
    assert "m1 to give up partitions" in told
    assert "epoch" in told


def test_tombstones_leave_nothing_of_a_group() -> None:
    state = fold(None, ConsumerGroupRecord("g", "epoch", None, {"epoch": 2}))
    state = fold(state, ConsumerGroupRecord("g", "member", "m1", {"topics": []}))
    assert state == {"group_epoch": {"epoch": 2}, "members": {"m1": {"topics": []}}}
    state = fold(state, ConsumerGroupRecord("g", "member", "m1", None))
    state = fold(state, ConsumerGroupRecord("g", "partition metadata", None, None))
    assert fold(state, ConsumerGroupRecord("g", "epoch", None, None)) is None
    assert ConsumerGroupRecord("g", "member", "m1", None).text() == "g, member m1: member deleted"


def test_a_dump_names_the_topics_of_a_pattern(tmp_path: Path) -> None:
    with rota.Server(settings=SETTINGS, data=tmp_path) as server:
        server.create_topic("foo")
        server.create_topic("food")
        host, _, port = server.bootstrap_servers.rpartition(":")
        wire = ConsumerWire((host, int(port)), "")
        others = {"group_id": "g", "instance_id": None, "rack_id": None, "server_assignor": None}
        for member_id, pattern in (("m1", "fo.*"), ("m2", "x")):
            joins = JOINS | {"subscribed_topic_names": None, "subscribed_topic_regex": pattern}
            request = {"member_id": member_id, "member_epoch": 0, **others, **joins}
            assert wire.ask("ConsumerGroupHeartbeat", 1, request)["error_code"] == 0
        wire.close()
    dump = ("log", "dump", tmp_path, "--group", "g", "--source", "offsets")
    told = [re.sub(r"^\d+:\d+ ", "", line) for line in call(*dump).splitlines()]
    assert "consumer group g, member m1: client c, subscribes to pattern fo.*" in told
    assert "consumer group g, pattern fo.*: matches foo, food" in told
    [resolved] = [
        record for record in map(json.loads, call(*dump, "--json").splitlines()) if "pattern" in record["type"]
    ]
    assert (resolved["type"], resolved["pattern"]) == ("consumer group pattern", "fo.*")
    assert resolved["value"]["topics"] == ["foo", "food"]


def test_what_stdout_does_not_take_is_no_damage_of_the_directory(written: Path) -> None:
    dump = [sys.executable, "-m", "rota", "log", "dump", str(written / "data")]
    command = ["/bin/sh", "-c", '"$@" >/dev/full', "sh", *dump]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "rota: [Errno 28] No space left on device\n")
