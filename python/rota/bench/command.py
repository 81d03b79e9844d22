"""The commands `rota bench ...`. Exit codes: 0 measured, 1 it failed, 2 it was called wrongly, 130 interrupted."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.addresses import address
from rota.bench import alone, joining, plot, processes, serving
from rota.bench.processes import BenchError, Served
from rota.bench.serving import Plan, Say
from rota.exits import FAILED, INTERRUPTED, MISUSED, fail

GROUP_MEMBERS = 100

app = typer.Typer(
    help="Measure heartbeats, beside the floor of this machine. Figures are for the machine and the moment: compare "
    "only what one run has measured.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table; times in seconds.")]
Seconds = Annotated[float, typer.Option(min=0.01, max=3_600, metavar="SECONDS", help="Of each measurement.")]
Rounds = Annotated[int, typer.Option(min=1, max=100, metavar="N", help="How often each is measured, in turns.")]


def said() -> Say:
    """Where it has got to: on a terminal one line that is written over."""
    if not sys.stderr.isatty():
        return lambda _: None

    def say(what: str) -> None:
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()

    return say


@contextmanager
def measuring(say: Say) -> Iterator[None]:
    """Errors become one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        say("")
        fail(INTERRUPTED, "interrupted")
    except (BenchError, OSError) as error:
        say("")
        fail(FAILED, str(error))
    say("")


def written(as_json: bool, what: Any, text: str) -> None:
    """The result on stdout."""
    typer.echo(json.dumps(what, indent=2) if as_json else text)


@app.command("heartbeat")
def heartbeat(
    members: Annotated[int, typer.Option(min=1, max=20_000_000, metavar="N", help="In groups of 100.")] = 100_000,
    seconds: Seconds = 2.0,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """Heartbeats through the coordinator alone, without sockets, members in shuffled order.

    Takes about 1 KiB of memory a member. The floor is a hit in a map of as many member ids.

    \b
    Example:
      rota bench heartbeat --members 1000000
    """
    say = said()
    with measuring(say):
        ways = alone.heartbeats(members, seconds, rounds, say)
        say("")
        written(as_json, {"members": members, "ways": [one.to_json() for one in ways]}, alone.text(ways))


@app.command("floors")
def floors(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", exists=True, file_okay=False, help="Whose disk is synced; else TMPDIR's."),
    ] = None,
    seconds: Seconds = 1.0,
    as_json: AsJson = False,
) -> None:
    """What this machine takes for the parts of a heartbeat and of a durable commit; nothing of rota runs.

    \b
    Example:
      rota bench floors --dir /var/lib
    """
    say = said()
    with measuring(say):
        ways = alone.floors(directory, seconds, say)
        say("")
        written(as_json, {"ways": [one.to_json() for one in ways]}, alone.text(ways))


def named(servers: Sequence[str], pids: Sequence[int]) -> list[Served]:
    """The brokers that were given, with their processes if those were."""
    if pids and len(pids) != len(servers):
        given = f"--bootstrap-server comes {len(servers)} times and --pid {len(pids)} times"
        fail(MISUSED, f"{given}: give one for each, or none")
    found = [address("--bootstrap-server", server, 1) for server in servers]
    return [Served(server, server, pids[at] if pids else None) for at, server in enumerate(found)]


@app.command("serve")
def serve(
    bootstrap_server: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="A broker that is running; may come several times. Without it: a rota."),
    ] = None,
    pid: Annotated[
        list[int] | None, typer.Option(metavar="PID", help="Its process, so that its CPU is measured, too.")
    ] = None,
    connections: Annotated[int, typer.Option(min=1, max=65_536, metavar="N", help="Connections.")] = 16,
    depth: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="In flight on each.")] = 1,
    members: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, metavar="N", help="In all; one a connection if left out.")
    ] = None,
    group_members: Annotated[int, typer.Option(min=1, max=1_000, metavar="N", help="Of a group.")] = GROUP_MEMBERS,
    rate: Annotated[
        float | None, typer.Option(min=1, metavar="N", help="Heartbeats a second, whether answers come or not.")
    ] = None,
    warm_up: Annotated[float, typer.Option(min=0, max=600, metavar="SECONDS", help="Before each measurement.")] = 1.0,
    seconds: Seconds = 5.0,
    rounds: Rounds = 3,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw how long answers took.")] = None,
    as_json: AsJson = False,
) -> None:
    """Heartbeats of members in Stable groups over TCP, beside an echo that does nothing but answer.

    Works with any Kafka broker that leads all groups itself. The load runs on one core, what this command starts on
    another. Without --rate the next heartbeat goes out when an answer has come (closed loop). With it heartbeats are
    due at a steady rate, and each one's time counts from when it was due, so that a pause counts for all who would
    have asked meanwhile. The members leave at the end.

    \b
    Examples:
      rota bench serve --connections 256
      rota bench serve --connections 16 --depth 64 --svg took.svg
      rota bench serve --rate 20000 --bootstrap-server 127.0.0.1:9092 --bootstrap-server 127.0.0.1:9192
    """
    servers = named(bootstrap_server or [], pid or [])
    plan = Plan(connections, depth, members or connections, group_members, warm_up, seconds, rounds, rate)
    say = said()
    with measuring(say), processes.pinned_load() as core, ExitStack() as stack:
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
        typer.Option(metavar="HOST:PORT", help="A broker that is running; may come several times. Without it: a rota."),
    ] = None,
    groups: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Groups.")] = 1,
    members: Annotated[int, typer.Option(min=1, max=60_000, metavar="N", help="Of each group.")] = 1_000,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """All members of new groups join at once, each over a connection of its own, until every group is Stable.

    Connections are open before the clock starts. A member joins, syncs, and heartbeats from time to time until its
    group is complete: a broker tells only so of the next generation. The members leave at the end. Give the brokers
    `group.initial.rebalance.delay.ms=0`, or that is what is measured.

    \b
    Examples:
      rota bench join --members 5000
      rota bench join --groups 1000 --members 10 --bootstrap-server 127.0.0.1:9092 --bootstrap-server 127.0.0.1:9192
    """
    servers, storm, say = named(bootstrap_server or [], []), joining.Storm(groups, members, rounds), said()
    with measuring(say), processes.pinned_load() as core, ExitStack() as stack:
        results = joining.measure(servers or [stack.enter_context(processes.own_server(core))], storm, say)
        say("")
        servers_json = [one.to_json() for one in results]
        written(as_json, {"storm": vars(storm), "servers": servers_json}, joining.text(results, storm))
