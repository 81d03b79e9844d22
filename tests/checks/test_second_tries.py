"""In CI a test that waits for other programs has one second try, on record, and few of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SECOND_TRIES_MAX

TESTS = Path(__file__).parents[1]
# Fails the first time it runs, as a test does that a busy machine has starved.
ONCE = """
from pathlib import Path

import pytest


@pytest.mark.parametrize("n", range({count}))
def test_passes_in_its_second_try(n):
    seen = Path(__file__).with_name(f"seen-{{n}}")
    first = not seen.exists()
    seen.touch()
    assert not first, "starved"
"""


def _run(directory: Path, folder: str, count: int, ci: str) -> subprocess.CompletedProcess[str]:
    tests = directory / "tests"
    (tests / folder).mkdir(parents=True)
    for name in ("__init__.py", "conftest.py", "processes.py"):
        shutil.copy(TESTS / name, tests / name)
    (tests / folder / "test_once.py").write_text(ONCE.format(count=count))
    (directory / "pytest.ini").write_text("[pytest]\ntimeout = 60\n")
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | ({"CI": ci} if ci else {})
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tests)]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)


def test_in_ci_a_second_try_passes_and_is_listed_with_its_first_failure(tmp_path: Path) -> None:
    done = _run(tmp_path, "server", SECOND_TRIES_MAX, "true")
    assert done.returncode == 0, done.stdout
    assert "find out why" in done.stdout
    assert "AssertionError: starved" in done.stdout


def test_in_ci_many_second_tries_fail_the_run(tmp_path: Path) -> None:
    assert _run(tmp_path, "server", SECOND_TRIES_MAX + 1, "true").returncode == 1


@pytest.mark.parametrize(("folder", "ci"), [("server", ""), ("checks", "true")])
def test_elsewhere_there_is_none(tmp_path: Path, folder: str, ci: str) -> None:
    done = _run(tmp_path, folder, 1, ci)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
