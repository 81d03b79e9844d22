"""A program that measures one run for each line of input, so that rivals take turns."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence


class LateError(Exception):
    """No answer in time."""


class Rival:
    """The process."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def __enter__(self) -> Rival:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, line: str, limit_s: float) -> str:
        """The line that answers a line. Raises LateError, and RuntimeError if the program has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n".encode())
        answer, end = b"", time.monotonic() + limit_s
        while not answer.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise LateError(f"{self.process.args!r}: no answer to `{line}` in {limit_s} s")
            read = os.read(self.process.stdout.fileno(), 4096)
            if not read:
                raise RuntimeError(f"{self.process.args!r} ended")
            answer += read
        return answer.decode().strip()

    def run_ns(self, limit_s: float) -> int:
        """Nanoseconds of one run."""
        return int(self.ask("run", limit_s))

    def run(self, limit_s: float = 120, line: str = "run") -> tuple[int, float]:
        """Operations and seconds of one run, of the kind that the line asks for."""
        nanoseconds, operations = map(int, self.ask(line, limit_s).split())
        return operations, nanoseconds / 1e9

    def figures(self, limit_s: float) -> tuple[int, ...]:
        """The result."""
        return tuple(map(int, self.ask("figures", limit_s).split()))

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()
