"""What all Python tests share."""

from __future__ import annotations

import errno
import gc
import itertools
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import processes

pytest_plugins = ["pytester"]  # for the tests of our own plugin

# In CI the same examples every time, and no deadline: two busy cores say nothing about our speed.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "here")

# Until all tests are collected, there is no garbage: see `pytest_collection_finish`.
gc.disable()

LEFT = "processes_left"
TESTS = Path(__file__).parent
# Tests of all other folders wait for other programs in real time, which a busy machine can starve. In CI each has
# one second try, on record; more second tries than this fail the run. A machine that stands still for some seconds
# starves a test of each worker at once: one such moment must not fail the run, two do.
ALONE = {"assign", "checks", "coordinator", "protocol", "wire"}
SECOND_TRIES_MAX = 6
# In CI one worker runs what keeps a core busy, and the others what mostly waits.
CALCULATES = "checks"


def pytest_configure(config: pytest.Config) -> None:
    processes.prepare()
    if not hasattr(config, "workerinput"):
        _give_children_a_folder(config)


def _give_children_a_folder(config: pytest.Config) -> None:
    """What a killed process leaves in its temporary directory goes with the session. pytest's own folders stay."""
    tempfile.gettempdir()  # and is known from now on
    folder = tempfile.TemporaryDirectory(prefix="rota-tests-", ignore_cleanup_errors=True)
    Path(folder.name).chmod(0o755)  # PostgreSQL runs as another user
    os.environ |= {"TMPDIR": folder.name, "SPARK_LOCAL_DIRS": folder.name}
    config.add_cleanup(folder.cleanup)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("CI"):
        for item in items:
            # Files outside of this tree are those of tests of pytest itself.
            folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
            if folder and folder not in ALONE:
                item.add_marker(pytest.mark.flaky(reruns=1))
            if folder == CALCULATES and item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(CALCULATES))
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay until the end. A third of the time of a test of the model went into
    looking through them for garbage, again and again.
    """
    gc.freeze()
    gc.enable()


def _rank(item: pytest.Item) -> int:
    """One worker runs all tests of a group. A long group that begins last would keep one core busy, and the others not.
    What only calculates comes behind the other groups, beside tests that wait.
    """
    group = item.get_closest_marker("xdist_group")
    if group is None:
        return 2
    return 1 if CALCULATES in group.args else 0


@pytest.fixture(autouse=True)
def _ends_what_it_starts() -> Iterator[None]:
    """A process that a test leaves behind is killed, and fails the test. Those of wider fixtures are not the test's."""
    before = processes.children()
    yield
    left = processes.end_all_but(before)
    assert not left, "the test left processes behind: " + "; ".join(left)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file takes text."""

    def is_full(_path: Path, _text: str, **_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", is_full)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("timeout")
    vars(report)["limit_s"] = float((marker.args[0] if marker else item.config.getini("timeout")) or "inf")
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A limit guards against hanging. A test that comes near it does too much, or its limit is too low."""
    seconds: dict[str, float] = defaultdict(float)
    limits: dict[str, float] = {}
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] += report.duration
            # A worker that died leaves a report without a limit.
            limits[report.nodeid] = vars(report).get("limit_s", math.inf)
    if again := _second_tries(terminalreporter):
        terminalreporter.section("passed or failed only in a second try: find out why")
    for report in again:
        terminalreporter.write_line(f"{report.nodeid}\n{report.longreprtext}")
    near = sorted(name for name, took in seconds.items() if took > limits[name] / 4)
    if near:
        terminalreporter.section("more than a quarter of the limit")
    for name in near:
        terminalreporter.write_line(f"{seconds[name]:.0f} s of {limits[name]:.0f} s: {name}")


def _second_tries(terminalreporter: Any) -> list[pytest.TestReport]:
    return list(terminalreporter.stats.get("rerun", [])) if terminalreporter else []


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Nor does a fixture leave any: the session fails, here or in the process that started this worker."""
    yield
    if len(_second_tries(session.config.pluginmanager.getplugin("terminalreporter"))) > SECOND_TRIES_MAX:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if session.config.pluginmanager.hasplugin("dsession"):
        return  # its children are the workers
    left = processes.end_all_but(set())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT] = left
    elif left:
        _complain(session.config, left)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended."""
    if left := getattr(node, "workeroutput", {}).get(LEFT):
        _complain(node.config, left)
        node.config.pluginmanager.getplugin("dsession").shouldstop = "processes were left behind"


def _complain(config: pytest.Config, left: list[str]) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    for words in left:
        reporter.write_line(f"left behind and killed: {words}", red=True)
