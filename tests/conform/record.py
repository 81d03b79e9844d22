"""`python -m tests.conform.record [SYSTEM ...]`: run the kit on systems, keep the answers, write docs/generated.

The recordings are SYSTEM-VERSION.json in python/rota/conform/recorded, where `rota conform` needs them, or in
tests/conform/rivals; each is made from nothing, but for the rows that --longest leaves out, which stay as they were
recorded. With --check nothing is kept: exit code 1 if rota answers differently from Apache Kafka, without an
explanation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from rota.conform.judge import OURS, REFERENCE, Recording, dump, load, recorded
from rota.conform.run import AGREED_WITHIN, catalogue
from tests.conform import page
from tests.conform.systems import DELAY, DELAY_MS_USUAL, ROOT, SYSTEMS, USUAL, Settings, System

PACKAGED = ROOT / "python" / "rota" / "conform" / "recorded"
#: Rows that wait for minutes are recorded if asked for: --longest 3000 has all but those that take years.
LONGEST_S = 100.0
MINUTES_S = 600.0
#: How a fault begins that is not the broker's: a step needed what had not happened.
STUCK = "stuck"


def kit(address: str, settings: Settings, *more: str) -> int:
    """`rota conform`; its exit code."""
    pairs = [f"{name}={value}" for name, value in settings.items() if name != DELAY]
    words = [word for pair in pairs for word in ("--setting", pair)]
    command = [sys.executable, "-m", "rota", "conform", "--bootstrap-server", address]
    return subprocess.run([*command, *words, *more], check=False).returncode


def rows_for(settings: Settings) -> list[str]:
    """The rows that a broker with the usual delay and settings has not shown already."""
    special = {name: value for name, value in settings.items() if name != DELAY}
    is_long = settings.get(DELAY) == "3000"
    fit = (row for row in catalogue() if row.settings == frozenset(special.items()))
    return [row.id for row in fit if (row.delay_s[0] > float(DELAY_MS_USUAL) / 1_000) == is_long]


def completed(before: Recording, now: Recording, longest_s: float) -> Recording:
    """With what this run has not asked: rows that wait for longer, and those that the machine was too busy to reach."""
    waits = {row.id: row.wait_s for row in catalogue()}
    rows = {name: said for name, said in before.rows.items() if waits.get(name, 0) > longest_s}
    for name, said in now.rows.items():
        if f"{now.system}-{now.version}" == REFERENCE and said[-1].fault.startswith(STUCK):
            print(
                f"{now.system} did not come to the end of {name}, which stays as it was: {said[-1].fault}", flush=True
            )
            rows |= {name: before.rows[name]} if name in before.rows else {}
        else:
            rows[name] = said
    return replace(now, rows=rows)


def record(system: System, longest_s: float) -> None:
    """Every run of a system into its file."""
    with tempfile.TemporaryDirectory() as folder:
        partial = Path(folder) / f"{system.name}.json"
        limits = ["--longest", str(longest_s), "--deadline", str(MINUTES_S + AGREED_WITHIN * longest_s)]
        limits += [word for name, version in system.at_most.items() for word in ("--at-most", f"{name}={version}")]
        limits += ["--jobs", str(system.workers)]
        if system.name != OURS:  # what another says twice in a row is what it says; ours may have been late
            limits += ["--tries", "1"]
        for settings in system.runs:
            print(f"=== {system.name} {dict(settings)}", flush=True)
            with system.start(settings) as address:
                rows = [row for row in rows_for(settings) if not any(fnmatchcase(row, each) for each in system.omitted)]
                only = [word for row in rows for word in ("--only", row)]
                if kit(address, settings, "--record", str(partial), *limits, *only) == 2:
                    sys.exit(f"{system.name} was not recorded")
        file = (PACKAGED if system.name in (REFERENCE, OURS) else page.RIVALS) / f"{system.name}.json"
        before = load(file.read_text(encoding="utf-8")) if file.is_file() else Recording(system.name, "", "")
        whole = completed(before, load(partial.read_text(encoding="utf-8")), longest_s)
        ours = recorded(OURS)
        file.write_text(dump(whole), encoding="utf-8")
        recorded.cache_clear()
        if system.name == REFERENCE:  # rows of ours may say that they are those of Kafka
            (PACKAGED / f"{OURS}.json").write_text(dump(ours), encoding="utf-8")
            recorded.cache_clear()


def check() -> int:
    """rota beside Apache Kafka, both asked now, in every run. The worst exit code."""
    worst = 0
    theirs, ours = SYSTEMS["kafka-4.4.0"], SYSTEMS["rota"]
    for settings in theirs.runs:
        print(f"=== {dict(settings)}", flush=True)
        with theirs.start(settings) as kafka, ours.start(settings) as rota:
            only = [word for row in rows_for(settings) for word in ("--only", row)] if settings != USUAL else []
            worst = max(worst, kit(rota, settings, "--against", kafka, "--longest", str(LONGEST_S), *only))
    return worst


def main() -> int:
    """Exit code 1 if rota answers differently from Apache Kafka without an explanation."""
    parser = argparse.ArgumentParser(prog="python -m tests.conform.record", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}; all without a name")
    parser.add_argument("--check", action="store_true", help="compare rota with Apache Kafka 4.4.0, keep nothing")
    parser.add_argument(
        "--longest", type=float, default=LONGEST_S, metavar="SECONDS", help="leave out rows that wait longer"
    )
    options = parser.parse_args()
    if options.check:
        return check()
    for name in options.systems or SYSTEMS:
        lacking = SYSTEMS[name].lacks()
        if lacking:
            print(f"=== {name} stays as it was recorded: needs {', '.join(lacking)}", flush=True)
            continue
        record(SYSTEMS[name], options.longest)
    Path(page.PAGE).write_text(page.render(), encoding="utf-8")
    unexplained = page.parted(catalogue(), recorded(OURS))
    for row in unexplained:
        print(f"rota parts from Apache Kafka at {row.id}, and nothing explains it")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
