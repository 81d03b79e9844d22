"""What one heartbeat costs the thread of a node: the program `heartbeats` of `benches/rust`, below callgrind or alone.

Below callgrind the node's thread is counted, the kernel not. Of two runs of different length the difference is taken,
so that start and end do not count. It is the same on a busy machine.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

DEPTHS = (1, 64)
BASE, MORE = 6_400, 25_600
CLIENT = 1
"""The number of the first thread, which callgrind gives."""


class Counted(NamedTuple):
    """What callgrind counted on one thread."""

    instructions: float
    locked: float
    """Of them, those that lock the bus: atomic read-modify-writes. Each takes a cache line from other cores."""


def built(workspace: Path, target: Path, into: Path) -> Path:
    """The program of a workspace, release build. Each has a target of its own: cargo takes the one for the other."""
    command = ["cargo", "build", "--quiet", "--release", "-p", "rota-benches", "--example", "heartbeats"]
    subprocess.run([*command, "--target-dir", target], cwd=workspace, check=True)
    return Path(shutil.copy2(target / "release/examples/heartbeats", into))


def of_threads(program: Path, count: int, depth: int, *more: str) -> dict[int, Counted]:
    """Of each thread of a run; the first is the client's."""
    with tempfile.TemporaryDirectory() as place:
        options = ["--tool=callgrind", "--separate-threads=yes", "--collect-bus=yes"]
        options.append(f"--callgrind-out-file={place}/out")
        words = ["valgrind", "-q", *options, str(program), str(count), str(depth), *more]
        subprocess.run(words, check=True, capture_output=True)
        # A file without a thread's number is of all together.
        parts = [file for file in Path(place).iterdir() if re.search(r"-\d+$", file.name)]
        texts = {int(file.name.rpartition("-")[2]): file.read_text() for file in parts}
    return {thread: counted(text) for thread, text in texts.items()}


def counted(text: str) -> Counted:
    """What callgrind wrote of a thread. It leaves out zeros at the end of a line."""
    [events] = re.findall(r"(?m)^events: (.+)$", text)
    sums = re.findall(r"(?m)^(?:totals|summary): (.+)$", text)[-1].split()
    by_event = dict(zip(events.split(), map(int, sums), strict=False))
    return Counted(by_event.get("Ir", 0), by_event.get("Ge", 0))


def of_nodes(program: Path, depth: int, *more: str, nodes: int = 1) -> list[Counted]:
    """A heartbeat of the thread of each node: of the threads that are not the client's, those that have most to do."""
    short, long = of_threads(program, BASE, depth, *more), of_threads(program, BASE + MORE, depth, *more)
    differences = [
        Counted(*((after - before) / MORE for after, before in zip(long[thread], short[thread], strict=True)))
        for thread in long
        if thread != CLIENT
    ]
    return sorted(differences, reverse=True)[:nodes]


def of_a_heartbeat(program: Path, depth: int, *more: str) -> float:
    """Instructions of a heartbeat at the only node."""
    return of_nodes(program, depth, *more)[0].instructions


def timed(program: Path, count: int, depth: int, nodes: int) -> tuple[float, list[float]]:
    """Heartbeats a second of all nodes together, and microseconds of CPU of a heartbeat by node."""
    words = [str(program), str(count), str(depth), f"nodes={nodes}"]
    said: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return nodes * count / said["wall_ns"] * 1e9, [cpu_ns / count / 1e3 for cpu_ns in said["nodes_cpu_ns"]]
