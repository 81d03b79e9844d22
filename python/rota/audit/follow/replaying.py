"""The replay of a journal that grows: folded as far as it goes, and from there on the next time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rota import _rota
from rota.audit.folds import said_of
from rota.audit.follow.finding import Finding, Seen

# Behind these a coordinator is known whatever was before.
WHOLE = frozenset({"began", "snapshot"})


@dataclass
class Folding:
    """Where the replay of a partition stands."""

    state: bytes | None = None
    """An entry with all of the coordinator; empty: the next whole state is waited for; None: nothing was before."""
    behind: list[bytes] = field(default_factory=list)
    """The entries behind that, if they end in the middle of an advance, where nothing can be saved."""

    def _replay(self) -> _rota.JournalReplay | None:
        if self.state == b"":
            return None
        replay = _rota.JournalReplay()
        for entry in [*filter(None, [self.state]), *self.behind]:
            replay.fold(entry)
        return replay

    def fold(self, rows: list[Seen]) -> Iterator[Finding]:
        """Fold the entries among these rows, in their order."""
        whole = {row.offset for row in rows if row.kind in WHOLE and row.part == 0}
        entries = [row for row in rows if row.kind == "entry"]
        if not entries:
            return
        replay, state, behind = self._replay(), self.state, list(self.behind)
        for entry in entries:
            if replay is None and entry.offset in whole:
                replay, state, behind = _rota.JournalReplay(), None, []
            if replay is None:
                continue
            value = entry.payload or b""
            behind.append(value)
            if (difference := replay.fold(value)) is not None:
                replay = None
                yield Finding("replay", None, None, entry.offset, entry.offset, None, [], said_of(*difference))
        saved = b"" if replay is None else replay.as_entry()
        self.state, self.behind = (state, behind) if saved is None else (saved, [])
