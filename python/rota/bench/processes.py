"""Servers as processes of their own, each on a core that the load does not use, and the CPU that they take."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rota import system

SERVER_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


class BenchError(Exception):
    """What was wrong, with what value, and what to do."""


@dataclass(frozen=True)
class Served:
    """A server that is measured: how it is called in the table, where it listens, and its process if it is known."""

    name: str
    address: str
    pid: int | None
    speaks: bool = True
    """Whether it knows of groups; the echo does not."""
    assemble: Callable[[str, int, int], list[tuple[str, str, int]]] | None = None
    """How members join, if the load's own way does not do: from address, members and members of a group, the seats."""

    def cpu_s(self) -> float | None:
        """CPU seconds that the process has used, all its threads; None if it is not known or not on this system."""
        return None if self.pid is None else system.cpu_s(self.pid)


@contextmanager
def pinned_load() -> Iterator[int | None]:
    """This process on the last core it may use; gives the first for the servers. With one core nothing is pinned."""
    usable = system.cores()
    if len(usable) < 2:
        yield None
        return
    system.pin(0, usable[-1:])
    try:
        yield usable[0]
    finally:
        system.pin(0, usable)


@contextmanager
def process(arguments: Sequence[str], core: int | None) -> Iterator[tuple[int, str]]:
    """A process of this Python, and its first line; it is ended at the end."""
    command = [sys.executable, "-m", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if core is not None:
            system.pin(child.pid, [core])
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            raise BenchError(f"`{' '.join(arguments)}` does not start: {child.communicate()[1].strip()}")
        yield child.pid, line
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate()


@contextmanager
def echo(core: int | None) -> Iterator[Served]:
    """The floor."""
    with process(["rota.bench.echo"], core) as (pid, line):
        yield Served("bare echo", f"127.0.0.1:{int(line)}", pid, speaks=False)


@contextmanager
def own_server(core: int | None) -> Iterator[Served]:
    """A `rota serve` that keeps nothing on disk."""
    settings = [word for name, value in SERVER_SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with process(["rota", "serve", "--listen", "127.0.0.1:0", "--json", *settings], core) as (pid, line):
        ready = json.loads(line)
        yield Served("rota", ready["listen"], pid)
