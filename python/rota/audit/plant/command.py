"""`rota plant`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rota.audit.plant import copying, journal, records
from rota.exits import FAILED, MISUSED, fail

Source = Annotated[Path, typer.Argument(metavar="SRC", help="A data directory. Nothing in it is changed.")]
Target = Annotated[Path, typer.Argument(metavar="DST", help="A directory that does not exist yet.")]


def plant(source: Source, target: Target) -> None:
    """Write a copy of a directory's logs with one fault for each group, to see whether an audit notices.

    Each kind goes into the first group that has room for it; a kind without such a group is named on standard error.

    \b
    Example:
      rota plant data planted && rota audit planted
    """
    try:
        planted = copying.plant(source, target)
    except OSError as error:
        fail(MISUSED, str(error))
    for fault in planted:
        typer.echo(f"{fault.source} {fault.partition} {fault.group}: {fault.kind}")
    missing = (records.FAULTS.keys() | journal.FAULTS.keys()) - {fault.kind for fault in planted}
    if missing:
        typer.echo(f"rota: no group has room for: {', '.join(sorted(missing))}", err=True)
    if not planted:
        raise typer.Exit(FAILED)
