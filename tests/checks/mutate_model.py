"""`python -m tests.checks.mutate_model`: changes the model a little, many times, and says who notices.

Each mutant meets the transcripts, then a seeded differential run, up to the first difference. A survivor that
`equivalent.toml` does not argue, and an entry there that is noticed or stale, make the exit code 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rota.transcript import runner
from rota.transcript.text import parse
from tests.checks.mutants import Mutant, install, mutants

EQUIVALENT = Path(__file__).parent / "equivalent.toml"
# Of the processor, for one transcript or one run: a mutant may go on for ever.
SECONDS_MAX = 5
RUNS = 300


def notices(mutant: Mutant, runs: int = RUNS) -> str:
    """The check that fails, in its own process: a transcript, a differential run, or none ("")."""
    try:
        return _notices(mutant, runs)
    except Exception as error:  # the mutant's fault, wherever it comes up
        return type(error).__name__


def _notices(mutant: Mutant, runs: int) -> str:
    signal.signal(signal.SIGPROF, _too_long)
    install(mutant)
    _allow()
    from rota.check.differential import volume
    from rota.check.differential.walks import CLASSIC, TRANSACTIONS
    from rota.transcript.model_subject import ModelSubject

    for path in runner.transcripts():
        for run in runner.runs(parse(path)):
            _allow()
            if not runner.play(run, ModelSubject(run.config)).matches:
                return "transcript"
    walk = TRANSACTIONS if mutant.module == "transactions" else CLASSIC
    for seed in range(runs):
        _allow()
        if volume.run(seed, walk=walk)[1]:
            return "differential run"
    signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def _allow() -> None:
    signal.setitimer(signal.ITIMER_PROF, SECONDS_MAX)


def _too_long(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def argued() -> dict[str, str]:
    """The mutants that say the same in other words, each with the reason."""
    entries = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {entry["name"]: entry["reason"] for entry in entries}


def stale(reasons: Iterable[str], found: Iterable[Mutant]) -> set[str]:
    """Entries about mutants that do not exist any more."""
    return set(reasons) - {mutant.name for mutant in found}


def main() -> int:
    """Play a sample of the mutants, or all, and print the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.mutate_model", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="how many mutants, chosen by the seed (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--module", default="", help="only the mutants of this module (all)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args()
    everything, reasons = mutants(), argued()
    wrong = [f"stale: {name}" for name in sorted(stale(reasons, everything))]
    chosen = [mutant for mutant in everything if options.module in ("", mutant.module)]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    start, by = time.perf_counter(), Counter[str]()
    with multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
        for mutant, noticed in zip(chosen, pool.imap(notices, chosen, chunksize=1), strict=True):
            is_argued = mutant.name in reasons
            by[noticed or ("argued" if is_argued else "nobody")] += 1
            if bool(noticed) == is_argued:
                wrong.append(f"{'noticed, but argued' if noticed else 'survives'}: {mutant.name}")
                print(f"{wrong[-1]} (line {mutant.line})", flush=True)
    seconds, argued_count = time.perf_counter() - start, by["argued"]
    noticed_count = len(chosen) - by["nobody"] - argued_count
    share = 100 * noticed_count / max(len(chosen) - argued_count, 1)
    print(f"{noticed_count} of {len(chosen) - argued_count} mutants noticed ({share:.1f}%), {argued_count} argued")
    print(", ".join(f"{who} {count}" for who, count in by.most_common()) + f"; {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
