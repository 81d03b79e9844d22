"""Runs and reports the proofs of `rota.specs`. Everything of Z3 is behind `missing`, because Z3 is optional."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

from rota.check.engines import Effort, Progress, Report
from rota.exits import installs

NEEDS = f"the proofs need Z3: {installs('check')}"


def missing() -> str | None:
    """What has to be installed first, if anything."""
    return NEEDS if importlib.util.find_spec("z3") is None else None


def run(effort: Effort, progress: Progress, fresh: bool = False) -> Report:
    """Prove everything; without planted bugs if it has to be quick. `fresh` takes nothing from the cache."""
    from rota.specs import jobs

    began = time.perf_counter()
    folder: Path | None = None if fresh else jobs.cache_folder()
    results: list[dict[str, Any]] = []
    for _, found in jobs.run(jobs.names(effort.quick), effort.processes, progress, folder):
        results += found
    return report(results, effort.quick, time.perf_counter() - began)


def report(results: list[dict[str, Any]], quick: bool, seconds: float) -> Report:
    """Figures and failures of the results of all jobs."""
    from rota.specs.protocols import protocols

    proofs = [result for result in results if result["kind"] != "mutant"]
    bugs = [result for result in results if result["kind"] == "mutant"]
    bad = [result for result in proofs if result["verdict"] not in ("proved", "framed")]
    survivors = [bug["name"] for bug in bugs if not bug["breaks"]]
    slowest = max(proofs, key=lambda result: float(result["seconds"]))
    properties = [prop for each in protocols().values() for prop in each.spec.properties.values()]
    figures: dict[str, int | float | str] = {
        "obligations": len(proofs),
        "proved": len(proofs) - len(bad),
        "actions": sum(len(each.spec.actions) for each in protocols().values()),
        "properties": sum(not prop.auxiliary for prop in properties),
        "auxiliary": sum(prop.auxiliary for prop in properties),
    }
    needed = {result["claim"] for result in proofs if result["kind"] == "necessity" and result["verdict"] == "proved"}
    if not quick:
        figures["planted bugs found"] = f"{len(bugs) - len(survivors)} of {len(bugs)}"
        needed |= {bug["breaks"][0] for bug in bugs if len(bug["breaks"]) == 1}
    unneeded = [prop.name for prop in properties if (prop.auxiliary or not quick) and prop.name not in needed]
    figures["slowest"] = f"{slowest['seconds']:.1f} s ({slowest['claim'] or slowest['kind']}: {slowest['action']})"
    failures = [
        f"{result['verdict']}: {result['kind']} {result['claim']} {result['action']}\n{result['shown']}".rstrip()
        for result in bad
    ]
    failures += [f"not noticed: the planted bug `{name}`" for name in survivors]
    failures += [
        f"not needed: without `{name}` nothing breaks, and no planted bug breaks it alone" for name in unneeded
    ]
    return Report("proofs", not failures, seconds, figures, failures)


def explain(name: str) -> str:
    """English, source, formula and the planted bugs that break a property. Raises KeyError if there is none."""
    from rota.specs.explain import explain as words

    return words(name)
