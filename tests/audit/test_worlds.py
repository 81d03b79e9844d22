"""Journals of simulated worlds: coordinators that crash, move and are fenced, and an audit that has nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.audit.audit import Audit

# One worker has the one Spark session; the first test waits for the audit of all logs.
pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(600)]

ENTRIES_MIN = 10_000


def test_the_journals_of_worlds_under_faults_are_clean(found: Audit, worlds: Path) -> None:
    log = str(worlds)
    assert [verdict for verdict in found.violations if verdict.log == log] == []
    folds = [fold for fold in found.folds if fold.log == log]
    assert sum(fold.compared for fold in folds) > ENTRIES_MIN
    assert [fold for fold in folds if fold.differences or fold.damage] == []


def test_the_model_answers_as_the_coordinators_of_worlds_did(found: Audit, worlds: Path) -> None:
    asked = [opinion for opinion in found.opinions if opinion.log == str(worlds)]
    assert sum(opinion.answers for opinion in asked) > 100
    assert [opinion.difference for opinion in asked if opinion.difference] == []
