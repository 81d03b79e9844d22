"""Starts a kafka-python consumer without cached bytecode, again and again, and prints a table of how each start went:
`make cold-starts`.

A start is one process with an empty directory of its own for bytecode (`PYTHONPYCACHEPREFIX`). It has to join a group,
read a message, commit and leave. A start that is not done within `--limit` seconds counts as hung: its stacks, its
last log lines and what the broker last received from it are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import rota
from harness.builds import ROOT
from rota import system
from tests.clients.eventually import eventually

LAST_LINES = 60
REPORTS_WITHIN_S = 5.0
REPORTED = "end of the report"


class Recent(logging.Handler):
    """Keeps the last log lines in memory, so that logging takes as little time as possible."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=LAST_LINES)
        self.setFormatter(logging.Formatter("%(relativeCreated)d %(threadName)s %(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def consume(bootstrap: str, group: str, topic: str) -> None:
    """The program that is started: one consumer from its first poll to its close."""
    recent = Recent()
    logging.getLogger("kafka").addHandler(recent)
    logging.getLogger("kafka").setLevel(logging.DEBUG)

    def report(*_: object) -> None:
        faulthandler.dump_traceback(all_threads=True)
        print(*list(recent.lines), REPORTED, sep="\n", file=sys.stderr, flush=True)

    signal.signal(signal.SIGUSR1, report)
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    while not consumer.poll(timeout_ms=1_000):
        pass
    consumer.commit()
    consumer.close()


class Start(NamedTuple):
    """How one start went."""

    seconds: float
    cpu_s: float
    """Processor time of a start that hung."""
    code: int | None
    """The exit code; None if it hung."""
    report: str

    @property
    def result(self) -> str:
        return "hung" if self.code is None else "done" if self.code == 0 else f"exit code {self.code}"


@contextmanager
def broker(bootstrap: str | None, trace: Path) -> Iterator[str]:
    """The broker to use: the given one, or a server of its own with a trace."""
    if bootstrap is not None:
        yield bootstrap
        return
    settings = {"group.initial.rebalance.delay.ms": 0}
    with trace.open("w") as lines, rota.Server(settings=settings, trace=lines) as server:
        yield server.bootstrap_servers


def last_lines(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-LAST_LINES:]) if path.exists() else ""


def start(bootstrap: str | None, name: str, limit_s: float) -> Start:
    """One cold start."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    with tempfile.TemporaryDirectory() as room, broker(bootstrap, Path(room, "trace")) as address:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
        for created in admin.create_topics([NewTopic(name, 2, 1)]).values():
            created.result()
        producer = Producer({"bootstrap.servers": address, "log_level": 3})
        producer.produce(name, b"v")
        producer.flush()
        words = [sys.executable, "-m", "tests.clients.cold_start", "--consume", address, name, name]
        environment: dict[str, Any] = {**os.environ, "PYTHONPYCACHEPREFIX": f"{room}/bytecode"}
        with Path(room, "log").open("w+") as log:
            began = time.monotonic()
            process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=log, stderr=log)
            code: int | None = None
            cpu_s = 0.0
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                cpu_s = system.cpu_s(process.pid) or 0.0
                process.send_signal(signal.SIGUSR1)
                with contextlib.suppress(AssertionError):
                    eventually(
                        lambda: REPORTED in Path(room, "log").read_text(errors="replace"),
                        REPORTS_WITHIN_S,
                        "it has written its stacks",
                    )
            finally:
                seconds = time.monotonic() - began
                process.kill()
                process.wait()
        report = "" if code == 0 else f"{last_lines(Path(room, 'log'))}\n{last_lines(Path(room, 'trace'))}"
    return Start(seconds, cpu_s, code, report)


def table(where: str, starts: list[Start]) -> Iterator[str]:
    counts = Counter(one.result for one in starts)
    took = sorted(one.seconds for one in starts if one.code == 0) or [0.0]
    yield f"{'broker':24} {'starts':>6} {'done':>6} {'hung':>6} {'other':>6} {'median s':>9} {'max s':>6}"
    other = len(starts) - counts["done"] - counts["hung"]
    figures = (len(starts), counts["done"], counts["hung"], other)
    cells = " ".join(f"{figure:>6}" for figure in figures)
    yield f"{where:24} {cells} {took[len(took) // 2]:>9.2f} {took[-1]:>6.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.cold_start", description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="how many starts")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="after which a start has hung")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="a broker that runs; by default a rota.Server per start"
    )
    parser.add_argument("--consume", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        consume(*options.consume)
        return 0
    run = f"cold-{os.getpid()}"
    starts: list[Start] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        names = [f"{run}-{number}" for number in range(options.times)]
        for name, one in zip(
            names, pool.map(lambda name: start(options.bootstrap, name, options.limit), names), strict=True
        ):
            starts.append(one)
            if one.code != 0:
                print(
                    f"{name}: {one.result} after {one.seconds:.1f} s, {one.cpu_s:.1f} s of CPU\n{one.report}",
                    flush=True,
                )
    for line in table(options.bootstrap or "rota.Server-per-start", starts):
        print(line)
    return 0 if all(one.code == 0 for one in starts) else 1


if __name__ == "__main__":
    sys.exit(main())
