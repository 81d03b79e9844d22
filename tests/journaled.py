"""Servers whose journals are folded again and audited when they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rota
from rota import journal
from rota.audit.checks import CHECK_OF, VIOLATION
from rota.audit.promises import Finding, found_in


@contextmanager
def journaled(directory: Path, **options: Any) -> Iterator[rota.Server]:
    """A server, and at its end the proof that its journal says what its coordinators did."""
    with rota.Server(journal=directory, **options) as server:
        yield server
    check_journal(server, directory)


def check_journal(server: rota.Server, directory: Path) -> None:
    """Fold and audit the journal of a server that has stopped; nothing of it may have been lost."""
    check_complete(server)
    check_directory(directory)


def check_complete(server: rota.Server) -> None:
    """Nothing of the journal of a server may have been lost."""
    health = server.journal()
    assert health is not None
    assert (health.lost, health.error) == (0, None)


def check_directory(directory: Path) -> None:
    """Fold and audit a journal that is complete: nothing is missing, differs, or breaks a promise."""
    wrong = violations_in(directory)
    assert wrong == [], "\n".join(map(str, wrong))


def violations_in(directory: Path) -> list[Finding]:
    """Fold a journal that is complete: nothing is missing or differs. What breaks a promise in it."""
    found = journal.replay(directory)
    assert [part for part in found if not part.is_well] == []
    told = [sum(getattr(part, name) for part in found) for name in ("missing", "unchecked", "cut")]
    assert told == [0, 0, 0]
    assert sum(part.compared for part in found) > 0
    return [found for *_, found in found_in(directory) if CHECK_OF[found.name].severity == VIOLATION]
