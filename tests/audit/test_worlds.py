"""Journals of simulated worlds: coordinators that crash, move and are fenced, and an audit that has nothing to say."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from rota.audit.audit import Wanted, audit
from rota.simulate.journal import Journal


def test_the_journals_of_worlds_under_faults_are_clean(spark: SparkSession, tmp_path: Path) -> None:
    with Journal(tmp_path / "worlds") as journal:
        *_, total = journal.worlds(0, 30)
    assert total.broken is None
    found = audit(spark, Wanted([tmp_path / "worlds"], output=tmp_path / "audit"))
    assert found.violations == []
    assert found.unreadable == []
    assert sum(fold.entries for fold in found.folds) == journal.entries
