"""The page of figures of high availability is what its figures say."""

from __future__ import annotations

import json

from benches.high_availability import FIGURES, PAGE, ROWS, page


def test_the_page_has_the_figures_that_were_measured() -> None:
    kept = json.loads(FIGURES.read_text())
    assert PAGE.read_text() == page(kept)
    shown = {key for _, _, key, _ in ROWS}
    for engine in kept.values():
        counts = {len(values) for name, values in engine["figures"].items() if name in shown}
        assert min(counts) >= 1


def test_what_was_not_measured_has_no_figure() -> None:
    rows = page({"kafka": {"version": "Kafka 1", "figures": {"kill": [9_000.4, 11_000.0, 10_000.0]}}}).splitlines()
    cells = {row.split(" | ")[0]: row.split(" | ")[1].removesuffix(" |") for row in rows if row.startswith("| ")}
    assert cells["| `kill -9` of the coordinator: to the first commit, ms (HA-4)"] == "9,000, **10,000**, 11,000"
    assert cells["| SIGSTOP of the coordinator: to the first commit, ms (HA-4)"] == "–"
    assert cells["| engine"] == "Kafka 1"
    assert cells["| cores"] == "–"
