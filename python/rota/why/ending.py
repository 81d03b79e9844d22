"""How `rota why` and `rota top` end if they cannot tell: the same from a server, a broker and logs."""

from __future__ import annotations

import json
from typing import NoReturn

import typer

from rota import exits


def end(code: int, name: str, message: str, *, as_json: bool) -> NoReturn:
    """End with one line on stderr; with --json also an object on stdout, whose `error` is the name, for programs."""
    line = " ".join(message.split())
    if as_json:
        typer.echo(json.dumps({"error": name, "message": line}))
    exits.fail(code, line)


def misused(message: str, *, as_json: bool) -> NoReturn:
    """End because of a wrong value."""
    end(exits.MISUSED, "Misused", message, as_json=as_json)
