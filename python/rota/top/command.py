"""`rota top`: asks again and again, and draws."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.http.client import HttpError
from rota.http.client import groups as groups_of
from rota.why.command import (
    DEFAULT_ADDRESS,
    CommandConfig,
    ControlToken,
    HttpAddress,
    HttpToken,
    chosen_token,
    peer_of,
)
from rota.why.ending import end

if TYPE_CHECKING:
    from rich.console import Console

ROWS_WITHOUT_TERMINAL = WIDTH_OF_FILES = 10_000
ROWS_BESIDE = 4
"""Lines that are no group: totals, an empty one, the heads, what is left out."""


Count = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Stop after N updates; 1 if stdout is no terminal, or a dumb one."),
]


def top(
    context: typer.Context,
    http: HttpAddress = DEFAULT_ADDRESS,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.2, max=3600, metavar="SECONDS", help="Time between updates.")
    ] = 1.0,
    count: Count = None,
    match: Annotated[str, typer.Option(metavar="TEXT", help="Only groups whose id contains TEXT.")] = "",
    only_waiting: Annotated[bool, typer.Option("--waiting", help="Only groups that are waiting.")] = False,
    http_token: HttpToken = None,
    control_token: ControlToken = None,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per update.")] = False,
) -> None:
    """Watch the groups of a running server: waiting groups first, then the most recently rebalanced.

    `slack` is a histogram of the session time that members have left: healthy members are on the right, members about
    to expire on the left, in red. Ctrl-C stops it. With --json it prints until Ctrl-C, or --count times. Exit code 5:
    the server did not answer.

    \b
    Examples:
      rota top
      rota top --http https://kafka.test:9644 --command-config client.properties
      rota top --json --interval 5 | jq -r '.groups[].why'
    """
    from rich.console import Console
    from rich.live import Live

    from rota.top import view

    server = peer_of(http, chosen_token(context, http_token, control_token), command_config, as_json=as_json)
    try:
        groups = groups_of(server)
    except HttpError as error:
        end(error.exit_code, error.name, str(error), as_json=as_json)
    console = Console(highlight=False)
    draws, fits_width = _seen_on(console)
    looks = 1 if count is None and not (as_json or draws) else count

    def screen(fault: str | None = None) -> Any:
        rows = console.height - ROWS_BESIDE if draws and looks != 1 else ROWS_WITHOUT_TERMINAL
        wanted = view.ordered(groups, match, only_waiting=only_waiting)
        return view.drawn(groups, wanted, server.address, max(rows, 1), fault, match, fits_width=fits_width)

    def look() -> None:
        if as_json:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            typer.echo(json.dumps({"at": at, "groups": view.ordered(groups, match, only_waiting=only_waiting)}))
        else:
            console.print(screen())

    with suppress(KeyboardInterrupt):
        if as_json or looks == 1 or not draws:
            look()
            for _ in _again(interval_s, looks):
                try:
                    groups = groups_of(server)
                except HttpError as error:
                    end(error.exit_code, error.name, str(error), as_json=as_json)
                look()
            return
        with Live(screen(), console=console, screen=True, auto_refresh=False) as live:
            for _ in _again(interval_s, looks):
                try:
                    groups = groups_of(server)
                    live.update(screen(), refresh=True)
                except HttpError as error:
                    live.update(screen(str(error)), refresh=True)


def _seen_on(console: Console) -> tuple[bool, bool]:
    """Whether there is a screen to draw on, and a width to fit. A dumb terminal, such as that of Emacs, has no screen.
    A file or a pipe has no width, unless COLUMNS says one: nothing is cut there.
    """
    fits_width = console.is_terminal or "COLUMNS" in os.environ
    if not fits_width:
        console.width = WIDTH_OF_FILES
    return console.is_terminal and not console.is_dumb_terminal, fits_width


def _again(interval_s: float, looks: int | None) -> Iterator[None]:
    """The looks after the first one, each after the interval."""
    never = threading.Event()
    for _ in itertools.count() if looks is None else range(looks - 1):
        never.wait(interval_s)
        yield
