"""The explorer of the engine's protocol finds every planted bug, and nothing without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checks import planted_build
from tests.checks.planting import ENGINE, bugs_of, one_of_each, planted

# One worker builds what it runs.
pytestmark = [pytest.mark.xdist_group("planted"), pytest.mark.timeout(1800)]

BROKEN = re.compile(r"^(\w+): (E\d) is broken: ", re.MULTILINE)
BUGS = {bug.id: bug for bug in bugs_of(ENGINE)}
# One bug for each promise. `make long` tries all.
TRIED = one_of_each(BUGS, lambda bug: BUGS[bug].breaks)


@pytest.fixture(scope="module")
def program() -> Path:
    return planted_build.test(ENGINE, "exploration")


def test_every_bug_has_one_place_in_the_crate() -> None:
    texts = "".join(planted(ENGINE).values())
    assert all(f'crate::planted::is("{name}")' in texts for name in BUGS)
    assert len(BUGS) >= 20


def test_the_copy_without_a_bug_breaks_nothing(program: Path) -> None:
    told = planted_build.ran(ENGINE, program, "appends")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 passed" in told.stdout


@pytest.mark.parametrize("bug", TRIED)
def test_a_planted_bug_is_found(program: Path, bug: str) -> None:
    told = planted_build.ran(ENGINE, program, BUGS[bug].bounds, bug)
    found = BROKEN.search(told.stdout + told.stderr)
    assert found, f"not found\n{told.stdout[-500:]}\n{told.stderr[-2000:]}"
    assert found[1] == BUGS[bug].bounds
    assert found[2] in BUGS[bug].breaks
