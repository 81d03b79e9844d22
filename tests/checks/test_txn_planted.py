"""The explorer of the transaction coordinator finds every planted bug, and nothing without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checks import engine_planting as planting

# One worker makes the copy and builds it.
pytestmark = [pytest.mark.xdist_group("planted-txn"), pytest.mark.timeout(1800)]

BROKEN = re.compile(r"^(\w+): (T\d|S): ", re.MULTILINE)
BUGS = {bug.id: bug for bug in planting.bugs(planting.TXN)}


@pytest.fixture(scope="module")
def program() -> Path:
    return planting.build(planting.TXN)


def test_every_bug_has_one_place_in_the_crate() -> None:
    texts = b"".join(planting.contents(list(BUGS.values()), planting.TXN).values()).decode()
    assert all(f'crate::planted::is("{name}")' in texts for name in BUGS)
    assert len(BUGS) >= 20


def test_the_copy_without_a_bug_breaks_nothing(program: Path) -> None:
    told = planting.explored(program, "first_protocol")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 passed" in told.stdout


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(program: Path, bug: str) -> None:
    told = planting.explored(program, BUGS[bug].bounds, bug)
    found = BROKEN.search(told.stdout + told.stderr)
    assert found, f"not found\n{told.stdout[-500:]}\n{told.stderr[-2000:]}"
    assert found[1] == BUGS[bug].bounds
    assert found[2] in BUGS[bug].breaks.split()
