"""What the audit does in a second: `python benches/audit.py [--events N[,N...]] [--from DIR] [--spark] [--json]`.

Simulated worlds leave a journal of about so many events (or one that is there is taken). Then, in one run:

- floor: one Rust thread that folds the whole journal through the coordinator, file after file;
- promises: one Rust thread that folds the rows of the whole journal, file after file;
- checks: all of `rota audit`, both folds and the model, in this process on all cores;
- command: `rota audit` from its start to its end, in a process of its own;
- with `--spark` spark: the same on Spark in local mode; its start is apart;
- memory: the largest resident sets of this process, and of Spark's.

Figures are events a second of processor time, of all processes together, so that it does not matter what else the
machine does, and seconds of wall time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from rota.audit import folds, promises
from rota.audit.audit import Audit, Wanted, audit
from rota.audit.engines import Engine, local
from rota.audit.logs import Part, partitions_in, parts_of
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

    def figures(self, name: str, events: int) -> dict[str, float]:
        """Events a second of processor time, and seconds."""
        return {f"{name}_events_cpu_s": round(events / self.cpu_s), f"{name}_s": round(self.wall_s, 2)}


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
    journals = partitions_in(parts)
    return sum(folds.fold(journal[index:]).entries for journal in journals for index in range(len(journal)))


def promised(parts: list[Part]) -> int:
    """Rows that one thread folds: the partitions one after the other."""
    return sum(promises.promised(journal).rows for journal in partitions_in(parts))


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


def checked(directory: Path, parts: list[Part], engine: Engine) -> Audit:
    """The whole audit, which finds no violation."""
    found = audit(Wanted([directory]), parts, engine)
    assert not found.violations, found.violations[0]
    return found


def on_spark(directory: Path, parts: list[Part], events: int) -> dict[str, object]:
    """The figures of Spark in local mode."""
    from rota.audit.session import started
    from rota.audit.spark import SparkEngine

    with contextlib.ExitStack() as ends:
        start, session = timed(lambda: ends.enter_context(started("local[*]", events)))
        spent, _ = timed(lambda: checked(directory, parts, SparkEngine(session)))
        return {"start_s": round(start.wall_s, 1), **spent.figures("spark", events), "spark_mib": resident_mib()}


def measured(directory: Path, with_spark: bool) -> dict[str, object]:
    """The figures of one journal."""
    parts = parts_of([directory])
    floor, events = timed(lambda: folded(parts))
    of_promises, rows = timed(lambda: promised(parts))
    checks, found = timed(lambda: checked(directory, parts, local))
    memory = resident_mib()
    command = [sys.executable, "-m", "rota", "audit", str(directory), "--json"]
    alone, _ = timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    return {
        "events": events,
        "rows": rows,
        "journal_bytes": sum(part.end - part.start for part in parts),
        **floor.figures("floor", events),
        **of_promises.figures("promises", events),
        "promises_share_of_floor": round(floor.cpu_s / of_promises.cpu_s, 2),
        **checks.figures("checks", events),
        "model_events": sum(opinion.events for opinion in found.opinions),
        "command_s": round(alone.wall_s, 2),
        "verdicts": len(found.verdicts),
        "resident_mib": memory,
        **(on_spark(directory, parts, events) if with_spark else {}),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="1000000", help="of the journals, one after the other")
    parser.add_argument("--from", dest="source", type=Path, help="a journal that is there")
    parser.add_argument("--spark", action="store_true", help="measure Spark in local mode, too")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for events in [0] if asked.source else map(int, asked.events.split(",")):
        with tempfile.TemporaryDirectory(prefix="rota-bench-audit-") as scratch:
            directory = asked.source or Path(scratch) / "worlds"
            if asked.source is None:
                simulated(directory, events)
            found = measured(directory, asked.spark)
        print(json.dumps(found) if asked.json else "\n".join(f"{name:24} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
