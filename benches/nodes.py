"""Whether nodes of one process share anything on the way of a heartbeat: `make bench-nodes`.

1. Instructions of a heartbeat on the thread of each node, with 1, 2 and more nodes, and how many of them lock the bus:
   an atomic read-modify-write takes its cache line from other cores. The runtime does some for each write of a client,
   on memory of its own thread. A lock or a counter that nodes share would be taken for each heartbeat, so heartbeats
   that arrive in one write must need none for themselves. Each node has one member.
2. CPU of a heartbeat on the thread of each node, and heartbeats a second of all, the same numbers of nodes in turns. A
   cache line that two nodes write takes time that instructions do not show. The client shares the cores with the nodes:
   with fewer cores than nodes and client, the rate does not grow, and only CPU is compared. A quiet machine is wanted.

It needs valgrind. Exit code 1 if with more nodes a heartbeat takes over 2 % more instructions or over 10 % more CPU, or
if one in a hundred locks the bus for itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.heartbeats import DEPTHS, Counted, built, of_nodes, timed

ROOT = Path(__file__).parents[1]
NODES = (1, 2, 4)
PARTS = COUNTED, TIMED = ("counted", "timed")
INSTRUCTIONS_MAX = 1.02
LOCKED_MAX = 0.01
CPU_MAX = 1.10


def is_apart(alone: Counted, one: Counted) -> bool:
    """Whether a node among others takes the instructions of one alone."""
    return one.instructions <= INSTRUCTIONS_MAX * alone.instructions


def locked_each(singly: Counted, together: Counted, depth: int) -> float:
    """Instructions that lock the bus for a heartbeat itself: without those for the write in which it came.

    Singly they are write + each, and together write / depth + each.
    """
    return (depth * together.locked - singly.locked) / (depth - 1)


def all_counted(program: Path, numbers: Sequence[int]) -> tuple[list[dict[str, Any]], bool]:
    """The first part: rows, and whether all nodes do what one alone does."""
    rows, is_kept = [], True
    alone: dict[int, Counted] = {}
    for number in numbers:
        for depth in DEPTHS:
            found = of_nodes(program, depth, f"nodes={number}", nodes=number)
            alone.setdefault(depth, found[0])
            least, most = min(found), max(found)
            locked = max(one.locked for one in found)
            is_kept &= is_apart(alone[depth], most)
            rows.append({"nodes": number, "depth": depth, "instructions": [least[0], most[0]], "locked": locked})
            print(
                f"nodes {number}, {depth} in each write: {least.instructions:,.1f} to {most.instructions:,.1f} "
                f"instructions a heartbeat, {locked:.3f} of them lock the bus",
                flush=True,
            )
        each = max(locked_each(alone[DEPTHS[0]], one, DEPTHS[-1]) for one in found)
        is_kept &= each <= LOCKED_MAX
        print(f"nodes {number}: {max(each, 0):.3f} lock it for a heartbeat itself, whatever comes with it", flush=True)
    return rows, is_kept


def all_timed(
    program: Path, numbers: Sequence[int], *, heartbeats: int, rounds: int
) -> tuple[list[dict[str, Any]], bool]:
    """The second part: rows, and whether CPU stays."""
    depth = DEPTHS[-1]
    rates: dict[int, list[float]] = {number: [] for number in numbers}
    cpus_us: dict[int, list[float]] = {number: [] for number in numbers}
    for _ in range(rounds):
        for number in numbers:
            rate, cpu_us = timed(program, heartbeats // depth * depth, depth, number)
            rates[number].append(rate)
            cpus_us[number].append(statistics.mean(cpu_us))
    rows, is_kept = [], True
    for number in numbers:
        ratios = [one / alone for one, alone in zip(cpus_us[number], cpus_us[numbers[0]], strict=True)]
        is_kept &= statistics.median(ratios) <= CPU_MAX
        rows.append({"nodes": number, "rate": rates[number], "cpu_us": cpus_us[number], "ratio": ratios})
        print(
            f"{depth} in each write, nodes {number}: {statistics.median(rates[number]):,.0f} heartbeats/s, "
            f"CPU {statistics.median(cpus_us[number]):.3f} us each on a node's thread, "
            f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f}) of nodes {numbers[0]}",
            flush=True,
        )
    return rows, is_kept


def main() -> int:
    """Both parts, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m benches.nodes", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=[[], *PARTS], metavar="PART", help="`counted`, `timed`; both without"
    )
    numbers = "how many nodes, from 1 to 64; the first are the measure"
    parser.add_argument("--nodes", type=int, nargs="+", choices=range(1, 65), metavar="N", default=NODES, help=numbers)
    parser.add_argument("--heartbeats", type=int, default=2_000_000, help="to each node, of the second part")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    if COUNTED in parts and shutil.which("valgrind") is None:
        sys.exit("rota: valgrind is not installed (Debian: valgrind); `timed` does without")
    found: dict[str, Any] = {"cores": os.cpu_count()}
    is_kept = True
    with tempfile.TemporaryDirectory() as place:
        program = built(ROOT, Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")), Path(place) / "heartbeats")
        if COUNTED in parts:
            found[COUNTED], is_kept = all_counted(program, arguments.nodes)
        if TIMED in parts:
            found[TIMED], is_steady = all_timed(
                program, arguments.nodes, heartbeats=arguments.heartbeats, rounds=arguments.rounds
            )
            is_kept &= is_steady
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
