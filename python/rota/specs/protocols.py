"""The protocols that are specified, each with its planted bugs and the sizes of the finite states in which they are
looked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType

from rota.specs import mutants, mutants_small, planting
from rota.specs.consumer import mutants as planted
from rota.specs.consumer import sizes
from rota.specs.consumer.properties import consumer
from rota.specs.invariants import classic
from rota.specs.logic import Spec
from rota.specs.planting import MUTANTS, Bugs
from rota.specs.transactions import mutants as of_transactions
from rota.specs.transactions.properties import MORE, transactions
from rota.specs.transactions.properties import SIZES as SIZES_OF_TRANSACTIONS

PLANTED: tuple[ModuleType, ...] = (mutants, mutants_small, planted, of_transactions)  # importing them plants the bugs


@dataclass(frozen=True)
class Protocol:
    """`sizes` are for bugs. `levels` are for actions and witnesses, the smallest, `few`, first. `folder` has what was
    found last.
    """

    name: str
    spec: Spec
    bugs: Bugs
    sizes: Mapping[str, int]
    levels: Mapping[str, Mapping[str, int]]
    folder: Traversable

    @property
    def prefix(self) -> str:
        """What the names of its jobs begin with, but for those of the classic protocol."""
        return "" if self.name == "classic" else f"{self.name} "

    @property
    def killed(self) -> dict[str, list[str]]:
        """The properties that each planted bug breaks, as they were found last."""
        return self._read("killed")

    @property
    def necessary(self) -> dict[str, list[str]]:
        """By auxiliary invariant: the event that breaks a property without it, that property, and the level."""
        return self._read("necessary")

    def write(self, name: str, content: Mapping[str, Sequence[str]]) -> None:
        """What was found, for next time."""
        Path(str(self.folder / f"{name}.json")).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def _read(self, name: str) -> dict[str, list[str]]:
        source = self.folder / f"{name}.json"
        content: dict[str, list[str]] = json.loads(source.read_text(encoding="utf-8")) if source.is_file() else {}
        return content


@cache
def protocols() -> dict[str, Protocol]:
    """Made once in each process."""
    of_classic = {"few": planting.FEW, "four members": planting.FEW | {"Member": 4}}
    of_consumer = {"few": sizes.FEW, "more": sizes.SIZES}
    of_both = {"few": SIZES_OF_TRANSACTIONS, "more": MORE}
    found = (
        Protocol("classic", classic(), MUTANTS, planting.SIZES, of_classic, files("rota.specs")),
        Protocol("consumer", consumer(), planted.BUGS, sizes.SIZES, of_consumer, files("rota.specs.consumer")),
        Protocol(
            "transactions",
            transactions(),
            of_transactions.BUGS,
            SIZES_OF_TRANSACTIONS,
            of_both,
            files("rota.specs.transactions"),
        ),
    )
    return {each.name: each for each in found}
