"""Durable commits and the start with data, as `benches/durable.py` measures them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benches import durable
from benches.brokers import needs
from benches.ratios.row import Row, Wanted, at_least
from benches.ratios.run import Plan
from rota.bench.figures import Figure, count, duration, figure

KAFKA_UNTIL = 256
# By kind of start: the row's words, and what is wanted.
STARTS = {
    "empty": ("process start to first good answer, empty", at_least(50)),
    "filled": ("process start to first good answer, {offsets:,} offsets", at_least(20)),
    "load": ("loading {offsets:,} offsets", at_least(8)),
}


def has_kafka() -> bool:
    """Whether this machine can run one."""
    try:
        for program in ("java", "mvn"):
            needs(program, "Kafka")
    except Exception:
        return False
    return True


def over(row: durable.Figures, ours: str, theirs: str) -> Figure:
    """The ratio of each round."""
    return figure(row[ours]).over(figure(row[theirs]))


def commits(plan: Plan) -> Iterator[Row]:
    """PERF-10."""
    with_kafka = has_kafka()
    seconds = 0.5 if plan.quick else 3.0
    with tempfile.TemporaryDirectory(prefix="rota-ratios-") as place:
        plan.say("durable commits")
        figures = durable.measured_commits(Path(place), 2 if plan.quick else 3, seconds, with_kafka)
    for connections, row in figures.items():
        what = f"durable commits/s, fsync on, {int(connections):,} connections"
        ours = count(figure(row["rota"]).median)
        made = f"{count(sum(row['rota']) * seconds)}"

        def against(
            name: str,
            beside: str,
            wanted: Wanted | None,
            what: str = what,
            row: durable.Figures = row,
            ours: str = ours,
            made: str = made,
        ) -> Row:
            theirs = count(figure(row[name]).median)
            return Row("PERF-10", what, beside, ours, theirs, over(row, "rota", name), wanted, made)

        yield against("floor", "syncs of the disk x connections", at_least(0.9))
        if with_kafka:
            wanted = at_least(1) if int(connections) >= KAFKA_UNTIL else None
            yield against("kafka", "Kafka's default, no fsync", wanted)
        else:
            yield Row("PERF-10", what, "Kafka's default, no fsync", note="no java or mvn")


def start(plan: Plan) -> Iterator[Row]:
    """PERF-9."""
    offsets = 20_000 if plan.quick else 1_020_000
    with_kafka, rounds = has_kafka(), 2 if plan.quick else 3
    with tempfile.TemporaryDirectory(prefix="rota-ratios-") as place:
        plan.say("starts, empty and with data")
        figures = durable.measured_start(Path(place), rounds, offsets, with_kafka)
    for kind, (words, wanted) in STARTS.items():
        row, what = figures[kind], words.format(offsets=offsets)
        ours = duration(figure(row["rota"]).median / 1_000)
        if not with_kafka:
            yield Row("PERF-9", what, "Kafka", ours, note="no java or mvn")
            continue
        if min(row["rota"] + row["kafka"]) <= 0:
            yield Row("PERF-9", what, "Kafka", note="no longer than an empty start: too few to tell")
            continue
        theirs = duration(figure(row["kafka"]).median / 1_000)
        yield Row("PERF-9", what, "Kafka", ours, theirs, over(row, "kafka", "rota"), wanted, f"{rounds} starts")
