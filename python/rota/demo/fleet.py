"""Three members of etcd and three servers of rota on loopback, each a process that can be killed and paused."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rota import EngineAccess, EngineError, NotFoundError, RotaError, _rota, system
from rota.cluster.looking import Image, image, members

SIZE = 3
TTL_MS = 3_000
PARTITIONS = 8
"""Partitions of `__consumer_offsets`."""
READY_WITHIN_S = 60.0
ENDED_WITHIN_S = 10.0
LOOK_AGAIN_S = 0.1
ATTEMPT_MS = 1_000
LOG_LINES = 3


class StageError(RotaError):
    """The processes of the demo do not start, or do not come to work together."""


@dataclass
class Process:
    """One process, as the script left it."""

    name: str
    command: list[str]
    log: Path
    status: str = "stopped"
    """running, paused, killed or stopped."""
    child: subprocess.Popen[bytes] | None = None

    def last_lines(self) -> str:
        """What it said last."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines() if self.log.exists() else []
        return " / ".join(lines[-LOG_LINES:]) or "it said nothing"


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Fleet:
    """The processes of one run, in a temporary directory. They end with its `with` block."""

    def __init__(self, etcd: str, ttl_ms: int = TTL_MS) -> None:
        """`etcd` is the path of the program; after `ttl_ms` of silence a server's partitions are taken over."""
        self._folder = tempfile.TemporaryDirectory(prefix="rota-demo-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        clients, peers, self._ports = (free_ports(SIZE) for _ in range(3))
        cluster = ",".join(f"m{at}=http://127.0.0.1:{port}" for at, port in enumerate(peers))
        self.etcd: list[Process] = []
        for at in range(SIZE):
            client, peer = f"http://127.0.0.1:{clients[at]}", f"http://127.0.0.1:{peers[at]}"
            command = [etcd, "--name", f"m{at}", "--data-dir", str(folder / f"m{at}"), "--log-level", "error"]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--logger", "zap"]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            command += ["--initial-cluster", cluster, "--max-txn-ops", "128", "--snapshot-count", "10000"]
            self.etcd.append(Process(f"etcd {at + 1}", command, folder / f"m{at}.log"))
        self.engine = "etcd://" + ",".join(f"127.0.0.1:{port}" for port in clients) + "/demo"
        self.servers: dict[int, Process] = {}
        for node_id, port in enumerate(self._ports, start=1):
            command = [sys.executable, "-m", "rota", "serve", "--listen", f"127.0.0.1:{port}", "--engine", self.engine]
            command += ["--node-id", str(node_id), "--ttl-ms", str(ttl_ms)]
            command += ["--set", f"offsets.topic.num.partitions={PARTITIONS}"]
            self.servers[node_id] = Process(f"server {node_id}", command, folder / f"rota{node_id}.log")
        self._operator: _rota.EngineOperator | None = None
        self._guard = subprocess.Popen([sys.executable, "-m", "rota.demo.guard"], stdin=subprocess.PIPE, text=True)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every server."""
        return [("127.0.0.1", port) for port in self._ports]

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every server."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self.processes():
            if process.child is not None:
                process.child.kill()
                self._reap(process, "stopped")
        if self._guard.stdin is not None:
            with suppress(BrokenPipeError):
                self._guard.stdin.close()
        self._guard.wait()
        self._folder.cleanup()

    def processes(self) -> list[Process]:
        """All of them."""
        return [*self.etcd, *self.servers.values()]

    def start(self, process: Process) -> None:
        """Start a process, or start it again."""
        with process.log.open("ab") as log:
            process.child = subprocess.Popen(
                process.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, process_group=0
            )
        process.status = "running"
        self._tell_guard(f"+{process.child.pid}")

    def kill(self, process: Process) -> None:
        """End a process with SIGKILL."""
        assert process.child is not None
        process.child.kill()
        self._reap(process, "killed")

    def stop(self, process: Process) -> None:
        """End a process with SIGTERM, and wait until it has ended."""
        assert process.child is not None
        process.child.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.child.wait(ENDED_WITHIN_S)
        process.child.kill()
        self._reap(process, "stopped")

    def pause(self, process: Process) -> None:
        """Stop a process with SIGSTOP: it knows nothing of it."""
        assert process.child is not None
        system.pause(process.child.pid)
        process.status = "paused"

    def resume(self, process: Process) -> None:
        """Let a paused process go on."""
        assert process.child is not None
        system.resume(process.child.pid)
        process.status = "running"

    def accidents(self) -> list[str]:
        """Processes that ended other than the script says."""
        return [
            f"{process.name} ended by itself with code {process.child.returncode}: {process.last_lines()}"
            for process in self.processes()
            if process.child is not None and process.child.poll() is not None
        ]

    def operator(self) -> _rota.EngineOperator:
        """What changes the cluster. Raises rota.RotaError before the first server has joined."""
        if self._operator is None:
            self._operator = _rota.EngineOperator(self.engine, EngineAccess().arguments(), ATTEMPT_MS)
        return self._operator

    def image(self) -> Image | None:
        """The cluster; None while etcd does not answer, or there is none."""
        try:
            return image(self.operator())
        except (EngineError, NotFoundError):
            return None

    def etcd_leader(self) -> Process | None:
        """The member of etcd that leads; None while there is none."""
        for process, member in zip(self.etcd, members(self.operator()), strict=True):
            if member.leads and process.child is not None:
                return process
        return None

    def wait_for_owner(self, node_id: int) -> None:
        """Wait until a server owns every partition. Raises StageError."""
        self._wait(node_id, lambda found: bool(found.partitions) and found.owned()[node_id] == len(found.partitions))

    def wait_for_node(self, node_id: int) -> None:
        """Wait until a server has joined. Raises StageError."""
        self._wait(node_id, lambda found: node_id in found.nodes)

    def _wait(self, node_id: int, holds: Callable[[Image], bool]) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            if accidents := self.accidents():
                raise StageError(accidents[0])
            found = self.image()
            if found is not None and holds(found):
                return
            time.sleep(LOOK_AGAIN_S)
        server = self.servers[node_id]
        raise StageError(f"{server.name} did not join within {READY_WITHIN_S:.0f} s: {server.last_lines()}")

    def _reap(self, process: Process, status: str) -> None:
        assert process.child is not None
        process.child.wait()
        self._tell_guard(f"-{process.child.pid}")
        process.child, process.status = None, status

    def _tell_guard(self, line: str) -> None:
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):
            self._guard.stdin.write(line + "\n")
            self._guard.stdin.flush()
