"""Checks of arguments: an error names the argument, its value, and what to give instead."""

from __future__ import annotations

import operator
from collections.abc import Iterable

__all__ = ["message_bytes", "node_id", "optional_text", "partition_number", "several", "text", "whole"]

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


def several(values: Iterable[str | bytes | None], name: str) -> list[str | bytes | None]:
    """Several texts; one text alone is a mistake."""
    if isinstance(values, str | bytes):
        raise TypeError(f"{name} is {values!r}: give a list of them")
    return list(values)


def message_bytes(value: str | bytes | None, name: str) -> bytes | None:
    """A key or a value as it is stored."""
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} has {value!r} in it: give str, bytes or None")
    return value.encode()
