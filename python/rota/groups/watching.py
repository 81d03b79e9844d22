"""`rota groups watch`: the same question again and again, and what changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event
from time import monotonic
from typing import Any

import typer

from rota.groups import render
from rota.groups.cluster import Cluster
from rota.groups.errors import GroupsError, Kind
from rota.groups.lag import rows

HEADER = ("TIME", "GROUP", "STATE", "#MEMBERS", "LAG", "LAG-CHANGE", "LAG-SECONDS")
WIDTHS = (8, 30, 19, 8, 10, 12, 11)

# It is never set: the wait is the interval.
pause = Event().wait


def look(cluster: Cluster, group: str) -> dict[str, Any]:
    """A group now, or that it is gone."""
    try:
        [described] = cluster.describe([group])
        found = render.described_json(described, rows(cluster, described))
    except GroupsError as error:
        if error.kind is not Kind.NOT_FOUND:
            raise
        return {"group": group, "state": "gone", "members": None, "lag": None, "lag_s": None}
    return {
        "group": group,
        "state": found["state"],
        "members": None if found["members"] is None else len(found["members"]),
        "lag": found["lag"],
        "lag_s": found["lag_s"],
    }


def follow(
    cluster: Cluster, groups: Callable[[], list[str]], interval_s: float, count: int | None, *, as_json: bool
) -> None:
    """Looks every `interval_s` seconds, `count` times or until Ctrl-C. What is not there at the start is an error."""
    last: dict[str, dict[str, Any]] = {}
    cluster.describe(groups())
    if not as_json:
        typer.echo(_line(HEADER))
    with suppress(KeyboardInterrupt):
        while True:
            begun = monotonic()
            now = datetime.now(UTC)
            seen = {group: look(cluster, group) for group in sorted({*groups(), *last})}
            for group, one in seen.items():
                one["lag_change"] = _change(last.get(group), one)
            if as_json:
                typer.echo(json.dumps({"at": now.isoformat(timespec="milliseconds"), "groups": list(seen.values())}))
            else:
                for one in seen.values():
                    typer.echo(_line(_cells(now, one)))
            last = {group: one for group, one in seen.items() if one["state"] != "gone"}
            count = None if count is None else count - 1
            if count == 0:
                return
            pause(max(0.0, interval_s - (monotonic() - begun)))


def _change(before: dict[str, Any] | None, now: dict[str, Any]) -> int | None:
    if before is None or before["lag"] is None or now["lag"] is None:
        return None
    return int(now["lag"]) - int(before["lag"])


def _cells(at: datetime, one: dict[str, Any]) -> tuple[str, ...]:
    change = "" if one["lag_change"] is None else f"{one['lag_change']:+d}"
    told = [render.NONE if one[name] is None else str(one[name]) for name in ("members", "lag")]
    seconds = render.NONE if one["state"] == "gone" else render.seconds(one["lag_s"])
    return f"{at:%H:%M:%S}", render.plain(one["group"]), one["state"], *told, change, seconds


def _line(cells: tuple[str, ...]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
