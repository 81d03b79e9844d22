"""Whatever a broker does, the kit says which row it was, what was sent and what came, goes on, and leaves no group."""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.conform.broker import Broker
from rota.conform.judge import BAD, Verdict
from rota.conform.report import details
from rota.conform.run import Options, Result, Run, catalogue, chosen
from tests.clients.eventually import eventually
from tests.conform.proxy import HANG, Spoil, saying, spoiled, whole
from tests.coordinator.steps import subscription

HEARTBEAT = 12
ROWS = ["fields/Heartbeat-v3", "fields/FindCoordinator-v4", "heartbeat/H01*", "matrix/none/Heartbeat unknown id"]
SOUND = "fields/FindCoordinator-v4"

FAULTS: dict[str, tuple[Spoil, str]] = {
    "closes": (lambda _: None, "closed"),
    "hangs": (lambda _: HANG, "silent"),
    "says something else": (lambda _: whole(b"\xff" * 40), "garbled"),
    "says no frame": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "garbled"),
    "says a frame of 2 GiB": (lambda _: struct.pack(">i", 2**31 - 1), "garbled"),
    "says nothing in a frame": (lambda _: whole(b""), "garbled"),
    "has another correlation id": (lambda frame: whole(b"\x7f\xff\xff\xff" + frame[4:]), "garbled"),
    "says more than there is": (lambda frame: whole(frame + b"\0\0"), "garbled"),
    "says less than there is": (lambda frame: whole(frame[:-1]), "garbled"),
}
for cut_at in range(1, 14):
    FAULTS[f"closes after {cut_at} bytes"] = (lambda frame, at=cut_at: whole(frame)[:at], "closed")  # type: ignore[misc]


@pytest.fixture
def server() -> Iterator[rota.Server]:
    settings = {"group.initial.rebalance.delay.ms": 200}
    with rota.Server(settings=settings) as running:
        yield running


def play(address: tuple[str, int], patterns: list[str], answer_s: float = 5.0) -> dict[str, Result]:
    broker = Broker(address, answer_s=answer_s)
    broker.contact()
    assert broker.prepare() == []
    results = Run(broker, Options(workers=8, tries=1)).results(chosen(catalogue(), patterns))
    assert broker.clean() == []
    return {result.row.id: result for result in results}


def groups_of(server: rota.Server) -> list[str]:
    broker = Broker((server.host, server.port))
    broker.contact()
    connection = broker.connect()
    groups = connection.ask("ListGroups", 4, {})["groups"]
    connection.close()
    return [each["group_id"] for each in groups]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broker_that_spoils_an_answer_fails_the_rows_that_need_it_and_no_other(
    server: rota.Server, fault: str
) -> None:
    spoil, kind = FAULTS[fault]
    with spoiled((server.host, server.port), spoil, HEARTBEAT) as address:
        results = play(address, ROWS, answer_s=1.0 if kind == "silent" else 5.0)
    assert results.pop(SOUND).verdict is Verdict.SAME
    assert {result.verdict for result in results.values()} <= BAD
    for result in results.values():
        told = "\n".join(details(result, "Apache Kafka"))
        assert result.row.id in told
        assert f"+ ! {kind}" in told or (kind == "silent" and result.difference and result.difference.missing)
        assert "sent a: Heartbeat v" in told or "sent x: Heartbeat v" in told
        assert "000c00" in told, "the request in hexadecimal: API 12"
    assert groups_of(server) == []


def test_an_answer_with_another_error_is_a_divergence(server: rota.Server) -> None:
    def lenient(frame: bytes) -> bytes:
        return whole(frame.replace(struct.pack(">h", 25), struct.pack(">h", 0)))

    with spoiled((server.host, server.port), lenient, HEARTBEAT) as address:
        (result,) = play(address, ["matrix/none/Heartbeat unknown id"]).values()
    assert result.verdict is Verdict.DIFFERS
    assert result.difference is not None
    assert result.difference.missing == ("x< UNKNOWN_MEMBER_ID",)
    assert result.difference.unexpected == ("x< NONE",)


def test_a_broker_that_answers_nothing_any_more_is_given_up(server: rota.Server) -> None:
    broker = Broker((server.host, server.port), answer_s=0.2)
    broker.contact()
    broker.delay_s = 0.2
    with saying(b"") as address:
        broker.address = address
        rows = chosen(catalogue(), ["matrix/none/*", "malformed/d*", "fields/Join*"])
        results = Run(broker, Options(workers=16, tries=1)).results(rows)
    assert len(results) == len(rows)
    assert {result.verdict for result in results} <= BAD | {Verdict.LEFT_OUT}
    assert any("kept silent" in result.why for result in results), [result.evidence for result in results]


def conform(address: tuple[str, int], *more: str) -> tuple[int, str]:
    command = ["conform", "--bootstrap-server", f"{address[0]}:{address[1]}", *more]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output


def test_a_broker_that_is_down_ends_the_command_with_5() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    code, told = conform(address)
    assert code == 5
    assert "Connection refused" in told


def test_something_that_is_no_broker_ends_the_command_with_5_and_what_was_said() -> None:
    with saying(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as address:
        code, told = conform(address)
    assert code == 5
    assert "sent ApiVersions v0 {}: 001200000000000100" in told
    assert "HTTP" in told


def test_ctrl_c_leaves_no_group_behind(server: rota.Server) -> None:
    command = [sys.executable, "-m", "rota", "conform", "--bootstrap-server", f"{server.host}:{server.port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as kit:
        eventually(lambda: len(groups_of(server)) >= 20, 60, "20 groups of the kit")
        kit.send_signal(signal.SIGINT)
        _, told = kit.communicate(timeout=60)
    assert kit.returncode == 130, told
    assert "interrupted" in told
    assert "left behind" not in told
    assert groups_of(server) == []


def test_the_group_without_a_name_is_deleted_at_the_end(server: rota.Server) -> None:
    (result,) = play((server.host, server.port), ["admin/A15-*"]).values()
    assert result.verdict not in BAD
    assert groups_of(server) == []


def test_members_of_both_protocols_leave_at_the_end(server: rota.Server) -> None:
    broker = Broker((server.host, server.port))
    broker.contact()
    assert broker.prepare() == []
    groups = [broker.new_group() for _ in range(3)]
    topic = broker.topics["t"]
    joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic], "topic_partitions": []}
    with contextlib.closing(broker.connect()) as connection:
        for group, instance_id in itertools.product(groups, (None, "i1")):
            member = {"group_id": group, "member_id": f"m-{instance_id}", "instance_id": instance_id}
            assert connection.ask("ConsumerGroupHeartbeat", 1, member | joins)["error_code"] == 0
        offer = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": subscription(topic)}]}
        for instance_id in (None, "i2"):
            member = {"group_id": groups[0], "member_id": "", "instance_id": instance_id}
            times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
            told = connection.ask("JoinGroup", 9, member | times | offer)
            if instance_id is None:
                member["member_id"] = told["member_id"]
                told = connection.ask("JoinGroup", 9, member | times | offer)
            assert told["error_code"] == 0, told
    assert broker.clean() == []
    assert groups_of(server) == []


@pytest.mark.parametrize(
    "words",
    [
        ["conform"],
        ["conform", "--bootstrap-server", "nowhere"],
        ["conform", "--bootstrap-server", "127.0.0.1:99999"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--only", "no/such-row"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--setting", "group.max.size"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--setting", "group.max.siz=2"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--setting", "group.max.size=3"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--deadline", "-5"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--longest", "-1"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--longest", "nan"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--at-most", "JoinGroup"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--at-most", "Join=5"],
        ["conform", "--bootstrap-server", "127.0.0.1:9092", "--at-most", "JoinGroup=five"],
        ["conform", "--bootstrap-server", "127.0.0.1:1", "--record", "missing/kafka-4.4.0.json"],
        ["conform", "--bootstrap-server", "127.0.0.1:1", "--record", "."],
        ["conform", "--bootstrap-server", "127.0.0.1:1", "--record", __file__],
        ["bench", "serve", "--svg", "missing/took.svg"],
    ],
)
def test_misuse_ends_with_2_and_one_line(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert result.stderr.startswith("rota: ")
    assert result.stderr.count("\n") == 1
