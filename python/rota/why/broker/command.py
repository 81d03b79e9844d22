"""`rota why GROUP --bootstrap-server HOST:PORT`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from rota.groups.errors import GroupsError, Kind
from rota.groups.options import connected
from rota.progress import shown
from rota.why.broker import asking, explaining
from rota.why.ending import end

NAMES = {
    Kind.REFUSED: "Refused",
    Kind.MISUSED: "Misused",
    Kind.NOT_FOUND: "NoSuchGroup",
    Kind.IN_USE: "InUse",
    Kind.UNREACHABLE: "ServerDown",
}
"""Errors as `rota why` calls them whatever it asks."""


@contextmanager
def ending(*, as_json: bool) -> Iterator[None]:
    """End the command if a broker cannot be asked or does not know the group."""
    try:
        yield
    except GroupsError as error:
        end(error.kind.exit_code, NAMES[error.kind], str(error), as_json=as_json)


def why_elsewhere(
    group: str,
    bootstrap_server: str,
    config: Path | None,
    watch_s: float,
    history_s: float,
    timeout_ms: int,
    *,
    as_json: bool,
) -> None:
    """Watch a group of any Kafka broker, read its records, and print what they tell."""
    with ExitStack() as stack:
        stack.enter_context(ending(as_json=as_json))
        tell = stack.enter_context(shown())
        cluster = stack.enter_context(connected(bootstrap_server, config, None, timeout_ms))
        looks = asking.looks(cluster, group, watch_s, tell, time.sleep)
        since_ms = int((time.time() - history_s) * 1_000)
        history, unreadable = asking.history(cluster, group, since_ms, tell)
        around = asking.surroundings(cluster, looks[-1])
        told = explaining.report(looks, history, history_s, unreadable, around)
    typer.echo(json.dumps(explaining.as_json(told), indent=2) if as_json else "\n".join(explaining.text(told)))
