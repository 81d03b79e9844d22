"""What is remembered, as JSON: a checkpoint can be read without this program."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from rota.audit.follow.answers import Answered, Ask
from rota.audit.follow.finding import Seen
from rota.audit.follow.partition import Append, Group, Incarnation, Partition
from rota.audit.follow.records import Recorded

FORMAT = 3
"""Of what is kept: another number as soon as a field comes, goes, or means something else."""


class CheckpointError(ValueError):
    """A checkpoint of another version of rota."""


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    assert is_dataclass(value), value
    return vars(value)


def _written(values: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT} | values, default=_plain)


def _read(kept: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kept)
    # The first ones had no number.
    if (number := found.pop("format", 0)) != FORMAT:
        reason = f"the checkpoint has format {number}, this version of rota reads {FORMAT}"
        raise CheckpointError(f"{reason}: follow from the beginning with another --checkpoint directory")
    return found


def of_group(group: Group) -> str:
    """A group."""
    return _written(vars(group))


def group_of(kept: str | None) -> Group:
    """A group again; None: nothing is known of it."""
    if kept is None:
        return Group()
    found = _read(kept)
    return Group(Recorded(**found["recorded"]), Answered(**found["answered"]), found["is_newer"])


def of_partition(partition: Partition) -> str:
    """A partition without its groups."""
    return _written({name: value for name, value in vars(partition).items() if name != "group"})


def partition_of(kept: str | None, group: Callable[[str], Group]) -> Partition:
    """A partition again; None: nothing is known of it."""
    if kept is None:
        return Partition(group)
    found = _read(kept)
    found["incarnation"] = Incarnation(**found["incarnation"])
    found["asks"] = {ticket: Ask(**ask) for ticket, ask in found["asks"].items()}
    found["appends"] = {number: _append(append) for number, append in found["appends"].items()}
    return Partition(group, **found)


def _append(kept: dict[str, Any]) -> Append:
    rows = [Seen(*row) for row in kept["rows"]]
    unhexed = [row if row.payload is None else row._replace(payload=bytes.fromhex(str(row.payload))) for row in rows]
    return Append(**(kept | {"rows": unhexed}))
