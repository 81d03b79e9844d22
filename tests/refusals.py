"""Waiting for what a server says about a connection that it has refused."""

from __future__ import annotations

import rota
from tests.clients.eventually import eventually

WITHIN_S = 30


def wait_for_refusal(server: rota.Server, text: str) -> str:
    """Waits until the server says why it refused a connection, in a line with `text`, and returns that line.

    A client sees an alert of TLS or an answer with an error before the server writes its line. The lines up to then
    are taken from the server.
    """
    lines: list[str] = []

    def found() -> str:
        lines.extend(server.refused_connections())
        return next((line for line in lines if text in line), "")

    return eventually(found, WITHIN_S, f"a line with {text!r}", lambda: "\n".join(lines))
