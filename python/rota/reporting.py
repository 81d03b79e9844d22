"""What a running server says on stderr: what is wrong, and with `--log-format` one line an event."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rota._rota import Explanation, NotFoundError, Rebalance
from rota.exits import complain, on_stderr
from rota.server import Server

__all__ = ["Rebalances", "Report"]

GROUPS_PER_LOOK = 1_000
"""Asking a group takes its node's thread some microseconds; of more groups, each is asked every few looks."""
BARE = re.compile(r"[\w.,:/@+-]+", re.ASCII)


class Rebalances:
    """The rebalances that have not been reported yet, from the history of each group."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, int, int]] = {}
        self._next = 0

    def look(self, server: Server) -> Iterator[dict[str, Any]]:
        """The fields of each rebalance that has come to its end since the last look."""
        groups = server.groups()
        self._told = {group: self._told[group] for group in groups if group in self._told}
        if self._next >= len(groups):
            self._next = 0
        for group in groups[self._next : self._next + GROUPS_PER_LOOK]:
            # A group may have gone since it was listed.
            with suppress(NotFoundError):
                yield from self._of(server.explain(group))
        self._next += GROUPS_PER_LOOK

    def _of(self, explanation: Explanation) -> Iterator[dict[str, Any]]:
        history = explanation.rebalances
        last = self._told.get(explanation.group_id)
        for at, rebalance in enumerate(history):
            mark = rebalance.began_ms, rebalance.from_generation, rebalance.to_generation or 0
            if last is not None and mark <= last:
                continue
            following = history[at + 1] if at + 1 < len(history) else None
            ended_ms = rebalance.settled_ms if following is None else rebalance.settled_ms or following.began_ms
            if ended_ms is None:
                return
            self._told[explanation.group_id] = mark
            yield fields(explanation.group_id, rebalance, ended_ms)


def fields(group: str, rebalance: Rebalance, ended_ms: int) -> dict[str, Any]:
    """One rebalance as a line has it; `settled` is false if the next one began before the group was Stable or Empty."""
    began = datetime.fromtimestamp(rebalance.began_wall_ms / 1_000, UTC)
    joined_ms = rebalance.joined_ms
    return {
        "group": group,
        "cause": rebalance.cause,
        "member": rebalance.member_id or None,
        "reason": rebalance.reason or None,
        "from_generation": rebalance.from_generation,
        "generation": rebalance.to_generation,
        "began": stamp(began),
        "joined_ms": None if joined_ms is None else joined_ms - rebalance.began_ms,
        "duration_ms": ended_ms - rebalance.began_ms,
        "settled": rebalance.settled_ms is not None,
    }


def stamp(at: datetime) -> str:
    """`2026-03-01T13:30:00.123Z`."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Report:
    """Where the lines go: to stderr, as text or JSON, or only those about what is wrong."""

    def __init__(self, form: str | None) -> None:
        self._form = form
        self._rebalances = Rebalances()

    def problem(self, event: str, message: str) -> None:
        """Something is wrong."""
        if self._form is None:
            complain(message)
        else:
            self._write("error", event, {"message": message})

    def event(self, event: str, **told: object) -> None:
        """Something happened."""
        if self._form is not None:
            self._write("info", event, told)

    def look(self, server: Server) -> None:
        """Tells the rebalances that have come to their end since the last look."""
        if self._form is not None:
            for told in self._rebalances.look(server):
                self.event("rebalance", **told)

    def _write(self, level: str, event: str, told: dict[str, object]) -> None:
        line = {"at": stamp(datetime.now(UTC)), "level": level, "event": event, **told}
        on_stderr(json.dumps(line) if self._form == "json" else as_text(line))


def as_text(line: dict[str, object]) -> str:
    """`2026-03-01T13:30:00.123Z info rebalance group=billing cause=MemberLeft ...`; what is null is left out."""
    at, level, event, *rest = line.items()
    pairs = [f"{name}={quoted(value)}" for name, value in rest if value is not None]
    return " ".join([str(at[1]), str(level[1]), str(event[1]), *pairs])


def quoted(value: object) -> str:
    """In quotation marks, unless it is a plain word: names of groups and reasons are anybody's."""
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    return text if BARE.fullmatch(text) else json.dumps(text)
