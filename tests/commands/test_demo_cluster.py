"""`rota demo --cluster`: three servers, three members of etcd, eight consumers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rota
from harness.etcd import is_installed
from rota import exits
from rota.cli import app
from rota.demo.cluster import NAMES, offsets_partition
from rota.demo.fleet import PARTITIONS, Fleet, StageError
from tests.clients.eventually import eventually

DEMO = [sys.executable, "-m", "rota", "demo", "--cluster", "--duration", "0"]
WITHIN_S = 300
ENDED_WITHIN_S = 30

needs_etcd = pytest.mark.skipif(not is_installed(), reason="etcd is not installed (Debian: etcd-server)")


@pytest.mark.clients
@pytest.mark.slow
@needs_etcd
@pytest.mark.xdist_group("cluster-on-etcd")
@pytest.mark.timeout(WITHIN_S)
def test_no_acknowledged_commit_is_lost_whatever_happens_to_the_servers() -> None:
    ended = subprocess.run([*DEMO, "--json"], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    summary = lines.pop()
    assert summary["failures"] == [], ended.stdout + ended.stderr
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert summary["members"] == dict.fromkeys(NAMES, "left") | {"cleo": "killed"}
    assert summary["partitions"] == len(summary["committed"]) == 12
    assert summary["commits_acknowledged"] > 12
    said = [line["text"] for line in lines if line["who"] == "script"]
    for what in ("is killed", "is paused", "is drained", "leader of etcd is killed", "stopped and starts again"):
        assert any(what in text for text in said), what
    assert not [text for text in said if text.startswith("not settled")]


def processes_of(demo: subprocess.Popen[str]) -> list[int]:
    """The members of etcd and the servers that a demo has started, with their process ids."""
    children = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if path.read_text().rpartition(")")[2].split()[1] == str(demo.pid)
    ]
    return [pid for pid in children if re.search(r"etcd|serve|demo.consumer", Path(f"/proc/{pid}/cmdline").read_text())]


def runs(pid: int) -> bool:
    """Whether a process has not ended. A zombie has."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.clients
@needs_etcd
@pytest.mark.xdist_group("cluster-on-etcd")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_demo(ending: signal.Signals) -> None:
    demo = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "assigned" in line:
            break
    started = processes_of(demo)
    assert len(started) >= 4, "three members of etcd, a server at least"
    os.kill(demo.pid, ending)
    demo.communicate(timeout=WITHIN_S)
    eventually(lambda: not any(map(runs, started)), ENDED_WITHIN_S, "all processes have ended")


@needs_etcd
def test_a_process_that_ends_by_itself_is_an_accident(tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\necho 'no disk' >&2\nexit 3\n")
    program.chmod(0o755)
    with Fleet(str(program)) as fleet:
        fleet.start(fleet.etcd[0])
        with pytest.raises(StageError, match=r"etcd 1 ended by itself with code 3: no disk"):
            fleet.wait_for_owner(1)
        assert len(fleet.accidents()) == 1


def test_without_etcd_the_demo_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ended = CliRunner().invoke(app, ["demo", "--cluster"])
    assert ended.exit_code == exits.MISUSED
    assert ended.stderr == (
        "rota: --cluster needs etcd: install it (Debian: apt install etcd-server), or put it on the PATH\n"
    )


def test_a_cluster_of_its_own_and_another_broker_contradict_each_other() -> None:
    ended = CliRunner().invoke(app, ["demo", "--cluster", "--bootstrap-server", "127.0.0.1:1"])
    assert ended.exit_code == exits.MISUSED
    assert ended.stderr == "rota: --cluster starts servers of its own: leave out --bootstrap-server\n"


@pytest.mark.parametrize("group", ["roster", "", "grüße", "a" * 100, "\U0001f600 group"])
def test_the_partition_of_a_group_is_the_servers(group: str) -> None:
    with rota.Server(settings={"offsets.topic.num.partitions": PARTITIONS}) as server:
        assert offsets_partition(group) == server.partition_of(group)
