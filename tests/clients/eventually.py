"""Waiting for a condition, with a deadline and a message that says what was seen instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import rota

Seen = TypeVar("Seen")

LOOK_EVERY_S = 0.02


def eventually(look: Callable[[], Seen], within_s: float, what: str, detail: Callable[[], str] | None = None) -> Seen:
    """Looks until what it sees is true, and returns that.

    `look` should return something that is worth printing when it is false. Fails after `within_s` seconds with `what`
    was awaited, what was seen last and what `detail` adds.
    """
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= deadline:
            more = f"\n{detail()}" if detail is not None else ""
            raise AssertionError(f"not within {within_s:g} s: {what}; seen last: {seen!r}{more}")
        time.sleep(LOOK_EVERY_S)


def until_it_waits(server: rota.Server, requests: int = 1) -> None:
    """Until so many requests wait for their answer."""
    eventually(lambda: server._inner.load()[1] >= requests, 10, f"{requests} requests wait")
