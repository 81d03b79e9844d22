"""The command: `python -m benches.ratios [--quick] [--json] [--write] [PERF-n ...]`, or with runs of before
`python -m benches.ratios --from RUN.json ... [--json] [--write]`.

Prints one table: for each goal what was measured, beside what, how many times as much (the median of the rounds, and
the least and the greatest), what is wanted, and how many operations it was. A rival that is not on this machine is a
line that says so. `--quick` does a little of everything, for a look at whether it works; its figures mean nothing.
`--write` puts the table into docs/benchmarks.md. `--from` measures nothing: its table has the middle one of the runs
that `--json` printed, the medians of all, and in how many of them a goal is met.

Exit codes: 0 measured, 1 something failed (the rest was measured), 2 called wrongly.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benches.brokers import MissingError
from benches.ratios import arrays, coordinator, disk, joins, logs, plans, runs, security, sockets, timers
from benches.ratios.row import Row, as_json, markdown, text
from benches.ratios.run import ROOT, Plan

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- ratios: begin -->", "<!-- ratios: end -->"
FAILED = 1


class Part(NamedTuple):
    """What is measured together, and which goals it tells about."""

    goals: tuple[str, ...]
    rows: Callable[[Plan], Iterator[Row]]


PARTS = (
    Part(("PERF-1", "PERF-2", "PERF-13"), coordinator.heartbeats),
    Part(("PERF-3",), timers.timers),
    Part(("PERF-4",), arrays.from_python),
    Part(("PERF-5",), sockets.beside_the_echo),
    Part(("PERF-6",), sockets.beside_brokers),
    Part(("PERF-7",), joins.joins),
    Part(("PERF-8",), coordinator.idle_bytes),
    Part(("PERF-9",), disk.start),
    Part(("PERF-10",), disk.commits),
    Part(("PERF-11", "PERF-13"), plans.assign),
    Part(("PERF-14",), security.over_tls),
    Part(("PERF-14",), security.of_acls),
    Part(("PERF-18",), logs.audit),
    Part(("PERF-16",), coordinator.consumer_heartbeats),
    Part(("PERF-16",), plans.targets),
)
GOALS = sorted({goal for part in PARTS for goal in part.goals}, key=lambda goal: int(goal.partition("-")[2]))


def machine() -> str:
    """Where and when, in one line."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    name = found[1] if found else platform.machine()
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores of {name}, load {load}"


def measured(part: Part, plan: Plan) -> tuple[list[Row], bool]:
    """Its rows, as far as it came, and whether it came to its end."""
    rows: list[Row] = []
    goals = ", ".join(part.goals)
    plan.say(f"== {goals}")
    try:
        for row in part.rows(plan):
            rows.append(row)
            plan.say(" | ".join(cell for cell in row.cells() if cell))
    except MissingError as error:
        rows.append(Row(goals, "", "", note=str(error)))
    except Exception as error:
        # The others are measured all the same, and the exit code tells.
        traceback.print_exc()
        rows.append(Row(goals, "", "", note=f"FAILED: {error!r}"))
        return rows, False
    return rows, True


def said() -> Callable[[str], None]:
    """Where it has got to, with the time since the start."""
    began = time.monotonic()
    return lambda what: print(f"{time.monotonic() - began:7.1f} s  {what}", file=sys.stderr, flush=True)


def section(where: str, command: str, rows: list[Row]) -> str:
    """What stands between the marks of the page."""
    return f"{BEGIN}\n`{command}`, {where}:\n\n{markdown(rows)}\n{END}"


def written(page: str, generated: str) -> str:
    """The page with another table."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return before + generated + after


def tell(where: str, rows: list[Row], command: str, *, as_table: bool, writes: bool) -> None:
    """Print the rows, and put them into the page."""
    print(f"{where}\n{text(rows)}" if as_table else as_json(where, rows))
    if writes:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), section(where, command, rows)), encoding="utf-8")


def tell_runs(files: list[Path], *, as_table: bool, writes: bool) -> int:
    """`tell` of runs of before. Raises OSError or ValueError if one cannot be read."""
    found = [runs.read(path) for path in files]
    rows, command = runs.together([rows for _, rows in found]), "make ratios BENCH_ARGS=--json"
    tell("; ".join(where for where, _ in found), rows, command, as_table=as_table, writes=writes)
    return 0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.ratios", description="Every goal beside its rival or its floor, as one table of ratios."
    )
    parser.add_argument("goals", nargs="*", metavar="PERF-n", help=f"only these: {', '.join(GOALS)}")
    parser.add_argument("--quick", action="store_true", help="a little of everything: whether it works")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--from", nargs="+", type=Path, metavar="RUN.json", dest="files", help="runs of before, as --json"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.goals) - set(GOALS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(GOALS)}")
    if chosen.write and chosen.goals:
        parser.error("--write keeps a table of whole runs: leave out the goals, or --write")
    if chosen.files:
        if chosen.goals or chosen.quick:
            parser.error("--from measures nothing: leave out the goals and --quick")
        try:
            return tell_runs(chosen.files, as_table=not chosen.json, writes=chosen.write)
        except (OSError, ValueError) as error:
            parser.error(str(error))
    where, plan = machine(), Plan(chosen.quick, said())
    parts = [part for part in PARTS if not chosen.goals or set(part.goals) & set(chosen.goals)]
    done = [measured(part, plan) for part in parts]
    rows = [row for found, _ in done for row in found if not chosen.goals or row.goal in chosen.goals or row.note]
    # By goal, and within a goal as they were measured.
    rows.sort(key=lambda row: next((at for at, goal in enumerate(GOALS) if goal == row.goal.split(",")[0]), 0))
    command = "make ratios" + (" BENCH_ARGS=--quick" if chosen.quick else "")
    tell(where, rows, command, as_table=not chosen.json, writes=chosen.write)
    return 0 if all(whole for _, whole in done) else FAILED


if __name__ == "__main__":
    sys.exit(main())
