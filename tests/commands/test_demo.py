"""`rota demo` from the outside: its exit code, its last line, its end by Ctrl-C."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

import rota
import rota.demo
from rota import exits
from rota.cli import app
from rota.demo.stage import Result, Settings
from tests.clients.eventually import eventually
from tests.journaled import journaled

DEMO = [sys.executable, "-m", "rota", "demo"]
WITHIN_S = 100
# Shorter than the minute for which a client's commit waits for its broker.
ENDED_WITHIN_S = 30


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
def test_the_demo_passes_and_ends_with_a_summary(assignor: str) -> None:
    ended = subprocess.run(
        [*DEMO, "--json", "--duration", "0", "--assignor", assignor],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    summary = json.loads(ended.stdout.splitlines()[-1])
    assert summary["failures"] == []
    assert ended.returncode == 0, ended.stderr
    assert summary["ok"] is True
    assert summary["members"] == {"ana": "left", "ben": "left", "cleo": "killed", "dan": "left"}
    assert summary["partitions"] == len(summary["committed"]) == 12
    assert len(summary["generations"]) >= 7, "four joins, a leave, a kill and a switch are a rebalance each"
    causes = "\n".join(summary["rebalances"])
    for cause in ("joined", "left", "was silent for its session timeout"):
        assert cause in causes


def a_demo_with_a_consumer(*options: str) -> subprocess.Popen[str]:
    """A running demo, in a process group of its own, whose first consumer has its assignment."""
    demo = subprocess.Popen(
        [*DEMO, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "ana" in line and "assigned" in line:
            break
    return demo


def nobody_is_left_of(demo: subprocess.Popen[str]) -> bool:
    """Whether the process group of the demo has no process that still runs."""
    # An orphan may stay a zombie where no process collects those.
    states = [
        path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()
    ]
    return not any(int(group) == demo.pid and state != "Z" for state, _, group, *_ in states)


@pytest.mark.clients
@pytest.mark.parametrize(
    ("ending", "code", "says"),
    [
        (signal.SIGINT, 130, "rota: interrupted; the consumers have ended\n"),
        (signal.SIGTERM, 143, "rota: terminated; the consumers have ended\n"),
    ],
)
def test_a_signal_to_all_of_the_demo_ends_it_and_all_its_consumers(
    ending: signal.Signals, code: int, says: str
) -> None:
    demo = a_demo_with_a_consumer()
    os.killpg(demo.pid, ending)  # as a terminal does it: the consumers get it too
    _, errors = demo.communicate(timeout=WITHIN_S)
    assert (demo.returncode, errors) == (code, says)
    assert nobody_is_left_of(demo)


@pytest.mark.clients
@pytest.mark.parametrize(
    ("ending", "code", "says"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_demo_that_is_ended_leaves_nothing_on_somebody_elses_broker(
    ending: signal.Signals, code: int, says: str, tmp_path: Path
) -> None:
    with journaled(tmp_path / "journal") as broker:
        demo = a_demo_with_a_consumer("--bootstrap-server", broker.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        (group,) = broker.groups()
        # The group has this member until its session ends.
        children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        demo.send_signal(ending)
        _, errors = demo.communicate(timeout=WITHIN_S)
        assert (demo.returncode, errors) == (code, f"rota: {says}; the consumers have ended\n")
        assert group not in broker.groups()
        assert [name for name in admin.list_topics(timeout=10).topics if name.startswith("rota-demo-")] == []
        assert nobody_is_left_of(demo)


@pytest.mark.clients
def test_consumers_do_not_outlive_a_demo_that_was_killed_together_with_its_broker() -> None:
    demo = a_demo_with_a_consumer()
    demo.kill()
    demo.communicate(timeout=WITHIN_S)
    eventually(lambda: nobody_is_left_of(demo), ENDED_WITHIN_S, "every consumer ends after its demo")


def test_a_failed_verdict_is_a_failed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Settings] = []

    def fail(settings: Settings, *, as_json: bool) -> Result:
        assert as_json is False
        asked.append(settings)
        return Result(["orders-1 had no owner"], {})

    monkeypatch.setattr(rota.demo, "perform", fail)
    ended = CliRunner().invoke(app, ["demo", "--assignor", "range", "--bootstrap-server", "localhost:9092"])
    assert ended.exit_code == 1
    assert asked == [Settings(30.0, "range", "localhost:9092")]


def test_without_the_client_the_demo_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def find_all_but_one(name: str, *rest: Any) -> ModuleSpec | None:
        return None if name == "confluent_kafka" else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_all_but_one)
    ended = CliRunner().invoke(app, ["demo"])
    assert ended.exit_code == 2
    assert ended.stderr.startswith("rota: the demo needs the confluent-kafka client: pip install '.[demo]' in a ")


def test_a_broker_that_is_not_there_has_an_exit_code_of_its_own_and_is_named() -> None:
    ended = subprocess.run(
        [*DEMO, "--bootstrap-server", "127.0.0.1:1"], capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert ended.returncode == exits.UNREACHABLE
    assert ended.stderr == "rota: nothing answers at 127.0.0.1:1: is a broker running there?\n"


def a_consumer(address: str, assignor: str) -> subprocess.Popen[str]:
    """A consumer of the demo that reads `orders`."""
    config = {
        "bootstrap.servers": address,
        "group.id": "g",
        "partition.assignment.strategy": assignor,
        "log_level": 0,
    }
    consumer = subprocess.Popen(
        [sys.executable, "-m", "rota.demo.consumer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert consumer.stdin is not None
    print(json.dumps({"config": config, "topics": ["orders"]}), file=consumer.stdin, flush=True)
    return consumer


def hear(consumer: subprocess.Popen[str], kind: str) -> list[str]:
    """Read what a consumer says until it says something of a kind; all kinds until then."""
    assert consumer.stdout is not None
    kinds = []
    for line in consumer.stdout:
        kinds.append(json.loads(line)["kind"])
        if kinds[-1] == kind:
            return kinds
    raise AssertionError(f"it ended, and said {kinds}")


@pytest.mark.clients
@pytest.mark.timeout(WITHIN_S)
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_consumer_asks_again_for_offsets_that_the_former_coordinator_did_not_tell(assignor: str) -> None:
    with rota.Server() as server:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        producer.produce("orders", b"1")
        assert producer.flush(WITHIN_S) == 0
        injection = server.faults.inject_error("OffsetFetch", "NOT_COORDINATOR")
        consumer = a_consumer(server.bootstrap_servers, assignor)
        try:
            assert "trouble" in hear(consumer, "resumed")
            assert injection.count == 1
            consumer.communicate("leave\n", timeout=ENDED_WITHIN_S)
            assert consumer.returncode == 0
        finally:
            consumer.kill()
            consumer.communicate()


@pytest.mark.clients
def test_a_consumer_that_cannot_leave_ends_all_the_same() -> None:
    broker = subprocess.Popen(
        [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert broker.stdout is not None
        address = broker.stdout.readline().split("ready on ")[1].split()[0]
        producer = Producer({"bootstrap.servers": address})
        producer.produce("orders", b"1")
        assert producer.flush(WITHIN_S) == 0
        consumer = a_consumer(address, "range")
        hear(consumer, "resumed")
        broker.send_signal(signal.SIGSTOP)  # it is there and answers nothing: the commit of what was read waits
        try:
            consumer.communicate(timeout=ENDED_WITHIN_S)
        finally:
            consumer.kill()
        assert consumer.returncode == 1
    finally:
        broker.kill()
        broker.communicate()
