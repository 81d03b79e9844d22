"""All proofs as independent jobs, so that several processes can share them and content can be cached.

A job is a word: `classic: heartbeat`, `wheel: reached exactly`, `mutant: any plan`, `arithmetic bug: turn forgotten`.
`run_job` gives its results as plain data; `run` runs many, taking from a cache what was computed from the same sources
with the same Z3.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from importlib.resources import files
from pathlib import Path
from typing import Any

import z3

from rota.specs import assignors, necessity, wheel
from rota.specs.arithmetic_bugs import ARITHMETIC_BUGS
from rota.specs.logic import Spec
from rota.specs.obligations import Result, Step, initiation, possible, prove
from rota.specs.planting import killers
from rota.specs.protocols import Protocol, protocols

Results = list[dict[str, Any]]
Progress = Callable[[int, int, str], None]


def specification() -> Spec:
    """The classic protocol."""
    return protocols()["classic"].spec


def names(quick: bool = False) -> list[str]:
    """All jobs, the long ones first; without the planted bugs if it has to be quick."""
    proofs = [f"{each.name}: {action}" for each in protocols().values() for action in each.spec.actions]
    rest = [*(f"{name} init" for name in protocols()), "assignors", *(f"wheel: {name}" for name in wheel.CLAIMS)]
    needed = dict.fromkeys(
        f"{each.prefix}necessity: {witness.sizes}: {witness.event}"
        for each in protocols().values()
        for witness in necessity.witnesses(each).values()
    )
    bugs = [f"{each.prefix}mutant: {bug.name}" for each in protocols().values() for bug in each.bugs]
    bugs += [f"arithmetic bug: {bug.name}" for bug in ARITHMETIC_BUGS]
    slow = ("replacement", "plan", "delete durable")
    heavy = [name for name in proofs if name.startswith("classic") and any(word in name for word in slow)]
    return [*heavy, *([] if quick else bugs), *(name for name in proofs if name not in heavy), *needed, *rest]


def _happens(protocol: Protocol, name: str) -> Result:
    action = protocol.spec.actions[name]
    few = possible(Step.of(protocol.spec, action, sizes=protocol.levels["few"]))
    return few if few.good else possible(Step.of(protocol.spec, action, sizes=protocol.sizes))


def run_job(job: str, limit_ms: int = 60_000) -> Results:
    """The results of one job."""
    kind, _, name = job.partition(": ")
    if kind == "arithmetic bug":
        return _bug(name, next(bug for bug in ARITHMETIC_BUGS if bug.name == name).breaks(None))
    if kind == "wheel":
        results = list(wheel.check({name: wheel.CLAIMS[name]}, limit_ms))
    elif kind == "assignors":
        results = list(assignors.check(limit_ms))
    else:
        known = kind.partition(" ")[0]
        protocol = protocols().get(known, protocols()["classic"])
        kind = kind.removeprefix(protocol.prefix)
        if kind == "mutant":
            bug = next(bug for bug in protocol.bugs if bug.name == name)
            return _bug(name, killers(protocol.spec, bug, protocol.sizes))
        results = list(_of_protocol(protocol, kind, name, limit_ms))
    return [{**vars(result), "job": job} for result in results]


def _of_protocol(protocol: Protocol, kind: str, name: str, limit_ms: int) -> Iterator[Result]:
    """Initiation, consecution and satisfiability, or necessity."""
    if kind == "necessity":
        sizes, _, event = name.partition(": ")
        yield from necessity.prove(protocol, event, sizes)
    elif not name:
        yield from initiation(protocol.spec, limit_ms)
    else:
        step = Step.of(protocol.spec, protocol.spec.actions[name])
        yield from prove(step, protocol.spec.properties.values(), limit_ms)
        yield _happens(protocol, name)


def _bug(name: str, found: dict[str, str]) -> Results:
    """What a planted bug breaks, with an example."""
    return [{"kind": "mutant", "name": name, "breaks": list(found), "shown": next(iter(found.values()), "")}]


def fingerprint() -> str:
    """What every outcome depends on: the sources of the specifications, and Z3."""
    digest = hashlib.sha256(z3.get_version_string().encode())
    for folder in ("rota.specs", "rota.specs.consumer", "rota.specs.transactions"):
        for source in sorted(files(folder).iterdir(), key=lambda entry: entry.name):
            if source.name.endswith((".py", "necessary.json")):
                digest.update(f"{folder} {source.name}".encode() + source.read_bytes())
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
