"""High availability in one table: rota over etcd, rota over PostgreSQL, and Apache Kafka: `make bench-availability`.

`python -m benches.high_availability [--rounds N] [--ttl-ms MS] [--outage-s S] [--note TEXT] [--page] [ENGINE ...]`

ENGINE is etcd, postgresql or kafka; all that are installed, unless some are named. Each has three processes that keep
the data twice or three times (etcd: three members; PostgreSQL: a primary with a synchronous standby; Kafka: three
brokers that are controllers, too, replication 3, `min.insync.replicas` 2), and all share the cores of this machine with
the load. The figures go to `docs/generated/high-availability.json`, where those of an engine that was not measured this
time stay, and the table of all to `docs/generated/high-availability.md`. `--page` only writes the page anew.

commits over N connections         one request at a time on each, to one server that coordinates all: `commit_load`
bare engine                        transactions of the same size a second from as many lanes as a server has, without
                                   rota, in the same run: `rust/etcd/examples/floor.rs`, or `pgbench`
heartbeats                         over 16 connections, one at a time on each, in turns with a server without an engine:
                                   `rota bench serve`
takeovers                          `benches.cluster` says what is timed
at rest                            CPU time of the processes and writes of the engine a second, without clients
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from benches import cluster
from benches.cluster import CONNECTIONS, FLOOR, LANES, LOAD, Scene
from benches.kafka_cluster import KafkaScene, kafka_scene
from harness import postgres
from harness.builds import ROOT
from harness.postgres import Postgres
from harness.process import a_server_process
from rota import system
from rota.demo.fleet import PARTITIONS, Fleet
from rota.exits import complain

REST_S = 5.0
WARMING = 2
"""Runs of `commit_load` that do not count."""
HEARTBEATING, HEARTBEATS_S = 1_000, 3
"""Members, and for how long each round counts their heartbeats."""
FLOOR_S = 4
FLOOR_FLUSHES = 800
OUTAGE = ("outage, engine", "outage", "moved")
PAGE = ROOT / "docs" / "generated" / "high-availability.md"
FIGURES = PAGE.with_suffix(".json")
VERBS = {"commits": "run", "fetches": "fetch"}
"""What `commit_load` is asked for."""
Figures = dict[str, list[float]]


class PostgresFleet(Fleet):
    """Three servers over a PostgreSQL with a synchronous standby, as the tests of faults start it."""

    def __init__(self, ttl_ms: int) -> None:
        super().__init__("etcd", ttl_ms)
        self.etcd = []
        self.primary = Postgres(name="primary")
        self.primary.start()
        self.standby = Postgres(name="standby", follows=self.primary)
        self.standby.start()
        self.primary.wait_for(self.standby)
        self.engine = self.primary.url("availability")
        command = [sys.executable, "-m", "rota", "cluster", "init", "--engine", self.engine]
        subprocess.run(command, check=True, capture_output=True)
        for server in self.servers.values():
            server.command[server.command.index("--engine") + 1] = self.engine

    def __exit__(self, *what: Any) -> None:
        super().__exit__(*what)
        self.standby.close()
        self.primary.close()


def fleet_of(engine: str, ttl_ms: int) -> Fleet:
    """The servers over etcd or PostgreSQL, not started."""
    return Fleet(cluster.etcd_program(), ttl_ms) if engine == "etcd" else PostgresFleet(ttl_ms)


class Engine(Protocol):
    """What is measured of an engine beside the servers."""

    version: str

    def pids(self) -> list[int]:
        """Process ids of the engine."""

    def writes(self) -> int:
        """How many transactions have written."""

    def floor(self, lanes: int, rows: int, bytes_each: int) -> tuple[float, float]:
        """Transactions a second, and the median of one in ms, of a bare client."""


class OnEtcd:
    """Three members of etcd."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._numbers = fleet, itertools.count()
        said = subprocess.run(
            [fleet.etcd[0].command[0], "--version"], check=True, capture_output=True, text=True
        ).stdout
        self.version = "etcd " + said.split()[2]

    def pids(self) -> list[int]:
        """Process ids of the engine."""
        return [member.child.pid for member in self._fleet.etcd if member.child is not None]

    def writes(self) -> int:
        """The revision."""
        found = self._fleet.image()
        assert found is not None
        return found.revision

    def floor(self, lanes: int, rows: int, bytes_each: int) -> tuple[float, float]:
        """Run `rust/etcd/examples/floor.rs`."""
        url = self._fleet.engine.removesuffix("/demo") + f"/floor/{next(self._numbers)}"
        words = [url, FLOOR_FLUSHES // lanes, bytes_each, rows, lanes]
        said = subprocess.run([FLOOR, *map(str, words)], check=True, capture_output=True, text=True).stdout
        (row,) = [line.split() for line in said.splitlines() if line.startswith("bare ")]
        return float(row[5]), float(row[3])


class OnPostgres:
    """A primary with a synchronous standby."""

    def __init__(self, fleet: PostgresFleet) -> None:
        self._fleet = fleet
        self.version = "PostgreSQL " + fleet.primary.sql("SHOW server_version").split()[0]
        fleet.primary.sql("CREATE TABLE floor (n bigint, p int, bytes bytea, PRIMARY KEY (p, n))")
        fleet.primary.sql("ALTER TABLE floor ALTER bytes SET STORAGE EXTERNAL")
        fleet.primary.sql("CREATE SEQUENCE floor_n")

    def pids(self) -> list[int]:
        """Process ids of the engine."""
        roots = [each.running.pid for each in (self._fleet.primary, self._fleet.standby) if each.running is not None]
        return [*roots, *(child for root in roots for child in system.descendants(root))]

    def writes(self) -> int:
        """Transactions that have had a number."""
        return int(self._fleet.primary.sql("SELECT txid_snapshot_xmax(txid_current_snapshot())"))

    def floor(self, lanes: int, rows: int, bytes_each: int) -> tuple[float, float]:
        """Run pgbench, which inserts as many rows in each transaction."""
        at = ["-h", "127.0.0.1", "-p", str(self._fleet.primary.port), "-U", postgres.USER]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o777)
            script = folder / "floor.sql"
            rows_of = f"SELECT nextval('floor_n'), p, decode(repeat('07', {bytes_each}), 'hex')"
            script.write_text(f"INSERT INTO floor {rows_of} FROM generate_series(1, {rows}) p;\n")
            words = ["-n", "-M", "prepared", "-f", str(script), "-c", str(lanes), "-T", str(FLOOR_S), "--log"]
            command = postgres.program("pgbench", *at, *words, "--log-prefix", str(folder / "log"), "postgres")
            said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout
            took_ms = [
                int(line.split()[2]) / 1_000 for path in folder.glob("log.*") for line in path.read_text().splitlines()
            ]
        (tps,) = [line.split()[2] for line in said.splitlines() if line.startswith("tps")]
        return float(tps), statistics.median(took_ms)


def cpu_s(pids: list[int]) -> float:
    """User and system time of processes."""
    used_s = [system.cpu_s(pid) for pid in pids]
    assert None not in used_s, f"one of the processes {pids} has ended"
    return sum(filter(None, used_s))


def at_rest(groups: dict[str, list[int]], writes: Callable[[], int] | None) -> dict[str, float]:
    """CPU in percent of a core by group of processes, and writes a second."""
    before = {name: cpu_s(pids) for name, pids in groups.items()}
    wrote, began_s = writes() if writes else 0, time.monotonic()
    threading.Event().wait(REST_S)
    took_s = time.monotonic() - began_s
    found = {f"rest, {name}": (cpu_s(pids) - before[name]) / took_s * 100 for name, pids in groups.items()}
    return found | ({"rest, writes": (writes() - wrote) / took_s} if writes else {})


def load(address: tuple[str, int], connections: int, kind: str = "commits") -> dict[str, float]:
    """A run of `commit_load`: `commits` or `fetches` a second, and milliseconds of one (`p50`, `p99`)."""
    words = [VERBS[kind], "{}:{}".format(*address), str(connections), str(cluster.LOAD_S)]
    said = json.loads(subprocess.run([LOAD, *words], check=True, capture_output=True, text=True).stdout)
    return {kind: said["per_s"], "p50": said["p50_us"] / 1_000, "p99": said["p99_us"] / 1_000}


def warm(address: tuple[str, int]) -> None:
    """Commit without counting, so that a JVM has compiled what it runs."""
    for _ in range(WARMING):
        load(address, max(CONNECTIONS))


def add(found: Figures, figures: dict[str, float], of: str = "") -> None:
    """Keep the figures of a round."""
    for name, value in figures.items():
        found.setdefault(name + of, []).append(value)
    complain(" ".join(f"{name}{of} {value:.2f}" for name, value in figures.items()))


def commits(scene: Scene, engine: Engine, rounds: int) -> Figures:
    """Commits of one server that owns all partitions, with the bare engine in turns."""
    scene.own_all(1)
    found: Figures = {}
    warm(scene.fleet.addresses[0])
    for _, connections in itertools.product(range(rounds), (min(CONNECTIONS), max(CONNECTIONS))):
        before = engine.writes()
        row = load(scene.fleet.addresses[0], connections)
        row["transactions"] = (engine.writes() - before) / cluster.LOAD_S
        entries, size = cluster.contents(scene)
        one = connections == 1
        lanes, rows = (1, 1) if one else (LANES, PARTITIONS // LANES)
        row["bare"], row["bare p50"] = engine.floor(lanes, rows, size // max(entries, 1))
        row["ratio"] = row["transactions"] / row["bare"]
        add(found, row, f", {connections}")
    found |= heartbeats(scene, rounds)
    for node_id in (2, 3):
        scene.fleet.operator().undrain(node_id)
    return found


def heartbeats(scene: Scene, rounds: int) -> Figures:
    """Heartbeats of server 1, which owns all partitions, in turns with those of a server that is alone."""
    child = scene.fleet.servers[1].child
    assert child is not None
    with a_server_process() as alone:
        words = [sys.executable, "-m", "rota", "bench", "serve", "--json", "--rounds", str(rounds)]
        words += ["--members", str(HEARTBEATING), "--seconds", str(HEARTBEATS_S)]
        for (host, port), pid in ((alone.address, alone.pid), (scene.fleet.addresses[0], child.pid)):
            words += ["--bootstrap-server", f"{host}:{port}", "--pid", str(pid)]
        told = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    without, own = told["servers"][1:]
    pairs = zip(own["per_s"]["rounds"], without["per_s"]["rounds"], strict=True)
    cpu = zip(own["cpu_s_each"]["rounds"], without["cpu_s_each"]["rounds"], strict=True)
    found = {"heartbeats": own["per_s"]["rounds"], "heartbeats ratio": [one / other for one, other in pairs]}
    found["heartbeats CPU ratio"] = [one / other for one, other in cpu]
    for name, values in found.items():
        complain(f"{name} {' '.join(f'{value:.2f}' for value in values)}")
    return found


def outage(scene: Scene, seconds: float) -> dict[str, float]:
    """The engine stands still: until it writes again, until the first commit, and partitions that moved."""
    fleet = scene.fleet
    if not isinstance(fleet, PostgresFleet):
        return dict(zip(OUTAGE, cluster.outage_of_etcd(scene, seconds), strict=True))
    primary = fleet.primary

    def stop() -> None:
        primary.signal(signal.SIGSTOP)
        threading.Event().wait(seconds)

    def write() -> bool:
        primary.sql("create table if not exists outage (); drop table outage")
        return True

    return dict(zip(OUTAGE, cluster.outage(scene, stop, lambda: primary.signal(signal.SIGCONT), write), strict=True))


def of_rota(scene: Scene, engine: Engine, rounds: int, outage_s: float) -> Figures:
    """All figures over an engine."""
    found: Figures = {}
    events = ["move", "stop", "kill", "pause", *(["leader"] if scene.fleet.etcd else [])]
    for name, _ in itertools.product(events, range(rounds)):
        add(found, {name: cluster.EVENTS[name](scene)})
    add(found, outage(scene, outage_s))
    scene.client.close()
    servers = [server.child.pid for server in scene.fleet.servers.values() if server.child is not None]
    add(found, at_rest({"engine": engine.pids(), "servers": servers}, engine.writes))
    return found | commits(scene, engine, rounds)


def of_kafka(scene: KafkaScene, rounds: int) -> Figures:
    """All figures of Kafka that are those of rota, too."""
    found: Figures = {}
    for name, _ in itertools.product(("stop", "kill", "pause"), range(rounds)):
        add(found, {name: getattr(scene, name)()})
    scene.client.close()
    add(found, at_rest({"engine": scene.pids()}, None))
    scene.lead_all(0)
    warm(scene.addresses[0])
    for _, connections in itertools.product(range(rounds), (min(CONNECTIONS), max(CONNECTIONS))):
        add(found, load(scene.addresses[0], connections), f", {connections}")
    return found


def measured(engine: str, ttl_ms: int, rounds: int, outage_s: float) -> tuple[str, Figures]:
    """Version and figures of an engine."""
    if engine == "kafka":
        with kafka_scene() as scene:
            return scene.version, of_kafka(scene, rounds)
    fleet = fleet_of(engine, ttl_ms)
    with cluster.scene_of(fleet) as on_engine:
        bare = OnPostgres(fleet) if isinstance(fleet, PostgresFleet) else OnEtcd(fleet)
        return bare.version, of_rota(on_engine, bare, rounds, outage_s)


ENGINES: dict[str, tuple[str, Callable[[], bool]]] = {
    "etcd": ("rota over etcd", lambda: shutil.which("etcd") is not None),
    "postgresql": ("rota over PostgreSQL", postgres.is_installed),
    "kafka": ("Apache Kafka", lambda: shutil.which("java") is not None),
}
"""Names in the table, and whether the engine can be started here."""
ROWS = [
    ("HA-1", "commits/s, 256 connections", "commits, 256", 0),
    ("HA-1", "transactions/s meanwhile", "transactions, 256", 0),
    ("HA-1", "bare engine, transactions/s", "bare, 256", 0),
    ("HA-1", "transactions / bare engine", "ratio, 256", 2),
    ("HA-2", "commits/s, 1 connection", "commits, 1", 0),
    ("HA-2", "commit p50, 1 connection, ms", "p50, 1", 2),
    ("HA-2", "bare engine p50, ms", "bare p50, 1", 2),
    ("HA-2", "commit p99, 1 connection, ms", "p99, 1", 2),
    ("HA-2", "commit p50, 256 connections, ms", "p50, 256", 1),
    ("HA-2", "commit p99, 256 connections, ms", "p99, 256", 1),
    ("HA-3", "heartbeats/s, 16 connections", "heartbeats", 0),
    ("HA-3", "heartbeats/s / those of a server without an engine", "heartbeats ratio", 2),
    ("HA-3", "CPU of a heartbeat / that of a server without an engine", "heartbeats CPU ratio", 2),
    ("HA-4", "`kill -9` of the coordinator: to the first commit, ms", "kill", 0),
    ("HA-4", "SIGSTOP of the coordinator: to the first commit, ms", "pause", 0),
    ("HA-4", "SIGTERM of the coordinator: longest pause, ms", "stop", 0),
    ("HA-5", "`rota cluster move`: longest pause, ms", "move", 0),
    ("HA-6", "`kill -9` of the engine's leader: to the first commit, ms", "leader", 0),
    ("HA-9", "engine back after it stood still: to its first write for another client, ms", "outage, engine", 0),
    ("HA-9", "engine back after it stood still: to the first commit, ms", "outage", 0),
    ("HA-9", "partitions that moved meanwhile", "moved", 0),
    ("", "at rest: CPU of the engine, % of a core", "rest, engine", 1),
    ("", "at rest: CPU of three servers, % of a core", "rest, servers", 1),
    ("", "at rest: writes of the engine a second", "rest, writes", 1),
]


def cell(values: list[float] | None, digits: int) -> str:
    """Least, median and greatest of the rounds."""
    if not values:
        return "–"
    least, middle, greatest = (f"{each:,.{digits}f}" for each in (min(values), statistics.median(values), max(values)))
    return middle if len(values) == 1 else f"{least}, **{middle}**, {greatest}"


def page(kept: dict[str, Any]) -> str:
    """The table of all engines."""
    engines = [name for name in ENGINES if name in kept]
    lines = [
        "# High availability in figures",
        "",
        "`make bench-availability` writes this page. Each figure is of a run of it; what was not measured has none.",
        "Least, **median** and greatest of the rounds of one run.",
        "",
        "| | " + " | ".join(ENGINES[name][0] for name in engines) + " |",
        "|---" * (len(engines) + 1) + "|",
    ]
    facts = [("measured", "when"), ("engine", "version"), ("cores", "cores"), ("load of the machine before", "load"),
             ("TTL, ms", "ttl_ms"), ("the engine stood still for, s", "outage_s"), ("note", "note")]  # fmt: skip
    for name, key in facts:
        lines.append(f"| {name} | " + " | ".join(str(kept[engine].get(key, "–")) for engine in engines) + " |")
    for goal, name, key, digits in ROWS:
        cells = [cell(kept[engine]["figures"].get(key), digits) for engine in engines]
        lines.append(f"| {name}{f' ({goal})' if goal else ''} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *NOTES, ""])


NOTES = [
    "- Three processes keep the data: three members of etcd; a primary of PostgreSQL with a synchronous standby;",
    "  three brokers of Kafka that are controllers, too, with replication 3 and `min.insync.replicas` 2. Three",
    "  servers of rota, the engine and the load share the cores, and all data is on one disk.",
    "- etcd and PostgreSQL sync each commit to the disk before they confirm it. Kafka leaves that to the operating",
    "  system.",
    "- The bare engine is a client that sends transactions of the same size over as many lanes as a server has,",
    "  without rota (`rust/etcd/examples/floor.rs`, `pgbench`), in turns with the commits. Kafka is its own engine.",
    "- The time of a takeover follows the TTL of rota, and `broker.session.timeout.ms` (9,000) of Kafka.",
    "  PostgreSQL's primary is not failed over here, so it has no figure for the loss of the leader.",
    "- Figures of different columns were measured one after the other. Compare ratios first: the disk and other",
    "  users of the machine change the others.",
    "",
    "[Operating several servers](../operating-cluster.md#how-long-groups-have-no-answer) says what the events are.",
]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", choices=[[], *ENGINES], metavar="ENGINE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ttl-ms", type=int, default=5_000)
    parser.add_argument("--outage-s", type=float, default=20.0)
    parser.add_argument("--note", default="–", help="what else ran on the machine")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    chosen = parser.parse_args()
    kept: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    wanted = [] if chosen.page else chosen.engines or [name for name, (_, is_here) in ENGINES.items() if is_here()]
    if wanted and not (LOAD.exists() and (FLOOR.exists() or "etcd" not in wanted)):
        sys.exit(f"rota: {LOAD} or {FLOOR} is missing: `make bench-availability` builds them")
    for engine in wanted:
        busy = os.getloadavg()[0]
        version, figures = measured(engine, chosen.ttl_ms, chosen.rounds, chosen.outage_s)
        kept[engine] = {
            "when": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "version": version,
            "cores": os.cpu_count(),
            "load": round(busy, 1),
            "note": chosen.note,
            "figures": {name: [round(value, 3) for value in values] for name, values in figures.items()},
        } | ({} if engine == "kafka" else {"ttl_ms": chosen.ttl_ms, "outage_s": chosen.outage_s})
        FIGURES.write_text(json.dumps(kept, indent=1) + "\n")
        PAGE.write_text(page(kept))
    PAGE.write_text(page(kept))
    complain(f"`{PAGE}` has the table")


if __name__ == "__main__":
    main()
