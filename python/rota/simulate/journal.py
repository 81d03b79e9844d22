"""`rota simulate --journal`: worlds that leave a journal behind, which the audit and `rota log` read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rota._rota import SimulatedJournal
from rota.simulate import SEEDS_AT_A_TIME, Total, World

__all__ = ["Journal"]


class Journal:
    """A directory with the journal of one world, or of many, one after the other (docs/journal.md).

    No two worlds have groups of the same names: `w7-g0` is of the world of seed 7. The same seeds give the same
    entries. Closing it, as `with` does, writes what is missing. Raises OSError if the directory has logs in it, or
    cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self._inner = SimulatedJournal(directory)

    @property
    def entries(self) -> int:
        """How many have been written."""
        return self._inner.entries

    def world(
        self, seed: int, *, protocol: str = "all", swarm: bool = False, engine: bool = False, lines: bool = False
    ) -> World:
        """Like `rota.simulate.world`, and writes the journal."""
        report = self._inner.world(seed, protocol=protocol, swarm=swarm, engine=engine, lines=lines)
        return World.read(json.loads(report))

    def worlds(
        self, first: int, stop: int, *, protocol: str = "all", swarm: bool = False, engine: bool = False
    ) -> Iterator[Total]:
        """As `rota.simulate.worlds`, with one thread."""
        total = Total()
        for seed in range(first, stop, SEEDS_AT_A_TIME):
            until = min(seed + SEEDS_AT_A_TIME, stop)
            part = self._inner.worlds(seed, until, protocol=protocol, swarm=swarm, engine=engine)
            total.add(json.loads(part))
            yield total
            if total.broken is not None:
                return

    def close(self) -> None:
        """Nothing can be written after that. Raises OSError if something could not be."""
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
