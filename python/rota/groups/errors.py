"""What goes wrong in `rota groups`, by name: each kind has an exit code of its own (docs/groups.md has the table)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from rota import _rota, exits
from rota._rota import RotaError


class Kind(Enum):
    """The name of an error as `--json` has it, and the exit code."""

    REFUSED = ("refused", exits.FAILED)
    MISUSED = ("misused", exits.MISUSED)
    NOT_FOUND = ("not_found", exits.NOT_FOUND)
    IN_USE = ("in_use", exits.IN_USE)
    UNREACHABLE = ("unreachable", exits.UNREACHABLE)

    def __init__(self, label: str, exit_code: int) -> None:
        self.label = label
        self.exit_code = exit_code


class GroupsError(RotaError):
    """What a broker refused, or why it could not be asked: whose fault, and what to do."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def misused(message: str) -> GroupsError:
    """The call itself is wrong; nothing was asked of the cluster, or nothing changed there."""
    return GroupsError(Kind.MISUSED, message)


def nearest(name: str, known: Iterable[str]) -> str:
    """`: did you mean ...?`, if a known name is near; else nothing."""
    found = _rota.nearest(name, list(known))
    return "" if found is None else f": did you mean `{found}`?"
