"""What `rota top` draws, of what `/groups` says. Nothing here asks or waits."""

from __future__ import annotations

import re
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rota.why import words

BARS = "▁▂▃▄▅▆▇█"
COLOURS = {
    "Stable": "green",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "Dead": "red",
}
COLUMNS = (
    *(("group", 2), ("state", None), ("for", None)),
    *(("members", None), ("gen", None), ("slack", None), ("why", 5)),
)
"""The columns, and how they share the width that the others leave."""
AGE_AND_NUMBER = re.compile(
    r" for [0-9.]+ s(?: or longer)?(?:, (?:generation|epoch) [0-9]+)?(?P<target> \(target of epoch [0-9]+\))?[:;]? ?"
)
"""What a sentence says after the state and before the reason."""
NEAR_PARTS = 3
"""Tenths of the session in which a member is about to expire."""

Groups = list[dict[str, Any]]


def ordered(groups: Groups, match: str, *, only_waiting: bool) -> Groups:
    """Those that are wanted: first what waits, the longest first, then what rebalanced last."""
    wanted = [group for group in groups if match in group["group_id"] and (group["waits"] or not only_waiting)]

    def place(group: dict[str, Any]) -> tuple[bool, int, str]:
        held_ms = group["in_state_ms"]
        return (not group["waits"], -held_ms if group["waits"] else held_ms, group["group_id"])

    return sorted(wanted, key=place)


def drawn(
    groups: Groups,
    wanted: Groups,
    address: str,
    rows: int,
    fault: str | None = None,
    match: str = "",
    *,
    fits_width: bool = True,
) -> RenderableType:
    """The screen: totals, and as many groups as there are rows for. `match`: what their ids have to contain. Without
    `fits_width` columns are as wide as what is in them.
    """
    states: dict[str, int] = {}
    for group in groups:
        states[group["state"]] = states.get(group["state"], 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    members = sum(group["member_count"] for group in groups)
    head = Text(f"rota {address}: {words.counted(len(groups), 'group')} ({told}), {words.counted(members, 'member')}")
    if fault is not None:
        head = Text(words.printable(fault), style="bold red")
    if match and not any(match in group["group_id"] for group in groups):
        return Group(head, Text(), Text(f"none of the {words.counted(len(groups), 'group')} matches {match}"))
    table = Table(expand=fits_width, box=None, pad_edge=False, header_style="bold")
    for name, wide in COLUMNS:
        table.add_column(name, ratio=wide if fits_width else None, no_wrap=True, overflow="ellipsis")
    for group in wanted[:rows]:
        table.add_row(
            Text(words.printable(group["group_id"])),
            Text(group["state"], style=COLOURS.get(group["state"], "")),
            Text(words.seconds(group["in_state_ms"]), justify="right"),
            Text(str(group["member_count"])),
            Text(str(group["generation"])),
            slack(group["slack"]),
            Text(reason(group)),
        )
    more = len(wanted) - rows
    return Group(head, Text(), table, *([Text(f"and {more} more", style="dim")] if more > 0 else []))


def slack(counts: list[int]) -> Text:
    """A histogram in ten letters: on the left the members that are about to expire."""
    most = max(*counts, 1)
    bars = Text()
    for part, count in enumerate(counts):
        letter = BARS[-(-count * (len(BARS) - 1) // most)] if count else " "
        bars.append(letter, style="red" if part < NEAR_PARTS else "blue")
    return bars


def reason(group: dict[str, Any]) -> str:
    """The sentence without the state, its age and the generation, which have columns of their own."""
    sentence: str = group["why"]
    rest = sentence.removeprefix(group["state"])
    found = AGE_AND_NUMBER.match(rest)
    if rest == sentence or found is None:
        return sentence
    target = (found["target"] or "").strip()
    return " ".join(filter(None, [target, rest[found.end() :]]))
