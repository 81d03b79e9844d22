"""What the engines found: each is a command that is run with a bug in its environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from tests.checks.planted_build import PACKAGE, SIM
from tests.checks.planting import COPY, VARIABLE
from tests.checks.tidy import ROOT

STATES = 2_000
CONSUMER_STATES = 1_000
WORLDS = 1_000
SECONDS_MAX = 300
# Of each of the bounds: depth, states, whether those are all, events tried.
EXPLORED = re.compile(r"^[\w-]+ +\d+ +\d+ +(?:yes|no) +(\d+) ", re.MULTILINE)
# The id of what the exploration shows, above its transcript.
BROKEN = re.compile(r"^([SLC]\d+[ SC\d]*|panic): ", re.MULTILINE)
WORLD_BROKEN = re.compile(r"^seed \d+ swarm \w+, after (\d+) worlds, (\d+) faults:", re.MULTILINE)


class Found(NamedTuple):
    """A bug was noticed after so many steps; so many events show it. The simulator's are worlds, and faults."""

    steps: int
    events: int


def build_release() -> None:
    """Builds the planted `rota-sim` as fast as it can be: for worlds, and consumer groups."""
    command = ["cargo", "build", "--quiet", "--release", "--package", "rota-sim", "--target-dir", str(COPY / "target")]
    subprocess.run(command, cwd=COPY, check=True)


def exploration(bug: str) -> Found | None:
    """Every state within each of the bounds until 2,000 are known, up to the first violation."""
    said = _explored(bug)
    if "\n---\n" not in said:
        return None
    tried = sum(int(count) for count in EXPLORED.findall(said))
    return Found(tried, len(said.rpartition("\n---\n")[2].split("\n")) - 1)


def consumers(bug: str) -> Found | None:
    """The same of groups of the newer protocol, and of conversions, until 1,000 states are known."""
    said = _said([str(COPY / "target/release/rota-sim"), "consumers", "all", str(CONSUMER_STATES), "1"], bug)
    if "\n---\n" not in said:
        return None
    tried = sum(int(count) for count in EXPLORED.findall(said))
    return Found(tried, len(said.rpartition("\n---\n")[2].split("\n")) - 1)


def invariant(bug: str) -> str | None:
    """What the exploration says that a bug breaks: an invariant's id, or `panic`."""
    found = BROKEN.search(_explored(bug))
    return found and found[1]


def _explored(bug: str) -> str:
    return _said([str(SIM), "explore", "all", str(STATES), "1"], bug)


def simulator(bug: str) -> Found | None:
    """1,000 worlds, up to the first that breaks: how many that were, and how few faults are enough to break it."""
    said = _said([str(COPY / "target/release/rota-sim"), "simulate", str(WORLDS), "0", "classic"], bug)
    found = WORLD_BROKEN.search(said)
    return Found(int(found[1]), int(found[2])) if found else None


def _inside(engine: str) -> Callable[[str], Found | None]:
    def run(bug: str) -> Found | None:
        found = json.loads(_said([sys.executable, "-m", "tests.checks.planted_inside", engine], bug) or "null")
        return Found(*found) if found else None

    return run


def _said(command: list[str], bug: str) -> str:
    path = os.pathsep.join([str(PACKAGE), str(ROOT)])
    environment = os.environ | {VARIABLE: bug, "PYTHONPATH": path}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return ""
    # 1: something does not hold. Any other failure is neither a finding nor the lack of one.
    if done.returncode not in (0, 1) or (done.returncode and not done.stdout):
        raise RuntimeError(f"{command} with {bug!r}: {done.stderr}")
    return done.stdout


ENGINES: dict[str, Callable[[str], Found | None]] = {
    "transcripts": _inside("transcripts"),
    "model": _inside("differential"),
    "Hypothesis": _inside("machine"),
    "exploration": exploration,
    "simulator": simulator,
}
CONSUMER_ENGINES: dict[str, Callable[[str], Found | None]] = {
    "recordings": _inside("recordings"),
    "model": _inside("walks"),
    "exploration": consumers,
}
