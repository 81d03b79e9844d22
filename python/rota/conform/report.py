"""What a run found, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rota.conform.judge import BAD, Verdict
from rota.conform.run import Result
from rota.conform.said import Said
from rota.conform.wire import Exchange

HEX_SHOWN = 240
MEANING_SHOWN = 400
EXCHANGES_SHOWN = 4


def table(results: Sequence[Result]) -> Iterator[str]:
    """One line per kind of row, then why rows were left out, then every row that is bad."""
    kinds = sorted({kind(result) for result in results})
    columns = [verdict for verdict in Verdict if any(result.verdict is verdict for result in results)]
    width = max([len(name) for name in kinds] + [5])
    yield f"{'rows':{width}}  " + "  ".join(f"{verdict.value:>12}" for verdict in columns)
    for name in [*kinds, ""]:
        counts = Counter(result.verdict for result in results if name in ("", kind(result)))
        cells = "  ".join(f"{counts[verdict] or '-':>12}" for verdict in columns)
        yield f"{name or 'all':{width}}  {cells}"
    for heading, verdict in (("left out", Verdict.LEFT_OUT), ("explained", Verdict.EXPLAINED)):
        reasons = Counter(result.why for result in results if result.verdict is verdict)
        if reasons:
            yield f"{heading}: " + "; ".join(f"{why} ({count})" for why, count in reasons.most_common())


def kind(result: Result) -> str:
    """The folder of a row."""
    return result.row.id.split("/")[0]


def details(result: Result, theirs: str) -> Iterator[str]:
    """Where a row parts from what it should be, and the last that was said."""
    yield f"{result.verdict.value.upper()} {result.row.id}  ({result.row.page})"
    yield f"  {result.row.says}"
    difference = result.difference
    if difference is not None:
        yield f"  at: {difference.step}"
        yield from (f"  - {line}" for line in difference.missing or (f"({theirs}: nothing more)",))
        yield from (f"  + {line}" for line in difference.unexpected or ("(nothing more)",))
    for exchange in result.trail[-EXCHANGES_SHOWN:]:
        yield f"  {exchange.direction} {exchange.connection}: {_cut(exchange.meaning, MEANING_SHOWN)}"
        yield f"    {_cut(exchange.frame.hex(), HEX_SHOWN)}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Counts, and every row; all answers of rows that failed."""
    counts = Counter(result.verdict.value for result in results)
    return {"counts": dict(sorted(counts.items())), "rows": [_row(result) for result in results]}


def _row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {"id": result.row.id, "section": result.row.section, "verdict": result.verdict.value}
    if result.why:
        row["why"] = result.why
    if result.difference is not None:
        row |= {
            "step": result.difference.step,
            "missing": list(result.difference.missing),
            "unexpected": list(result.difference.unexpected),
        }
    if result.verdict in BAD:
        row["evidence"] = [_said(each) for each in result.evidence]
        row["exchanges"] = [_exchange(each) for each in result.trail]
    return row


def _said(each: Said) -> dict[str, Any]:
    return {"step": each.step, "answers": list(each.answers)}


def _exchange(each: Exchange) -> dict[str, str]:
    return {
        "connection": each.connection,
        "direction": each.direction,
        "hex": each.frame.hex(),
        "meaning": each.meaning,
    }
