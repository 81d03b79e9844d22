"""The request trace: what was said, decoded, one line for each request and answer (docs/trace.md)."""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

import rota
from harness.raw import HEARTBEAT, Connection, Member, frame, heartbeat, join, sync
from tests.clients.eventually import eventually
from tests.commands.test_serve import ROTA, WITHIN_S, serving

Lines = list[dict[str, Any]]
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}


@pytest.fixture
def lines() -> Lines:
    return []


@pytest.fixture
def server(lines: Lines) -> Iterator[rota.Server]:
    with rota.Server(settings=SETTINGS, trace=lines.append) as server:
        yield server


def ask(server: rota.Server, *requests: bytes) -> None:
    with Connection((server.host, server.port)) as connection:
        for request in requests:
            connection.ask(request)


def test_a_request_and_its_answer_are_a_line_each_with_what_they_say(server: rota.Server, lines: Lines) -> None:
    ask(server, heartbeat("g", "m", 3))
    server.stop()
    request, answer = lines
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", request["time"])
    assert request["peer"].startswith("127.0.0.1:")
    assert (request["event"], request["api"], request["version"]) == ("request", "Heartbeat", 0)
    assert (request["node"], request["connection"], request["correlation_id"], request["client_id"]) == (1, 1, 7, "raw")
    assert request["fields"] == {"group_id": "g", "generation_id": 3, "member_id": "m"}
    assert (answer["event"], answer["api"], answer["correlation_id"]) == ("answer", "Heartbeat", 7)
    assert answer["fields"] == {"error": "UNKNOWN_MEMBER_ID"}
    assert 0 <= answer["duration_ms"] < 1_000 * WITHIN_S


def test_the_duration_of_an_answer_is_the_time_that_its_request_waited(server: rota.Server, lines: Lines) -> None:
    with Member((server.host, server.port), "g") as first, Connection((server.host, server.port)) as second:
        second.send(join("g"))
        eventually(lambda: any(line["connection"] == 2 for line in lines), WITHIN_S, "the request is shown")
        assert second.is_silent(0.3)
        first.connection.send(join("g", first.member_id))
        second.receive()
    server.stop()
    (parked,) = [line for line in lines if line["event"] == "answer" and line["connection"] == 2]
    assert parked["duration_ms"] >= 300
    assert (parked["fields"]["error"], parked["fields"]["generation_id"]) == ("NONE", 2)


def assigned(answer: Any) -> Any:
    return answer.get("assignment", {}).get("topic_partitions", [])


def test_what_real_clients_say_is_all_decoded(server: rota.Server, lines: Lines) -> None:
    server.create_topic("orders", 2)
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "client.id": "feed"})
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "g",
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(WITHIN_S)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.describe_consumer_groups(["g"])["g"].result(WITHIN_S)
    admin.list_consumer_groups().result(WITHIN_S)
    admin.describe_cluster().result(WITHIN_S)
    (configs,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")]).values()
    configs.result(WITHIN_S)
    consumer.close()
    admin.delete_consumer_groups(["g"])["g"].result(WITHIN_S)
    newer = {"group.id": "newer", "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, **newer})
    consumer.subscribe(["orders"])
    assert consumer.poll(WITHIN_S) is not None
    admin.describe_consumer_groups(["newer"])["newer"].result(WITHIN_S)
    consumer.close()
    server.stop()

    assert [line for line in lines if "undecodable" in json.dumps(line)] == []
    answers = {line["api"]: line["fields"] for line in lines if line["event"] == "answer"}
    assert {"ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets"} <= answers.keys()
    assert {"FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "OffsetCommit", "LeaveGroup"} <= answers.keys()
    assert {"DescribeGroups", "ListGroups", "DescribeConfigs", "DeleteGroups"} <= answers.keys()
    joins = [line["fields"] for line in lines if line["event"] == "request" and line["api"] == "JoinGroup"]
    assert joins[-1]["protocols"][0]["name"] == "cooperative-sticky"
    assert joins[-1]["protocols"][0]["metadata"]["topics"] == ["orders"]
    assert answers["SyncGroup"]["assignment"]["partitions"] == {"orders": [0, 1]}
    assert answers["DescribeGroups"]["groups"][0]["members"][0]["member_assignment"]["partitions"] == {"orders": [0, 1]}
    beats = [line["fields"] for line in lines if line["api"] == "ConsumerGroupHeartbeat" and line["event"] == "answer"]
    assert [0, 1] in [topic["partitions"] for beat in beats for topic in assigned(beat)]
    assert any("assignment" not in beat for beat in beats)
    (member,) = answers["ConsumerGroupDescribe"]["groups"][0]["members"]
    assert assigned(member)[0]["partitions"] == [0, 1]
    assert answers["DeleteGroups"]["results"] == [{"group_id": "g", "error": "NONE"}]


def test_bytes_that_are_no_subscription_are_counted(server: rota.Server, lines: Lines) -> None:
    with Member((server.host, server.port), "g"):
        pass
    server.stop()
    joined, _, synced, _ = lines
    assert joined["fields"]["protocols"] == [{"name": "range", "metadata": {"bytes": 8}}]
    assert synced["fields"]["assignments"][0]["assignment"] == {"bytes": 4}


def test_a_request_that_a_test_holds_back_is_one_line_and_its_answer_counts_from_there(
    server: rota.Server, lines: Lines
) -> None:
    with Member((server.host, server.port), "g") as member, Connection((server.host, server.port)) as other:
        with server.pause(member.member_id):
            other.send(heartbeat("g", member.member_id, member.generation))
            eventually(lambda: any(line["api"] == "Heartbeat" for line in lines), WITHIN_S, "the request is shown")
            assert other.is_silent(0.3)
        other.receive()
        assert member.heartbeat() == 0
    server.stop()
    beats = [line for line in lines if line["api"] == "Heartbeat"]
    assert [(line["connection"], line["event"]) for line in beats] == [
        (2, "request"),
        (2, "answer"),
        (1, "request"),
        (1, "answer"),
    ]
    assert beats[1]["duration_ms"] >= 300


def test_of_several_nodes_each_line_says_at_which_it_was_said(lines: Lines) -> None:
    file = io.StringIO()
    for trace in (lines.append, file):
        with rota.Server(nodes=3, trace=trace) as server:
            for node_id in (1, 2, 3):
                host, _, port = server.nodes()[node_id].rpartition(":")
                with Connection((host, int(port))) as connection:
                    connection.ask(heartbeat("g", "m", node_id))
    assert [line["node"] for line in lines] == [1, 1, 2, 2, 3, 3]
    assert [line["fields"]["generation_id"] for line in lines[::2]] == [1, 2, 3]
    assert [line.split()[1] for line in file.getvalue().splitlines()] == ["1#1", "1#1", "2#1", "2#1", "3#1", "3#1"]


def test_strings_from_a_client_cannot_forge_lines_or_speak_to_a_terminal() -> None:
    file = io.StringIO()
    hostile = 'g\n00:00:00.000 #9 -> "\x1b[2J\u202e'
    with rota.Server(trace=file) as server:
        ask(server, heartbeat(hostile, "m", 0))
    request, answer = file.getvalue().splitlines()
    assert r'group_id="g\u{a}00:00:00.000 #9 -> \"\u{1b}[2J\u{202e}"' in request
    assert request.isprintable()
    assert answer.endswith("error=UNKNOWN_MEMBER_ID")


def test_a_line_is_bounded_however_much_a_request_says(server: rota.Server, lines: Lines) -> None:
    with Connection((server.host, server.port)) as connection:
        plan = {f"member-{number}": b"x" * 100 for number in range(2_000)}
        connection.ask(sync("g" * 30_000, "m", 0, plan))
    server.stop()
    request = lines[0]["fields"]
    assert len(json.dumps(lines[0])) < 10_000
    assert request["group_id"] == "g" * 200 + "(+29800)"
    assert request["assignments"][-1] == {"more": 1_980}


def test_a_connection_that_is_closed_instead_of_an_answer_is_a_line_that_says_why(
    server: rota.Server, lines: Lines
) -> None:
    with Connection((server.host, server.port)) as connection:
        connection.send(frame(HEARTBEAT, 9))
        assert connection.ends()
    with Connection((server.host, server.port)) as connection:
        connection.send(frame(HEARTBEAT, 0, b"\0\5ab"))
        assert connection.ends()
    server.stop()
    unserved, request, cut = lines
    assert (unserved["event"], unserved["reason"]) == ("closed", "API key 12 in version 9 is not served")
    assert request["fields"] == {"undecodable": "the bytes end inside `group_id`"}
    assert (cut["event"], cut["api"], cut["reason"]) == ("closed", "Heartbeat", "the bytes end inside `group_id`")


def test_a_reader_that_does_not_read_loses_lines_and_holds_up_nobody() -> None:
    lines: Lines = []
    reading = threading.Event()

    def read_slowly(line: dict[str, Any]) -> None:
        reading.wait(WITHIN_S)
        lines.append(line)

    with rota.Server(trace=read_slowly) as server:
        requests = 5_000
        with Connection((server.host, server.port)) as connection:
            connection.send(heartbeat("g", "m", 0) * requests)
            for _ in range(requests):
                connection.receive()
        assert lines == []
        reading.set()
        eventually(lambda: any("dropped" in line for line in lines), WITHIN_S, "the dropped lines are reported")
    written = [line for line in lines if "dropped" not in line]
    dropped = sum(line.get("dropped", 0) for line in lines)
    assert len(written) + dropped == 2 * requests
    assert 4_096 <= len(written) < requests * 2


def test_a_function_that_fails_costs_its_line_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failed: failures.append(str(failed.exc_value)))

    def fail(line: dict[str, Any]) -> None:
        raise RuntimeError(line["event"])

    with rota.Server(trace=fail) as server:
        ask(server, heartbeat("g", "m", 0))
    assert failures == ["request", "answer"]


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_prints_the_trace_behind_its_first_line(as_json: bool) -> None:
    with serving("--trace", *["--json"] * as_json) as (process, first_line):
        address = json.loads(first_line)["listen"] if as_json else re.findall(r"127\.0\.0\.1:\d+", first_line)[0]
        host, _, port = address.rpartition(":")
        with Connection((host, int(port))) as connection:
            connection.ask(heartbeat("g", "m", 0))
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, errors) == (0, "")
    request, answer = out.splitlines()
    if as_json:
        assert json.loads(answer)["fields"] == {"error": "UNKNOWN_MEMBER_ID"}
    else:
        said = r"\d\d:\d\d:\d\d\.\d{3} #1 -> Heartbeat v0 \(7\) client=raw group_id=g generation_id=0 member_id=m"
        assert re.fullmatch(said, request), request
        said = r"\d\d:\d\d:\d\d\.\d{3} #1 <- Heartbeat v0 \(7\) after \d+\.\d ms: error=UNKNOWN_MEMBER_ID"
        assert re.fullmatch(said, answer), answer


def test_the_command_ends_when_nobody_reads_its_trace_any_more() -> None:
    with serving("--trace") as (process, first_line):
        port = int(re.findall(r"127\.0\.0\.1:(\d+)", first_line)[0])
        assert process.stdout is not None
        process.stdout.close()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(heartbeat("g", "m", 0))
        assert process.wait(WITHIN_S) == 0


def test_a_trace_that_stdout_does_not_take_ends_with_one_line_and_the_server_goes_on(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    # The file may have a kilobyte, so stdout fails as on a full disk.
    shell = ["/bin/sh", "-c", f'ulimit -f 1; exec "$@" >{trace}', "sh"]
    command = [*shell, *ROTA, "serve", "--listen", "127.0.0.1:0", "--trace"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: trace.exists() and "\n" in trace.read_text(), WITHIN_S, "the first line is there")
        port = int(re.findall(r"127\.0\.0\.1:(\d+)", trace.read_text())[0])
        with Connection(("127.0.0.1", port)) as connection:
            for _ in range(20):
                connection.ask(heartbeat("g", "m", 0))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, errors) == (1, "rota: stdout takes nothing more, and the trace ends: File too large\n")


def test_the_command_ends_though_its_trace_is_not_read() -> None:
    with serving("--trace") as (process, first_line):
        port = int(re.findall(r"127\.0\.0\.1:(\d+)", first_line)[0])
        with Connection(("127.0.0.1", port)) as connection:
            connection.send(heartbeat("g", "m", 0) * 5_000)
            for _ in range(5_000):
                connection.receive()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 0
