"""All proofs as independent jobs, so that several processes can share them and content can be cached.

A job is a word: `classic: heartbeat`, `wheel: reached exactly`, `mutant: any plan`, `slip: turn forgotten`. `run_job`
gives its results as plain data; `run` runs many, taking from a cache what was computed from the same sources with the
same Z3.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import z3

from rota.specs import assignors, mutants, mutants_small, necessity, wheel
from rota.specs.invariants import classic
from rota.specs.logic import Spec
from rota.specs.obligations import Result, Step, initiation, possible, prove
from rota.specs.planting import FEW, MUTANTS, SIZES, killers
from rota.specs.slips import SLIPS

Results = list[dict[str, Any]]
BUGS = (mutants, mutants_small)  # importing them plants the bugs
Progress = Callable[[int, int, str], None]


@cache
def specification() -> Spec:
    """The classic protocol, made once in each process."""
    return classic()


def names(quick: bool = False) -> list[str]:
    """All jobs, the long ones first; without the planted bugs if it has to be quick."""
    proofs = [f"classic: {name}" for name in specification().actions]
    rest = ["classic init", "assignors", *(f"wheel: {name}" for name in wheel.CLAIMS)]
    needed = dict.fromkeys(f"necessity: {each.sizes}: {each.event}" for each in necessity.witnesses().values())
    bugs = [] if quick else [*(f"mutant: {bug.name}" for bug in MUTANTS), *(f"slip: {bug.name}" for bug in SLIPS)]
    heavy = [name for name in proofs if "replacement" in name or "plan" in name or "delete durable" in name]
    return [*heavy, *bugs, *(name for name in proofs if name not in heavy), *needed, *rest]


def _happens(name: str) -> Result:
    spec = specification()
    few = possible(Step.of(spec, spec.actions[name], sizes=FEW))
    return few if few.good else possible(Step.of(spec, spec.actions[name], sizes=SIZES))


def run_job(job: str, limit_ms: int = 60_000) -> Results:
    """The results of one job."""
    spec = specification()
    kind, _, name = job.partition(": ")
    if kind == "classic":
        step = Step.of(spec, spec.actions[name])
        results = [*prove(step, spec.properties.values(), limit_ms), _happens(name)]
    elif kind == "classic init":
        results = list(initiation(spec, limit_ms))
    elif kind == "wheel":
        results = list(wheel.check({name: wheel.CLAIMS[name]}, limit_ms))
    elif kind == "assignors":
        results = list(assignors.check(limit_ms))
    elif kind == "necessity":
        sizes, _, event = name.partition(": ")
        results = list(necessity.prove(spec, event, sizes))
    else:
        found = _found(kind, name)
        shown = next(iter(found.values()), "")
        return [{"kind": "mutant", "name": name, "breaks": list(found), "shown": shown}]
    return [{**vars(result), "job": job} for result in results]


def _found(kind: str, name: str) -> dict[str, str]:
    """What a planted bug breaks, each with an example."""
    if kind == "slip":
        return next(slip for slip in SLIPS if slip.name == name).breaks()
    return killers(specification(), next(mutant for mutant in MUTANTS if mutant.name == name))


def fingerprint() -> str:
    """What every outcome depends on: the sources of the specifications, and Z3."""
    digest = hashlib.sha256(z3.get_version_string().encode())
    for source in sorted(files("rota.specs").iterdir(), key=lambda entry: entry.name):
        if source.name.endswith((".py", "necessary.json")):
            digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Where results are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rota" / "proofs"


def run(
    jobs: list[str], processes: int, progress: Progress = lambda *_: None, folder: Path | None = None
) -> Iterator[tuple[str, Results]]:
    """Run jobs in some order of completion. With a folder, what was computed before from the same content is taken."""
    kept = folder / f"{fingerprint()}.json" if folder else None
    known: dict[str, Results] = {}
    if kept and kept.is_file():
        known = json.loads(kept.read_text(encoding="utf-8"))
    todo = [job for job in jobs if job not in known]
    done = 0
    for job in jobs:
        if job in known:
            done += 1
            yield job, known[job]
    if not todo:
        return
    context = multiprocessing.get_context("spawn")
    ignored = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process only, which then ends them
    pool = ProcessPoolExecutor(min(processes, len(todo)), context, signal.signal, ignored)
    try:
        waiting: dict[Future[Results], str] = {pool.submit(run_job, job): job for job in todo}
        while waiting:
            finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                job = waiting.pop(future)
                known[job] = future.result()
                done += 1
                progress(done, len(jobs), job)
                yield job, known[job]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            partial = kept.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(known), encoding="utf-8")
            partial.replace(kept)
