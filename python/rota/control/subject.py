"""The server that is controlled, and the controls that last."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import NamedTuple

import rota
from rota.control.values import Json
from rota.server import Server

Counts = Callable[[], tuple[int, int | None]]


class Lasting(NamedTuple):
    """A control that lasts until it is ended."""

    control: str
    end: Callable[[], None]
    counts: Counts | None
    """How many requests it has affected, and how many it is still to affect, None without a limit."""


class Controlled:
    """A server and what was asked of it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.lock = threading.Lock()
        self._ids = itertools.count(1)
        self._lasting: dict[int, Lasting] = {}

    def keep(self, control: str, end: Callable[[], None], counts: Counts | None) -> Json:
        """Remember a control that lasts; the answer with its id."""
        name = next(self._ids)
        self._lasting[name] = Lasting(control, end, counts)
        return {"id": name}

    def list_active(self) -> list[Json]:
        """The controls that last."""
        rows = []
        for name, lasting in list(self._lasting.items()):
            count, left = (None, None) if lasting.counts is None else lasting.counts()
            rows.append({"id": name, "control": lasting.control, "count": count, "left": left})
        return rows

    def end(self, name: int) -> None:
        """End a control."""
        lasting = self._lasting.pop(name, None)
        if lasting is None:
            known = ", ".join(map(str, self._lasting)) or "none"
            error = rota.NotFoundError(f"there is no control with the id {name}; the ids are: {known}")
            error.what = "control"
            raise error
        lasting.end()

    def reset(self) -> None:
        """End everything."""
        self._lasting.clear()
        self.server.faults.reset()
