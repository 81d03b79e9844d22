"""The tests of an engine on a real etcd or PostgreSQL find every planted bug, and nothing without one.

`make test` plants one for each test, `make long` all.
"""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest

from harness import postgres
from tests.checks import planted_build
from tests.checks.planting import ETCD, POSTGRES, bugs_of, one_of_each, planted


class Copy(NamedTuple):
    """A crate with planted bugs."""

    crate: str
    test: str
    name: str
    is_installed: bool
    package: str
    """The name of the Debian package."""
    bugs_min: int

    def marks(self) -> list[pytest.MarkDecorator]:
        """One worker builds what it runs."""
        lacking = f"{self.name} is not installed (Debian: {self.package})"
        return [
            pytest.mark.xdist_group(f"planted-{self.name.lower()}"),
            # CI installs it; `.ci/run` says so if it cannot.
            pytest.mark.skipif(not self.is_installed, reason=lacking),
        ]


COPIES = [
    Copy(ETCD, "real", "etcd", shutil.which("etcd") is not None, "etcd-server", 25),
    Copy(POSTGRES, "database", "PostgreSQL", postgres.is_installed(), "postgresql", 20),
]
BUGS = {copy: {bug.id: bug for bug in bugs_of(copy.crate)} for copy in COPIES}
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("copy", [pytest.param(copy, id=copy.name, marks=copy.marks()) for copy in COPIES])
def test_every_bug_has_one_place_in_the_crate(copy: Copy) -> None:
    texts = "".join(planted(copy.crate).values())
    assert all(f'crate::planted::is("{name}")' in texts for name in BUGS[copy])
    assert len(BUGS[copy]) >= copy.bugs_min


@pytest.mark.parametrize("copy", [pytest.param(copy, id=copy.name, marks=copy.marks()) for copy in COPIES])
def test_the_copy_without_a_bug_breaks_nothing(copy: Copy) -> None:
    # `cargo test` runs all of them with the crate itself.
    test = min(bug.breaks for bug in BUGS[copy].values())
    told = planted_build.ran(copy.crate, planted_build.test(copy.crate, copy.test), test)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 passed" in told.stdout


@pytest.mark.parametrize(
    ("copy", "bug"),
    [
        pytest.param(copy, bug.id, id=f"{copy.name}-{bug.id}", marks=copy.marks())
        for copy in COPIES
        for bug in one_of_each(BUGS[copy].values(), lambda bug: bug.breaks)
    ],
)
def test_a_planted_bug_is_found(copy: Copy, bug: str) -> None:
    program = planted_build.test(copy.crate, copy.test)
    told = planted_build.ran(copy.crate, program, BUGS[copy][bug].breaks, bug)
    assert told.returncode != 0, f"not found\n{told.stdout[-500:]}\n{told.stderr[-2000:]}"
    assert "1 failed" in told.stdout, told.stdout + told.stderr
