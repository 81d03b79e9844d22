"""The commands `rota check` and `rota check ENGINE`. Exit codes: 0 everything holds, 1 something does not, 2 it was
called wrongly or something has to be installed, 130 it was interrupted."""

from __future__ import annotations

import json
import sys
from typing import Annotated, NoReturn

import typer

from rota.check import proofs
from rota.check.engines import Report, table

FAILED, MISUSED, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    help="Check the protocol and this implementation of it.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Quick = Annotated[bool, typer.Option("--quick", help="Leave out what takes long, such as planted bugs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute everything anew, whatever the cache has.")]
Processes = Annotated[
    int | None, typer.Option("--processes", min=1, max=256, help="How many to use; all cores if left out.")
]


def fail(code: int, message: str) -> NoReturn:
    """End with one line on stderr."""
    typer.echo(f"rota: {message}", err=True)
    raise typer.Exit(code)


def life_sign(done: int, of: int, job: str) -> None:
    """One line on a terminal that says how far it is."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{done}/{of} {job}"[:100])
        if done == of:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def proved(quick: bool, processes: int | None, fresh: bool) -> Report:
    """The report of the proofs, or the end if they cannot run."""
    needed = proofs.missing()
    if needed:
        fail(MISUSED, needed)
    try:
        return proofs.run(quick, processes, life_sign, fresh)
    except KeyboardInterrupt:
        fail(INTERRUPTED, "interrupted; what was proved so far is kept")


def end(reports: list[Report], as_json: bool) -> NoReturn:
    """Print the reports, and end with 1 if anything failed."""
    if as_json:
        typer.echo(json.dumps([report.data() for report in reports], indent=2))
    else:
        typer.echo(table(reports))
        for report in reports:
            for failure in report.failures:
                typer.echo(f"\n{failure}")
    raise typer.Exit(0 if all(report.ok for report in reports) else FAILED)


@app.callback(invoke_without_command=True)
def every(context: typer.Context, quick: Quick = False, as_json: AsJson = False) -> None:
    """Run every engine and print one table of their figures.

    \b
    Examples:
      rota check
      rota check --quick --json
      rota check proofs --explain S7
    """
    if context.invoked_subcommand is None:
        end([proved(quick, None, fresh=False)], as_json)


@app.command("proofs")
def prove(
    quick: Quick = False,
    as_json: AsJson = False,
    fresh: Fresh = False,
    processes: Processes = None,
    explain: Annotated[str | None, typer.Option(metavar="ID", help="Say what a property means, and end.")] = None,
) -> None:
    """Prove the invariants of the classic protocol, of the timing wheel and of the assignors, without bounds.

    Needs Z3: pip install 'rota[check]'. Results are kept in ~/.cache/rota by the content of the specifications.

    \b
    Examples:
      rota check proofs
      rota check proofs --quick --fresh
      rota check proofs --explain S11
    """
    if explain is None:
        end([proved(quick, processes, fresh)], as_json)
    needed = proofs.missing()
    if needed:
        fail(MISUSED, needed)
    try:
        typer.echo(proofs.explain(explain))
    except KeyError as error:
        fail(MISUSED, str(error.args[0]))
