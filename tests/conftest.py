"""What all Python tests share."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import processes

pytest_plugins = ["pytester"]  # for the tests of our own plugin

# In CI the same examples every time, and no deadline: two busy cores say nothing about our speed.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "here")

LEFT = "processes_left"


def pytest_configure() -> None:
    processes.prepare()


@pytest.fixture(autouse=True)
def _ends_what_it_starts() -> Iterator[None]:
    """A process that a test leaves behind is killed, and fails the test. Those of wider fixtures are not the test's."""
    before = processes.children()
    yield
    left = processes.end_all_but(before)
    assert not left, "the test left processes behind: " + "; ".join(left)


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
            limits[report.nodeid] = vars(report)["limit_s"]
    near = sorted(name for name, took in seconds.items() if took > limits[name] / 4)
    if near:
        terminalreporter.section("more than a quarter of the limit")
    for name in near:
        terminalreporter.write_line(f"{seconds[name]:.0f} s of {limits[name]:.0f} s: {name}")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Nor does a fixture leave any: the session fails, here or in the process that started this worker."""
    yield
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
