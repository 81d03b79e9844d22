"""A full disk: what clients, standard error, `/readyz`, metrics and the next start say, and the recovery."""

from __future__ import annotations

import http.client
import json
import resource
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from harness import peer
from harness.raw import Connection
from harness.small_disk import SmallDisk, why_not
from tests.clients.eventually import eventually
from tests.server.test_data import WITHIN_S, run, serving


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    place = tmp_path / "small"
    place.mkdir()
    with SmallDisk(place, 6) as disk:
        yield disk


def said_by(process: subprocess.Popen[str]) -> list[str]:
    """The lines on its standard error so far; it grows until the process ends."""
    lines: list[str] = []
    assert process.stderr is not None
    threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True).start()
    return lines


def about_writes(lines: list[str]) -> list[str]:
    return [line for line in lines if "the log takes no writes" in line]


def ready(address: object) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(str(address), timeout=WITHIN_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def failing(address: object) -> str:
    """The sample of the metric."""
    connection = http.client.HTTPConnection(str(address), timeout=WITHIN_S)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return next(line for line in lines if line.startswith("rota_log_failing "))
    finally:
        connection.close()


def produce(servers: object, count: int) -> tuple[int, set[str]]:
    """How many messages were acknowledged, and the names of the others' errors."""
    producer = Producer({"bootstrap.servers": servers, "retries": 0, "message.timeout.ms": 10_000, "log_level": 0})
    errors: list[str | None] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        errors.append(None if error is None else error.name())

    for _ in range(count):
        producer.produce("orders", bytes(16_384), partition=0, on_delivery=delivered)
        producer.flush(WITHIN_S)
    return errors.count(None), {error for error in errors if error is not None}


def stored(servers: object) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    first, last = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=WITHIN_S)
    consumer.close()
    return int(last) - int(first)


def test_a_full_disk_is_visible_and_what_was_acknowledged_is_there(small_disk: SmallDisk) -> None:
    data = small_disk.place / "data"
    with serving(data, "--http", "127.0.0.1:0") as (process, told):
        servers, shown, said = told["listen"], told["http"], said_by(process)
        acknowledged, errors = produce(servers, 1)
        assert (acknowledged, errors, ready(shown)[0]) == (1, set(), 200)
        small_disk.fill()
        more, errors = produce(servers, 50)
        acknowledged += more
        assert errors == {"KAFKA_STORAGE_ERROR"}
        status, facts = ready(shown)
        assert (status, facts["status"], facts["log_stopped"]) == (503, "not ready", None)
        assert "No space left on device" in facts["log_failing"]
        assert "free space" in facts["log_failing"]
        assert failing(shown) == "rota_log_failing 1.0"
        eventually(lambda: about_writes(said), WITHIN_S, "standard error says why")

        small_disk.empty()
        eventually(lambda: ready(shown)[0] == 200, WITHIN_S, "the server is ready again")
        assert failing(shown) == "rota_log_failing 0.0"
        more, errors = produce(servers, 1)
        assert (more, errors) == (1, set())
        acknowledged += more
        process.terminate()
        process.wait(WITHIN_S)
    (line,) = about_writes(said)
    assert str(data) in line
    assert "No space left on device" in line
    assert "free space" in line

    small_disk.fill()
    ended = run("serve", "--listen", "127.0.0.1:0", "--data", str(small_disk.place / "new"))
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "free space" in ended.stderr
    assert "Kafka error" not in ended.stderr
    small_disk.empty()
    with serving(data) as (_, told):
        assert stored(told["listen"]) >= acknowledged


def test_a_limit_on_the_size_of_files_is_said_like_a_full_disk_and_needs_no_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, "--http", "127.0.0.1:0") as (process, told):
        with Connection(peer.host_port(str(told["listen"]))) as connection:
            connection.ask(peer.metadata("orders"))
            assert peer.committed(connection.ask(peer.commit("g", {0: 1}))) == {0}
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            assert peer.committed(connection.ask(peer.commit("g", {0: 2}))) == {peer.NOT_COORDINATOR}
            status, facts = ready(told["http"])
            assert (status, facts["log_stopped"]) == (503, None)
            assert "File too large" in facts["log_failing"]
            assert "ulimit -f" in facts["log_failing"]
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert peer.committed(connection.ask(peer.commit("g", {0: 3}))) == {0}
            assert peer.fetched(connection.ask(peer.fetch("g", [0]))) == (0, {0: 3})
        assert ready(told["http"])[0] == 200
