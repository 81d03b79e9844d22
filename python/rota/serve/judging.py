"""Whether `rota serve` would start, without starting it: no socket, no directory, no engine."""

from __future__ import annotations

import socket
from typing import Any

from rota.addresses import split
from rota.exits import FAILED, fail
from rota.serve.start import Start, refusals
from rota.server import Server


class Rehearsal(Server):
    """A server whose options were checked, and which opens nothing."""

    def _open(self, *_: Any) -> None:
        """Open nothing."""


def judge(start: Start) -> dict[str, str]:
    """End the command as `rota serve` would if it refused to start.

    Returns every setting by its Kafka name, as the server would run with it.
    """
    start.control()
    with refusals(start.blame):
        settings = Rehearsal(**start.arguments())._config.check()
    for address in start.listened_on:
        check_host(address)
    return settings


def check_host(address: str) -> None:
    """End the command, as a server does, if the host of an address is not known."""
    host, _ = split(address)
    try:
        socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no host name"
        fail(
            FAILED,
            f"cannot find the host of `{address}`: failed to lookup address information: {reason};"
            " check the name or use an IP address",
        )
