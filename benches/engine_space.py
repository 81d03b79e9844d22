"""What commits leave in etcd, and what its housekeeping costs: `make bench-space` (HA-8).

`python -m benches.engine_space [--partitions N] [--keys N] [--rate N] [--seconds N] [--json FILE]`

Clients commit at a steady rate to KEYS groups in turn, at one server that owns all partitions of `__consumer_offsets`,
over three members of etcd that share the cores of this machine with server and load. Printed are, each minute and at
the end:

file                of the fullest member
live                the part of it that has content: the state and what etcd has not forgotten yet
state               snapshots and tails of all partitions, as a server would load them
churn               what 60 s of commits append, by what all of them have appended
file / bound        the file beside `state + churn`; the goal is 3 at most
memory              what the largest member of etcd took at most
answered late       how long after it was due the last commit was answered: more than some seconds means that engine,
                    server and load could not do so many commits a second here, and every p99 is that of a queue
commit p99          the median of the seconds in which nothing else happened, of those in which etcd compacted, and of
                    those in which a server wrote a snapshot

Each commit is timed from when it was due, so a stall counts for every commit that had to wait.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from prometheus_client.parser import text_string_to_metric_families

from benches.cluster import LOAD, TOPIC, etcd_program
from harness import peer
from harness.raw import Connection
from rota.cluster.looking import members
from rota.demo.fleet import Fleet, free_ports
from rota.exits import complain

CONNECTIONS = 256
TTL_MS = 5_000
TRIAL_S = 2
LOOK_AGAIN_S = 0.01
LATE_MAX_S = 5.0
CHURN_S = 60
REPORT_S = 60
QUIET, COMPACTION, SNAPSHOT = "nothing else", "compaction of etcd", "snapshot"
COMPACTED = "etcd_debugging_mvcc_db_compaction_keys_total"
SNAPSHOTS = "rota_cluster_snapshots_total"
MEMORY = "process_resident_memory_bytes"


class Sample(NamedTuple):
    """What was found in one second."""

    second: int
    file_bytes: int
    live_bytes: int
    compacted: float
    """Keys that the members have forgotten so far."""
    snapshots: float
    memory_bytes: float
    """Of the member that takes most."""


@dataclass
class Space:
    """What was measured so far."""

    samples: list[Sample] = field(default_factory=list)
    seconds: list[dict[str, int]] = field(default_factory=list)
    """What the load says of each second."""
    state_bytes: int = 0

    def p99_ms(self) -> dict[str, list[float]]:
        """The p99 of each second, by what happened in it or ended in the one after it."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        by_second = {row["second"]: row["p99_us"] / 1_000 for row in self.seconds}
        kinds: defaultdict[int, set[str]] = defaultdict(set)
        for before, after in itertools.pairwise(self.samples):
            for kind, is_seen in (
                (COMPACTION, after.compacted > before.compacted),
                (SNAPSHOT, after.snapshots > before.snapshots),
            ):
                # Both count what has ended: it may have begun in the second before.
                for second in range(before.second - 1, after.second + 1) if is_seen else ():
                    kinds[second].add(kind)
        for second, p99_ms in by_second.items():
            for kind in kinds[second] or {QUIET}:
                found[kind].append(p99_ms)
        return dict(found)

    def late_s(self) -> float:
        """How long after it was due the last second's slowest commit was answered."""
        return self.seconds[-1]["max_us"] / 1e6

    def figures(self, churn_bytes: float) -> dict[str, Any]:
        """See the module."""
        p99_ms = {kind: round(statistics.median(found), 1) for kind, found in sorted(self.p99_ms().items())}
        return {
            "commits/s": round(sum(row["commits"] for row in self.seconds) / (len(self.seconds) + self.late_s())),
            "answered late s": round(self.late_s(), 1),
            **self.of_engine(churn_bytes),
            "commit p99 ms": p99_ms,
        }

    def of_engine(self, churn_bytes: float) -> dict[str, Any]:
        """What is known while the load runs."""
        last = self.samples[-1]
        bound = self.state_bytes + churn_bytes
        return {
            "file MB": round(last.file_bytes / 1e6, 1),
            "live MB": round(last.live_bytes / 1e6, 1),
            "state MB": round(self.state_bytes / 1e6, 1),
            "churn MB": round(churn_bytes / 1e6, 1),
            "file / bound": round(last.file_bytes / bound, 2),
            "snapshots": round(last.snapshots),
            "memory of a member MB": round(max(sample.memory_bytes for sample in self.samples) / 1e6),
        }


def counters(url: str, *names: str) -> dict[str, float]:
    """The sum of each counter of a page of metrics. Where the page can be asked for names, only these are made.

    Of the thousands of lines of a member of etcd only those of the names are parsed: the rest takes a third of a core.
    """
    query = urlencode([("name[]", name) for name in names])
    with urllib.request.urlopen(f"http://{url}/metrics?{query}", timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines(keepends=True) if line.startswith(names)]
    families = text_string_to_metric_families("".join(lines))
    samples = [sample for family in families for sample in family.samples]
    return {name: sum(sample.value for sample in samples if sample.name == name) for name in names}


def state(fleet: Fleet, partitions: int) -> tuple[int, int]:
    """Bytes of all appends after the snapshots, and of the snapshots."""
    found = [fleet.operator().content(partition) for partition in range(partitions)]
    return sum(row[1] for row in found), sum(row[2] for row in found)


def sampled(fleet: Fleet, http: str, second: int) -> Sample:
    """The engine and the server now."""
    found = members(fleet.operator())
    pages = [counters(member.address, COMPACTED, MEMORY) for member in found if member.trouble is None]
    return Sample(
        second,
        max(member.file_bytes for member in found),
        max(member.live_bytes for member in found),
        sum(page[COMPACTED] for page in pages),
        counters(http, SNAPSHOTS)[SNAPSHOTS],
        max((page[MEMORY] for page in pages), default=0),
    )


@contextmanager
def one_server(partitions: int) -> Iterator[tuple[Fleet, str]]:
    """A server that owns all partitions, and the address of its metrics."""
    http = f"127.0.0.1:{free_ports(1)[0]}"
    with Fleet(etcd_program(), TTL_MS) as fleet:
        server = fleet.servers[1]
        server.command[server.command.index("--set") + 1] = f"offsets.topic.num.partitions={partitions}"
        server.command += ["--http", http]
        for process in (*fleet.etcd, server):
            fleet.start(process)
        fleet.wait_for_owner(1)
        with Connection(fleet.addresses[0]) as connection:
            connection.ask(peer.metadata(TOPIC))
        yield fleet, http


def committed_bytes(fleet: Fleet, address: str, partitions: int) -> float:
    """What a commit appends, batch and all, while as many as under load share an append."""
    before = state(fleet, partitions)
    words = [str(LOAD), "run", address, str(CONNECTIONS), str(TRIAL_S)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    done: int = json.loads(said)["commits"]
    after = state(fleet, partitions)
    assert before[1] == after[1] == 0, "a snapshot has replaced what was appended"
    return (after[0] - before[0]) / done


def measured(partitions: int, keys: int, rate: int, seconds: int) -> dict[str, Any]:
    """See the module."""
    space = Space()
    with one_server(partitions) as (fleet, http), tempfile.NamedTemporaryFile("w+") as said:
        address = "{}:{}".format(*fleet.addresses[0])
        churn_bytes = committed_bytes(fleet, address, partitions) * rate * CHURN_S
        words = [str(LOAD), "steady", address, *map(str, (CONNECTIONS, keys, rate, seconds))]
        with subprocess.Popen(words, stdout=said) as load:
            while not Path(said.name).stat().st_size and load.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    load.wait(LOOK_AGAIN_S)
            began_s, reports = time.monotonic(), 0
            while load.poll() is None:
                second = int(time.monotonic() - began_s)
                space.samples.append(sampled(fleet, http, second))
                if second // REPORT_S > reports:
                    reports = second // REPORT_S
                    space.state_bytes = sum(state(fleet, partitions))
                    complain(f"{second} s: {words_of(space.of_engine(churn_bytes))}")
                with suppress(subprocess.TimeoutExpired):
                    load.wait(max(0.0, began_s + second + 1 - time.monotonic()))
        if load.returncode:
            sys.exit(f"rota: the load ended with {load.returncode}; the server: {fleet.servers[1].last_lines()}")
        space.state_bytes = sum(state(fleet, partitions))
        _began, *rows = Path(said.name).read_text().splitlines()
        space.seconds = [json.loads(row) for row in rows]
    return {"partitions": partitions, "keys": keys, "rate": rate, "seconds": seconds, **space.figures(churn_bytes)}


def words_of(figures: dict[str, Any]) -> str:
    """One line."""
    return ", ".join(f"{name} {value}" for name, value in figures.items())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000, help="commits a second")
    parser.add_argument("--seconds", type=int, default=3_600)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if not LOAD.exists():
        sys.exit(f"rota: {LOAD} is not there: `make bench-space` builds it")
    found = measured(chosen.partitions, chosen.keys, chosen.rate, chosen.seconds)
    if found["answered late s"] > LATE_MAX_S:
        complain(f"{chosen.rate:,} commits a second were too many here: they took {found['answered late s']} s longer")
    text = json.dumps(found, indent=2)
    print(text)
    if chosen.json is not None:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
