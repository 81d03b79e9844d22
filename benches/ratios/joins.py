"""Groups that come to Stable from nothing, all members at once, as `rota bench join` measures it."""

from __future__ import annotations

from collections.abc import Iterator

from benches import brokers
from benches.ratios.row import Row, at_least, at_most
from benches.ratios.run import Plan, warmed
from rota.bench import joining, processes, serving
from rota.bench.figures import duration, figure
from rota.bench.joining import Storm
from rota.bench.processes import Served

# Groups, and members of each.
CROWDS = ((1, 100), (1, 1_000), (1, 5_000), (1_000, 10))
QUICK_CROWDS = ((1, 20), (5, 4))
KAFKA_WANTED, FLOOR_WANTED = at_least(3), at_most(2)
ECHO_CONNECTIONS = 256


def echo_each_s(echo: Served, plan: Plan) -> float:
    """What one request takes of the echo, with many connections at once."""
    seconds = plan.seconds / 2
    load = serving.Plan(ECHO_CONNECTIONS, 1, ECHO_CONNECTIONS, 100, seconds / 5, seconds, plan.rounds)
    (result,) = serving.measure([echo], load, plan.say)
    return 1 / result.per_s.median


def joins(plan: Plan) -> Iterator[Row]:
    """PERF-7: beside Kafka, and beside as many requests to the echo."""
    with processes.pinned_load() as core, processes.own_server(core) as ours, brokers.kafka(core) as kafka:
        with processes.echo(core) as echo:
            each_s = echo_each_s(echo, plan)
        warmed(kafka, plan)
        for groups, members in QUICK_CROWDS if plan.quick else CROWDS:
            mine, theirs = joining.measure([ours, kafka], Storm(groups, members, plan.rounds), plan.say)
            took, other = mine.figure("elapsed_s"), theirs.figure("elapsed_s")
            floor = figure([requests * each_s for requests in mine.figure("requests").rounds])
            what, asked = f"cold join to Stable of {groups:,} x {members:,}", mine.figure("requests").median

            shown, requests = duration(took.median), f"{asked:,.0f} requests"
            yield Row(
                "PERF-7", what, "Kafka 4.4", shown, duration(other.median), other.over(took), KAFKA_WANTED, requests
            )
            yield Row(
                "PERF-7",
                what,
                "its requests x echo",
                shown,
                duration(floor.median),
                took.over(floor),
                FLOOR_WANTED,
                requests,
            )
