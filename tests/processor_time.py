"""A plugin of pytest: how much processor time each test takes, with that of the processes it starts.

    python -m pytest -p tests.processor_time [--processor-time FILE] ...

On a busy machine the time on the clock says little, the processor time says what a test costs. The summary lists the
most expensive tests. FILE gets one line per test: processor seconds, seconds on the clock, name. `make profile-tests`
uses it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

LISTED = 30
TICKS = os.sysconf("SC_CLK_TCK")
CPU, CLOCK = "processor_s", "clock_s"


def _of(pid: int) -> float:
    """The processor seconds of a process and of its children that it has waited for; 0 if it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def _below(pid: int) -> Generator[int]:
    """The processes below this one, also those that have ended and whose exit code no process has collected."""
    children = list[str]()
    # The process or one of its threads may end meanwhile.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                children += listed.read_text().split()
    for child in map(int, children):
        yield child
        yield from _below(child)


def spent() -> float:
    """The processor seconds of this process and of everything that it started, so far."""
    return sum(os.times()[:4]) + sum(map(_of, _below(os.getpid())))


class Times:
    """Measures the phases of each test, and sums them up where the reports arrive."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.at = (0.0, 0.0)
        self.sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self.at = (spent(), time.monotonic())
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        (cpu, clock), now = self.at, (spent(), time.monotonic())
        self.at = now
        report.user_properties = [*report.user_properties, (CPU, now[0] - cpu), (CLOCK, now[1] - clock)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        of_test = self.sums[report.nodeid]
        of_test[0] += float(str(properties.get(CPU, 0)))
        of_test[1] += float(str(properties.get(CLOCK, 0)))
        if self.file and report.when == "teardown":
            with self.file.open("a") as out:
                out.write(f"{of_test[0]:.2f}\t{of_test[1]:.2f}\t{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("processor time")
        in_all = sum(cpu for cpu, _ in self.sums.values())
        terminalreporter.write_line(f"{in_all:.0f} s in all; without collecting the tests. The most expensive tests:")
        ranked = sorted(self.sums.items(), key=lambda entry: -entry[1][0])
        for name, (cpu, clock) in ranked[:LISTED]:
            terminalreporter.write_line(f"{cpu:8.1f} s, {clock:8.1f} s on the clock: {name}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor-time", type=Path, metavar="FILE", help="append each test's times to FILE")


def pytest_configure(config: pytest.Config) -> None:
    # A worker of pytest-xdist measures, and the process that started it sums up and writes.
    file = None if hasattr(config, "workerinput") else config.getoption("processor_time")
    config.pluginmanager.register(Times(file), "processor times")
