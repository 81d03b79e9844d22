"""The audit, as `benches/audit.py` measures it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from benches.ratios.row import Row, at_least
from benches.ratios.run import ROOT, Plan
from rota.bench.figures import count, figure

EVENTS, QUICK_EVENTS = 200_000, 20_000
CHECKS_WANTED_PER_S = 200_000


def audit(plan: Plan) -> Iterator[Row]:
    """PERF-18: one run, in this process."""
    events = QUICK_EVENTS if plan.quick else EVENTS
    plan.say(f"a journal of {events:,} events, audited")
    command = [sys.executable, str(ROOT / "benches" / "audit.py"), "--events", str(events), "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    operations = count(found["events"])
    promises, floor, checks = (found[f"{name}_events_cpu_s"] for name in ("promises", "floor", "checks"))
    yield Row(
        "PERF-18",
        "journal folded for its promises, events/s of processor time",
        "one Rust thread folding the coordinator",
        count(promises),
        count(floor),
        figure([promises / floor]),
        at_least(0.6),
        operations,
    )
    yield Row(
        "PERF-18",
        "journal audited whole, events/s of processor time",
        "what is wanted",
        count(checks),
        count(CHECKS_WANTED_PER_S),
        figure([checks / CHECKS_WANTED_PER_S]),
        at_least(1),
        operations,
    )
