"""The assignors beside Kafka's own classes in one run: `make bench-assign`.

    python -m benches.assignors [--runs 15] [--quick] [--json]

Each group is prepared once in a JVM and once in a native process (release build of `benches/rust/examples/assign.rs`);
then both assign it in turn, so that they share whatever else the machine does. Kafka's classes are warmed up first.
Kafka is timed from its own maps of its own objects to its own maps; rota from claims in flat arrays to owners in a flat
array. A ratio is that of one pair of runs; the table shows the median, the span from the lower to the upper quartile,
and the ratio of the two best runs, which other load on the machine disturbs least. The plans' figures are compared:
rota's must not be worse.

Where Kafka takes longer than a limit for one run, the line says so and the ratio is a lower bound. The second table is
growth: rota's time at 1, 2, 4 and 8 times the size, over n log n.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.rival import LateError, Rival
from harness.assignors import command

ROOT = Path(__file__).resolve().parent.parent
JVM = ("-Xms4g", "-Xmx6g", "-Xss16m")


@dataclass(frozen=True)
class Case:
    """One group and what to do with it."""

    title: str
    assignor: str
    topics: int
    partitions: int
    members: int
    percent: int = 100
    """Of the topics that a member subscribes to."""
    leaves: bool = False
    warm_up: int = 10
    limit_s: float = 60
    """How long Kafka may take for one run, preparation included."""

    @property
    def arguments(self) -> list[str]:
        numbers = (self.topics, self.partitions, self.members, self.percent, int(self.leaves))
        return [self.assignor, *map(str, numbers)]


CASES = (
    Case("uniform, cold", "uniform", 100, 5_000, 10_000),
    Case("uniform, one leaves", "uniform", 100, 5_000, 10_000, leaves=True),
    Case("server range", "server_range", 100, 5_000, 10_000),
    Case("sticky equal, cold", "sticky", 1_000, 1_000, 2_000, warm_up=5),
    Case("sticky equal, one leaves", "sticky", 1_000, 1_000, 2_000, leaves=True, warm_up=5),
    Case("sticky unequal, cold, small", "sticky", 50, 20, 20, percent=50, warm_up=20),
    Case("sticky unequal, one leaves, small", "sticky", 50, 20, 20, percent=50, leaves=True, warm_up=20),
    Case("sticky unequal, cold", "sticky", 500, 200, 500, percent=50, warm_up=0, limit_s=120),
)
#: The whole computation of a target by the core, from a group to records, beside the class alone.
TARGETS = (
    Case("target, uniform, cold", "uniform", 100, 1_000, 1_000),
    Case("target, uniform, one leaves", "uniform", 100, 1_000, 1_000, leaves=True),
    Case("target, range, cold", "server_range", 100, 1_000, 1_000),
    Case("target, range, one leaves", "server_range", 100, 1_000, 1_000, leaves=True),
)
GROWTH = (
    ("uniform, cold", "uniform", (100, 5_000, 10_000), 100, False),
    ("server range", "server_range", (100, 5_000, 10_000), 100, False),
    ("sticky equal, cold", "sticky", (1_000, 1_000, 2_000), 100, False),
    ("sticky equal, one leaves", "sticky", (1_000, 1_000, 2_000), 100, True),
    ("sticky unequal, cold", "sticky", (500, 200, 500), 50, False),
    ("sticky unequal, one leaves", "sticky", (500, 200, 500), 50, True),
)


def native(example: str = "assign") -> str:
    """The native program, built: `assign`, or `target`, which computes the target of a consumer group."""
    built = ["cargo", "build", "--quiet", "--release", "-p", "rota-benches", "--example", example]
    subprocess.run(built, cwd=ROOT, check=True)
    return str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / example)


def compare(case: Case, runs: int, program: str) -> dict[str, Any]:
    """Both in turn."""
    theirs, ours = Rival(command("bench", *case.arguments, flags=JVM)), Rival([program, *case.arguments])
    result: dict[str, Any] = {"case": case.title, "arguments": case.arguments, "runs": runs}
    try:
        for _ in range(5):
            ours.run_ns(case.limit_s)
        try:
            for _ in range(case.warm_up):
                theirs.run_ns(case.limit_s)
            pairs = [(theirs.run_ns(case.limit_s), ours.run_ns(case.limit_s)) for _ in range(runs)]
            kafka_plan = theirs.figures(case.limit_s)
        except LateError:
            rota_ns = statistics.median(ours.run_ns(case.limit_s) for _ in range(runs))
            return {**result, "late": True, "rota_ms": rota_ns / 1e6, "ratio": case.limit_s * 1e9 / rota_ns}
        rota_plan = ours.figures(case.limit_s)
    finally:
        theirs.end()
        ours.end()
    low, middle, high = statistics.quantiles((kafka_ns / rota_ns for kafka_ns, rota_ns in pairs), n=4)
    return {
        **result,
        "late": False,
        "kafka_ms": statistics.median(pair[0] for pair in pairs) / 1e6,
        "rota_ms": statistics.median(pair[1] for pair in pairs) / 1e6,
        "ratio": middle,
        "best": min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs),
        "quartiles": [low, high],
        "kafka_plan": kafka_plan,
        "rota_plan": rota_plan,
        # Loads by the sum of their squares, then partitions kept.
        "never_worse": (rota_plan[2], -rota_plan[3]) <= (kafka_plan[2], -kafka_plan[3]),
    }


def grow(row: tuple[str, str, tuple[int, int, int], int, bool], runs: int, program: str) -> dict[str, Any]:
    """Rota alone at eight, four, two times and once the size; members and partitions of a topic grow, topics do not."""
    title, assignor, (topics, partitions, members), percent, leaves = row
    sizes, rivals = [], []
    for part in (8, 4, 2, 1):
        case = Case(title, assignor, topics, partitions // part, members // part, percent, leaves)
        # What is read and written: partitions, and who subscribes to what.
        sizes.append(topics * (partitions // part) + topics * (members // part) * percent // 100)
        rivals.append(Rival([program, *case.arguments]))
    try:
        times = [[rival.run_ns(60) for rival in rivals] for _ in range(runs + 3)]
    finally:
        for rival in rivals:
            rival.end()
    best = [min(column) for column in zip(*times[3:], strict=True)]
    normed = [ns / (n * math.log2(n)) for ns, n in zip(best, sizes, strict=True)]
    return {
        "case": title,
        "n": sizes,
        "ms": [ns / 1e6 for ns in best],
        "over_n_log_n": [one / normed[0] for one in normed],
    }


def load() -> str:
    return " ".join(f"{one:.1f}" for one in os.getloadavg())


def line(case: Case, one: dict[str, Any]) -> str:
    """One row of the first table."""
    start = f"{case.title:<34}{case.topics * case.partitions:>10}{case.members:>8}"
    if one["late"]:
        return f"{start}{f'> {case.limit_s * 1e3:.0f}':>11}{one['rota_ms']:>9.2f}{one['ratio']:>9.0f}  at least"
    low, high = one["quartiles"]
    plans = [f"{plan[0]}-{plan[1]} kept {plan[3]}" for plan in (one["kafka_plan"], one["rota_plan"])]
    plan = plans[0] if plans[0] == plans[1] else f"Kafka {plans[0]}, rota {plans[1]}"
    spread = f"{low:.1f} - {high:.1f}"
    best = f"{one['best']:.1f}"
    worse = "" if one["never_worse"] else "WORSE: "
    return (
        f"{start}{one['kafka_ms']:>11.2f}{one['rota_ms']:>9.2f}{one['ratio']:>9.1f}  {spread:<16}{best:<8}{worse}{plan}"
    )


def main() -> int:
    """Print the tables; 1 if any of rota's plans is worse."""
    parser = argparse.ArgumentParser(description="The assignors beside Kafka's own classes.")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="leave out what Kafka does not finish")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    program = native()

    def say(text: str) -> None:
        if not chosen.json:
            print(text, flush=True)

    say(f"load {load()}; {os.cpu_count()} cores; {chosen.runs} pairs of runs")
    say(
        f"{'case':<34}{'partitions':>10}{'members':>8}{'Kafka ms':>11}{'rota ms':>9}{'ratio':>9}  quartiles       loads"
    )
    results = []
    for case in CASES:
        if not (chosen.quick and case.warm_up == 0):
            results.append(compare(case, chosen.runs, program))
            say(line(case, results[-1]))
    say(f"\ngrowth, best of {chosen.runs}: ms at 1/8, 1/4, 1/2 and the whole size; over n log n, the first as 1")
    grown = []
    for row in GROWTH:
        one = grow(row, chosen.runs, program)
        grown.append(one)
        times = "".join(f"{ms:10.3f}" for ms in one["ms"])
        say(f"{one['case']:<34}{times}   " + " ".join(f"{ratio:.2f}" for ratio in one["over_n_log_n"]))
    say(f"load {load()}")
    if chosen.json:
        print(json.dumps({"load": load(), "cases": results, "growth": grown}))
    return 0 if all(one.get("never_worse", True) for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
