"""`python -m tests.differential --steps 1000000`: seeded runs until that many steps, then one line of figures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from rota.check.differential import volume, witness


def seeds(first: int, steps: int) -> Iterator[int]:
    """As many runs as give so many steps."""
    return iter(range(first, first + -(-steps // volume.STEPS_OF_A_RUN)))


def main() -> int:
    """Run, shorten what fails, print it as a transcript."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="how many steps (1,000,000)")
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed (0)")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    options = parser.parse_args()
    start, done = time.perf_counter(), 0
    with ProcessPoolExecutor(options.workers) as pool:
        for steps, failure in pool.map(volume.run, seeds(options.seed, options.steps), chunksize=50):
            done += steps
            if failure:
                found = volume.shorten(failure)
                print(found.error, witness.transcript(found.config, found.steps), sep="\n\n")
                return 1
    seconds = time.perf_counter() - start
    print(f"{done:,} differential steps without a difference in {seconds:.0f} s ({done / seconds:,.0f} steps/s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
