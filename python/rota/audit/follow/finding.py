"""What one pass over a log finds, before it is known which log that was."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, TypeVar

T = TypeVar("T")

# So many generations and members that are gone are remembered for each group.
KEPT_GENERATIONS, KEPT_MEMBERS = 16, 1_000


class Seen(NamedTuple):
    """A row of a log: the columns of docs/audit.md that the promises are about."""

    offset: int
    part: int
    sequence: int | None
    at_ms: int | None
    mono_ms: int | None
    kind: str
    group: str | None
    api: str | None
    ticket: int | None
    error: str | None
    member: str | None
    instance: str | None
    generation: int | None
    leader: str | None
    protocol: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    timer: str | None
    append_id: int | None
    topic: str | None
    topic_partition: int | None
    committed: int | None
    amount: int | None
    payload: bytes | None
    note: str | None

    @property
    def place(self) -> str:
        """The topic's partition."""
        return f"{self.topic}-{self.topic_partition}"


COLUMNS = tuple("count" if name == "amount" else name for name in Seen._fields)
"""The columns that a `Seen` has, in their order."""


class Finding(NamedTuple):
    """Something that a check of `rota.audit.checks` is about."""

    name: str
    group: str | None
    generation: int | None
    first_offset: int
    last_offset: int
    at_ms: int | None
    members: list[str]
    witness: str


def digest(payload: bytes | None) -> str:
    """What is remembered of an assignment's bytes; "" of none."""
    return hashlib.blake2b(payload, digest_size=8).hexdigest() if payload else ""


def latest(known: dict[str, T], kept: int) -> dict[str, T]:
    """What is kept of something that there is for each generation, member or ticket, the oldest first."""
    return known if len(known) <= kept else dict(list(known.items())[-kept:])
