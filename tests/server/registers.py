"""What clients saw of registers, and whether it is linearizable.

Each (group, partition) of a topic is a register: OffsetCommit writes an offset that no other commit has, and
OffsetFetch reads it. A request without an answer, or with an error, may take effect at any later time. Because values
are unique, whether a history is linearizable is decided without a search (Gibbons and Korach, 1997).
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

UNCOMMITTED = -1
NEVER = float("inf")

Key = tuple[str, int]


class Call(NamedTuple):
    """A commit or a fetch of a key. A commit without `end` may take effect later, or never."""

    is_commit: bool
    value: int
    begin: float
    end: float


def violation(calls: Iterable[Call]) -> str | None:
    """Why the calls of one register are not linearizable; None if they are."""
    writes = {UNCOMMITTED: Call(True, UNCOMMITTED, -NEVER, -NEVER)}
    reads: defaultdict[int, list[Call]] = defaultdict(list)
    for call in calls:
        if call.is_commit:
            writes[call.value] = call
        else:
            reads[call.value].append(call)
    for value, found in reads.items():
        if value not in writes:
            return f"{value} was read and never committed"
        if min(read.end for read in found) < writes[value].begin:
            return f"{value} was read before it was committed"
    # What was neither acknowledged nor read need not have happened.
    happened = {value: write for value, write in writes.items() if write.end != NEVER or value in reads}
    zones = []
    for value, write in happened.items():
        calls_of = [write, *reads[value]]
        first_end, last_begin = min(call.end for call in calls_of), max(call.begin for call in calls_of)
        zones.append((min(first_end, last_begin), max(first_end, last_begin), first_end < last_begin, value))
    forward = sorted(zone for zone in zones if zone[2])
    # The register has a value from the first end of its calls to their last begin, and no other one meanwhile.
    for (_, last, _, one), (begin, _, _, other) in itertools.pairwise(forward):
        if begin < last:
            return f"{one} and {other} were both the last commit"
    for begin, end, is_forward, value in zones:
        within = None if is_forward else _around(forward, begin, end)
        if within is not None:
            return f"{value} was committed while {within} was the last commit, before and after"
    return None


def _around(forward: list[tuple[float, float, bool, int]], begin: float, end: float) -> int | None:
    return next((value for low, high, _, value in forward if low < begin and end < high), None)


class History:
    """All calls, by key. Threads add to it while others look."""

    def __init__(self) -> None:
        self._commits: defaultdict[Key, dict[int, Call]] = defaultdict(dict)
        self._fetches: defaultdict[Key, list[Call]] = defaultdict(list)
        self._last: dict[str, float] = {}
        self._values = itertools.count()
        self._lock = threading.Lock()

    def begin(self, key: Key, now: float) -> int:
        """A commit is sent. Returns what it writes."""
        with self._lock:
            value = next(self._values)
            self._commits[key][value] = Call(True, value, now, NEVER)
            return value

    def acknowledge(self, key: Key, value: int, now: float) -> None:
        """A commit is acknowledged."""
        with self._lock:
            call = self._commits[key][value]
            self._commits[key][value] = call._replace(end=now)
            self._last[key[0]] = max(self._last.get(key[0], -NEVER), call.begin)

    def fetch(self, key: Key, value: int, begin: float, end: float) -> None:
        """A fetch was answered."""
        with self._lock:
            self._fetches[key].append(Call(False, value, begin, end))

    def last_commit(self, group: str) -> float:
        """When the last acknowledged commit of a group was sent."""
        with self._lock:
            return self._last.get(group, -NEVER)

    def keys(self) -> list[Key]:
        """Every key that was committed."""
        with self._lock:
            return list(self._commits)

    def calls(self, key: Key) -> list[Call]:
        """The calls of a key."""
        with self._lock:
            return [*self._commits[key].values(), *self._fetches[key]]

    def acknowledged(self) -> int:
        """Commits that were acknowledged."""
        with self._lock:
            return sum(call.end != NEVER for calls in self._commits.values() for call in calls.values())

    def fetched(self) -> int:
        """Fetches that were answered."""
        with self._lock:
            return sum(map(len, self._fetches.values()))

    def violations(self) -> list[str]:
        """Keys whose calls are not those of a register, and why."""
        with self._lock:
            calls = {key: [*self._commits[key].values(), *self._fetches[key]] for key in list(self._commits)}
        found = ((key, violation(each)) for key, each in calls.items())
        return [f"{key}: {why}" for key, why in found if why is not None]
