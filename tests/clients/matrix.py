"""The results as a table, scenario by client, to be quoted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

WORST_FIRST = ("failed", "skipped", "passed")


@dataclass(frozen=True)
class Result:
    scenario: str
    client: str
    outcome: str
    """passed, failed or skipped"""
    seconds: float


def cell(results: list[Result]) -> str:
    """One cell: the worst outcome of the tests it stands for, and how long they took together."""
    if not results:
        return "-"
    worst = next(outcome for outcome in WORST_FIRST if any(r.outcome == outcome for r in results))
    told = {"passed": "ok", "failed": "FAIL", "skipped": "skip"}[worst]
    return f"{told} {sum(r.seconds for r in results):.1f}s"


def table(results: Iterable[Result]) -> list[str]:
    """Lines of a Markdown table: a row per scenario, a column per client; "-" where a client has no such test."""
    cells: dict[tuple[str, str], list[Result]] = defaultdict(list)
    scenarios: dict[str, None] = {}
    clients: set[str] = set()
    for result in sorted(results, key=lambda r: r.scenario):
        cells[result.scenario, result.client].append(result)
        scenarios[result.scenario] = None
        clients.add(result.client)
    columns = sorted(clients)
    rows = [["scenario", *columns], *([s, *(cell(cells[s, c]) for c in columns)] for s in scenarios)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns) + 1)]
    padded = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in padded]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines
