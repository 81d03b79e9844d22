"""`rota.Server` in this process: its life, its clock, its log, seen by a real client."""

from __future__ import annotations

import errno
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

import rota
from tests.clients.eventually import eventually

WITHIN_S = 60
NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


@contextmanager
def a_member(server: rota.Server) -> Iterator[Consumer]:
    """A consumer of `news` that owns its partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "readers",
            "client.id": "ana",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe(["news"])
        polled_until(consumer, lambda: bool(consumer.assignment()))
        yield consumer
    finally:
        consumer.close()


def polled_until(consumer: Consumer, holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline_s, "the condition did not come to hold"
        consumer.poll(0.05)


def explained(server: rota.Server) -> rota.Explanation:
    return server.explain("readers")


def test_a_server_has_an_address_of_its_own_and_no_groups_yet() -> None:
    with rota.Server() as first, rota.Server() as second:
        assert first.host == "127.0.0.1"
        assert first.bootstrap_servers == f"127.0.0.1:{first.port}"
        assert first.port != second.port
        assert repr(first) == f"<rota.Server on {first.bootstrap_servers}>"
        assert first.clock is None
        assert first.groups() == []


def test_an_ipv6_address_is_written_in_brackets() -> None:
    try:
        server = rota.Server("[::1]:0")
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    with server:
        assert server.bootstrap_servers == f"[::1]:{server.port}"


FORKED = """
import os, signal, sys
from pathlib import Path
import rota

place = Path(sys.argv[1])
issued = rota.Authority().issue("localhost")
(place / "cert.pem").write_text(issued.certificate)
(place / "key.pem").write_text(issued.key)
# It watches its files.
tls = rota.Tls(place / "cert.pem", place / "key.pem")
with rota.Server(http=":0", data=place / "data", tls=tls) as server:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            server.groups()
        except rota.ServerError as error:
            print(str(error).replace(str(os.getppid()), "PARENT"), flush=True)
        sys.exit(3)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), server.groups())
"""


FORKED_CALLS = """
import os
import signal
import sys
from pathlib import Path

import rota

with (
    rota.Server(data=sys.argv[1], journal=True, tls=True, users={"ana": "secret"}, acls=[]) as server,
    rota.Server(engine=rota.MemoryEngine(), node_id=1) as in_cluster,
):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        for call in (
            server.health,
            server.journal,
            server.acls,
            lambda: server.set_acls(["DENY User:* * ALL TOPIC LITERAL *"]),
            lambda: server.set_users({"ana": "other"}),
            lambda: server.set_tls(True),
            server.reload,
            server.refused_connections,
            server.denied_requests,
            in_cluster.cluster,
        ):
            try:
                call()
            except rota.ServerError:
                continue
            print("no error", flush=True)
        os._exit(3)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), server.acls())
"""

FORKED_CLOSING = """
import os
import socket
import sys

import rota

ASK = bytes.fromhex("0000000e 0012 0000 00000001 0004 61626364")


def connected(at):
    host, port = at.split(":")
    client = socket.create_connection((host, int(port)), timeout=30)
    client.sendall(ASK)
    assert client.recv(4096)
    return client


def is_refused(at):
    host, port = at.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=30).close()
    except ConnectionRefusedError:
        return True
    return False


server = rota.Server(nodes=2, data=sys.argv[1])
one, two = server.nodes().values()
to_one, to_two = connected(one), connected(two)
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    # It keeps every descriptor until the parent closes the pipe.
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
os.close(reading)
print(server.faults.drop_connections(), to_one.recv(1), to_two.recv(1))
to_one, to_two = connected(one), connected(two)
with server.faults.stop_node(2):
    print(is_refused(two), to_two.recv(1))
connected(two)
server.stop()
print(is_refused(one), is_refused(two), to_one.recv(1))
with rota.Server(one, data=sys.argv[1]) as again:
    print(again.bootstrap_servers == one)
os.close(writing)
os.waitpid(child, 0)
"""


def ran(program: str, place: Path) -> list[str]:
    """What a program prints, which forks: tests do not."""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(place)], capture_output=True, text=True, check=False, timeout=120
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return ended.stdout.splitlines()


def test_every_call_of_a_forked_process_that_takes_a_lock_is_refused(tmp_path: Path) -> None:
    assert ran(FORKED_CALLS, tmp_path / "data") == ["3 []"]


def test_connections_and_ports_are_closed_though_a_forked_process_holds_them(tmp_path: Path) -> None:
    assert ran(FORKED_CLOSING, tmp_path / "data") == [
        "2 b'' b''",
        "True b''",
        "True True b''",
        "True",
    ]


def test_a_forked_process_is_told_that_it_has_no_server_and_ends_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.stdout.splitlines() == [
        "the server is in process PARENT, from which this one was forked: use its address, not the object",
        "3 []",
    ], ended
    assert ended.stderr == ""


def test_stopping_twice_is_stopping_once() -> None:
    server = rota.Server()
    server.stop()
    server.stop()
    with pytest.raises(rota.ServerError):
        server.groups()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc counts descriptors and threads")
def test_a_server_that_is_dropped_ends_with_its_http_listener() -> None:
    def held() -> tuple[int, int]:
        gc.collect()
        descriptors, threads = (list(Path("/proc/self", kind).iterdir()) for kind in ("fd", "task"))
        return len(descriptors), len(threads)

    def drop() -> None:
        server = rota.Server(http=":0", tls=True)
        assert server.http_address is not None

    # What is opened once for all servers of a process is open then.
    with rota.Server(http=":0", tls=True):
        pass
    before = held()
    drop()
    eventually(
        lambda: all(now <= then for now, then in zip(held(), before, strict=True)),
        WITHIN_S,
        "descriptors and threads are closed",
        lambda: f"before {before}, now {held()}",
    )


def test_an_address_in_use_is_the_operating_systems_error() -> None:
    with rota.Server() as server, pytest.raises(OSError, match=f"^[^[].*{server.port}") as in_use:
        rota.Server(server.bootstrap_servers)
    assert in_use.value.errno == errno.EADDRINUSE


def test_a_directory_that_this_process_uses_is_said_to_be_so(tmp_path: Path) -> None:
    says = "data` is in use by this process; stop its server or choose another"
    with rota.Server(data=tmp_path / "data"), pytest.raises(OSError, match=says) as in_use:
        rota.Server(data=tmp_path / "data")
    assert in_use.value.errno == errno.EAGAIN


def test_a_data_directory_without_messages_is_no_place_for_a_journal(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data", acls=["ALLOW User:ana * READ TOPIC LITERAL orders"]):
        pass
    before = sorted((tmp_path / "data").iterdir())
    with pytest.raises(OSError, match=r"is a data directory, which has `rota\.\w+`; choose a directory of its own"):
        rota.Server(journal=tmp_path / "data")
    assert sorted((tmp_path / "data").iterdir()) == before


def test_settings_are_given_as_python_values_and_read_back_as_kafka_writes_them() -> None:
    with rota.Server(settings={"num.partitions": 3, "auto.create.topics.enable": False}) as server:
        found = server.settings()
        assert found["num.partitions"] == "3"
        assert found["auto.create.topics.enable"] == "false"
        assert found["group.initial.rebalance.delay.ms"] == "3000"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"num.partition": 3}, "unknown setting `num.partition`; the nearest one is `num.partitions`"),
        ({"num.partitions": 0}, "`num.partitions` is `0`"),
        ({"group.max.session.timeout.ms": 5_999}, "`group.min.session.timeout.ms` is `6000`, above"),
        ({"auto.create.topics.enable": 1}, "`auto.create.topics.enable` is `1`"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(settings: dict[str, int], says: str) -> None:
    with pytest.raises(rota.ConfigError, match=says):
        rota.Server(settings=settings)


def test_a_topic_can_be_made_only_once() -> None:
    with rota.Server() as server:
        server.create_topic("news", 2)
        with pytest.raises(rota.RotaError, match="news"):
            server.create_topic("news", 2)


@pytest.mark.parametrize("partitions", [-(2**31), 2**31])
def test_a_number_of_partitions_that_the_protocol_cannot_say_is_refused(partitions: int) -> None:
    with rota.Server() as server, pytest.raises(ValueError, match=f"partitions is {partitions}"):
        server.create_topic("news", partitions)


@pytest.mark.clients
def test_hours_pass_for_a_connected_member_without_its_losing_the_group() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=NO_DELAY, clock=clock) as server:
        assert server.clock is clock
        server.create_topic("news")
        with a_member(server):
            clock.advance(3_600_000)
            now = explained(server)
            assert (now.state, now.generation) == ("Stable", 1)
            assert [each.cause for each in now.rebalances] == ["MemberJoined"]


@pytest.mark.clients
def test_a_member_that_is_told_to_expire_does_and_comes_back() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=NO_DELAY, clock=clock) as server:
        server.create_topic("news")
        with a_member(server) as consumer:
            lapsing = consumer.memberid()
            clock.advance(45_000, expire=[lapsing])
            expired = explained(server).rebalances[-1]
            assert (expired.cause, expired.member_id) == ("SessionExpired", lapsing)

            def it_is_back() -> bool:
                return consumer.memberid() not in {lapsing, ""} and bool(consumer.assignment())

            polled_until(consumer, it_is_back)


@pytest.mark.clients
def test_only_members_of_a_group_can_be_told_to_expire() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=NO_DELAY, clock=clock) as server, rota.Server(clock=clock):
        server.create_topic("news")
        with a_member(server) as consumer:
            mistyped = consumer.memberid() + "x"
            with pytest.raises(ValueError, match=f"expire has '{mistyped}' in it"):
                clock.advance(45_000, expire=[consumer.memberid(), mistyped])
            assert clock.now_ms == 0
            assert explained(server).state == "Stable"
            assert server._member_ids() == {consumer.memberid()}


@pytest.mark.clients
def test_a_deadline_that_is_due_already_needs_no_advance() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=NO_DELAY, clock=clock) as server:
        server.create_topic("news")
        with a_member(server):
            assert (clock.now_ms, explained(server).generation) == (0, 1)


@pytest.mark.clients
def test_time_of_a_real_clock_cannot_be_moved() -> None:
    with rota.Server() as server, pytest.raises(rota.ServerError):
        server._advance(1, [])


@pytest.mark.clients
def test_a_commit_waits_while_appends_are_held_and_fails_when_they_do() -> None:
    with rota.Server(settings=NO_DELAY) as server:
        server.create_topic("news")
        with a_member(server) as consumer:
            wanted = [TopicPartition("news", 0, 7)]
            server.hold_appends()
            consumer.commit(offsets=wanted, asynchronous=True)
            assert server.release_appends() in {0, 1}  # whether the request had come already
            assert consumer.commit(offsets=wanted, asynchronous=False)
            server.fail_appends("MESSAGE_TOO_LARGE", times=1)
            with pytest.raises(KafkaException) as refused:
                consumer.commit(offsets=[TopicPartition("news", 0, 9)], asynchronous=False)
            assert refused.value.args[0].code() == KafkaError.UNKNOWN  # docs/protocol.md §6.6
            assert consumer.committed([TopicPartition("news", 0)], timeout=WITHIN_S)[0].offset == 7


def test_only_errors_of_the_protocol_can_be_injected() -> None:
    with rota.Server() as server, pytest.raises(ValueError, match="NO_SUCH_ERROR"):
        server.fail_appends("NO_SUCH_ERROR")


@pytest.mark.parametrize("times", [-1, 2**31])
def test_appends_fail_so_many_times_as_can_be_counted(times: int) -> None:
    with rota.Server() as server, pytest.raises(ValueError, match=f"times is {times}"):
        server.fail_appends("NOT_ENOUGH_REPLICAS", times)
