"""How a server is: its start, its data directory, its journal, and the files of TLS and users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Health", "JournalHealth", "StartReport"]


class StartReport(NamedTuple):
    """What a start found in its data directory."""

    lines: list[str]
    """What was completed, cut or refused; empty after a clean stop."""
    groups: int
    offsets: int
    took_ms: int
    is_read_only: bool
    """Kafka wrote the directory, and it is left alone."""


class Health(NamedTuple):
    """How a data directory is, and the files of TLS and users."""

    stopped: str | None
    """Why nothing is accepted any more, and what to do."""
    refused: list[str]
    """Partitions that are refused or have damage that a read has met, and why."""
    syncs: int
    """How often the write-ahead file was synced for appends since the start."""
    sync_seconds: float
    """How long those syncs took."""
    compactions: int
    """How many were finished since the start."""
    compaction_error: str | None
    """Why the last one that was given up was."""
    failing: str | None = None
    """Why writes fail at the moment, and what to do: a full disk, for example. Each request tries again."""
    failures: int = 0
    """How many writes have failed since the start: a disk may be full for a moment only."""
    last_failure: str | None = None
    """Why the last of them did."""
    reload_errors: Sequence[str] = ()
    """Why files of TLS or users could not be read again: what was read before is still used."""


class JournalHealth(NamedTuple):
    """How a journal is."""

    directory: Path
    entries: int
    """Since the start."""
    bytes: int
    """Total size of the entries in bytes."""
    lost: int
    """Entries that were dropped: the journal says where."""
    error: str | None
    """Why the disk does not take it; it is tried again."""
