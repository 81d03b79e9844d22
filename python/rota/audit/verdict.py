"""What an audit says."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """One thing that must not be, or that is worth knowing."""

    id: str
    """The invariant; "" for an observation that none forbids."""
    name: str
    severity: str
    source: str
    log: str
    partition: int
    group: str | None
    generation: int | None
    first_offset: int
    last_offset: int
    at_ms: int | None
    members: list[str]
    witness: str
    reproduce: str
    """A command that shows the records."""
    also: str = ""
    """Where the log of groups beside the journal has the same finding: partition and offsets; else empty."""
