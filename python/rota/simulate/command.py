"""`rota simulate`: one world line by line, or many worlds and what they came to."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from rota import simulate as engine
from rota.arguments import INT64_MAX, UINT64_MAX
from rota.assign import InputError
from rota.exits import FAILED, INTERRUPTED, MISUSED, fail, file_to_write, not_written
from rota.progress import shown
from rota.simulate import PROTOCOLS, Total, World, drawing
from rota.simulate import plan as planning
from rota.simulate.journal import Journal

SEEDS = "0..200"


@dataclass(frozen=True)
class Which:
    """Which worlds: the options that a seed goes with."""

    protocol: str = "all"
    swarm: bool = False
    engine: bool = False

    def __str__(self) -> str:
        """As options of the command."""
        protocol = f" --protocol {self.protocol}" * (self.protocol != "all")
        return protocol + " --swarm" * self.swarm + " --cluster" * self.engine


Seed = Annotated[
    int | None,
    typer.Option(min=0, max=UINT64_MAX, metavar="N", help="Run the world of seed N, one line per event."),
]


def simulate(
    seed: Seed = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A..B", help=f"Run the worlds of the seeds A to B - 1; {SEEDS} if left out.")
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="NAME", help="classic, consumer, mixed (both), or all in turn.")
    ] = "all",
    swarm: Annotated[bool, typer.Option("--swarm", help="Use only some kinds of faults in each world.")] = False,
    over_engine: Annotated[
        bool, typer.Option("--cluster", help="Nodes share the partitions over an engine, with faults of its own.")
    ] = False,
    minimise: Annotated[
        bool, typer.Option("--minimise", help="Reduce the faults to those that break the world.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, max=256, metavar="N", help="Number of threads; one per core by default."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Deployment plan (TOML): reports its cost for the group.")
    ] = None,
    draw: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --seed or --plan: draw the world as SVG.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --seed or --seeds: write the coordinators' journals, for rota audit."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")] = False,
) -> None:
    """Run simulated worlds of coordinators and members under faults, and check their invariants. A world has real
    coordinators on several nodes, real members in processes, their connections, their logs, and its own clock. A seed
    determines a world: the same seed prints the same lines. Members speak the classic protocol, the newer one, or both;
    with --protocol all the seed decides. After 90 seconds the faults end, and every group has to
    become stable. docs/simulate.md has the faults, the checks and the columns.

    Exit code 1: an invariant broke; the output names it and the seed. 2: usage error, or a file cannot be written.

    \b
    Examples:
      rota simulate
      rota simulate --seeds 0..10000 --swarm
      rota simulate --seeds 0..1000 --protocol mixed
      rota simulate --seeds 0..1000 --cluster
      rota simulate --seed 7
      rota simulate --seed 7 --minimise --json
      rota simulate --seed 7 --draw world.svg
      rota simulate --seeds 0..500 --journal worlds && rota audit worlds
      rota simulate --plan fleet.toml --draw deploy.svg
    """
    if protocol not in PROTOCOLS:
        fail(MISUSED, f"--protocol is `{protocol}`: give {', '.join(PROTOCOLS[:-1])} or {PROTOCOLS[-1]}")
    which = Which(protocol, swarm, over_engine)
    if seed is not None and seeds is not None:
        fail(MISUSED, "give --seed or --seeds, not both")
    if draw is not None:
        file_to_write(draw, "--draw")
    if plan is not None:
        if seeds is not None or which != Which() or minimise or journal is not None:
            fail(MISUSED, "--plan goes with --seed, --draw and --json only")
        _plan(plan, seed or 0, draw, as_json)
    if journal is not None and minimise:
        fail(MISUSED, "--journal does not go with --minimise")
    if seed is not None:
        _one(seed, which, minimise, draw, journal, as_json)
    if minimise or draw is not None:
        fail(MISUSED, f"{'--minimise' if minimise else '--draw'} needs --seed: which world?")
    first, stop = _range(seeds or SEEDS)
    _many(first, stop, which, jobs or os.cpu_count() or 1, journal, as_json)


def _range(text: str) -> tuple[int, int]:
    first, dots, stop = text.partition("..")
    if not (dots and first.isascii() and first.isdigit() and stop.isascii() and stop.isdigit()):
        fail(MISUSED, f"--seeds is `{text}`: give A..B, such as 0..1000")
    if int(first) >= int(stop) or int(stop) > INT64_MAX:
        fail(MISUSED, f"--seeds is `{text}`: there are no seeds from {first} to {stop}")
    return int(first), int(stop)


def _one(seed: int, which: Which, minimise: bool, draw: Path | None, journal: Path | None, as_json: bool) -> NoReturn:
    """One world."""
    if journal is None:
        world = engine.world(seed, **asdict(which), lines=True, minimised=minimise)
    else:
        with _journal(journal) as opened:
            world = opened.world(seed, **asdict(which), lines=True)
    if world is None:
        fail(FAILED, f"the world of seed {seed} does not break: there is nothing to minimise")
    if draw is not None:
        _draw(draw, drawing.svg(world, f"rota simulate --seed {seed}{which}"))
    if as_json:
        typer.echo(json.dumps(asdict(world), indent=2))
    else:
        sys.stdout.writelines(f"{line}\n" for line in world.lines)
        typer.echo(
            _words(world, which) if world.broken else f"seed {seed} ({world.protocol}): {_settled(world.figures)}"
        )
    raise typer.Exit(FAILED if world.broken else 0)


@contextmanager
def _journal(where: Path) -> Iterator[Journal]:
    """The journal in a new directory."""
    if where.exists() and not (where.is_dir() and not any(where.iterdir())):
        fail(MISUSED, f"--journal is `{where}`, which exists: give a new directory, or remove that one first")
    if not where.absolute().parent.is_dir():
        fail(MISUSED, f"--journal is `{where}`: there is no directory `{where.parent}`, create that first")
    try:
        with Journal(where) as journal:
            yield journal
    except OSError as error:
        fail(MISUSED, f"--journal is `{where}`: {error}")


def _draw(where: Path, picture: str) -> None:
    try:
        where.write_text(picture, encoding="utf-8")
    except OSError as error:
        not_written(where, "--draw", error)


def _plan(source: Path, seed: int, draw: Path | None, as_json: bool) -> NoReturn:
    """What a deploy costs as it is planned, and with static members instead of dynamic ones or the other way round."""
    # The worlds behind the first one have seeds, too.
    last = UINT64_MAX - planning.WORLDS + 1
    if seed > last:
        fail(MISUSED, f"--seed is `{seed}`: with --plan give a whole number from 0 to {last}")
    try:
        wanted = planning.read(source.read_text(encoding="utf-8"))
        both = sorted((wanted, planning.other(wanted)), key=lambda one: one.group.static)
        costs = [("static" if one.group.static else "dynamic", planning.cost(one, seed=seed)) for one in both]
        picture = planning.world(wanted, seed)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        fail(MISUSED, f"cannot read `{source}`: {reason}")
    except InputError as error:
        fail(MISUSED, f"{source}: {error}")
    if draw is not None:
        # A while before the deploy, to see what was.
        _draw(draw, drawing.svg(picture, f"rota simulate --plan {source.name}", planning.STEADY_MS - 10_000))
    typer.echo(
        json.dumps({name: asdict(cost) for name, cost in costs}, indent=2) if as_json else planning.as_text(costs)
    )
    raise typer.Exit


def _settled(figures: dict[str, int]) -> str:
    return f"everything held; settled {figures['settled_ms']:,} ms after the end of the faults"


def _words(world: World, which: Which) -> str:
    """What broke, and how to see it again."""
    assert world.broken is not None
    again = f"rota simulate --seed {world.seed}{which} --minimise"
    faults = "\n".join(
        f"  {fault['at_ms']:>9} {fault['kind']:<13} {fault['whom']} {fault['whence']} for {fault['for_ms']} ms"
        for fault in world.faults
    )
    broken = world.broken
    name = f"seed {world.seed} ({world.protocol})"
    return f"{name} broke {broken.id} at {broken.at_ms} ms: {broken.words}\n{faults}\n{again}"


def _totals(first: int, stop: int, which: Which, threads: int, journal: Path | None) -> Iterator[Total]:
    """The total so far, again and again."""
    if journal is None:
        yield from engine.worlds(first, stop, **asdict(which), threads=threads)
        return
    with _journal(journal) as opened:
        yield from opened.worlds(first, stop, **asdict(which))


def _many(first: int, stop: int, which: Which, threads: int, journal: Path | None, as_json: bool) -> NoReturn:
    """Many worlds; how far they are goes to stderr."""
    total, began = Total(), time.perf_counter()
    try:
        with shown() as say:
            for total in _totals(first, stop, which, threads, journal):
                say(f"worlds: {total.seeds:,}/{stop - first:,}")
    except KeyboardInterrupt:
        fail(INTERRUPTED, f"interrupted after {total.seeds:,} worlds; none broke")
    if not total.seeds:
        fail(MISUSED, f"no worlds from {first} to {stop}")
    seconds = time.perf_counter() - began
    if as_json:
        typer.echo(json.dumps({**asdict(which), "seconds": round(seconds, 3), **asdict(total)}, indent=2))
    else:
        typer.echo(as_text(total, seconds))
        if total.broken is not None:
            typer.echo(_words(total.broken, which))
    raise typer.Exit(FAILED if total.broken else 0)


def as_text(total: Total, seconds: float) -> str:
    """The figures of many worlds."""
    figures = total.figures
    events, simulated = figures["happenings"], figures["simulated_ms"] / 1_000
    looked = "  ".join(f"{name} {count:,}" for name, count in figures["looked"].items())
    lines = [
        f"{total.seeds:,} worlds, {events:,} events, {events / seconds:,.0f}/s",
        f"{simulated / 3_600:,.1f} hours of theirs in {seconds:.1f} s: {simulated / seconds:,.0f} times as fast",
        f"settled within {total.settled_ms_max / 1_000:.2f} s and {total.settled_rebalances_max} rebalances of a group"
        " after the end of the faults",
        f"looked: {looked}",
        f"{'fault':<13} {'struck':>9} {'made a difference':>18}",
    ]
    rows = figures["effective"].items()
    lines += [f"{kind:<13} {figures['struck'][kind]:>9,} {count:>18,}" for kind, count in rows]
    return "\n".join(lines)
