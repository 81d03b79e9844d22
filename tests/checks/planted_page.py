"""docs/generated/planted.md: which engine found which bug, after how many steps, and how many events show it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.checks.planted_found import Found
from tests.checks.planting import bugs
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


def text(results: Mapping[str, Mapping[str, Found | None]]) -> str:
    """The page, from what each engine found of each bug."""
    lines = [
        f"| bug: {len(bugs())} | breaks | {' | '.join(results)} |",
        f"|---|---|{'---:|' * len(results)}",
        *(
            f"| `{bug.id}`: {bug.says} | {bug.breaks} | {' | '.join(cells)} |"
            for bug in bugs()
            for cells in [[_cell(of.get(bug.id)) for of in results.values()]]
        ),
    ]
    counts = [f"{engine} {sum(found is not None for found in of.values())}" for engine, of in results.items()]
    return f"{HEAD}Found, of {len(bugs())}: {', '.join(counts)}.\n\n" + "\n".join(lines) + "\n"


def _cell(found: Found | None) -> str:
    return f"{found.steps:,} → {found.events}" if found else NOT_FOUND


def results() -> dict[str, dict[str, Found | None]]:
    """What the page says: by engine and bug. Raises ValueError if it is not about the bugs that there are."""
    table = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    start = next(at for at, cells in enumerate(table) if cells[0].startswith("bug: "))
    engines, told = table[start][2:], table[start + 1 :]
    names = [cells[0].split("`")[1] for cells in told]
    if names != [bug.id for bug in bugs()]:
        raise ValueError(f"{PAGE} is not about the bugs that there are: make planted")
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
