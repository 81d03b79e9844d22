"""docs/generated/planted.md and planted-consumers.md: which engine found which bug, after how many steps, and how many
events show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.checks.planted_found import Found
from tests.checks.planting import CONSUMER_REGISTRY, REGISTRY, bugs
from tests.checks.tidy import ROOT

PAGE = ROOT / "docs/generated/planted.md"
NOT_FOUND = "–"
HEAD = """# Planted bugs
This page checks the engines that check the coordinator. Each row is a bug planted in a copy of its core
(`tests/checks/bugs.toml`). Each cell has the steps after which an engine noticed it, and the events that remain after
shrinking; – means not found within the bounds.

| engine | what it is | bounds |
|---|---|---|
| transcripts | every scene (`tests/protocol`), played to the core | all, in three modes; the shortest that differs |
| model | core and Python model in lockstep, seeded (`tests/checks/differential.md`) | 2,000 runs of 60 steps |
| Hypothesis | the same, with steps that Hypothesis chooses; shortened as those of `model` | 1,000 runs of 40 steps |
| exploration | every event in every state, breadth first; steps are events tried | 2,000 states of each of the bounds |
| simulator | coordinators and members under faults (docs/simulate.md); steps are worlds, events faults | 1,000 worlds |

No build of rota has these bugs: only tests build the copy, in `build/planted`.
`make planted` makes this page, `python -m tests.checks.planted --engine NAME` one column of it.

"""

CONSUMER_HEAD = """# Planted bugs of the newer protocol
Bugs in consumer groups, their classic members, and conversions (`tests/checks/consumer_bugs.toml`), as
[those of the classic protocol](planted.md). The same copy of the core has all of them. Events of `model` are the steps
of the run that differs; it is not made smaller.

| engine | what it is | bounds |
|---|---|---|
| recordings | sessions of Apache Kafka 4.4.0 (`tests/protocol`), played to the core; the shortest that differs | all |
| model | core and Python model in lockstep: consumer groups, and conversions | 110 runs of 60 steps of each |
| exploration | every event in every state, breadth first; steps are events tried | 1,000 states of each of the bounds |

`make planted` makes this page, `python -m tests.checks.planted --protocol consumer --engine NAME` one column of it.

"""


@dataclass(frozen=True)
class Page:
    """A page about the bugs of a registry."""

    path: Path
    registry: Path
    head: str


CLASSIC = Page(PAGE, REGISTRY, HEAD)
CONSUMER = Page(ROOT / "docs/generated/planted-consumers.md", CONSUMER_REGISTRY, CONSUMER_HEAD)


def text(results: Mapping[str, Mapping[str, Found | None]], page: Page = CLASSIC) -> str:
    """The page, from what each engine found of each bug."""
    planted = bugs(page.registry)
    lines = [
        f"| bug: {len(planted)} | breaks | {' | '.join(results)} |",
        f"|---|---|{'---:|' * len(results)}",
        *(
            f"| `{bug.id}`: {bug.says} | {bug.breaks} | {' | '.join(cells)} |"
            for bug in planted
            for cells in [[_cell(of.get(bug.id)) for of in results.values()]]
        ),
    ]
    counts = [f"{engine} {sum(found is not None for found in of.values())}" for engine, of in results.items()]
    return f"{page.head}Found, of {len(planted)}: {', '.join(counts)}.\n\n" + "\n".join(lines) + "\n"


def _cell(found: Found | None) -> str:
    return f"{found.steps:,} → {found.events}" if found else NOT_FOUND


def results(page: Page = CLASSIC) -> dict[str, dict[str, Found | None]]:
    """What the page says: by engine and bug. Raises ValueError if it is not about the bugs that there are."""
    table = [line.strip("| ").split(" | ") for line in page.path.read_text().splitlines() if line.startswith("| ")]
    start = next(at for at, cells in enumerate(table) if cells[0].startswith("bug: "))
    engines, told = table[start][2:], table[start + 1 :]
    names = [cells[0].split("`")[1] for cells in told]
    if names != [bug.id for bug in bugs(page.registry)]:
        raise ValueError(f"{page.path} is not about the bugs that there are: make planted")
    columns = zip(*(cells[2:] for cells in told), strict=True)
    return {
        engine: dict(zip(names, map(_found, column), strict=True))
        for engine, column in zip(engines, columns, strict=True)
    }


def _found(cell: str) -> Found | None:
    if cell == NOT_FOUND:
        return None
    steps, events = cell.replace(",", "").split(" → ")
    return Found(int(steps), int(events))
