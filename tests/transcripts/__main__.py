"""`python -m tests.transcripts [FILE ...] [--rewrite] [--coverage] [--broker HOST:PORT]`: play, regenerate, list rows.

With --broker what can be seen from outside is played on that broker, in real time. It has to have
`group.initial.rebalance.delay.ms=0`, or the settings that --config names; files that need others are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from rota.transcript.text import parse
from tests.transcripts import coverage, runner


def main() -> int:
    """Exit code 0 if everything matches (or was rewritten, or every row is covered)."""
    parser = argparse.ArgumentParser(prog="python -m tests.transcripts", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="transcripts; all of tests/vectors if none is named")
    parser.add_argument("--rewrite", action="store_true", help="write what happened into the files")
    parser.add_argument("--coverage", action="store_true", help="list row -> transcripts")
    parser.add_argument("--broker", metavar="HOST:PORT", help="play on this broker, in real time")
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        help="a setting of that broker (default: group.initial.rebalance.delay.ms=0)",
    )
    parser.add_argument("--workers", type=int, default=24, help="files that are played on it at a time")
    parser.add_argument("--longest", type=int, default=100, help="leave out files that wait for more seconds")
    options = parser.parse_args()
    if options.coverage:
        return list_coverage()
    files = [path.resolve() for path in options.files] or runner.transcripts()
    if options.broker:
        config = dict(pair.split("=", 1) for pair in options.config or ["group.initial.rebalance.delay.ms=0"])
        return play_on(options, files, config)
    return rewrite(files) if options.rewrite else check(files)


def list_coverage() -> int:
    """One line per row: its transcripts, or what it waits for."""
    files = coverage.shown()
    for row, entry in coverage.table().items():
        others = [f"later: {entry['later']}"] if "later" in entry else entry.get("tests", [])
        print(f"{row:8} {', '.join(files.get(row, others)) or '-'}")
    return 1 if coverage.uncovered_rows() else 0


def rewrite(files: list[Path]) -> int:
    """Regenerate each file."""
    from rota.transcript.core_subject import CoreSubject

    for path in files:
        print("rewritten" if runner.rewrite(path, CoreSubject) else "unchanged", path)
    return 0


def check(files: list[Path]) -> int:
    """Play each file; print what differs."""
    from rota.transcript.core_subject import CoreSubject

    played = differing = 0
    for path in files:
        for run in runner.runs(parse(path)):
            outcome = runner.play(run, CoreSubject(run.config))
            played += 1
            if not outcome.matches:
                differing += 1
                print(runner.report(run, outcome), end="\n\n")
    print(f"{played} runs of {len(files)} transcripts, {differing} differ")
    return 1 if differing else 0


def play_on(options: argparse.Namespace, files: list[Path], config: dict[str, str]) -> int:
    """Exit code 0 if every difference is a departure of docs/departures.md."""
    from tests.transcripts import on_broker

    host, _, port = options.broker.rpartition(":")
    skipped: Counter[str] = Counter()
    departures: Counter[str] = Counter()
    played = differing = 0
    for one in on_broker.play_all(files, (host, int(port)), config, options.workers, options.longest):
        if one.skipped:
            skipped[one.skipped] += 1
            continue
        played += 1
        departures.update(one.departures)
        if one.expected != one.actual:
            kind = f"departure {', '.join(one.departures)}" if one.departures else "DIFFERS"
            print(f"{kind}: {one.path.parent.name}/{one.path.name}:{one.step}")
            print(*(f"  - {line}" for line in one.expected), *(f"  + {line}" for line in one.actual), sep="\n")
        differing += one.differs
    print(f"{played} transcripts played on {options.broker}, {differing} differ without a reason")
    print("departures:", ", ".join(f"{name} {count}" for name, count in sorted(departures.items())) or "none")
    print("left out:", ", ".join(f"{why} {count}" for why, count in skipped.most_common()) or "none")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
