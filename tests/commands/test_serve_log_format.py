"""`rota serve --log-format`: one line an event, one of them for each rebalance."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

import rota
from rota import reporting
from rota.reporting import Rebalances, as_text
from rota.serve.ending import Ending
from rota.server import Health
from rota.system import Flag

WITHIN_S = 30
FAST = ("--set", "group.initial.rebalance.delay.ms=0")


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process that is ready, and where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0", "--json", *FAST, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())["listen"]
    finally:
        process.kill()
        process.communicate()


def joined(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "client.id": "ana"})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    return consumer


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_log_has_the_start_each_rebalance_with_its_cause_and_the_end(form: str) -> None:
    with serving("--log-format", form) as (process, bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        [made] = admin.create_topics([NewTopic("orders", 2)]).values()
        made.result(WITHIN_S)
        joined(bootstrap, "orders").close()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WITHIN_S)
    lines = err.splitlines()
    if form == "json":
        told = [json.loads(line) for line in lines]
        assert [line["event"] for line in told] == ["ready", "rebalance", "rebalance", "stopping", "stopped"]
        first, second = told[1:3]
        assert (first["group"], first["cause"], first["from_generation"], first["generation"]) == (
            "billing", "MemberJoined", 0, 1,
        )  # fmt: skip
        assert (second["cause"], second["from_generation"], second["settled"]) == ("MemberLeft", 1, True)
        assert first["member"].startswith("ana-")
        assert first["duration_ms"] >= first["joined_ms"] >= 0
        assert all(datetime.fromisoformat(line["at"]) for line in told)
    else:
        assert [line.split()[2] for line in lines] == ["ready", "rebalance", "rebalance", "stopping", "stopped"]
        assert " info rebalance group=billing cause=MemberJoined member=ana-" in lines[1]


def test_each_rebalance_is_told_once_and_only_after_its_end() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings={"group.initial.rebalance.delay.ms": 0}, clock=clock) as server:
        server.create_topic("orders", 1)
        told = Rebalances()
        assert list(told.look(server)) == []
        ana = joined(server.bootstrap_servers, "orders")
        assert [line["cause"] for line in told.look(server)][:1] == ["MemberJoined"]
        assert list(told.look(server)) == []
        server.rebalance("billing")
        assert list(told.look(server)) == []
        ana.close()
        assert [line["cause"] for line in told.look(server)] == ["Requested"]


def test_of_many_groups_each_is_asked_after_a_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "GROUPS_PER_LOOK", 2)
    asked: list[str] = []

    class Groups:
        def groups(self) -> list[str]:
            return ["a", "b", "c", "d", "e"]

        def explain(self, group: str) -> None:
            asked.append(group)
            raise rota.NotFoundError(group)

    told = Rebalances()
    for _ in range(4):
        assert list(told.look(Groups())) == []  # type: ignore[arg-type]
    assert asked == ["a", "b", "c", "d", "e", "a", "b"]


def test_a_disk_that_was_full_between_two_looks_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    class Recovered:
        """Writes succeed again when it is asked."""

        def health(self) -> Health:
            return Health(None, [], 0, 0.0, 0, None, None, failures=2, last_failure="`t-0`: No space left on device")

    ending = Ending.__new__(Ending)  # without its signal handlers
    ending._report = reporting.Report(None)
    ending._said = set()
    for _ in range(3):
        ending._say(Recovered())  # type: ignore[arg-type]
    assert capsys.readouterr().err == "rota: the log takes no writes: `t-0`: No space left on device\n"


def test_a_server_that_dies_before_it_has_joined_is_no_member() -> None:
    class Dying:
        """It dies after it was asked whether it runs."""

        def cluster(self) -> SimpleNamespace:
            return SimpleNamespace(standing="joining")

        def check_running(self) -> None:
            """It runs."""

        def health(self) -> None:
            raise rota.ServerError("a node has died")

    ending = Ending.__new__(Ending)  # without its signal handlers
    ending.asked = Flag()
    assert not ending.joined(Dying())  # type: ignore[arg-type]


def test_what_a_client_says_cannot_forge_a_line() -> None:
    line = {"at": "2026-03-01T13:30:00.123Z", "level": "info", "event": "rebalance"}
    told = as_text({**line, "group": 'a b="\n', "member": None, "settled": True, "duration_ms": 5})
    assert told == '2026-03-01T13:30:00.123Z info rebalance group="a b=\\"\\n" settled=true duration_ms=5'


def test_a_log_without_stderr_does_not_go_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    report = reporting.Report("json")
    report.event("ready")
    report.problem("failed", "the disk is full")
    reporting.Report(None).problem("failed", "the disk is full")
    assert capsys.readouterr().out == ""
