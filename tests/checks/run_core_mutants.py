"""`python -m tests.checks.run_core_mutants [FILE...]`: which small changes of the core does no check notice?

All mutants of these files (of all, without) are built at once. Each program says first which of them it reaches, and
runs with each of those alone, until one program fails. What cannot be built beside the others is built alone; most of
that does not compile. Needs cargo-mutants. Exit code: 0, or 1 if a mutant survives.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.checks.core_mutants import REACHED, VARIABLE, Mutant, blamed, core_with, listed, sources
from tests.checks.planted_build import FEATURES, cargo, entries
from tests.checks.planting import CORE, bring, workspace
from tests.checks.tidy import ROOT

COPY, OUT = ROOT / "build/mutants/copy", ROOT / "build/mutants"
PACKAGE = COPY / "python"
# Less chance in what these tests try: they run once for each mutant that they reach.
LESS = {"ROTA_WALKS": "10", "ROTA_HISTORIES": "20", "RUST_BACKTRACE": "0"}
# Of processor time, which says the same on a busy machine; of the clock this many times as much, for what waits.
LIMIT_FACTOR, LIMIT_LEAST_S, WAITS_FACTOR = 10, 10, 20
ROUNDS_MAX = 30
LOCKSTEP = """
from rota.check.differential import volume
from rota.check.differential.walks import CLASSIC, CONSUMER, CONVERSION
for walk in (CLASSIC, CONSUMER, CONVERSION):
    for seed in range(40):
        _, difference = volume.run(seed, walk=walk)
        assert difference is None, difference
"""


class BuildError(Exception):
    """A copy whose core compiles, and whose tests or module do not."""


@dataclass
class Program:
    """One check: a command that fails if it notices something."""

    name: str
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    took_s: float = 0.0
    """The processor time that it took without a mutant."""
    limit_s: int = 600
    """The processor time that it may take."""

    def passes(self, **variables: str) -> bool:
        """Whether it notices nothing. What hangs is noticed."""
        environment = os.environ | LESS | self.environment | variables
        command = ["prlimit", f"--cpu={self.limit_s}", *self.command]
        waits_s = self.limit_s * WAITS_FACTOR
        try:
            done = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, check=False, timeout=waits_s)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def reaches(self) -> set[int]:
        """The mutants that it asks for. It has to pass without one."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "reached")
            before = os.times()
            if not self.passes(**{REACHED: str(path)}):
                sys.exit(f"{self.name} fails without a mutant: {' '.join(self.command)}")
            after = os.times()
            self.took_s = sum(after[2:4]) - sum(before[2:4])
            self.limit_s = max(LIMIT_LEAST_S, math.ceil(LIMIT_FACTOR * self.took_s))
            return set(map(int, path.read_text().split())) if path.exists() else set()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.checks.run_core_mutants", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="of rust/core/src, such as 'consumer_*' (all)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args()
    told = subprocess.run(
        ["cargo", "mutants", "--list", "--json", "--package", "rota-core"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    mutants = [each for each in listed(told, sources()) if _asked_for(each.file, options.files)]
    if not mutants:
        parser.error(f"no mutant in {', '.join(options.files)}: give files of {CORE}/src, such as join.rs")
    together = plant(mutants)
    print(f"{len(mutants)} mutants, {len(together)} of them in one build", flush=True)
    looking = programs()
    survivors, noticed = run(together, looking, options.workers)
    # What is built alone takes an hour.
    print("so far these survive:", *(each.name for each in survivors), sep="\n  ", flush=True)
    limits = {program.name: program.limit_s for program in looking}
    for mutant in (each for each in mutants if each not in together):
        by = alone(mutant, limits)
        noticed[by or "nothing"] += 1
        survivors += [] if by else [mutant]
    (OUT / "survivors.txt").write_text("".join(f"{each.name}\n" for each in survivors))
    print(*(f"{count} noticed by {name}" for name, count in noticed.most_common()), sep="\n")
    print(f"{len(survivors)} survive:", *(each.name for each in survivors), sep="\n  ")
    return 1 if survivors else 0


def _asked_for(file: str, patterns: Iterable[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(file, pattern) for pattern in patterns)


def plant(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Makes the copy with as many of the mutants as can be built together. Returns those."""
    kept = {each.number for each in mutants}
    for _ in range(ROUNDS_MAX):
        files, placed = core_with(each for each in mutants if each.number in kept)
        kept &= placed
        bring(COPY, workspace() | {Path(CORE, "src", name): text for name, text in files.items()})
        wrong = _wrong(files)
        if not wrong:
            return [each for each in mutants if each.number in kept]
        print(f"{len(wrong)} cannot be built beside the others", flush=True)
        kept -= wrong
    sys.exit(f"after {ROUNDS_MAX} attempts there are mutants that cannot be built")


def _wrong(files: dict[str, bytes]) -> set[int]:
    """The mutants that the compiler does not take."""
    checked = cargo(COPY, "check", "--package", "rota-core", "--lib")
    wrong, unclear = set[int](), []
    for entry in entries(checked):
        message = entry.get("message", {})
        if message.get("level") != "error" or not message.get("spans"):
            continue
        found = set[int]()
        for span in message["spans"]:
            # A span in a macro of the standard library is in no file of the core.
            name = span["file_name"].removeprefix(f"{CORE}/src/")
            if span["is_primary"] and name in files:
                found |= blamed(files[name], span["byte_start"])
        wrong |= found
        if not found:
            unclear.append(message["rendered"])
    if checked.returncode and not wrong:
        sys.exit("\n".join(unclear) or checked.stderr)
    return wrong


def alone(mutant: Mutant, limits: dict[str, int]) -> str:
    """Builds a mutant as the only one. Returns what notices it, the compiler included; nothing if it survives."""
    bring(COPY, workspace())
    file = COPY / CORE / "src" / mutant.file
    subprocess.run(["patch", "--silent", str(file)], input=mutant.diff, text=True, check=True)
    if cargo(COPY, "check", "--package", "rota-core", "--lib").returncode:
        return "the compiler"
    try:
        looking = programs()
    except BuildError:
        return "the compiler"
    for program in looking:
        program.limit_s = limits[program.name]
    return next((program.name for program in looking if not program.passes()), "")


def _built(*words: str) -> list[tuple[str, Path]]:
    """Builds something; the names and paths of programs and of the module."""
    done = cargo(COPY, *words)
    if done.returncode:
        raise BuildError(done.stderr + done.stdout[-2000:])
    # A warning names a target, too.
    told = [(each, each.get("executable")) for each in entries(done) if "profile" in each]
    if words[0] == "test":
        told = [(each, path) for each, path in told if each["profile"]["test"]]
    modules = [(each, each["filenames"][0]) for each, _ in told if each["target"]["crate_types"] == ["cdylib"]]
    return [(each["target"]["name"], Path(path)) for each, path in [*told, *modules] if path]


def programs() -> list[Program]:
    """What looks for mutants."""
    tests = [*_tests("rota-sim", "--test", "transcripts"), *_tests("rota-core", "--lib", "--tests")]
    sim = str(dict(_built("build", "--package", "rota-sim", "--bin", "rota-sim"))["rota-sim"])
    module = dict(_built("build", "--lib", *FEATURES))["_rota"]
    (PACKAGE / "rota/_rota.abi3.so").write_bytes(module.read_bytes())
    return [
        *(Program(name, [str(path)]) for name, path in tests),
        Program("exploration", [sim, "consumers", "all", "1000", "1"]),
        Program("simulator", [sim, "simulate", "60", "0", "all"]),
        Program("lockstep", [sys.executable, "-c", LOCKSTEP], {"PYTHONPATH": str(PACKAGE)}),
    ]


def _tests(package: str, *words: str) -> list[tuple[str, Path]]:
    built = _built("test", "--no-run", "--package", package, *words)
    return [(f"{package}/{name}", path) for name, path in built]


def run(mutants: Sequence[Mutant], programs: Sequence[Program], workers: int) -> tuple[list[Mutant], Counter[str]]:
    """The mutants that no program notices, and how many each program has noticed. The quickest program looks first."""
    left, noticed = list(mutants), Counter[str]()
    reached = {program.name: program.reaches() for program in programs}
    with ThreadPoolExecutor(workers) as pool:
        for program in sorted(programs, key=lambda each: each.took_s):
            began = time.monotonic()
            tried = [each for each in left if each.number in reached[program.name]]
            passed = pool.map(lambda each, to=program: to.passes(**{VARIABLE: str(each.number)}), tried)
            found = {each.number for each, passes in zip(tried, passed, strict=True) if not passes}
            noticed[program.name] = len(found)
            left = [each for each in left if each.number not in found]
            took = f"{time.monotonic() - began:.0f} s"
            print(f"{program.name}: reaches {len(tried)}, notices {len(found)}, {len(left)} left, {took}", flush=True)
    return left, noticed


if __name__ == "__main__":
    sys.exit(main())
