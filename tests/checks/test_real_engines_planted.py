"""The tests of an engine on a real etcd or PostgreSQL find every planted bug, and nothing without one."""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest

from harness import postgres
from tests.checks import etcd_planting as planting


class Copy(NamedTuple):
    """A crate with planted bugs."""

    engine: planting.Engine
    name: str
    is_installed: bool
    package: str
    """The name of the Debian package."""
    bugs_min: int

    def marks(self) -> list[pytest.MarkDecorator]:
        """One worker makes the copy and builds it."""
        lacking = f"{self.name} is not installed (Debian: {self.package})"
        return [
            pytest.mark.xdist_group(f"planted-{self.name.lower()}"),
            # CI installs it; `.ci/run` says so if it cannot.
            pytest.mark.skipif(not self.is_installed, reason=lacking),
        ]


COPIES = [
    Copy(planting.ETCD, "etcd", shutil.which("etcd") is not None, "etcd-server", 25),
    Copy(planting.POSTGRES, "PostgreSQL", postgres.is_installed(), "postgresql", 20),
]
BUGS = {copy: {bug.id: bug for bug in copy.engine.bugs()} for copy in COPIES}
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("copy", [pytest.param(copy, id=copy.name, marks=copy.marks()) for copy in COPIES])
def test_every_bug_has_one_place_in_the_crate(copy: Copy) -> None:
    texts = b"".join(planting.contents(copy.engine).values()).decode()
    assert all(f'crate::planted::is("{name}")' in texts for name in BUGS[copy])
    assert len(BUGS[copy]) >= copy.bugs_min


@pytest.mark.parametrize(
    ("copy", "test"),
    [
        pytest.param(copy, test, id=f"{copy.name}-{test}", marks=copy.marks())
        for copy in COPIES
        for test in sorted({bug.breaks for bug in BUGS[copy].values()})
    ],
)
def test_the_copy_without_a_bug_breaks_nothing(copy: Copy, test: str) -> None:
    told = planting.ran(copy.engine, planting.build(copy.engine), test)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 passed" in told.stdout


@pytest.mark.parametrize(
    ("copy", "bug"),
    [pytest.param(copy, bug, id=f"{copy.name}-{bug}", marks=copy.marks()) for copy in COPIES for bug in BUGS[copy]],
)
def test_a_planted_bug_is_found(copy: Copy, bug: str) -> None:
    told = planting.ran(copy.engine, planting.build(copy.engine), BUGS[copy][bug].breaks, bug)
    assert told.returncode != 0, f"not found\n{told.stdout[-500:]}\n{told.stderr[-2000:]}"
    assert "1 failed" in told.stdout, told.stdout + told.stderr
