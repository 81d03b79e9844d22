"""A mutant is what really runs, and what is argued about mutants is about mutants that exist.

With `MUTANTS_EVERY=1` each function of the model is made to raise, not one in sixteen.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.pool import Pool

import pytest

from tests.checks.mutants import FOLDER, Mutant, install, mutants, raising
from tests.checks.mutate_model import argued, notices, stale

pytestmark = pytest.mark.xdist_group("mutants")  # each process makes all of them

RUNS = 10
EVERY = int(os.environ.get("MUTANTS_EVERY", "16"))  # 1: each function


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """New processes, which have not imported the model: one for each mutant."""
    with multiprocessing.get_context("forkserver").Pool(2, maxtasksperchild=1) as processes:
        yield processes


def test_a_mutant_that_raises_is_noticed_whichever_function_it_is_in(pool: Pool) -> None:
    chosen = raising()[::EVERY]
    assert len(chosen) > 100 // EVERY
    noticed = pool.imap(notices, chosen, chunksize=1)
    survivors = [mutant.name for mutant, by in zip(chosen, noticed, strict=True) if not by]
    assert survivors == [], "nothing calls these"


def test_a_mutant_in_a_function_that_nobody_calls_is_not_noticed(pool: Pool) -> None:
    mutant = next(mutant for mutant in raising() if mutant.module == "gate")
    real = (FOLDER / "gate.py").read_text()
    uncalled = replace(mutant, written=real + "\n\ndef uncalled() -> None:\n    raise AssertionError\n")
    assert pool.apply(notices, (uncalled, RUNS)) == ""
    assert pool.apply(notices, (replace(mutant, written=real + "\n\ngate = None\n"), RUNS)) != ""


def test_a_mutant_cannot_come_too_late() -> None:
    assert "rota.model" in sys.modules or importlib.import_module("rota.model") is not None
    with pytest.raises(RuntimeError, match=r"imported before the mutant was installed: rota\.model"):
        install(mutants()[0])


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in mutants()]
    assert len(set(names)) == len(names) > 600


def test_what_is_argued_is_about_mutants_that_exist() -> None:
    assert stale(argued(), mutants()) == set()
    assert all(len(reason) > 20 for reason in argued().values())


def test_an_argument_about_a_mutant_that_is_gone_is_noticed() -> None:
    gone = Mutant("gate", "gate", 1, "was once there", 0, None)
    assert stale([gone.name], mutants()) == {gone.name}
