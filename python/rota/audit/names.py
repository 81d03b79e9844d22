"""Names of groups to give instead of one that the logs do not have."""

from __future__ import annotations

from collections.abc import Collection

from rota._rota import nearest

NAMED = 5
"""How many names an error lists."""


def instead_of(name: str, groups: Collection[str]) -> str:
    """The nearest name, or else what there is, as the end of a message."""
    if not groups:
        return "there are no groups"
    there = sorted(groups)
    near = nearest(name, there)
    if near is not None:
        return f"the nearest is `{near}`"
    more = f" and {len(there) - NAMED} more" if len(there) > NAMED else ""
    return f"there are {', '.join(f'`{group}`' for group in there[:NAMED])}{more}"
