"""Other servers that speak to consumer groups, each on one core for as long as it is measured."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from benches.mock_members import assembled
from harness.brokers import KAFKA, KFAKE, free_port
from rota import system
from rota.bench.processes import Served

PATIENCE_S, LOOK_S = 30, 0.05
Start = Callable[[int | None], AbstractContextManager[Served]]


class MissingError(Exception):
    """It is not on this machine: what is missing."""


def needs(program: str, what: str) -> str:
    """Where a program is. Raises MissingError without it."""
    found = shutil.which(program)
    if found is None:
        raise MissingError(f"no `{program}`: {what} is not measured")
    return found


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """What is started meanwhile stays on that core, with all its threads."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# With its usual backlog of 50, thousands of connections that come at once wait for seconds before anything is measured.
KAFKA_SETTINGS = {"group.max.size": 100_000, "socket.listen.backlog.size": 4_096}


@contextmanager
def kafka(core: int | None, more: Callable[[int], Mapping[str, str]] = lambda _: {}) -> Iterator[Served]:
    """Apache Kafka 4.4, one KRaft node, without an initial delay; with `more` settings of its port."""
    needs("java", "Kafka")
    needs("mvn", "Kafka")
    with tempfile.TemporaryDirectory(prefix="rota-kafka-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        settings = [f"{name}={value}" for name, value in (KAFKA_SETTINGS | dict(more(port))).items()]
        command = [sys.executable, str(KAFKA), "start", str(port), folder, *settings]
        with pinned(core):
            started = subprocess.run(command, check=False, capture_output=True, text=True)
        if started.returncode != 0:
            raise MissingError(f"Kafka does not start: {started.stderr.strip()[-200:]}")
        try:
            yield Served("Kafka 4.4", f"127.0.0.1:{port}", int(started.stdout))
        finally:
            subprocess.run([sys.executable, str(KAFKA), "stop", folder], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def until_closed(name: str, command: Sequence[str], core: int | None) -> Iterator[Served]:
    """A program that prints where it listens, and ends with its standard input."""
    with pinned(core):
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        address = program.stdout.readline().strip()
        if not address:
            raise MissingError(f"{name} does not start")
        yield Served(name, address, program.pid)
    finally:
        program.stdin.close()
        program.wait()
        program.stdout.close()


@contextmanager
def kfake(core: int | None) -> Iterator[Served]:
    """franz-go's fake cluster, of the version that tests/conform records."""
    go = needs("go", "kfake")
    with tempfile.TemporaryDirectory(prefix="rota-kfake-") as folder:
        program = str(Path(folder) / "kfake")
        done = subprocess.run([go, "build", "-o", program, "."], cwd=KFAKE, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise MissingError(f"kfake does not build: {done.stderr.strip()[-200:]}")
        with until_closed("kfake", [program], core) as served:
            yield served


@contextmanager
def mock(core: int | None) -> Iterator[Served]:
    """librdkafka's mock broker."""
    try:
        import confluent_kafka  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingError("no confluent-kafka: librdkafka's mock is not measured") from error
    with until_closed("librdkafka's mock", [sys.executable, "-m", "benches.mock_broker"], core) as served:
        yield replace(served, assemble=assembled)


@contextmanager
def tansu(core: int | None) -> Iterator[Served]:
    """tansu in memory, if its program is installed: `cargo install tansu --features dynostore`."""
    program = needs("tansu", "tansu")
    address = f"127.0.0.1:{free_port()}"
    urls = [f"--{word}=tcp://{address}" for word in ("listener-url", "advertised-listener-url")]
    command = [program, "broker", *urls, "--storage-engine=memory://tansu/"]
    with tempfile.TemporaryDirectory(prefix="rota-tansu-") as folder:
        child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if core is not None:
                system.pin(child.pid, [core])
            answers(address, child)
            yield Served("tansu", address, child.pid)
        finally:
            child.terminate()
            child.wait()


def answers(address: str, child: subprocess.Popen[bytes]) -> None:
    """Wait until it listens."""
    host, port = address.split(":")
    pause, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
    while child.poll() is None and time.monotonic() < deadline_s:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        pause.wait(LOOK_S)
    raise MissingError(f"`{child.args!r}` does not listen")


RIVALS: Mapping[str, Start] = {"Kafka 4.4": kafka, "kfake": kfake, "librdkafka's mock": mock, "tansu": tansu}
