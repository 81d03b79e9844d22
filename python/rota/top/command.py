"""`rota top`: asks again and again, and draws."""

from __future__ import annotations

import threading
from typing import Annotated, Any
from urllib.parse import quote

import typer

from rota import exits
from rota.addresses import address
from rota.why.command import DEFAULT_ADDRESS

ROWS_WITHOUT_TERMINAL = 10_000
ROWS_BESIDE = 4
"""Lines that are no group: totals, an empty one, the heads, what is left out."""


def top(
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where `rota serve --http` listens.")
    ] = DEFAULT_ADDRESS,
    every: Annotated[float, typer.Option(min=0.2, max=3600, metavar="SECONDS", help="How often to look.")] = 1.0,
    match: Annotated[str, typer.Option(metavar="TEXT", help="Only groups whose id has this in it.")] = "",
    only_waiting: Annotated[bool, typer.Option("--waiting", help="Only groups that wait for something.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Look once and end; so it does where stdout is no terminal.")] = (
        False
    ),
) -> None:
    """Watch the groups of a running server: those that wait first, then those that rebalanced last.

    `slack` is a histogram of how much of their session members have left: healthy ones are on the right, those about to
    expire on the left, in red. Ctrl-C ends it. Exit code 1: the server did not answer when it was asked first.

    \b
    Examples:
      rota top
      rota top --http 10.0.0.7:9644 --waiting
      rota top --match billing --once
    """
    from rich.console import Console
    from rich.live import Live

    from rota.http.client import HttpError
    from rota.top import view

    address("--http", http, 1)
    console = Console(highlight=False)
    try:
        groups = all_groups(http)
    except HttpError as error:
        exits.fail(exits.FAILED, f"{error.name}: {error}")

    def screen(fault: str | None = None) -> Any:
        rows = console.height - ROWS_BESIDE if console.is_terminal and not once else ROWS_WITHOUT_TERMINAL
        wanted = view.ordered(groups, match, only_waiting=only_waiting)
        return view.drawn(groups, wanted, http, max(rows, 1), fault)

    if once or not console.is_terminal:
        console.print(screen())
        return
    never = threading.Event()
    try:
        with Live(screen(), console=console, screen=True, auto_refresh=False) as live:
            while not never.wait(every):
                try:
                    groups = all_groups(http)
                    live.update(screen(), refresh=True)
                except HttpError as error:
                    live.update(screen(f"{error.name}: {error}"), refresh=True)
    except KeyboardInterrupt:
        return


def all_groups(address: str) -> list[dict[str, Any]]:
    """All groups in a few figures, page by page. Raises HttpError."""
    from rota.http.client import fetch

    groups: list[dict[str, Any]] = []
    after = ""
    while True:
        page = fetch(address, f"/groups{after}")
        groups += page["groups"]
        if page["next"] is None:
            return groups
        after = f"?after={quote(page['next'], safe='')}"
