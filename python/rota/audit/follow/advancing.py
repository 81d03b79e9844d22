"""The next rows of a partition: found, remembered, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rota import _rota
from rota.audit.audit import difference_of
from rota.audit.logs import JOURNAL, UNREADABLE
from rota.audit.promises import Finding
from rota.audit.rows import buffers_of

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = _rota.AuditFold(False, False).state()[0]
"""Of what a checkpoint has: the number that begins each state."""

SKIPPED = "skipped"
"""The name of what is no finding: as many records as its generation says, about its witness, are skipped."""

# Behind these a coordinator is known whatever was before.
WHOLE = frozenset({"began", "snapshot"})
# There the replay cannot go on: retention removed entries before they were read, or they cannot be read.
MISSING = frozenset({"compacted", "unreadable"})


class CheckpointError(ValueError):
    """A checkpoint of another version of rota."""


@dataclass
class Remembered:
    """A partition, without its groups."""

    place: bytes | None = None
    """Of the fold of its promises."""
    coordinator: bytes | None = None
    """Where the replay stands: an entry with all of the coordinator; empty: the next whole state is waited for; None:
    nothing was before."""
    behind: list[bytes] = field(default_factory=list)
    """The entries behind that, if they end in the middle of an advance, where nothing can be saved."""


def advanced(
    source: str, known: Remembered, group: Callable[[str], bytes | None], rows: pa.RecordBatch
) -> tuple[list[Finding], Remembered, list[tuple[str, bytes]], int]:
    """Go on with the next rows of a partition, in their order. `group` gives what is remembered of a group.

    Gives what is found, what is to be remembered of the partition and its groups, and the offset of the first record
    that was not there before. Raises CheckpointError.
    """
    count, columns = rows.num_rows, buffers_of(rows)
    fold = _rota.AuditFold(source == JOURNAL, False)
    try:
        if known.place is not None:
            fold.resume(known.place)
        for name in fold.needs(count, columns):
            if (kept := group(name)) is not None:
                fold.resume_group(name, kept)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    seen_offset = fold.next_offset
    fold.rows(count, columns)
    _, _, troubles, skipped = fold.tally()
    found = [Finding(UNREADABLE, None, None, offset, offset, None, [], why) for offset, _, why in troubles]
    replay, known = _replayed(known, rows, seen_offset) if source == JOURNAL else ([], known)
    found += replay + [Finding(*finding) for finding in fold.take()]
    found += [Finding(SKIPPED, None, count, 0, 0, None, [], about) for about, count in skipped.items()]
    return found, Remembered(fold.state(), known.coordinator, known.behind), fold.group_states(), seen_offset


def new_rows(rows: pa.RecordBatch, seen_offset: int) -> pa.RecordBatch:
    """Those from an offset on, without the entries that only the replay reads."""
    import pyarrow.compute as pc

    is_new = pc.greater_equal(rows.column("offset"), seen_offset)
    return rows.filter(pc.and_(is_new, pc.not_equal(rows.column("kind"), "entry")))


def _replay(known: Remembered) -> _rota.JournalReplay | None:
    if known.coordinator == b"":
        return None
    replay = _rota.JournalReplay()
    for entry in [*filter(None, [known.coordinator]), *known.behind]:
        replay.fold(entry)
    return replay


def _replayed(known: Remembered, rows: pa.RecordBatch, seen_offset: int) -> tuple[list[Finding], Remembered]:
    """The replay of the entries among these rows: as far as it goes, and from there on the next time."""
    columns = [rows.column(name).to_pylist() for name in ("kind", "part", "offset", "payload")]
    new = [row for row in zip(*columns, strict=True) if row[2] >= seen_offset]
    whole = {offset for kind, part, offset, _ in new if kind in WHOLE and part == 0}
    missing = {offset for kind, _, offset, _ in new if kind in MISSING}
    entries = {offset: payload or b"" for kind, _, offset, payload in new if kind == "entry"}
    if not entries and not missing:
        return [], known
    found: list[Finding] = []
    replay, state, behind = _replay(known), known.coordinator, list(known.behind)
    for offset in sorted(entries.keys() | missing):
        if offset in missing:
            replay, state, behind = None, b"", []
            continue
        if replay is None and offset in whole:
            replay, state, behind = _rota.JournalReplay(), None, []
        if replay is None:
            continue
        behind.append(entries[offset])
        if (difference := replay.fold(entries[offset])) is not None:
            replay = None
            found.append(difference_of(offset, *difference))
    saved = b"" if replay is None else replay.as_entry()
    kept = Remembered(None, state, behind) if saved is None else Remembered(None, saved, [])
    return found, kept
