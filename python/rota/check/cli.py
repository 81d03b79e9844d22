"""The commands `rota check` and `rota check ENGINE`. Exit codes: 0 everything holds, 1 something does not, 2 it was
called wrongly or something has to be installed, 130 it was interrupted."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from rota import interrupts
from rota.arguments import INT64_MAX
from rota.check import exploration, proofs
from rota.check.engines import Effort, Progress, Report, table
from rota.check.registry import ENGINES
from rota.exits import FAILED, INTERRUPTED, MISUSED, complain, fail
from rota.misuse import behind, is_given
from rota.progress import shown

app = typer.Typer(
    help="Check the protocol and this implementation of it.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Quick = Annotated[bool, typer.Option("--quick", help="Run the short checks only: a few minutes at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=INT64_MAX, metavar="N", help="Seed of the first random run.")]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps", min=1, max=INT64_MAX, metavar="N", help="Number of random steps (default: the engine's choice)."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, max=256, metavar="N", help="Number of processes; one per core by default."),
]
Run = Callable[[Effort, Progress], Report]
LINE_WIDTH = 100
SIMULATION, DIFFERENTIAL = (
    next(engine for engine in ENGINES if engine.name == name) for name in ("simulation", "differential")
)


@contextmanager
def sign(engine: str) -> Iterator[Progress]:
    """How far the engine is; where stderr is no terminal, also a line at the start."""
    if not sys.stderr.isatty():
        typer.echo(f"rota: {engine} ...", err=True)
    with shown() as say:
        yield lambda done, of, job: say(f"{engine}: {done:,}/{of:,} {job}"[:LINE_WIDTH].rstrip())


def checked(name: str, run: Run, effort: Effort, so_far: list[Report], *, as_json: bool = False) -> Report:
    """The engine's report. If it is interrupted, its processes end, and what others reported is printed."""
    try:
        with sign(name) as say:
            return run(effort, say)
    except KeyboardInterrupt:
        for process in multiprocessing.active_children():
            process.kill()
        if so_far:
            typer.echo(as_text(so_far, as_json))
        complain(f"{name} was interrupted")
        if interrupts.are_watched():
            # An interrupt inside the pool can leave a lock held that its thread needs, and the interpreter's own end
            # would wait for that thread.
            sys.stdout.flush()
            interrupts.end(INTERRUPTED)
        raise SystemExit(INTERRUPTED) from None


def effort(quick: bool, seed: int, steps: int | None, jobs: int | None) -> Effort:
    """The options' values as an engine wants them."""
    return Effort(quick, seed, steps, jobs or os.cpu_count() or 1)


def as_text(reports: list[Report], as_json: bool) -> str:
    """The figures of the reports, as JSON also what failed."""
    return json.dumps([report.data() for report in reports], indent=2) if as_json else table(reports)


def end(reports: list[Report], absent: list[str], as_json: bool) -> NoReturn:
    """Print the reports, and end with 1 if anything failed, with 2 if something could not be run."""
    typer.echo(as_text(reports, as_json))
    if not as_json:
        for report in reports:
            for failure in report.failures:
                typer.echo(f"\n{report.engine}: {failure}")
    for line in absent:
        typer.echo(f"rota: {line}", err=True)
    if not all(report.ok for report in reports):
        raise typer.Exit(FAILED)
    raise typer.Exit(MISUSED if absent else 0)


@app.callback(invoke_without_command=True)
def every(
    context: typer.Context,
    quick: Quick = False,
    as_json: AsJson = False,
    seed: Seed = 0,
    steps: Steps = None,
    jobs: Jobs = None,
) -> None:
    """Run every engine and print one table of their figures.

    What an engine finds is printed below the table, as small as it could be made. An engine that needs something that
    is not installed is left out, is named on stderr, and makes the exit code 2.

    \b
    Examples:
      rota check
      rota check --quick --json
      rota check differential --steps 100000 --seed 7
      rota check proofs --explain S7
    """
    if context.invoked_subcommand is not None:
        refuse_in_front(context)
        return
    reports: list[Report] = []
    absent = {engine.name: engine.missing() for engine in ENGINES}
    for engine in ENGINES:
        if absent[engine.name] is None:
            for protocol in engine.protocols:
                asked = replace(effort(quick, seed, steps, jobs), protocol=protocol)
                reports.append(checked(engine.name, engine.run, asked, reports, as_json=as_json))
    end(reports, [f"left out: {needed}" for needed in absent.values() if needed], as_json)


def refuse_in_front(context: typer.Context) -> None:
    """End with exit code 2 if an option is in front of an engine's name: that of the engine would have its default."""
    for parameter in context.command.params:
        if is_given(context, str(parameter.name)):
            option = parameter.opts[0]
            fail(MISUSED, f"there is no option {option}{behind('rota check', str(context.invoked_subcommand), option)}")


@app.command("simulation", help=SIMULATION.checks)
def simulate(quick: Quick = False, as_json: AsJson = False, seed: Seed = 0, jobs: Jobs = None) -> None:
    """`rota check simulation`."""
    end([checked("simulation", SIMULATION.run, effort(quick, seed, None, jobs), [])], [], as_json)


@app.command("differential")
def walk(
    quick: Quick = False,
    as_json: AsJson = False,
    seed: Seed = 0,
    steps: Steps = None,
    jobs: Jobs = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol", metavar="NAME", help="classic, consumer, conversion or transactions only (default: all)."
        ),
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Play the run in FILE instead; - is stdin.")
    ] = None,
) -> None:
    """Compare the coordinators with rota.model, step by step, on random runs of the classic protocol, of the consumer
    protocol, of groups that change between them, and of transactions, until one of them fails. --steps is the number
    for each of the four.

    \b
    Examples:
      rota check differential --steps 100000 --seed 7
      rota check differential --protocol consumer --quick
      rota check differential --replay failed.txt
    """
    if protocol is not None and protocol not in DIFFERENTIAL.protocols:
        fail(MISUSED, f"--protocol is `{protocol}`: give classic, consumer, conversion or transactions")
    if recorded is not None:
        end([_replayed(recorded)], [], as_json)
    reports: list[Report] = []
    for name in [protocol] if protocol else DIFFERENTIAL.protocols:
        asked = replace(effort(quick, seed, steps, jobs), protocol=name)
        reports.append(checked("differential", DIFFERENTIAL.run, asked, reports, as_json=as_json))
        if not reports[-1].ok:
            break
    end(reports, [], as_json)


def _replayed(path: Path) -> Report:
    try:
        report: Report = importlib.import_module(DIFFERENTIAL.module).replay(
            sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        )
        return report
    except OSError as error:
        fail(MISUSED, f"--replay is `{path}`: {error.strerror}")
    except (ValueError, SyntaxError, TypeError):
        fail(MISUSED, f"--replay is `{path}`: no run; `rota check differential` prints one for each difference")


@app.command("exploration")
def explore(
    quick: Quick = False,
    as_json: AsJson = False,
    states: Annotated[
        int | None,
        typer.Option(
            "--states",
            min=1,
            max=INT64_MAX,
            metavar="N",
            help="States per bound (default 200,000; 8,000 with --quick).",
        ),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", metavar="NAME", help="classic or consumer only (default: both).")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option("--bounds", metavar="NAME", help="Only these bounds (repeatable; default: all)."),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Visit every state that the coordinator can reach within small bounds, and check every state and step. A run
    ends with a whole layer, which can be four times --states. A state takes about 45 bytes of memory.

    \b
    Examples:
      rota check exploration
      rota check exploration --states 5000000 --json
      rota check exploration --protocol consumer
      rota check exploration --bounds conversion --bounds cooperative
    """
    if protocol is not None and protocol not in exploration.PROTOCOLS:
        fail(MISUSED, f"--protocol is `{protocol}`: give classic or consumer")
    known = exploration.bounds_of(protocol)
    for name in bounds or []:
        if name not in known:
            fail(MISUSED, f"--bounds is `{name}`: give one of {', '.join(known)}")
    asked = replace(effort(quick, 0, None, jobs), states=states)
    end([checked("exploration", partial(exploration.run, names=bounds or known), asked, [])], [], as_json)


@app.command("proofs")
def prove(
    quick: Quick = False,
    as_json: AsJson = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore the cache.")] = False,
    jobs: Jobs = None,
    explain: Annotated[str | None, typer.Option(metavar="ID", help="Explain a property, and exit.")] = None,
) -> None:
    """Prove the invariants of the protocols, of transactions, the timing wheel and the assignors, without bounds.

    Needs Z3, the extra `check`: pip install '.[check]'. Results are cached in ~/.cache/rota by the content of the
    specifications. --quick leaves out the planted bugs.

    \b
    Examples:
      rota check proofs
      rota check proofs --quick --fresh
      rota check proofs --explain S11
    """
    needed = proofs.missing()
    if needed:
        fail(MISUSED, needed)
    if explain is None:
        end([checked("proofs", partial(proofs.run, fresh=fresh), effort(quick, 0, None, jobs), [])], [], as_json)
    try:
        text = proofs.explain(explain)
    except KeyError as error:
        fail(MISUSED, str(error.args[0]))
    typer.echo(json.dumps({"id": explain, "text": text}) if as_json else text)
