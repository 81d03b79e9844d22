"""What the audit does in a second: `python benches/audit.py [--events N[,N...]] [--cores N] [--from DIR] [--json]`.

Simulated worlds leave a journal of about so many events (or one that is there is taken). Then, in one run:

- floor: one Rust thread that folds the whole journal, file after file, in this process;
- replay: the same folded by Spark's tasks where it lies;
- rows: the journal read into Parquet; queries: all checks over that;
- start: of Spark and of a Python worker, apart from all others;
- memory: the largest resident sets of a task's Python process and of the JVM.

Figures are events a second of processor time, of all processes together, so that it does not matter what else the
machine does; and of wall time a core. The replay's share of the floor is of processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from pyspark.sql import SparkSession

from rota.audit import folds, tables, views
from rota.audit.audit import Wanted, declared, read_rows
from rota.audit.checks import CHECKS
from rota.audit.logs import JOURNAL, Part, parts_of
from rota.audit.session import fit, started
from rota.simulate.journal import Journal

T = TypeVar("T")

SEEDS_AT_ONCE = 50


def simulated(directory: Path, events: int) -> None:
    """Worlds until their journal has so many entries."""
    with Journal(directory) as journal:
        seed = 0
        while journal.entries < events:
            for total in journal.worlds(seed, seed + SEEDS_AT_ONCE):
                assert total.broken is None, total.broken
            seed += SEEDS_AT_ONCE


class Spent(NamedTuple):
    """Seconds."""

    wall_s: float
    cpu_s: float
    """Of this process and all that it started, in user and kernel mode."""

    def rates(self, name: str, events: int, cores: int) -> dict[str, int]:
        """Events a second."""
        of_cpu, of_wall = round(events / self.cpu_s), round(events / self.wall_s / cores)
        return {f"{name}_events_cpu_s": of_cpu, f"{name}_events_wall_s_core": of_wall}


def family(of: int) -> dict[int, list[str]]:
    """What `/proc/PID/stat` says behind the program's name, of a process and of those that it started."""
    fields: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    found = {of: fields[of]}
    while more := {pid: said for pid, said in fields.items() if pid not in found and int(said[1]) in found}:
        found |= more
    return found


def cpu_s() -> float:
    """Processor time of this process and all that it started, with those that have ended."""
    ticks = sum(sum(map(int, said[11:15])) for said in family(os.getpid()).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(run: Callable[[], T]) -> tuple[Spent, T]:
    """How long it took, and its result."""
    began_s, began_cpu_s = time.perf_counter(), cpu_s()
    found = run()
    return Spent(time.perf_counter() - began_s, cpu_s() - began_cpu_s), found


def folded(parts: list[Part]) -> int:
    """Events that one thread folds: the partitions one after the other."""
    journals = folds.journals_in(parts)
    return sum(folds.fold(journal[index:]).entries for journal in journals for index in range(len(journal)))


def resident_mib() -> dict[str, int]:
    """The largest resident sets so far of this process and those that it started, by the name of the program."""
    found: dict[str, int] = {}
    for process in family(os.getpid()):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{process}/status").read_text()
            said = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            name = "driver" if process == os.getpid() else said["Name"]
            found[name] = max(found.get(name, 0), int(said.get("VmHWM", "0 kB").split()[0]) // 1024)
    return found


def checked(spark: SparkSession, wanted: Wanted, parts: list[Part]) -> tuple[Spent, Spent, int]:
    """What it takes to read the rows and to run the checks, and how much those found."""
    reading, rows = timed(lambda: read_rows(spark, wanted, parts))
    rows.createOrReplaceTempView("all_rows")
    rows.createOrReplaceTempView("rows")

    def all_checks() -> int:
        try:
            views.define(spark, wanted.output)
            return len(declared(spark, [check for check in CHECKS if JOURNAL in check.sources]))
        finally:
            views.forget(wanted.output)

    return reading, *timed(all_checks)


def measured(directory: Path, output: Path, cores: int) -> dict[str, object]:
    """The figures of one journal."""
    parts = parts_of([directory])
    floor, events = timed(lambda: folded(parts))

    with contextlib.ExitStack() as ends:
        start, session = timed(lambda: _warm(ends.enter_context(started(f"local[{cores}]", events)), parts))
        fit(session, events)
        replay, found = timed(lambda: folds.replay(session, parts))
        assert sum(fold.entries for fold in found) == events
        assert not any(fold.differences or fold.damage for fold in found)
        reading, queries, verdicts = checked(session, Wanted([directory], output=output), parts)
        memory = resident_mib()
    return {
        "events": events,
        "journal_bytes": sum(part.end - part.start for part in parts),
        "parquet_bytes": sum(file.stat().st_size for file in output.rglob("*.parquet")),
        "start_s": round(start.wall_s, 1),
        "start_cpu_s": round(start.cpu_s, 1),
        **floor.rates("floor", events, 1),
        **replay.rates("replay", events, cores),
        "replay_share_of_floor": round(floor.cpu_s / replay.cpu_s, 2),
        **reading.rates("rows", events, cores),
        **queries.rates("queries", events, cores),
        "queries_s": round(queries.wall_s, 1),
        "verdicts": verdicts,
        "resident_mib": memory,
    }


def _warm(spark: SparkSession, parts: list[Part]) -> SparkSession:
    """Let every core have its Python worker."""
    cores = spark.sparkContext.defaultParallelism
    first = folds.journals_in(parts)[0][:1]
    spark.sparkContext.parallelize([first] * cores, cores).map(folds.fold).collect()
    return spark


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="1000000", help="of the journals, one after the other")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--from", dest="source", type=Path, help="a journal that is there")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for events in [0] if asked.source else map(int, asked.events.split(",")):
        with tempfile.TemporaryDirectory(prefix="rota-bench-audit-") as scratch:
            directory = asked.source or Path(scratch) / "worlds"
            if asked.source is None:
                simulated(directory, events)
            found = measured(directory, Path(scratch) / tables.CAUSES, asked.cores)
        print(json.dumps(found) if asked.json else "\n".join(f"{name:24} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
