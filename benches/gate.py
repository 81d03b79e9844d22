"""Instructions of fixed workloads beside their baseline: `make bench-gate`.

    python -m benches.gate [--update] [--json] [--binary FILE] [--baseline FILE] [NAME ...]

Wall time says little on a busy machine; how many instructions an operation takes is the same each time. Each workload
of `benches/rust` runs once below callgrind, which counts what happens inside `rota_benches::measured`, and nothing of
the preparation. More than 5 % above `benches/instructions.toml` fails. What is more than 5 % below passes, and is said:
then the baseline should follow, or the gain can be lost again unseen.

Another compiler, C library or processor makes other instructions of the same source. So the baseline names the
toolchain that it was counted with, and with another one the table is only a report.

`--update` writes the counts into the baseline. That is a commit of its own, and its message says why they have changed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "benches" / "instructions.toml"
PACKAGE, PROGRAM = "rota-benches", "instructions"
WHEEL = "rota-python"
COUNTED = "rota_benches::measured*"
TOLERANCE = 0.05
FAILED, MISUSED = 1, 2
# What libraries look for at run time and then take another way.
CPU_FLAGS = ("avx2", "bmi2", "sse4_2")
HEAD = """\
# Instructions of one operation of each workload of benches/rust, and what they were counted with.
# Written by `make bench-gate BENCH_ARGS=--update`; the commit says why they have changed.
"""


class GateError(Exception):
    """What is missing or wrong, and what to do."""


@dataclass(frozen=True)
class Row:
    """One workload. `before` is None where the baseline has none, `now` where it was not counted."""

    name: str
    before: float | None
    now: float | None

    @property
    def change(self) -> float | None:
        """0.1 is ten per cent more."""
        return None if self.before is None or self.now is None else self.now / self.before - 1

    @property
    def verdict(self) -> str:
        """`` if there is nothing to say."""
        if self.before is None:
            return "NEW: not in the baseline"
        if self.now is None:
            return "GONE: only in the baseline"
        change = self.now / self.before - 1
        if change > TOLERANCE:
            return "MORE"
        return "less: update the baseline" if change < -TOLERANCE else ""

    @property
    def fails(self) -> bool:
        """Whether this must not stay as it is."""
        return self.verdict[:3].isupper()


def compared(before: Mapping[str, float], now: Mapping[str, float]) -> list[Row]:
    """In the order of what was counted; what is gone comes last."""
    names = [*now, *(name for name in before if name not in now)]
    return [Row(name, before.get(name), now.get(name)) for name in names]


def table(rows: Sequence[Row]) -> str:
    """The rows as a text table."""
    lines = [f"{'instructions of one':<20}{'baseline':>12}{'now':>12}{'change':>9}"]
    for row in rows:
        before, now = ("" if count is None else f"{count:,.1f}" for count in (row.before, row.now))
        change = "" if row.change is None else f"{row.change:+.1%}"
        lines.append(f"{row.name:<20}{before:>12}{now:>12}{change:>9}  {row.verdict}".rstrip())
    return "\n".join(lines)


def advice(rows: Sequence[Row], differing: Sequence[str]) -> str:
    """What follows from it."""
    if differing:
        return f"A report, no verdict: the baseline is of another toolchain ({'; '.join(differing)})."
    if any(row.fails for row in rows):
        return (
            f"Over {TOLERANCE:.0%} fails. If there is a reason for it: `make bench-gate BENCH_ARGS=--update`, and a "
            "commit that says which."
        )
    if any(row.verdict for row in rows):
        return "Less than before: `make bench-gate BENCH_ARGS=--update`, and a commit that says why."
    return f"Within {TOLERANCE:.0%} of the baseline."


def toolchain() -> dict[str, str]:
    """What the counts depend on besides the source."""
    said = subprocess.run(["rustc", "-vV"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    version = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        flags = None
    has = flags[1].split() if flags else []
    return {
        "rustc": f"{version['release']} {version['commit-hash'][:9]}",
        "target": version["host"],
        "libc": " ".join(platform.libc_ver()),
        "cpu": " ".join(flag for flag in CPU_FLAGS if flag in has),
    }


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """In words."""
    return [f"{key} {before.get(key)} there, {value} here" for key, value in now.items() if before.get(key) != value]


def read(path: Path) -> tuple[dict[str, str], dict[str, float]]:
    """Toolchain and counts of a baseline; nothing if there is none."""
    if not path.exists():
        return {}, {}
    with path.open("rb") as file:
        baseline = tomllib.load(file)
    return baseline["toolchain"], baseline["instructions"]


def written(tools: Mapping[str, str], counts: Mapping[str, float]) -> str:
    """A baseline."""
    tool_lines = [f'{key} = "{value}"' for key, value in tools.items()]
    count_lines = [f"{name} = {count:.1f}" for name, count in counts.items()]
    return HEAD + "\n".join(["\n[toolchain]", *tool_lines, "\n[instructions]", *count_lines, ""])


def built() -> Path:
    """The program, from the release build that the wheel has made most of."""
    # The features of the wheel: nothing of its package is built, and the program shares all other crates with it.
    packages = ["-p", PACKAGE, "-p", WHEEL]
    subprocess.run(["cargo", "build", "--quiet", "--release", *packages, "--bin", PROGRAM], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / PROGRAM


def workloads(program: Path) -> list[str]:
    """All names."""
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [line.split("\t")[0] for line in said.splitlines()]


def count(program: Path, name: str) -> float:
    """Instructions of one operation."""
    with tempfile.TemporaryDirectory(prefix="rota-gate-") as place:
        out = Path(place) / "callgrind.out"
        options = ["--collect-atstart=no", f"--toggle-collect={COUNTED}", f"--callgrind-out-file={out}"]
        command = ["valgrind", "--tool=callgrind", *options, str(program), name]
        # Of the environment nothing but the path: its size moves the stack.
        done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise GateError(f"`{name}` fails below valgrind: {done.stderr.strip()}")
        totals = re.findall(r"^totals: (\d+)", out.read_text(encoding="utf-8"), re.MULTILINE)
    instructions = sum(map(int, totals))
    if instructions == 0:
        raise GateError(f"nothing of `{name}` was counted: is there no function {COUNTED} in {program}?")
    return instructions / int(done.stdout)


def counted(program: Path, names: Sequence[str]) -> dict[str, float]:
    """All of them, one on each core."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(names, pool.map(lambda name: count(program, name), names), strict=True))


def gate(arguments: argparse.Namespace) -> int:
    """Count, compare, say; 1 if something must not stay as it is."""
    if shutil.which("valgrind") is None:
        raise GateError("there is no valgrind: install it (`apt-get install valgrind`)")
    program = arguments.binary or built()
    known = workloads(program)
    if unknown := set(arguments.names) - set(known):
        raise GateError(f"no workload is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    now = counted(program, arguments.names or known)
    was_tools, was = read(arguments.baseline)
    tools = toolchain()
    differing = differences(was_tools, tools) if was_tools else []
    if arguments.update and arguments.names and differing:
        raise GateError(f"the rest of the baseline is of another toolchain ({'; '.join(differing)}): update all of it")
    if arguments.names:
        was = {name: was[name] for name in arguments.names if name in was}
    rows = compared(was, now)
    if arguments.json:
        print(json.dumps({"toolchain": tools, "differing": differing, "rows": [vars(row) for row in rows]}, indent=2))
    else:
        print(table(rows))
    if arguments.update:
        kept = read(arguments.baseline)[1] if arguments.names else {}
        arguments.baseline.write_text(written(tools, kept | now), encoding="utf-8")
        print(f"written to {arguments.baseline}", file=sys.stderr)
        return 0
    print(advice(rows, differing), file=sys.stderr)
    return FAILED if not differing and any(row.fails for row in rows) else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Instructions of fixed workloads beside their baseline.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these workloads")
    parser.add_argument("--update", action="store_true", help="write the counts into the baseline")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--binary", type=Path, help="count this program and build none")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    try:
        return gate(parser.parse_args())
    except GateError as error:
        print(f"bench-gate: {error}", file=sys.stderr)
        return MISUSED


if __name__ == "__main__":
    sys.exit(main())
