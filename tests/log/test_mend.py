"""`rota log recover` and `rota log repair` on directories that a server wrote and something damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner, Result

import rota
from rota.cli import app

COMMITS = 20
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def client(server: rota.Server) -> Consumer:
    return Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g", "log_level": 0})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory whose one partition of `__consumer_offsets` has a commit to each of 20 partitions of a topic."""
    with rota.Server(data=tmp_path / "data", settings=SETTINGS) as server:
        server.create_topic("orders", COMMITS)
        consumer = client(server)
        for at in range(COMMITS):
            consumer.commit(offsets=[TopicPartition("orders", at, at + 1)], asynchronous=False)
        consumer.close()
    return tmp_path / "data"


def segment(data: Path) -> Path:
    return data / "__consumer_offsets-0" / f"{0:020}.log"


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def committed(data: Path) -> list[int]:
    """The group's commits as a server on the directory reports them."""
    with rota.Server(data=data, settings=SETTINGS) as server:
        consumer = client(server)
        found = consumer.committed([TopicPartition("orders", at) for at in range(COMMITS)], timeout=30)
        consumer.close()
    return [part.offset for part in found]


def test_damage_in_the_middle_is_found_named_and_repaired_and_all_else_is_there(data: Path) -> None:
    size = segment(data).stat().st_size
    damage(segment(data), size // 2)
    verified = run("verify", data)
    assert (verified.exit_code, str(segment(data)) in verified.output) == (1, True)
    assert "rota log repair" in verified.output
    (told,) = [json.loads(line) for line in run("repair", data, "--json").stdout.splitlines()]
    (loss,) = told["losses"]
    assert (told["topic"], told["partition"], loss["file"]) == ("__consumer_offsets", 0, str(segment(data)))
    assert loss["to_offset"] == loss["from_offset"] + 1
    assert Path(told["kept"][0]).stat().st_size == size
    assert run("verify", data).exit_code == 0
    assert run("repair", data).output.strip() == "nothing is damaged"
    offsets = committed(data)
    assert sum(offset < 0 for offset in offsets) == 1
    assert all(offset in (at + 1, -1001) for at, offset in enumerate(offsets))


@pytest.mark.parametrize("name", ["rota.checkpoint", "rota.wal.*"])
def test_a_shared_file_is_given_up_only_when_that_is_asked_for(data: Path, name: str) -> None:
    (path,) = data.glob(name)
    damage(path, 20)
    with pytest.raises(OSError, match=r"rota log recover .*--give-up"):
        rota.Server(data=data, settings=SETTINGS)
    refused = run("recover", data)
    assert (refused.exit_code, str(path) in refused.output) == (1, True)
    given = run("recover", data, "--give-up")
    assert (given.exit_code, f"given up: `{path}`" in given.output) == (0, True)
    assert committed(data) == [at + 1 for at in range(COMMITS)]


def test_what_is_well_is_left_as_it_is(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert run("recover", data).output.strip() == "nothing had to be completed or cut"
    assert run("repair", data).output.strip() == "nothing is damaged"
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_nothing_is_done_beside_a_server_or_where_nothing_of_ours_is(data: Path, tmp_path: Path) -> None:
    with rota.Server(data=data, settings=SETTINGS):
        for command in ("recover", "repair"):
            ended = run(command, data)
            assert (ended.exit_code, "in use by this process" in ended.output) == (1, True)
    kafkas = tmp_path / "kafkas"
    kafkas.mkdir()
    assert run("repair", kafkas).exit_code == 2
    (kafkas / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    for command in ("recover", "repair"):
        ended = run(command, kafkas)
        assert (ended.exit_code, "was written by Kafka" in ended.output) == (1, True)
    assert run("recover", tmp_path / "missing").exit_code == 2
