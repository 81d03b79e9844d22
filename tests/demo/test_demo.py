"""`rota demo` from the outside: its exit code, its last line, its end by Ctrl-C."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from typer.testing import CliRunner

import rota.demo
from rota.cli import app
from rota.demo.stage import Result, Settings

DEMO = [sys.executable, "-m", "rota", "demo"]
WITHIN_S = 100


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


@pytest.mark.clients
def test_ctrl_c_ends_the_demo_and_all_its_consumers() -> None:
    demo = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "ana" in line and "assigned" in line:
            break
    os.killpg(demo.pid, signal.SIGINT)  # as a terminal does it: the consumers get it too
    _, errors = demo.communicate(timeout=WITHIN_S)
    assert demo.returncode == 130
    assert errors == "rota: interrupted; the consumers have ended\n"
    with pytest.raises(ProcessLookupError):
        os.killpg(demo.pid, 0)


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
    assert ended.stderr == "rota: the demo needs the confluent-kafka client: pip install 'rota[demo]'\n"


def test_a_broker_that_is_not_there_is_a_failure_and_says_which() -> None:
    ended = subprocess.run(
        [*DEMO, "--bootstrap-server", "127.0.0.1:1"], capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert ended.returncode == 1
    assert "127.0.0.1:1" in ended.stderr.splitlines()[-1]
