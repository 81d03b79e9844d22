"""`rota demo`: real consumers form a group, and what they say about it is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.demo.stage import Result, Settings


def perform(settings: Settings, *, as_json: bool) -> Result:
    """Run the demo once, shown on stdout. Needs confluent-kafka (ImportError without it)."""
    from rota.demo.stage import Stage
    from rota.demo.view import view

    with view(as_json) as audience:
        if settings.bootstrap_servers is not None:
            result = Stage(settings, None, audience).play()
        else:
            from rota.server import Server

            with Server() as server:
                result = Stage(settings, server, audience).play()
        audience.end(result)
    return result
