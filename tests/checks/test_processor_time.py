"""`make profile-tests` counts the processor time of a test and of every process that it starts, waited for or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checks.tidy import ROOT

SPENT_S = 0.4
PLANTED = f"""
import subprocess, sys, time

import pytest

SPEND = "import sys, time\\nwhile time.process_time() < {SPENT_S}: pass\\nprint('spent', flush=True)\\nsys.stdin.read()"


def spend():
    end = time.process_time() + {SPENT_S}
    while time.process_time() < end:
        pass


@pytest.fixture
def spender():
    spend()


@pytest.fixture(scope="module")
def server():
    child = subprocess.Popen([sys.executable, "-c", SPEND], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield child
    child.communicate()


def test_itself():
    spend()
    assert not "a test that fails"


def test_fixture(spender): ...


def test_child():
    subprocess.run([sys.executable, "-c", SPEND], stdin=subprocess.DEVNULL, check=True)


def test_child_that_goes_on(server):
    assert server.stdout.readline()


def test_nothing(server): ...
"""
SPENDERS = {"test_itself", "test_fixture", "test_child", "test_child_that_goes_on"}


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_every_test_that_spends_processor_time_is_listed_with_it(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    times = tmp_path / "times"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.processor_time", *workers]
    done = subprocess.run(
        [*command, "--processor-time", str(times), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    rows = [line.split("\t") for line in times.read_text().splitlines()]
    spent = {name.rpartition("::")[2]: float(cpu) for cpu, _, name in rows}
    assert set(spent) == {*SPENDERS, "test_nothing"}
    assert all(spent[name] >= SPENT_S - 0.02 for name in SPENDERS), spent
    assert spent["test_nothing"] < SPENT_S / 2, spent
    listed = [line.rpartition("::")[2] for line in done.stdout.splitlines() if "s on the clock: " in line]
    assert listed[-1] == "test_nothing"
    assert set(listed) == set(spent)
