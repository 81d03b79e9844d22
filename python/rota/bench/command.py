"""The commands `rota bench ...`. Exit codes: 0 measured, 1 it failed, 2 it was called wrongly, 5 a server is not there,
130 interrupted."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.addresses import address, split
from rota.bench import alone, joining, plot, processes, serving
from rota.bench.processes import BenchError, Served
from rota.bench.serving import Plan, Say
from rota.exits import FAILED, INTERRUPTED, MISUSED, UNREACHABLE, existing_directory, fail, file_to_write
from rota.progress import shown
from rota.system import is_running

GROUP_MEMBERS = 100
CONNECTED_WITHIN_S = 2.0
DUE_MAX = 100_000_000
"""Heartbeats of a measurement in an open loop: each that is due takes about 40 bytes until all are answered."""

app = typer.Typer(
    help="Measure heartbeats, and compare them with an echo server on this machine. Compare only figures of one run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table; times in seconds.")]
Seconds = Annotated[float, typer.Option(min=0.01, max=3_600, metavar="SECONDS", help="Duration of each measurement.")]
Rounds = Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Number of measurements, interleaved.")]


@contextmanager
def measuring(servers: Sequence[Served] = ()) -> Iterator[Say]:
    """Takes what is measured now. Errors become one line and an exit code: 5 if one of these servers is not there."""
    try:
        with shown() as say:
            yield say
    except KeyboardInterrupt:
        fail(INTERRUPTED, "interrupted")
    except (BenchError, OSError) as error:
        fail(FAILED if all(map(_is_there, servers)) else UNREACHABLE, str(error))


def _is_there(server: Served) -> bool:
    """Whether something takes connections at a server's address."""
    host, port = split(server.address)
    try:
        socket.create_connection((host, int(port)), CONNECTED_WITHIN_S).close()
    except OSError:
        return False
    return True


def written(as_json: bool, what: Any, text: str) -> None:
    """The result on stdout."""
    typer.echo(json.dumps(what, indent=2) if as_json else text)


@app.command("heartbeat")
def heartbeat(
    members: Annotated[
        int, typer.Option(min=1, max=20_000_000, metavar="N", help="Number of members, in groups of 100.")
    ] = 100_000,
    seconds: Seconds = 2.0,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """Measure heartbeats in the coordinator without sockets, members in shuffled order. A member takes about 1 KiB of
    memory. The floor is a hit in a map of as many member ids.

    \b
    Example:
      rota bench heartbeat --members 1000000
    """
    with measuring() as say:
        ways = alone.heartbeats(members, seconds, rounds, say)
        say("")
        written(as_json, {"members": members, "ways": [one.to_json() for one in ways]}, alone.text(ways))


@app.command("floors")
def floors(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Directory whose disk is synced (default TMPDIR).",
        ),
    ] = None,
    seconds: Seconds = 1.0,
    as_json: AsJson = False,
) -> None:
    """Measure this machine's cost of the parts of a heartbeat and of a durable commit, without rota.

    \b
    Example:
      rota bench floors --dir /var/lib
    """
    if directory is not None:
        existing_directory(directory, "--dir")
    with measuring() as say:
        ways = alone.floors(directory, seconds, say)
        say("")
        written(as_json, {"ways": [one.to_json() for one in ways]}, alone.text(ways))


def named(servers: Sequence[str], pids: Sequence[int]) -> list[Served]:
    """The brokers that were given, with their processes if those were."""
    if pids and len(pids) != len(servers):
        given = f"--bootstrap-server comes {len(servers)} times and --pid {len(pids)} times"
        fail(MISUSED, f"{given}: give one for each, or none")
    for number in pids:
        if not is_running(number):
            fail(MISUSED, f"--pid is `{number}`: there is no such process")
    found = [address("--bootstrap-server", server, 1) for server in servers]
    return [Served(server, server, pids[at] if pids else None) for at, server in enumerate(found)]


@app.command("serve")
def serve(
    bootstrap_server: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="A running broker; repeatable (default: start rota)."),
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(metavar="PID", help="Broker PID; measures its CPU time.")] = None,
    connections: Annotated[int, typer.Option(min=1, max=65_536, metavar="N", help="Number of connections.")] = 16,
    depth: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Requests in flight per connection.")] = 1,
    members: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, metavar="N", help="Number of members (default: one per connection)."),
    ] = None,
    group_members: Annotated[
        int, typer.Option(min=1, max=1_000, metavar="N", help="Members per group.")
    ] = GROUP_MEMBERS,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1, max=DUE_MAX, metavar="N", help="Heartbeats per second, independent of answers (open loop)."
        ),
    ] = None,
    warm_up: Annotated[
        float, typer.Option(min=0, max=600, metavar="SECONDS", help="Warm-up before each measurement.")
    ] = 1.0,
    seconds: Seconds = 5.0,
    rounds: Rounds = 3,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the latencies as SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure heartbeats of stable groups over TCP, beside an echo server.

    Works with any Kafka broker that coordinates all groups. The load runs on one core, servers that this command
    starts on another. Without --rate the next heartbeat follows an answer (closed loop). With --rate heartbeats are
    due at a steady rate, and latency counts from when each was due (open loop). The members leave at the end.

    \b
    Examples:
      rota bench serve --connections 256
      rota bench serve --connections 16 --depth 64 --svg took.svg
      rota bench serve --rate 20000 --bootstrap-server 127.0.0.1:9092 --bootstrap-server 127.0.0.1:9192
    """
    servers = named(bootstrap_server or [], pid or [])
    if rate is not None and rate * (warm_up + seconds) > DUE_MAX:
        fail(MISUSED, f"--rate is `{rate:g}`: with --warm-up and --seconds more than {DUE_MAX} heartbeats are due")
    if svg is not None:
        file_to_write(svg, "--svg")
    plan = Plan(connections, depth, members or connections, group_members, warm_up, seconds, rounds, rate)
    with measuring(servers) as say, processes.pinned_load() as core, ExitStack() as stack:
        running = [stack.enter_context(processes.echo(core))]
        running += servers or [stack.enter_context(processes.own_server(core))]
        results = serving.measure(running, plan, say)
        say("")
        floor = serving.floor_of(results)
        report = serving.text(results, plan)
        if svg is not None:
            svg.write_text(plot.svg(results, report.partition("\n")[0]), encoding="utf-8")
        written(as_json, {"plan": vars(plan), "servers": [one.to_json(floor, plan) for one in results]}, report)


@app.command("join")
def join(
    bootstrap_server: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="A running broker; repeatable (default: start rota)."),
    ] = None,
    groups: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Number of groups.")] = 1,
    members: Annotated[int, typer.Option(min=1, max=60_000, metavar="N", help="Members per group.")] = 1_000,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """Measure how long all members of new groups take to join at once, each over its own connection, until every
    group is Stable. Connections are open before the clock starts. A member joins, syncs, and sends heartbeats until
    its group is complete, to learn of the next generation. The members leave at the end. Set
    `group.initial.rebalance.delay.ms=0` on the brokers, or the result includes the delay.

    \b
    Examples:
      rota bench join --members 5000
      rota bench join --groups 1000 --members 10 --bootstrap-server 127.0.0.1:9092 --bootstrap-server 127.0.0.1:9192
    """
    servers, storm = named(bootstrap_server or [], []), joining.Storm(groups, members, rounds)
    with measuring(servers) as say, processes.pinned_load() as core, ExitStack() as stack:
        results = joining.measure(servers or [stack.enter_context(processes.own_server(core))], storm, say)
        say("")
        servers_json = [one.to_json() for one in results]
        written(as_json, {"storm": vars(storm), "servers": servers_json}, joining.text(results, storm))
