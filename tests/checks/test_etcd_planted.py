"""The tests of the engine on a real etcd find every planted bug, and nothing without one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.checks import etcd_planting as planting

# One worker makes the copy and builds it.
pytestmark = [
    pytest.mark.xdist_group("planted-etcd"),
    pytest.mark.timeout(1800),
    # CI installs it; `.ci/run` says so if it cannot.
    pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (Debian: etcd-server)"),
]

ENGINE = planting.ETCD
BUGS = {bug.id: bug for bug in ENGINE.bugs()}


@pytest.fixture(scope="module")
def program() -> Path:
    return planting.build(ENGINE)


def test_every_bug_has_one_place_in_the_crate() -> None:
    texts = b"".join(planting.contents(ENGINE).values()).decode()
    assert all(f'crate::planted::is("{name}")' in texts for name in BUGS)
    assert len(BUGS) >= 25


@pytest.mark.parametrize("test", sorted({bug.breaks for bug in BUGS.values()}))
def test_the_copy_without_a_bug_breaks_nothing(program: Path, test: str) -> None:
    told = planting.ran(ENGINE, program, test)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 passed" in told.stdout


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(program: Path, bug: str) -> None:
    told = planting.ran(ENGINE, program, BUGS[bug].breaks, bug)
    assert told.returncode != 0, f"not found\n{told.stdout[-500:]}\n{told.stderr[-2000:]}"
    assert "1 failed" in told.stdout, told.stdout + told.stderr
