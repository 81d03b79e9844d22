"""`python -m tests.protocol.transcripts [FILE ...] [--rewrite] [--coverage]`: play, regenerate, list rows.

`rota conform` plays on a broker what can be seen from outside.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rota.transcript import runner
from rota.transcript.text import parse
from tests.protocol import coverage


def main() -> int:
    """Exit code 0 if everything matches (or was rewritten, or every row is covered)."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.transcripts", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="transcripts; all of them if none is named")
    parser.add_argument("--rewrite", action="store_true", help="write what happened into the files")
    parser.add_argument("--coverage", action="store_true", help="list row -> transcripts")
    options = parser.parse_args()
    if options.coverage:
        return list_coverage()
    files = [path.resolve() for path in options.files] or runner.transcripts()
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


if __name__ == "__main__":
    sys.exit(main())
