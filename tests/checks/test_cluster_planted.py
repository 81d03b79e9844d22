"""The tests of a node's host in virtual time find every planted bug, and nothing without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks import planted_build
from tests.checks.planting import CLUSTER, bugs_of, planted

# One worker builds what it runs.
pytestmark = [pytest.mark.xdist_group("planted"), pytest.mark.timeout(1800)]

BUGS = {bug.id: bug for bug in bugs_of(CLUSTER)}


@pytest.fixture(scope="module")
def program() -> Path:
    return planted_build.test(CLUSTER, "virtual_time")


def test_every_bug_has_one_place_in_the_crate() -> None:
    texts = "".join(planted(CLUSTER).values())
    assert all(f'crate::planted::is("{name}")' in texts for name in BUGS)
    assert len(BUGS) >= 25


def test_the_copy_without_a_bug_breaks_nothing(program: Path) -> None:
    # `cargo test` runs all of them with the crate itself.
    told = planted_build.ran(CLUSTER, program, min(bug.breaks for bug in BUGS.values()))
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 passed" in told.stdout


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(program: Path, bug: str) -> None:
    told = planted_build.ran(CLUSTER, program, BUGS[bug].breaks, bug)
    assert told.returncode != 0, f"not found\n{told.stdout[-500:]}\n{told.stderr[-2000:]}"
    assert "1 failed" in told.stdout, told.stdout + told.stderr
