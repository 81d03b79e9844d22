"""What an engine of `rota check` reports, and the table of all reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Report:
    """One engine's outcome: whether everything held, its figures by name, and what did not hold in full words."""

    engine: str
    ok: bool
    seconds: float
    figures: dict[str, int | float | str]
    failures: list[str] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """The report as JSON data."""
        return asdict(self)


def table(reports: list[Report]) -> str:
    """One line for each engine."""
    rows = [("engine", "outcome", "seconds", "figures")]
    for report in reports:
        figures = ", ".join(
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
            for name, value in report.figures.items()
        )
        rows.append((report.engine, "holds" if report.ok else "FAILED", f"{report.seconds:.1f}", figures))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    )
