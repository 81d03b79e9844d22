"""What `rota.coordinator.Wheel` and `rota.coordinator.Purgatory` do, said with sorted lists (docs/protocol.md §16).

These are models to check against: the same verbs, no wheel, no haste. Two things may differ from the compiled ones.
The models count ids 1, 2, 3, ... and never use one again. Their `next_deadline` is exact, while the wheel's may be
earlier than its first deadline (it is never later).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Armed", "PurgatoryModel", "WheelModel"]


@dataclass(order=True)
class Armed:
    """One armed entry; entries sort as they fire."""

    deadline_ms: int
    arming: int
    id: int
    payload: Any


class WheelModel:
    """A timing wheel as one sorted list.

    Time is in ms, from 0 to 2**64 - 1, and moves only in `advance`. Every arming and re-arming gets the next arming
    number; what is due fires by deadline, then arming number.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.entries: list[Armed] = []
        self.armings = 0
        self.ids = 0

    def __len__(self) -> int:
        return len(self.entries)

    def arm(self, deadline_ms: int, payload: Any) -> int:
        """Arms `payload` and returns its id; a deadline that has passed fires at the next advance."""
        self.ids += 1
        self.armings += 1
        self._replace([*self.entries, Armed(deadline_ms, self.armings, self.ids, payload)])
        return self.ids

    def rearm(self, timer_id: int, deadline_ms: int) -> bool:
        """Gives an entry a new deadline and the next arming number; False if it fired or was cancelled."""
        entry = self.find(timer_id)
        if entry is None:
            return False
        self.armings += 1
        entry.deadline_ms, entry.arming = deadline_ms, self.armings
        self._replace(self.entries)
        return True

    def cancel(self, timer_id: int) -> Any | None:
        """Disarms an entry and returns its payload; None if it fired or was cancelled."""
        entry = self.find(timer_id)
        if entry is None:
            return None
        self.entries.remove(entry)
        return entry.payload

    def deadline(self, timer_id: int) -> int | None:
        """The deadline of the entry's last arming; None if it fired or was cancelled."""
        entry = self.find(timer_id)
        return None if entry is None else entry.deadline_ms

    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        """Moves time (never back) and takes what is due as (id, deadline_ms, payload), in the order of firing."""
        self.now_ms = max(self.now_ms, now_ms)
        due = [entry for entry in self.entries if entry.deadline_ms <= self.now_ms]
        self.entries = self.entries[len(due) :]
        return [(entry.id, entry.deadline_ms, entry.payload) for entry in due]

    def next_deadline(self) -> int | None:
        """The first deadline; None when nothing is armed."""
        return self.entries[0].deadline_ms if self.entries else None

    def find(self, timer_id: int) -> Armed | None:
        """The armed entry with that id."""
        return next((entry for entry in self.entries if entry.id == timer_id), None)

    def _replace(self, entries: Iterable[Armed]) -> None:
        self.entries = sorted(entries, key=lambda entry: (entry.deadline_ms, entry.arming))


@dataclass
class Watched:
    """One operation that waits; ids count in watching order."""

    operation: Any
    keys: frozenset[str]


class PurgatoryModel:
    """A purgatory as a `WheelModel` and a dict: what waits, under which keys, until when."""

    def __init__(self, now_ms: int = 0) -> None:
        self.wheel = WheelModel(now_ms)
        self.waiting: dict[int, Watched] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def now_ms(self) -> int:
        """The time of the last advance that moved it."""
        return self.wheel.now_ms

    def watch(self, operation: Any, deadline_ms: int, keys: Sequence[str]) -> int:
        """Lets `operation` wait until `deadline_ms`, watched under `keys` (each once); returns its id."""
        id_ = self.wheel.arm(deadline_ms, operation)
        self.waiting[id_] = Watched(operation, frozenset(keys))
        return id_

    def check(self, key: str) -> list[tuple[int, Any]]:
        """What `key` watches as (id, operation), in watching order."""
        return [(id_, watched.operation) for id_, watched in self.waiting.items() if key in watched.keys]

    def watched(self, key: str) -> int:
        """How many operations `key` watches."""
        return len(self.check(key))

    def complete(self, operation_id: int) -> Any | None:
        """Takes an operation out; None if it was completed or expired before."""
        self.waiting.pop(operation_id, None)
        return self.wheel.cancel(operation_id)

    def rearm(self, operation_id: int, deadline_ms: int) -> bool:
        """Gives an operation a new deadline; False if it was completed or expired."""
        return self.wheel.rearm(operation_id, deadline_ms)

    def deadline(self, operation_id: int) -> int | None:
        """An operation's deadline; None if it was completed or expired."""
        return self.wheel.deadline(operation_id)

    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        """Moves time (never back) and takes what expired as (id, deadline_ms, operation), in the order of expiry."""
        expired = self.wheel.advance(now_ms)
        for id_, _, _ in expired:
            del self.waiting[id_]
        return expired

    def next_deadline(self) -> int | None:
        """The first deadline; None when nothing waits."""
        return self.wheel.next_deadline()
