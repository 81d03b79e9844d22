"""The audit on one core, as `benches/audit.py` measures it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from benches.brokers import MissingError
from benches.ratios.row import Row, at_least
from benches.ratios.run import ROOT, Plan
from rota.audit.session import MissingError as NoSparkError
from rota.audit.session import check_installed
from rota.bench.figures import count, figure

EVENTS, QUICK_EVENTS = 200_000, 20_000
QUERIES_WANTED_PER_S = 200_000


def audit(plan: Plan) -> Iterator[Row]:
    """PERF-12: one run, in which Spark's start is apart."""
    try:
        check_installed()
    except NoSparkError as error:
        raise MissingError(str(error)) from error
    events = QUICK_EVENTS if plan.quick else EVENTS
    plan.say(f"a journal of {events:,} events, audited")
    command = [sys.executable, str(ROOT / "benches" / "audit.py"), "--events", str(events), "--cores", "1", "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    operations = count(found["events"])
    replay, floor, queries = (found[f"{name}_events_cpu_s"] for name in ("replay", "floor", "queries"))
    yield Row(
        "PERF-12",
        "journal folded by Spark's tasks, events/s of processor time",
        "one Rust thread",
        count(replay),
        count(floor),
        figure([replay / floor]),
        at_least(0.6),
        operations,
    )
    yield Row(
        "PERF-12",
        "journal asked by all checks, events/s of processor time",
        "what is wanted",
        count(queries),
        count(QUERIES_WANTED_PER_S),
        figure([queries / QUERIES_WANTED_PER_S]),
        at_least(1),
        operations,
    )
