"""Durable commits and the start with data, beside Kafka and the disk's own rate: `make bench-durable`.

`python -m benches.durable [--json] [--rounds N] [--seconds S] [--offsets N] [--without-kafka] [commits] [start]`

commits   OffsetCommit of one offset, one request at a time on each of 16, 256 and 1,024 connections: rota with
          `--durability fsync`, Kafka with its defaults (it does not sync), and the floor: syncs of 4 KiB in place a
          second, times the connections. Also bytes and syncs a commit, and syncs a second for 1 and 50 partitions.
start     from the start of the process until 200 groups' offsets are answered, empty and with 1.02 million offsets;
          loading alone is the difference, also in CPU time of the process, and what rota says of it.

All ways take turns in one run; figures are medians with the least and the greatest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness import peer
from harness.brokers import KAFKA, free_port
from harness.raw import NONE, ClosedError, Connection
from rota import system

ROOT = Path(__file__).resolve().parents[1]
LOAD = Path(os.environ.get("ROTA_COMMIT_LOAD") or ROOT / "target" / "release" / "examples" / "commit_load")
CONNECTIONS = (16, 256, 1_024)
ASKED_GROUPS = 200
FILLED_PARTITIONS = 20
READY_WITHIN_S, RETRY_S = 180, 0.005
Address = tuple[str, int]
Figures = dict[str, list[float]]


def load(*arguments: object) -> dict[str, float]:
    """A run of the load generator."""
    done = subprocess.run([str(LOAD), *map(str, arguments)], check=True, capture_output=True, text=True)
    return {name: float(value) for name, value in json.loads(done.stdout).items()}


class Rota:
    """`rota serve` with a data directory."""

    name = "rota"

    def __init__(self, place: Path, *settings: str) -> None:
        self.address: Address = ("127.0.0.1", free_port())
        place.mkdir(exist_ok=True)
        listen = f"{self.address[0]}:{self.address[1]}"
        command = [sys.executable, "-m", "rota", "serve", "--listen", listen, "--json", "--data", str(place / "rota")]
        for setting in settings:
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def took_ms(self) -> float:
        """Of the opening and loading, as the server says."""
        assert self.process.stdout is not None
        return float(json.loads(self.process.stdout.readline())["took_ms"])

    def pid(self) -> int:
        return self.process.pid

    def written_bytes(self) -> int:
        """Written to files so far; sockets are not counted there."""
        lines = Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["wchar"])

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)


class Kafka:
    """A broker of `benches/kafka` with its defaults."""

    name = "kafka"

    def __init__(self, place: Path) -> None:
        self.place = place / "kafka"
        self.address: Address = ("127.0.0.1", free_port())
        command = [str(KAFKA), "start", str(self.address[1]), str(self.place)]
        subprocess.run([*command, "num.partitions=20"], check=True, stdout=subprocess.DEVNULL)

    def pid(self) -> int:
        return int((self.place / "broker.pid").read_text())

    def stop(self) -> None:
        subprocess.run([KAFKA, "stop", str(self.place)], check=True)


Server = Rota | Kafka


def retried(ask: Callable[[Connection], bool], address: Address) -> None:
    """Until it is so; the server may be starting."""
    deadline_s, pause = time.monotonic() + READY_WITHIN_S, threading.Event()
    while time.monotonic() < deadline_s:
        with suppress(OSError, ClosedError), Connection(address) as connection:
            while time.monotonic() < deadline_s:
                if ask(connection):
                    return
                pause.wait(RETRY_S)
        pause.wait(RETRY_S)
    raise AssertionError("the server does not answer")


def has_topic(server: Server) -> None:
    retried(lambda connection: commits(connection, "first", FILLED_PARTITIONS), server.address)


def commits(connection: Connection, group: str, partitions: int) -> bool:
    # Kafka creates `orders` and `__consumer_offsets` when it is asked about them.
    connection.ask(peer.metadata("orders"))
    connection.ask(peer.find(group))
    return peer.committed(connection.ask(peer.commit(group, dict.fromkeys(range(partitions), 1)))) == {NONE}


def answers(groups: list[str]) -> Callable[[Connection], bool]:
    """Whether all of them are loaded; what was answered is not asked again."""
    left = list(groups)

    def ask(connection: Connection) -> bool:
        while left:
            if peer.fetched(connection.ask(peer.fetch(left[-1], [0])))[0] != NONE:
                # A new broker of Kafka's has no coordinators before it is asked for one.
                connection.ask(peer.find(left[-1]))
                return False
            left.pop()
        return True

    return ask


@contextmanager
def serving(make: Callable[[], Server]) -> Iterator[Server]:
    server = make()
    try:
        yield server
    finally:
        server.stop()


def cpu_us(server: Server) -> float:
    """Of the process so far, in user and kernel: what a busy machine changes least."""
    used_s = system.cpu_s(server.pid())
    assert used_s is not None
    return used_s * 1e6


def shown(values: list[float], unit: str = "") -> str:
    middle = statistics.median(values)
    return f"{middle:,.1f}{unit} ({min(values):,.1f}-{max(values):,.1f})"


def measured_commits(place: Path, rounds: int, seconds: float, with_kafka: bool) -> dict[str, Figures]:
    """By connections: commits a second of each way, in turns; bytes a commit."""
    figures: dict[str, Figures] = {}
    made: list[Callable[[], Server]] = [lambda: Rota(place, "num.partitions=20")]
    if with_kafka:
        made.append(lambda: Kafka(place))
    servers = [make() for make in made]
    try:
        for server in servers:
            has_topic(server)
        for _ in range(rounds):
            for connections in CONNECTIONS:
                row = figures.setdefault(str(connections), {})
                row.setdefault("floor", []).append(load("floor", place, seconds / 2)["per_s"] * connections)
                for server in servers:
                    before_bytes = server.written_bytes() if isinstance(server, Rota) else 0
                    before_us = cpu_us(server)
                    run = load("run", "{}:{}".format(*server.address), connections, seconds)
                    row.setdefault(server.name, []).append(run["per_s"])
                    row.setdefault(f"{server.name} p99 us", []).append(run["p99_us"])
                    row.setdefault(f"{server.name} cpu us", []).append((cpu_us(server) - before_us) / run["commits"])
                    if isinstance(server, Rota):
                        written = (server.written_bytes() - before_bytes) / run["commits"]
                        row.setdefault("bytes a commit", []).append(written)
                row.setdefault("of floor", []).append(row["rota"][-1] / row["floor"][-1])
                if with_kafka:
                    row.setdefault("of kafka", []).append(row["rota"][-1] / row["kafka"][-1])
    finally:
        for server in servers:
            server.stop()
    return figures


COUNTED = """
import json, sys, rota
directory, partitions = sys.argv[1:]
settings = {"offsets.topic.num.partitions": int(partitions), "num.partitions": 20}
with rota.Server(data=directory, settings=settings) as server:
    print(server.bootstrap_servers, flush=True)
    for _ in sys.stdin:
        print(server.health().syncs, flush=True)
"""


def measured_syncs(place: Path, rounds: int, seconds: float) -> dict[str, Figures]:
    """By partitions of `__consumer_offsets`: syncs a second and commits a sync under 256 connections."""
    figures: dict[str, Figures] = {}
    for at in range(rounds):
        for partitions in (1, 50):
            command = [sys.executable, "-c", COUNTED, str(place / f"counted-{at}-{partitions}"), str(partitions)]
            server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert server.stdin is not None
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            retried(lambda connection: commits(connection, "first", 1), peer.host_port(address))

            def syncs(server: subprocess.Popen[str] = server) -> int:
                assert server.stdin is not None
                assert server.stdout is not None
                server.stdin.write("\n")
                server.stdin.flush()
                return int(server.stdout.readline())

            before = syncs()
            run = load("run", address, 256, seconds)
            made = syncs() - before
            row = figures.setdefault(str(partitions), {})
            row.setdefault("syncs a second", []).append(made * run["per_s"] / run["commits"])
            row.setdefault("commits a sync", []).append(run["commits"] / made)
            server.communicate(timeout=60)
    return figures


def measured_start(place: Path, rounds: int, offsets: int, with_kafka: bool) -> dict[str, Figures]:
    """Empty and filled: milliseconds of each way, in turns."""
    made: list[tuple[str, Callable[[Path], Server]]] = [("rota", lambda at: Rota(at, "num.partitions=20"))]
    if with_kafka:
        made.append(("kafka", Kafka))
    figures: dict[str, Figures] = {"empty": {}, "filled": {}, "load": {}}
    filled = place / "filled"
    for _, make in made:
        with serving(lambda make=make: make(filled)) as server:  # type: ignore[misc]
            has_topic(server)
            load("fill", "{}:{}".format(*server.address), offsets // FILLED_PARTITIONS, FILLED_PARTITIONS)
    groups = [f"fill-{at * offsets // FILLED_PARTITIONS // ASKED_GROUPS}" for at in range(ASKED_GROUPS)]
    for at in range(rounds):
        for name, make in made:
            for kind, folder in (("empty", place / f"empty-{at}"), ("filled", filled)):
                began = time.perf_counter()
                with serving(lambda make=make, folder=folder: make(folder)) as server:  # type: ignore[misc]
                    retried(answers(groups), server.address)
                    figures[kind].setdefault(name, []).append((time.perf_counter() - began) * 1_000)
                    figures[kind].setdefault(f"{name} cpu", []).append(cpu_us(server) / 1_000)
                    if kind == "filled" and isinstance(server, Rota):
                        figures["load"].setdefault("rota says", []).append(server.took_ms())
            for column in (name, f"{name} cpu"):
                both = [figures[kind][column][-1] for kind in ("empty", "filled")]
                figures["load"].setdefault(column, []).append(both[1] - both[0])
        if with_kafka:
            for row in figures.values():
                row.setdefault("of kafka", []).append(row["kafka"][-1] / row["rota"][-1])
                row.setdefault("of its cpu", []).append(row["kafka cpu"][-1] / row["rota cpu"][-1])
        shutil.rmtree(place / f"empty-{at}")
    return figures


def table(title: str, figures: dict[str, Figures]) -> None:
    print(title)
    for name, row in figures.items():
        print(f"  {name:>8}  " + "  ".join(f"{column} {shown(values)}" for column, values in row.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", default=["commits", "start"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--offsets", type=int, default=1_020_000)
    parser.add_argument("--without-kafka", action="store_true")
    chosen = parser.parse_args()
    with_kafka = not chosen.without_kafka
    found: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="rota-durable-") as folder:
        place = Path(folder)
        if "commits" in chosen.parts:
            found["durable commits a second, by connections"] = measured_commits(
                place, chosen.rounds, chosen.seconds, with_kafka
            )
            found["by partitions of __consumer_offsets"] = measured_syncs(place, chosen.rounds, chosen.seconds)
        if "start" in chosen.parts:
            found["start to first good answer, ms"] = measured_start(place, chosen.rounds, chosen.offsets, with_kafka)
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for title, figures in found.items():
        table(title, figures)


if __name__ == "__main__":
    main()
