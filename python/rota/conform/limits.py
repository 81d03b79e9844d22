"""Settings of a broker by which it refuses a request.

What was recorded was asked of a broker with Kafka's defaults. A row that only one of the two brokers refuses by such a
setting says nothing about their behaviour, so it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Limits = Mapping[str, int]
"""The value of each setting below."""

DEFAULTS: Limits = {
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "offset.metadata.max.bytes": 4_096,
}


class UnfitError(Exception):
    """The broker's settings are not those that a row needs."""


def _sessions(values: Mapping[str, Any]) -> Iterator[int]:
    yield values["session_timeout_ms"]


def _metadata(values: Mapping[str, Any]) -> Iterator[int]:
    for topic in values["topics"]:
        for partition in topic["partitions"]:
            yield len((partition.get("metadata") or "").encode())


#: Setting -> the API whose requests it refuses, the values that it is compared with, and which of them it refuses.
REFUSED: dict[str, tuple[str, Callable[[Mapping[str, Any]], Iterator[int]], Callable[[int, int], bool]]] = {
    "group.min.session.timeout.ms": ("JoinGroup", _sessions, int.__lt__),
    "group.max.session.timeout.ms": ("JoinGroup", _sessions, int.__gt__),
    "offset.metadata.max.bytes": ("OffsetCommit", _metadata, int.__gt__),
}


def check(api: str, values: Mapping[str, Any], ours: Limits, theirs: Limits) -> None:
    """Raise UnfitError if a broker with the settings `ours` refuses a request that one with `theirs` does not, or the
    other way round."""
    for name, (refusing, values_of, is_refused) in REFUSED.items():
        if api == refusing and ours[name] != theirs[name]:
            for value in values_of(values):
                if is_refused(value, ours[name]) != is_refused(value, theirs[name]):
                    raise UnfitError(f"needs {name}={theirs[name]}, and this broker has {ours[name]}")
