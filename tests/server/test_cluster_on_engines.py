"""`rota serve --engine ...` as processes on a real engine, killed and paused; the checker of histories.

`ROTA_TEST_FAULTS` says how many faults there are, `ROTA_TEST_SEED` which ones.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

import rota
from harness import postgres
from tests.server import cluster_on_engines as cluster
from tests.server.cluster_on_engines import Call, violation
from tests.server.network import Network, is_possible

FAULTS = 6
WITHIN_S = max(900, 30 * cluster.number("ROTA_TEST_FAULTS", FAULTS))
NEVER = float("inf")


def commit(value: int, begin: float, end: float = NEVER) -> Call:
    return Call(True, value, begin, end)


def fetch(value: int, begin: float, end: float) -> Call:
    return Call(False, value, begin, end)


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [fetch(-1, 0, 1), commit(1, 2, 3), fetch(1, 4, 5)],
        [commit(1, 0, 10), fetch(-1, 1, 2), fetch(1, 3, 4)],
        [commit(1, 0, 10), commit(2, 0, 10), fetch(2, 11, 12), fetch(2, 13, 14)],
        [commit(1, 0, 1), commit(2, 2), fetch(1, 3, 4), fetch(2, 9, 10)],
        [commit(1, 0, 1), commit(2, 2), fetch(1, 3, 4)],
    ],
)
def test_a_history_of_a_register_is_linearizable(calls: list[Call]) -> None:
    assert violation(calls) is None


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([commit(1, 0, 1), fetch(-1, 2, 3)], "while -1 was the last commit"),
        ([commit(1, 0, 1), commit(2, 2, 3), fetch(1, 4, 5)], "while 1 was the last commit"),
        ([fetch(7, 0, 1)], "never committed"),
        ([fetch(1, 0, 1), commit(1, 2, 3)], "before it was committed"),
        ([commit(1, 0, 10), commit(2, 0, 10), *(fetch(v, t, t + 0.5) for v, t in [(1, 11), (2, 12), (1, 13)])], "2"),
        ([commit(1, 0, 1), commit(2, 2), fetch(2, 3, 4), fetch(1, 5, 6)], "1"),
    ],
)
def test_a_violation_is_found(calls: list[Call], why: str) -> None:
    assert why in (violation(calls) or "")


# CI installs both; `.ci/run` says so if it cannot.
ENGINES = [
    pytest.param(
        "etcd",
        marks=[
            pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)"),
            pytest.mark.xdist_group("cluster-on-etcd"),
        ],
    ),
    pytest.param(
        "postgresql",
        marks=[
            pytest.mark.skipif(not postgres.is_installed(), reason="PostgreSQL is not installed (Debian: postgresql)"),
            pytest.mark.xdist_group("cluster-on-postgres"),
        ],
    ),
]


@pytest.mark.timeout(WITHIN_S)
@pytest.mark.skipif("engine" not in signature(rota.Server.__init__).parameters, reason="this rota has no --engine")
@pytest.mark.parametrize("kind", ENGINES)
def test_commits_are_linearizable_whatever_is_killed_or_paused(tmp_path: Path, kind: str) -> None:
    faults = cluster.number("ROTA_TEST_FAULTS", FAULTS)
    history, struck = cluster.play(tmp_path, kind, faults, cluster.number("ROTA_TEST_SEED", 1))
    print(f"{struck}: {history.acknowledged()} commits acknowledged")
    assert not history.violations(), struck
    assert len(struck) == faults
    assert history.acknowledged() > 3 * faults


@pytest.mark.timeout(WITHIN_S)
@pytest.mark.xdist_group("cluster-on-etcd")
@pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)")
@pytest.mark.skipif(not is_possible(), reason="network namespaces need root, and ip (Debian: iproute2)")
def test_commits_are_linearizable_whoever_is_cut_off(tmp_path: Path) -> None:
    faults = cluster.number("ROTA_TEST_FAULTS", FAULTS)
    with Network(cluster.HOSTS) as network:
        seed = cluster.number("ROTA_TEST_SEED", 1)
        history, struck = cluster.play(tmp_path, "etcd", faults, seed, network)
    print(f"{struck}: {history.acknowledged()} commits acknowledged")
    assert not history.violations(), struck
    assert len(struck) == faults
    assert history.acknowledged() > 3 * faults


LISTEN = """
import socket
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.bind(("", 9))
print("ready", flush=True)
print(at.recv(9).decode())
"""
SEND = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], 9))
"""


def arrives(network: Network, sender: str, receiver: str) -> bool:
    """Whether a datagram arrives. The kernel reports a lost one to the sender at once."""
    command = network.command(receiver, [sys.executable, "-c", LISTEN])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        send = network.command(sender, [sys.executable, "-c", SEND, network.addresses[receiver]])
        if subprocess.run(send, check=False, capture_output=True).returncode != 0:
            listener.kill()
            return False
        return listener.stdout.readline() == "x\n"


@pytest.mark.skipif(not is_possible(), reason="network namespaces need root, and ip (Debian: iproute2)")
def test_a_cut_loses_what_one_host_sends_and_nothing_else() -> None:
    with Network(["a", "b", "c"]) as network:
        assert arrives(network, "a", "b")
        network.cut("a", "b")
        assert [arrives(network, *pair) for pair in ("ab", "ba", "ac", "cb")] == [False, True, True, True]
        network.heal("a", "b")
        assert arrives(network, "a", "b")
