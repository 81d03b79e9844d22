"""`python -m tests.checks.planted`: plants the bugs, runs every engine, and writes docs/generated/planted.md, and with
`--protocol consumer` docs/generated/planted-consumers.md.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.checks import planted_build
from tests.checks import planted_found as found
from tests.checks import planted_page as page
from tests.checks.planted_found import CONSUMER_ENGINES, ENGINES, Found
from tests.checks.planting import bugs, plant

PAGES = {"classic": (page.CLASSIC, ENGINES), "consumer": (page.CONSUMER, CONSUMER_ENGINES)}
OF_MODULE = {"transcripts", "model", "Hypothesis", "recordings"}


def main() -> int:
    """Run what was asked for; a bug without a finding makes the exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.planted", description=__doc__)
    parser.add_argument("--protocol", choices=PAGES, default="classic", help="whose bugs (classic)")
    parser.add_argument(
        "--engine", choices=ENGINES | CONSUMER_ENGINES, action="append", help="only this one, and its column"
    )
    parser.add_argument("--bug", help="only this one; the page is left alone")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args()
    shown, engines = PAGES[options.protocol]
    chosen = options.engine or list(engines)
    if missing := {*chosen} - engines.keys():
        parser.error(f"--protocol {options.protocol} has no engine {', '.join(sorted(missing))}: {', '.join(engines)}")
    names = [options.bug] if options.bug else [bug.id for bug in bugs(shown.registry)]
    plant()
    build(options.protocol, {*chosen})
    if false := [engine for engine in chosen if engines[engine]("")]:
        parser.error(f"{', '.join(false)} finds something without a bug: an edit of the copy changes more than its bug")
    results: dict[str, dict[str, Found | None]] = {}
    with ThreadPoolExecutor(options.workers) as pool:
        for engine in chosen:
            results[engine] = dict(zip(names, pool.map(engines[engine], names), strict=True))
            for name, result in results[engine].items():
                print(f"{engine:12} {name}: {result or 'not found'}", flush=True)
    if not options.bug:
        told = results if chosen == list(engines) else page.results(shown) | results
        shown.path.write_text(page.text({engine: told[engine] for engine in engines if engine in told}, shown))
    unnoticed = [name for name in names if not any(of[name] for of in results.values())]
    print(f"{len(names) - len(unnoticed)} of {len(names)} found", *unnoticed, sep="\n  ")
    return 1 if unnoticed else 0


def build(protocol: str, engines: set[str]) -> None:
    """Builds what these engines run."""
    if protocol == "classic" and "exploration" in engines:
        planted_build.sim()
    if "simulator" in engines or (protocol == "consumer" and "exploration" in engines):
        found.build_release()
    if engines & OF_MODULE:
        planted_build.module(is_optimized=True)


if __name__ == "__main__":
    sys.exit(main())
