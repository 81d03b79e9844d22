"""`rota plant`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rota._rota import RotaError
from rota.audit.plant import copying, journal, records
from rota.exits import FAILED, MISUSED, complain, existing_directory, fail, reason_of
from rota.why.words import printable

Source = Annotated[Path, typer.Argument(metavar="SRC", help="A data directory; it is not changed.")]
Target = Annotated[Path, typer.Argument(metavar="DST", help="A directory that does not exist yet.")]


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


def plant(source: Source, target: Target, as_json: AsJson = False) -> None:
    """Copy a directory's logs with one planted fault per group, to test the audit. Each kind of fault goes into the
    first suitable group; stderr names the kinds without one.
    Exit code 1: no group suits any fault. 2: SRC cannot be read, or DST exists.

    \b
    Example:
      rota plant data planted && rota audit planted
    """
    existing_directory(source)
    if target.exists():
        fail(MISUSED, f"`{target}` exists already: give a directory that does not")
    try:
        planted = copying.plant(source, target)
    except (OSError, RotaError) as error:
        fail(MISUSED, reason_of(error))
    missing = sorted((records.FAULTS.keys() | journal.FAULTS.keys()) - {fault.kind for fault in planted})
    if as_json:
        typer.echo(json.dumps({"planted": [fault._asdict() for fault in planted], "no_room": missing}, indent=2))
    else:
        for fault in planted:
            typer.echo(f"{fault.source} {fault.partition} {printable(fault.group)}: {fault.kind}")
    if missing:
        complain(f"no group has room for: {', '.join(missing)}")
    if not planted:
        raise typer.Exit(FAILED)
