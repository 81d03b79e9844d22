"""`rota serve --engine`: when a server of a cluster says that it is ready."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.etcd import Etcd, is_installed
from rota import EngineAccess, _rota
from rota.cluster.looking import image

WITHIN_S = 60.0
SILENT_S = 1.5
NOWHERE = "etcd://127.0.0.1:1/rota"


@contextmanager
def begun(engine: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0", "--engine", engine, "--node-id", "1"]
    process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not is_installed(), reason="etcd is not installed (Debian: etcd-server, etcd-client)")
def test_a_server_of_a_cluster_is_ready_when_it_has_joined(tmp_path: Path) -> None:
    with Etcd(tmp_path) as etcd:
        url = etcd.url()
        etcd.kill()
        with begun(url, "--json") as process:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(f"rota: waits to join the cluster: engine {url}: ")
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], SILENT_S)[0] == []
            etcd.start()
            ready = json.loads(process.stdout.readline())
            assert ready["event"] == "ready"
            operator = _rota.EngineOperator(url, EngineAccess().arguments(), 2_000)
            assert image(operator).nodes[1].state == "serving"
            process.terminate()
            assert process.wait(WITHIN_S) == 0


@pytest.mark.parametrize("words", [[], ["--trace"], ["--log-format", "json", "--json"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_that_waits_for_its_engine(number: signal.Signals, words: list[str]) -> None:
    with begun(NOWHERE, *words) as process:
        assert process.stderr is not None
        line = ""
        while "waits to join the cluster" not in line:
            line = process.stderr.readline()
            assert line, "it waits"
        began = time.monotonic()
        process.send_signal(number)
        out, _ = process.communicate(timeout=WITHIN_S)
        assert (process.returncode, out) == (0, "")
        assert time.monotonic() - began < 10
