"""A server in a process of its own: what it takes is its own, and nothing of the test's."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WITHIN_S = 30


@dataclass(frozen=True)
class ServerProcess:
    """Where it listens, and its process."""

    address: tuple[str, int]
    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self.process.kill()
        self.process.wait()

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()


@contextmanager
def a_server_process(*options: str, listen: str = "127.0.0.1:0") -> Iterator[ServerProcess]:
    """A server that has said it is ready. It may open as many files as this process, and must not have panicked.

    `options` are further options of `rota serve`.
    """
    command = [sys.executable, "-m", "rota", "serve", "--listen", listen]
    command += ["--set", "group.initial.rebalance.delay.ms=0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            host, port = process.stdout.readline().split(" on ")[1].split()[0].rsplit(":", 1)
            yield ServerProcess((host, int(port)), process)
        finally:
            process.terminate()
            _, said = process.communicate(timeout=WITHIN_S)
    # A panic costs its client the connection, and is reported.
    assert "panic" not in said, said
