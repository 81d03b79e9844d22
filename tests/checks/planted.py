"""`python -m tests.checks.planted`: plants the bugs, runs every engine, and writes docs/generated/planted.md."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.checks import planted_found as found
from tests.checks import planted_page as page
from tests.checks.planted_found import ENGINES, Found
from tests.checks.planting import bugs, plant


def main() -> int:
    """Run what was asked for; a bug without a finding makes the exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.planted", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="only this one, and its column of the page")
    parser.add_argument("--bug", help="only this one; the page is left alone")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args()
    engines = options.engine or list(ENGINES)
    names = [options.bug] if options.bug else [bug.id for bug in bugs()]
    plant()
    if "exploration" in engines:
        found.build()
    if "simulator" in engines:
        found.build_simulator()
    if not {*engines} <= {"exploration", "simulator"}:
        found.build_module()
    results: dict[str, dict[str, Found | None]] = {}
    with ThreadPoolExecutor(options.workers) as pool:
        for engine in engines:
            results[engine] = dict(zip(names, pool.map(ENGINES[engine], names), strict=True))
            for name, result in results[engine].items():
                print(f"{engine:12} {name}: {result or 'not found'}", flush=True)
    if not options.bug:
        told = results if engines == list(ENGINES) else page.results() | results
        page.PAGE.write_text(page.text({engine: told[engine] for engine in ENGINES if engine in told}))
    unnoticed = [name for name in names if not any(of[name] for of in results.values())]
    print(f"{len(names) - len(unnoticed)} of {len(names)} found", *unnoticed, sep="\n  ")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
