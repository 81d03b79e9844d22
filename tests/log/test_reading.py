"""`rota log verify` and `rota log dump` on directories whose server runs, was killed or was stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner, Result

import rota
from rota.audit.tables import end_offsets
from rota.cli import app

COMMITS = 20
MESSAGES = 7
WITHIN_S = 30


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def commit(bootstrap: str) -> None:
    """Some messages, which create the topic, and twenty commits of group `g`, one record each."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(MESSAGES):
        producer.produce("orders", str(number).encode(), partition=0)
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    for offset in range(1, COMMITS + 1):
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


@pytest.fixture(params=["fsync", "os"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A server process on a new directory, with a journal, that was never stopped."""
    options = ["--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--durability", request.param, "--journal"]
    command = [sys.executable, "-m", "rota", "serve", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        commit(json.loads(process.stdout.readline())["listen"])
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", [None, signal.SIGKILL, signal.SIGTERM])
def test_what_is_durable_is_there_in_a_directory_whose_server_runs_was_killed_or_was_stopped(
    server: subprocess.Popen[str], end: signal.Signals | None, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    if end is not None:
        server.send_signal(end)
        server.wait(WITHIN_S)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    verified = run("verify", data, "--json")
    found = json.loads(verified.stdout)
    # 50 partitions of __consumer_offsets, and the topic's; a batch for each commit and at least one of messages.
    assert (verified.exit_code, found["partitions"], found["notes"], found["damage"]) == (0, 51, [], [])
    assert found["batches"] > COMMITS
    lines = [json.loads(line) for line in run("dump", data, "--group", "g", "--json").stdout.splitlines()]
    committed = [line["value"]["offset"] for line in lines if line["type"] == "offset"]
    assert committed == list(range(1, COMMITS + 1))
    # A journal is written a moment later, and all of it at a stop.
    assert end is not signal.SIGTERM or any(line["type"] == "journal" for line in lines)
    assert end_offsets({str(data)}) == [(str(data), "orders", 0, MESSAGES)]
    if end is not None:
        assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a log of groups and a journal."""
    data = tmp_path_factory.mktemp("written") / "data"
    with rota.Server(data=data, journal=True, settings={"offsets.topic.num.partitions": 1}) as server:
        server.create_topic("orders")
        commit(server.bootstrap_servers)
    return data


def dumped(*arguments: object) -> list[tuple[str, int]]:
    """Source and offset of each line."""
    lines = [json.loads(line) for line in run("dump", *arguments, "--json").stdout.splitlines()]
    return [("journal" if line["type"] == "journal" else "offsets", line["offset"]) for line in lines]


def test_a_dump_has_the_offsets_that_were_asked_for(written: Path) -> None:
    assert dumped(written, "--source", "offsets", "--from-offset", 3, "--to-offset", 5) == [
        ("offsets", 3),
        ("offsets", 4),
        ("offsets", 5),
    ]
    assert dumped(written, "--source", "journal", "--from-offset", 2, "--to-offset", 2) == [("journal", 2)]
    assert {source for source, _ in dumped(written, "--from-offset", 3)} == {"offsets", "journal"}
    assert dumped(written, "--source", "offsets", "--from-offset", COMMITS - 1) == [("offsets", COMMITS - 1)]
    assert dumped(written, "--source", "offsets", "--from-offset", COMMITS) == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["verify", "nowhere"], 2, "rota: `nowhere`: there is no such directory"),
        (["verify", "empty"], 2, "rota: `empty` is not a data directory: it has no `meta.properties`; give the"),
        (["dump", "empty"], 2, "rota: `empty` is not a data directory"),
        (["recover", "empty"], 2, "rota: `empty` is not a data directory"),
        (["repair", "nowhere"], 2, "rota: `nowhere`: there is no such directory"),
        (["replay", "empty"], 3, "rota: `empty` has no journal"),
        (["dump", "new", "--partition", "3"], 3, "rota: `new` has no partition 3 of __consumer_offsets or"),
        (["dump", "new", "--source", "journal"], 3, "rota: `new` has no journal"),
        (["dump", "new", "--from-offset", "3", "--to-offset", "2"], 2, "rota: --to-offset is `2`, below --from-offset"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_an_error_and_not_nothing(
    arguments: list[str], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    with rota.Server(data=Path("new"), settings={"offsets.topic.num.partitions": 1}):
        pass
    ended = run(*arguments)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert ended.stderr.startswith(says), ended.stderr
    assert ended.stderr.count("\n") == 1
