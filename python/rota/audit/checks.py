"""What is looked for: the promises of the fold (`rust/promises`), and what else is compared."""

from __future__ import annotations

from typing import NamedTuple

from rota import _rota
from rota.audit.logs import JOURNAL, OFFSETS

VIOLATION, OBSERVATION = "violation", "observation"
# How many generations in a row without an assignment are "never settles".
UNSETTLED_GENERATIONS = 3


class Check(NamedTuple):
    """One thing to look for."""

    name: str
    id: str
    """The invariant's, or "" if none forbids it."""
    severity: str
    sources: tuple[str, ...]
    says: str
    """In words, for a report."""


SHOWN = {"records": (JOURNAL, OFFSETS), "journal": (JOURNAL,)}

CHECKS = tuple(
    Check(name, identifier, VIOLATION if is_violation else OBSERVATION, SHOWN[shown], says)
    for name, identifier, is_violation, shown, says in _rota.audit_promises()
)

# What the fold does not find.
REPLAY = Check("replay", "S23", VIOLATION, (JOURNAL,), "the coordinator does something else with the same events")
MODEL = Check("model", "S23", VIOLATION, (JOURNAL,), "the model answers otherwise when it is asked the same")

CHECK_OF = {check.name: check for check in (*CHECKS, REPLAY, MODEL)}

# About a partition: the group is that of the entry that is found in the wrong place.
OF_PARTITIONS = frozenset({REPLAY.name, MODEL.name, "entries out of order"})
