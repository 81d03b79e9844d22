"""Journals of simulated worlds: coordinators that crash, move and are fenced, and an audit that has nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.audit.audit import Audit
from rota.audit.checks import CHECK_OF, VIOLATION
from rota.audit.promises import found_in
from rota.simulate.journal import Journal

ENTRIES_MIN = 10_000
# No part of them needs Spark, and each may be on a worker of its own. All together are 10^6 events.
FIRST_SEEDS = (
    (1_000, 60_000),
    *(pytest.param(seed, 320_000, marks=pytest.mark.long) for seed in (2_000, 3_000, 4_000)),
)
SEEDS_AT_ONCE = 50

# One worker has the one Spark session; the first test waits for the audit of all logs.
of_audit = pytest.mark.xdist_group("audit")
pytestmark = pytest.mark.timeout(2400)


@pytest.mark.parametrize(("first_seed", "events_min"), FIRST_SEEDS)
def test_a_million_events_under_faults_are_clean(first_seed: int, events_min: int, tmp_path: Path) -> None:
    """Folded and audited in one pass over the journal."""
    directory, seed = tmp_path / "worlds", first_seed
    with Journal(directory) as journal:
        while journal.entries < events_min:
            assert all(total.broken is None for total in journal.worlds(seed, seed + SEEDS_AT_ONCE))
            seed += SEEDS_AT_ONCE
    wrong = [(place, found) for *place, found in found_in(directory) if CHECK_OF[found.name].severity == VIOLATION]
    assert wrong == []


@of_audit
def test_the_journals_of_worlds_under_faults_are_clean(found: Audit, worlds: Path) -> None:
    log = str(worlds)
    assert [verdict for verdict in found.violations if verdict.log == log] == []
    folds = [fold for fold in found.folds if fold.log == log]
    assert sum(fold.compared for fold in folds) > ENTRIES_MIN
    assert [fold for fold in folds if fold.differences or fold.damage] == []


@of_audit
def test_the_model_answers_as_the_coordinators_of_worlds_did(found: Audit, worlds: Path) -> None:
    asked = [opinion for opinion in found.opinions if opinion.log == str(worlds)]
    assert sum(opinion.answers for opinion in asked) > 100
    assert [opinion.difference for opinion in asked if opinion.difference] == []
