"""The explorer of the transaction coordinator and the lockstep with its model find every planted bug, and nothing
without one.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checks import planted_build
from tests.checks.planted_txn import found_in
from tests.checks.planting import TXN, bugs_of, one_of_each, planted

# One worker builds what it runs.
pytestmark = [pytest.mark.xdist_group("planted"), pytest.mark.timeout(1800)]

BROKEN = re.compile(r"^(\w+): (T\d|S): ", re.MULTILINE)
BUGS = {bug.id: bug for bug in bugs_of(TXN)}
# Of the lockstep, one bug for each promise. `make long` tries all.
TRIED = one_of_each(BUGS, lambda bug: BUGS[bug].breaks)


@pytest.fixture(scope="module")
def program() -> Path:
    return planted_build.test(TXN, "exploration")


@pytest.fixture(scope="module")
def module() -> Path:
    return planted_build.module()


def test_every_bug_has_one_place_in_the_crate() -> None:
    texts = "".join(planted(TXN).values())
    assert all(f'crate::planted::is("{name}")' in texts for name in BUGS)
    assert len(BUGS) >= 25


def test_the_copy_without_a_bug_breaks_nothing(program: Path) -> None:
    told = planted_build.ran(TXN, program, "first_protocol")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 passed" in told.stdout


@pytest.mark.parametrize("bug", BUGS)
def test_the_explorer_finds_a_planted_bug(program: Path, bug: str) -> None:
    told = planted_build.ran(TXN, program, BUGS[bug].bounds, bug)
    found = BROKEN.search(told.stdout + told.stderr)
    assert found, f"not found\n{told.stdout[-500:]}\n{told.stderr[-2000:]}"
    assert found[1] == BUGS[bug].bounds
    assert found[2] in BUGS[bug].breaks.split()


# The module with all planted bugs is one more build of everything.
@pytest.mark.long
def test_the_planted_module_without_a_bug_does_what_the_model_does(module: Path) -> None:
    assert found_in(module) is None


@pytest.mark.long
@pytest.mark.parametrize("bug", TRIED)
def test_the_lockstep_finds_a_planted_bug_and_shows_it_in_a_few_steps(module: Path, bug: str) -> None:
    found = found_in(module, bug)
    assert found is not None, "not found"
    assert 0 < found.events <= 20
