"""Where the lines of a request trace go (docs/trace.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO, TypeAlias

__all__ = ["Sink"]

Sink: TypeAlias = Callable[[dict[str, Any]], object] | TextIO
"""A function that is called with each line as a dictionary, or a file that each line is written to as text."""


def writer(sink: Sink) -> tuple[Callable[[str], object], bool]:
    """What takes the lines of the server, and whether they are to be JSON."""
    if callable(sink):
        import json

        return lambda line: sink(json.loads(line)), True
    if not hasattr(sink, "write"):
        raise TypeError(f"trace is {sink!r}: give a function or a text file")
    file = sink

    def write(line: str) -> None:
        file.write(line + "\n")
        file.flush()

    return write, False
