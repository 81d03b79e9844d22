"""The audit on one core: a journal folded again inside Spark, and asked by queries."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import rota
from benches.brokers import MissingError
from benches.ratios.row import Row, Wanted, at_least, faster
from benches.ratios.run import Plan, in_turns
from rota.bench import serving
from rota.bench.alone import way
from rota.bench.figures import count, duration, figure
from rota.bench.processes import Served

CONNECTIONS, MEMBERS, GROUP_MEMBERS = 16, 1_000, 100
EVENTS_WANTED_PER_S = 200_000
# So that several tasks have something to do, as with logs that are large.
PART_BYTES = 1 << 20


def journal(place: Path, plan: Plan) -> None:
    """What a server writes while heartbeats come in."""
    seconds = 0.5 if plan.quick else 3.0
    load = serving.Plan(CONNECTIONS, 64, MEMBERS, GROUP_MEMBERS, 0, seconds, 1)
    settings = {"group.initial.rebalance.delay.ms": 0}
    with rota.Server(data=place, journal=True, settings=settings) as server:
        served = Served("rota", f"127.0.0.1:{server.port}", None)
        with serving.Crowd(served, load) as crowd:
            crowd.run(load)


def audit(plan: Plan) -> Iterator[Row]:
    """PERF-12."""
    from rota.audit.session import MissingError as NoSparkError
    from rota.audit.session import check_installed

    try:
        check_installed()
    except NoSparkError as error:
        raise MissingError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="rota-ratios-") as folder:
        place = Path(folder) / "data"
        plan.say("a journal is written")
        journal(place, plan)
        yield from measured(plan, place, Path(folder) / "tables")


def measured(plan: Plan, place: Path, tables: Path) -> Iterator[Row]:
    """Both auditors, on one core; Spark has started, and has done both once."""
    from rota.audit import audit, checks, folds, session, views
    from rota.audit.logs import JOURNAL, parts_of

    parts = [part for part in parts_of([place], PART_BYTES) if part.source == JOURNAL]
    events = sum(part.records for part in parts)
    chosen = [check for check in checks.CHECKS if JOURNAL in check.sources]
    asked = audit.Wanted([place], output=tables)
    with session.started("local[1]") as spark:
        session.fit(spark, events)

        def alone() -> tuple[int, float]:
            began = time.perf_counter()
            entries = sum(folds.fold(chunk).entries for chunk in folds.chunks_of(parts))
            return entries, time.perf_counter() - began

        def spread() -> tuple[int, float]:
            began = time.perf_counter()
            entries = sum(fold.entries for fold in folds.replay(spark, parts))
            return entries, time.perf_counter() - began

        def queries() -> tuple[int, float]:
            began = time.perf_counter()
            audit.read_rows(spark, asked, parts).createOrReplaceTempView("all_rows")
            spark.table("all_rows").createOrReplaceTempView("rows")
            views.define(spark)
            try:
                found = audit.declared(spark, chosen)
            finally:
                views.forget(spark)
            assert not [verdict for verdict in found if verdict.severity == checks.VIOLATION], found
            return events, time.perf_counter() - began

        folded, one_thread = "journal folded in Spark's tasks, one core", "one Rust thread"
        plan.say("Spark warms up")
        spread()
        ways = in_turns(plan, {folded: spread, one_thread: alone})
        yield faster("PERF-12", folded, ways[folded], ways[one_thread], at_least(0.6))
        queries()
        asked_ways = way("", [queries()])
        each_s = asked_ways.each_s.median
        yield Row(
            "PERF-12",
            f"journal asked by {len(chosen)} queries, one core, events/s",
            f"{EVENTS_WANTED_PER_S:,} events/s",
            f"{count(1 / each_s)}/s",
            duration(1 / EVENTS_WANTED_PER_S),
            figure([1 / each_s / EVENTS_WANTED_PER_S]),
            Wanted(1),
            count(events),
        )
