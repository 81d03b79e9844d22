"""Checks of arguments: an error names the argument, its value, and what to give instead."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "committed_offsets",
    "message_bytes",
    "node_id",
    "optional_text",
    "partition_number",
    "passwords",
    "seconds",
    "several",
    "text",
    "texts",
    "whole",
    "wire_text",
]

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1


def text(value: str, name: str, wanted: str = "give a str") -> str:
    """Return a text. Raises TypeError for any other value."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}: {wanted}")
    return value


def optional_text(value: str | None, name: str) -> str | None:
    """Return a text, or None. Raises TypeError for any other value."""
    return None if value is None else text(value, name, "give a str, or None")


def wire_text(value: str, name: str) -> str:
    """Return a text that fits into a request: at most 32,767 bytes of UTF-8. Raises TypeError or ValueError."""
    try:
        size = len(text(value, name).encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is {value!r}: {error.object[error.start]!r} cannot be encoded as UTF-8") from None
    if size > INT16_MAX:
        raise ValueError(f"{name} has {size} bytes: give at most {INT16_MAX}")
    return value


def whole(value: int, name: str, lowest: int = 0, highest: int = INT32_MAX, wanted: str | None = None) -> int:
    """Return a whole number from `lowest` to `highest`. Raises TypeError or ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: give a whole number") from None
    if not lowest <= number <= highest:
        raise ValueError(f"{name} is {number}: {wanted or f'give {lowest} to {highest}'}")
    return number


def node_id(node: int) -> int:
    """Return the id of a node. The server checks that the node exists."""
    return whole(node, "node", -INT32_MAX, wanted="give the id of a node")


def partition_number(partition: int) -> int:
    """Return a partition of `__consumer_offsets`. The server checks that it exists."""
    return whole(partition, "partition", wanted="give a partition of __consumer_offsets")


def seconds(value: float, name: str) -> float:
    """Return a time in seconds, 0 or more. Raises TypeError or ValueError."""
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r}: give seconds, 0 or more")
    if not value >= 0:
        raise ValueError(f"{name} is {value!r}: give seconds, 0 or more")
    return value


def several(values: Iterable[str | bytes | None], name: str) -> list[str | bytes | None]:
    """Several texts; one text alone is a mistake."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}: give a list of them")
    return list(values)


def texts(values: Iterable[str], name: str, wanted: str, wanted_of_each: str | None = None) -> list[str]:
    """Return texts as a list; one text alone is a mistake. Raises TypeError for anything else."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}: {wanted}")
    found = list(values)
    for value in found:
        if not isinstance(value, str):
            raise TypeError(f"{name} has {value!r} in it: {wanted_of_each or wanted}")
    return found


def passwords(users: Mapping[str, str]) -> dict[str, str]:
    """Return passwords by user name. Raises TypeError, which shows no password."""
    for user, password in users.items():
        if not isinstance(user, str):
            raise TypeError(f"users has {user!r} in it: give names of users as str")
        if not isinstance(password, str):
            raise TypeError(f"users has a password for {user!r} that is no str: give a str")
    return dict(users)


def message_bytes(value: str | bytes | None, name: str) -> bytes | None:
    """A key or a value as it is stored."""
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} has {value!r} in it: give str, bytes or None")
    return value.encode()


def committed_offsets(offsets: Any) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of what is to be committed. Raises TypeError or ValueError."""
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets is {offsets!r}: give a mapping from (topic, partition) to the next offset")
    found = []
    for at, offset in offsets.items():
        if not (isinstance(at, tuple) and len(at) == 2 and isinstance(at[0], str)):
            raise TypeError(f"offsets has {at!r} in it: give (topic, partition), such as ('orders', 0)")
        found.append((at[0], whole(at[1], "partition"), whole(offset, f"the offset of {at!r}", 0, INT64_MAX)))
    return found
