"""What the audit does in a second: `python benches/audit.py [--events N[,N...]] [--cores N] [--from DIR] [--json]`.

Simulated worlds leave a journal of about so many events (or one that is there is taken). Then, in one run:

- floor: one Rust thread that folds the whole journal, file after file, in this process;
- replay: the same folded by Spark's tasks where it lies, the start of Spark and of its Python workers apart;
- rows: the journal read into Parquet, and queries: all checks over that;
- memory: the largest resident set of a task's Python process, and of the JVM.

Figures are events a second and core, and the replay's share of the floor.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

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


def timed(run: Callable[[], T]) -> tuple[float, T]:
    """Seconds, and what came of it."""
    began = time.perf_counter()
    found = run()
    return time.perf_counter() - began, found


def folded(parts: list[Part]) -> int:
    """Events that one thread folds: the partitions one after the other."""
    return sum(folds.fold(chunk).entries for chunk in folds.chunks_of(parts))


def resident_mib(of: int) -> dict[str, int]:
    """The largest resident sets so far of a process and those that it started, by the name of the program."""
    status = {path.parent.name: path.read_text() for path in Path("/proc").glob("[0-9]*/status") if path.exists()}
    fields = {
        int(process): dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        for process, text in status.items()
    }
    found: dict[str, int] = {}
    family = {of}
    for process in sorted(fields):
        if int(fields[process].get("PPid", "0")) in family:
            family.add(process)
            name = fields[process]["Name"]
            peak_mib = int(fields[process].get("VmHWM", "0 kB").split()[0]) // 1024
            found[name] = max(found.get(name, 0), peak_mib)
    return found


def checked(spark: SparkSession, wanted: Wanted, parts: list[Part]) -> tuple[float, float, int]:
    """Seconds to read the rows and to run the checks, and what those found."""
    rows_s, rows = timed(lambda: read_rows(spark, wanted, parts))
    rows.createOrReplaceTempView("all_rows")
    rows.createOrReplaceTempView("rows")

    def all_checks() -> int:
        views.define(spark)
        try:
            return len(declared(spark, [check for check in CHECKS if JOURNAL in check.sources]))
        finally:
            views.forget(spark)

    queries_s, verdicts = timed(all_checks)
    return rows_s, queries_s, verdicts


def measured(directory: Path, output: Path, cores: int) -> dict[str, object]:
    """The figures of one journal."""
    parts = parts_of([directory])
    floor_s, events = timed(lambda: folded(parts))
    began = time.perf_counter()
    with started(f"local[{cores}]") as spark:
        folds.replay(spark, parts[:1])
        start_s = time.perf_counter() - began
        fit(spark, events)
        replay_s, found = timed(lambda: folds.replay(spark, parts))
        assert sum(fold.entries for fold in found) == events
        assert not any(fold.differences or fold.damage for fold in found)
        rows_s, queries_s, verdicts = checked(spark, Wanted([directory], output=output), parts)
        memory = resident_mib(os.getpid())
    floor, replay = events / floor_s, events / replay_s / cores
    return {
        "events": events,
        "bytes": sum(part.end - part.start for part in parts),
        "start_s": round(start_s, 1),
        "floor_events_s": round(floor),
        "replay_events_s_core": round(replay),
        "replay_share_of_floor": round(replay / floor, 2),
        "rows_events_s_core": round(events / rows_s / cores),
        "queries_events_s_core": round(events / queries_s / cores),
        "queries_s": round(queries_s, 1),
        "verdicts": verdicts,
        "resident_mib": memory,
    }


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
