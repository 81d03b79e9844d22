"""`rota serve --engine ...` as processes on a real engine, under faults; the checker of histories.

`make chaos` plays more faults.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

import rota
from harness import postgres, small_disk
from tests.checks import planted_build
from tests.checks.planting import ALL, CLUSTER, ETCD, POSTGRES, variable
from tests.server import chaos
from tests.server.network import Network, is_possible
from tests.server.registers import NEVER, Call, violation

WITHIN_FAULTS = 20
"""An engine without the fence has to be found within so many."""


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
LACKS = {
    "etcd": pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)"),
    "postgresql": pytest.mark.skipif(
        not postgres.is_installed(), reason="PostgreSQL is not installed (Debian: postgresql)"
    ),
}
RUNS = [
    pytest.param(kind, False, count, marks=[LACKS[kind], pytest.mark.xdist_group(f"cluster-on-{kind}")], id=kind)
    for kind, count in (("etcd", 12), ("postgresql", 15))
]
NETWORK = pytest.param(
    "etcd",
    True,
    6,
    marks=[
        LACKS["etcd"],
        pytest.mark.skipif(not is_possible(), reason="network namespaces need root, and ip (Debian: iproute2)"),
        pytest.mark.xdist_group("cluster-on-network"),
    ],
    id="etcd-network",
)


@pytest.mark.skipif("engine" not in signature(rota.Server.__init__).parameters, reason="this rota has no --engine")
@pytest.mark.parametrize(("kind", "on_network", "count"), [*RUNS, NETWORK])
def test_commits_are_linearizable_whatever_fails(tmp_path: Path, kind: str, on_network: bool, count: int) -> None:
    result = chaos.played(tmp_path, kind, count, seed=1, on_network=on_network)
    assert not result.violations, result.summary()
    assert len(result.struck) == count
    assert result.acknowledged > 3 * count


PLANTED = [
    pytest.param(ETCD, "etcd", "an-append-passes-the-fence", None, marks=LACKS["etcd"], id="etcd-fence"),
    pytest.param(ETCD, "etcd", "the-quota-is-not-counted", "full", marks=LACKS["etcd"], id="etcd-quota"),
    pytest.param(POSTGRES, "postgresql", "an-append-ignores-the-epoch", None, marks=LACKS["postgresql"], id="pg-fence"),
    pytest.param(
        POSTGRES,
        "postgresql",
        "a-session-that-does-not-wait",
        "far from the standby",
        marks=LACKS["postgresql"],
        id="pg-standby",
    ),
    pytest.param(
        CLUSTER,
        "postgresql",
        "an-append-ends-before-the-engine-answers",
        "full log",
        marks=[
            LACKS["postgresql"],
            pytest.mark.skipif(small_disk.why_not() is not None, reason=small_disk.why_not() or ""),
        ],
        id="pg-early",
    ),
]


@pytest.mark.skipif(ALL not in os.environ, reason="builds the module once more: `make chaos` and `make long` do")
@pytest.mark.parametrize(("crate", "kind", "bug", "fault"), PLANTED)
def test_a_planted_build_is_found(tmp_path: Path, crate: str, kind: str, bug: str, fault: str | None) -> None:
    environment = {"PYTHONPATH": str(planted_build.module()), variable(crate): bug}
    only = None if fault is None else [fault]
    result = chaos.played(tmp_path, kind, WITHIN_FAULTS, seed=1, environment=environment, only=only)
    assert result.violations, f"not found within {WITHIN_FAULTS} faults"


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
