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


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    assert is_dataclass(value), value
    return vars(value)


def of_group(group: Group) -> str:
    """A group."""
    return json.dumps(group, default=_plain)


def group_of(kept: str | None) -> Group:
    """A group again; None: nothing is known of it."""
    found = {"recorded": {}, "answered": {}} if kept is None else json.loads(kept)
    return Group(Recorded(**found["recorded"]), Answered(**found["answered"]))


def of_partition(partition: Partition) -> str:
    """A partition without its groups."""
    return json.dumps({name: value for name, value in vars(partition).items() if name != "group"}, default=_plain)


def partition_of(kept: str | None, group: Callable[[str], Group]) -> Partition:
    """A partition again; None: nothing is known of it."""
    if kept is None:
        return Partition(group)
    found = json.loads(kept)
    found["incarnation"] = Incarnation(**found["incarnation"])
    found["asks"] = {ticket: Ask(**ask) for ticket, ask in found["asks"].items()}
    found["appends"] = {number: _append(append) for number, append in found["appends"].items()}
    return Partition(group, **found)


def _append(kept: dict[str, Any]) -> Append:
    rows = [Seen(*row) for row in kept["rows"]]
    unhexed = [row if row.payload is None else row._replace(payload=bytes.fromhex(str(row.payload))) for row in rows]
    return Append(**(kept | {"rows": unhexed}))
