"""Whether `rota serve` would start, without starting it: no socket, no directory, no engine."""

from __future__ import annotations

from typing import Any

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
    with refusals(start.told.blame):
        return Rehearsal(**start.arguments())._config.check()
