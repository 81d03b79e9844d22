"""`rota serve --data`: what survives a stop, what a start says, and why a directory is refused."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import rota
from harness import peer
from harness.raw import Connection, Reader
from tests.clients.eventually import until_it_waits

COORDINATOR_NOT_AVAILABLE = 15
ROTA = [sys.executable, "-m", "rota"]
WITHIN_S = 30
MAGIC_AT = 16


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ROTA, *arguments], capture_output=True, text=True, timeout=WITHIN_S, check=False)


@contextmanager
def serving(directory: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """A server process with its ready line."""
    command = [*ROTA, "serve", "--listen", "127.0.0.1:0", "--data", str(directory), "--json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def commit(servers: object, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    answer = consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    assert answer is not None
    assert answer[0].error is None
    consumer.close()


def committed(servers: object, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=WITHIN_S)
    consumer.close()
    return int(found.offset)


@pytest.mark.parametrize("durability", ["fsync", "os"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_offsets_topics_and_messages_survive_the_end_of_the_process(
    tmp_path: Path, durability: str, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    with serving(data, "--durability", durability) as (process, ready):
        servers = ready["listen"]
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        for text in (b"one", b"two"):
            producer.produce("orders", text, partition=0)
        assert producer.flush(WITHIN_S) == 0
        commit(servers, "readers", 2)
        process.send_signal(number)
        _, errors = process.communicate(timeout=WITHIN_S)
        assert errors == ""
    with serving(data) as (_, ready):
        assert (ready["groups"], ready["offsets"]) == (1, 1)
        assert ready["lines"] == [], "a kill takes nothing from the segments"
        assert committed(ready["listen"], "readers") == 2
        consumer = Consumer({"bootstrap.servers": ready["listen"], "group.id": "others", "log_level": 0})
        consumer.assign([TopicPartition("orders", 0, 0)])
        messages = consumer.consume(2, timeout=WITHIN_S)
        assert [message.value() for message in messages] == [b"one", b"two"]
        consumer.close()


@pytest.mark.parametrize(("lost", "says"), [(1, "1 batch that its segments lacked was"), (2, "2 batches that its")])
def test_a_start_after_a_power_loss_says_how_much_the_segments_lacked(tmp_path: Path, lost: int, says: str) -> None:
    data = tmp_path / "data"
    with serving(data) as (process, ready):
        producer = Producer({"bootstrap.servers": ready["listen"], "log_level": 0})
        for _ in range(lost + 1):
            producer.produce("orders", b"a message of the same size", partition=0)
            assert producer.flush(WITHIN_S) == 0
        process.kill()
        process.communicate(timeout=WITHIN_S)
    segment = data / "orders-0" / f"{0:020}.log"
    os.truncate(segment, segment.stat().st_size // (lost + 1))
    with serving(data) as (_, ready):
        (line,) = cast("list[str]", ready["lines"])
        assert line.startswith(f"`{data}` was not closed: {says}"), line
        assert "restored from the write-ahead file" in line
    with serving(data) as (_, ready):
        assert ready["lines"] == []


def test_the_first_line_says_where_the_data_is_and_what_was_loaded(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data") as server:
        server.create_topic("orders")
        commit(server.bootstrap_servers, "readers", 7)
    command = [*ROTA, "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.terminate()
    process.communicate(timeout=WITHIN_S)
    assert f"({tmp_path / 'data'}, fsync: 1 group and 1 offset loaded in " in line


def test_a_topic_that_was_deleted_does_not_come_back_and_a_new_one_of_its_name_is_empty(tmp_path: Path) -> None:
    for nodes in (2, 1):
        with rota.Server(data=tmp_path / "data", nodes=nodes) as server:
            servers = server.bootstrap_servers
            producer = Producer({"bootstrap.servers": servers, "log_level": 0})
            producer.produce("orders", b"old")
            assert producer.flush(WITHIN_S) == 0
            admin = AdminClient({"bootstrap.servers": servers})
            admin.delete_topics(["orders"])["orders"].result(WITHIN_S)
            assert not list((tmp_path / "data").glob("orders-*"))
            server.create_topic("orders")
    with rota.Server(data=tmp_path / "data") as server:
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g", "log_level": 0})
        assert consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=WITHIN_S) == (0, 0)
        consumer.close()


def with_a_file(place: Path) -> str:
    place.write_text("")
    return "it is a file, give a directory"


def with_no_parent(place: Path) -> str:
    place.parent.rmdir()
    return "create that first"


def with_something_else(place: Path) -> str:
    place.mkdir()
    (place / "notes.txt").write_text("")
    return "choose an empty directory"


def with_a_later_version(place: Path) -> str:
    with rota.Server(data=place):
        pass
    meta = place / "meta.properties"
    meta.write_text(meta.read_text().replace("rota.version=1", "rota.version=2"))
    return "has format 2, and this release of rota knows format 1; use the release that wrote the data directory"


def with_a_damaged_topic_table(place: Path) -> str:
    with rota.Server(data=place) as server:
        server.create_topic("orders")
    table = place / "rota.topics"
    table.write_text(table.read_text().replace("orders", "sredro"))
    return "its checksum is wrong; restore it from a copy"


@pytest.mark.parametrize("spoilt", [with_a_file, with_no_parent])
@pytest.mark.parametrize("option", ["--data", "--journal-dir"])
def test_a_place_that_cannot_be_a_directory_is_a_wrong_call(tmp_path: Path, option: str, spoilt: object) -> None:
    assert callable(spoilt)
    place = tmp_path / "parent" / "data"
    place.parent.mkdir()
    says = spoilt(place)
    ended = run("serve", "--listen", "127.0.0.1:0", option, str(place))
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"rota: {option} is `{place}`: ")
    assert says in line


@pytest.mark.parametrize("spoilt", [with_something_else, with_a_later_version, with_a_damaged_topic_table])
def test_a_directory_that_cannot_be_served_is_refused_in_one_line(tmp_path: Path, spoilt: object) -> None:
    assert callable(spoilt)
    place = tmp_path / "parent" / "data"
    place.parent.mkdir()
    says = spoilt(place)
    ended = run("serve", "--listen", "127.0.0.1:0", "--data", str(place))
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("rota: `")
    assert str(place) in line
    assert says in line


def test_a_directory_has_one_server_at_a_time(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data"):
        ended = run("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
        assert ended.returncode == 1
        assert "is in use by another process" in ended.stderr
    with rota.Server(data=tmp_path / "data"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_that_must_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    ended = run("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert (ended.returncode, "cannot be opened" in ended.stderr) == (1, True)


def test_a_damaged_partition_is_refused_by_name_and_the_others_go_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with rota.Server(data=data) as server:
        server.create_topic("orders")
        for offset in (1, 2, 3):
            commit(server.bootstrap_servers, "damaged", offset)
        commit(server.bootstrap_servers, "whole", 4)
        partition = server.partition_of("damaged")
        assert partition != server.partition_of("whole")
    segment = data / f"__consumer_offsets-{partition}" / f"{0:020}.log"
    spoilt = bytearray(segment.read_bytes())
    spoilt[MAGIC_AT + 60] ^= 1
    segment.write_bytes(spoilt)
    assert run("log", "verify", str(data)).returncode == 1
    with serving(data) as (process, ready):
        assert committed(ready["listen"], "whole") == 4
        assert any(str(segment) in line and "offset" in line for line in str(ready["lines"]).split("', "))
        process.terminate()
        _, errors = process.communicate(timeout=WITHIN_S)
        assert str(segment) in errors
        assert process.returncode == 1, "its data was not well"


def test_dump_prints_the_records_of_a_group_and_verify_finds_them_whole(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data") as server:
        server.create_topic("orders")
        commit(server.bootstrap_servers, "a", 5)
        commit(server.bootstrap_servers, "b", 6)
        partition = server.partition_of("a")
    assert run("log", "dump", str(tmp_path / "data"), "--group", "a").stdout == f"{partition}:0 offset a orders-0 = 5\n"
    (line,) = run("log", "dump", str(tmp_path / "data"), "--group", "b", "--json").stdout.splitlines()
    assert json.loads(line)["value"]["offset"] == 6
    verified = run("log", "verify", str(tmp_path / "data"), "--json")
    assert (verified.returncode, json.loads(verified.stdout)["batches"]) == (0, 2)
    assert run("log", "dump", str(tmp_path / "data"), "--partition", "99").returncode == 3
    assert run("log", "dump", str(tmp_path / "nowhere")).returncode == 2


def test_the_controls_of_the_log_work_on_disk_too(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data") as server, Connection((server.host, server.port)) as connection:
        server.create_topic("orders")
        server.fail_appends("NOT_ENOUGH_REPLICAS")
        assert peer.committed(connection.ask(peer.commit("g", {0: 1}))) == {COORDINATOR_NOT_AVAILABLE}
        assert peer.fetched(connection.ask(peer.fetch("g", [0]))) == (0, {0: -1})
        server.hold_appends()
        connection.send(peer.commit("g", {0: 2}))
        until_it_waits(server)
        assert server.release_appends() == 1
        answer = Reader(connection.receive())
        assert (answer.i32(), peer.committed(answer)) == (7, {0})
        server.delay_appends(1)
        assert peer.committed(connection.ask(peer.commit("g", {0: 3}))) == {0}
        assert peer.fetched(connection.ask(peer.fetch("g", [0]))) == (0, {0: 3})
        health = server.health()
        assert health is not None
        assert (health.stopped, health.refused) == (None, [])
        assert health.syncs > 0


def test_a_process_whose_files_may_not_grow_refuses_and_says_why_when_its_log_has_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as (process, ready), Connection(peer.host_port(str(ready["listen"]))) as connection:
        connection.ask(peer.metadata("orders"))

        def commit_under(limit_bytes: int, offset: int) -> set[int]:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
            return peer.committed(connection.ask(peer.commit("g", {0: offset})))

        assert commit_under(resource.RLIM_INFINITY, 1) == {0}
        # The segment cannot be written: that is one append, and there may be room for the next one.
        assert commit_under(1, 2) == {peer.NOT_COORDINATOR}
        assert commit_under(resource.RLIM_INFINITY, 3) == {0}
        # The segment can, the write-ahead file cannot: its contents are unknown.
        assert commit_under(1_000, 4) == {peer.NOT_COORDINATOR}
        assert commit_under(resource.RLIM_INFINITY, 5) == {peer.NOT_COORDINATOR}
        assert peer.fetched(connection.ask(peer.fetch("g", [0]))) == (0, {0: 3})
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WITHIN_S)
        assert "the log has stopped" in errors
        assert str(data / "rota.wal.") in errors
        assert "start again" in errors
        assert process.returncode == 1
    with serving(data) as (_, ready), Connection(peer.host_port(str(ready["listen"]))) as connection:
        _, found = peer.fetched(connection.ask(peer.fetch("g", [0])))
        assert found[0] in {3, 4}
        assert peer.committed(connection.ask(peer.commit("g", {0: 6}))) == {0}
