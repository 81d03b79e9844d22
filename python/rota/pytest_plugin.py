"""pytest fixtures: a Kafka-compatible server for each test, and the time that it lives in.

Registered by rota's entry point `pytest11`: with rota installed, `rota_server` and `rota_clock` are there. `rota`
itself does nothing until a test uses one of them.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, cast

import pytest

if TYPE_CHECKING:
    from rota import Server, VirtualClock

MARKER = (
    "rota(settings={...}, nodes=1, tls=False): broker settings by their Kafka names, nodes and TLS of this test's"
    " `rota_server`"
)

#: Where tests differ from Kafka's defaults: a group starts without waiting for more members.
SETTINGS: Mapping[str, Any] = {"group.initial.rebalance.delay.ms": 0}

SERVER = pytest.StashKey["Server"]()
TRACE = pytest.StashKey["LastLines"]()


class LastLines(io.TextIOBase):
    """A text file that keeps the last lines of what is written to it."""

    def __init__(self, count: int) -> None:
        self._lines: deque[str] = deque(maxlen=count)

    def write(self, line: str) -> int:
        """Keeps it, until so many others have come."""
        self._lines.append(line)
        return len(line)

    def __str__(self) -> str:
        # Copied first: more may be written meanwhile, on another thread.
        return "".join(self._lines.copy())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("rota_settings", "broker settings of every rota_server, one NAME=VALUE a line", type="linelist")
    parser.addini("rota_trace", "how many requests and answers the report of a failed test ends with", default="0")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def rota_clock(request: pytest.FixtureRequest) -> VirtualClock:
    """A clock that moves only when the test moves it. A test that uses this has its `rota_server` run on it.

    Name it as a parameter of the test or of a fixture that the test uses: `request.getfixturevalue` is too late for a
    server that runs.
    """
    from rota import VirtualClock

    if SERVER in request.node.stash:
        refuse("rota_server runs on real time already: name rota_clock as a parameter of the test or of its fixture")
    return VirtualClock()


@pytest.fixture
def rota_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server for one test, on a free port, without topics or groups. It stops after the test.

    It runs on real time, or on `rota_clock` if the test uses that too. A new group starts without the initial delay.
    The marker `rota` changes settings for one test, class or module, the ini option `rota_settings` for all.
    """
    from rota import ConfigError, Server

    wanted = wanted_by(request.node)
    clock = request.getfixturevalue("rota_clock") if "rota_clock" in request.fixturenames else None
    lines = request.config.getini("rota_trace")
    if not lines.isdecimal():
        refuse(f"rota_trace is {lines!r}: give a number of lines")
    told = LastLines(int(lines))
    request.node.stash[TRACE] = told
    trace = cast("TextIO", told) if int(lines) else None
    try:
        server = Server(**wanted, clock=clock, trace=trace)
    except (ConfigError, TypeError, ValueError) as error:
        refuse(f"cannot start rota_server: {error}")
    with server:
        request.node.stash[SERVER] = server
        try:
            yield server
        finally:
            # A plugin may run the test again.
            del request.node.stash[SERVER]
        if server.panics:
            pytest.fail("a request has made rota_server panic, as standard error says: a bug in rota", pytrace=False)


def refuse(reason: str) -> NoReturn:
    """What was asked for cannot be: the test's report says why once, and shows no code of ours."""
    raise pytest.fail.Exception(reason, pytrace=False) from None


def wanted_by(item: pytest.Item) -> dict[str, Any]:
    """The arguments of the server: our defaults, the ini option, then markers from the outermost to the test's."""
    settings, nodes, tls = dict(SETTINGS), 1, False
    for line in item.config.getini("rota_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            refuse(f"rota_settings has the line {line!r}: expected NAME=VALUE")
        settings[name.strip()] = value.strip()
    for marker in reversed(list(item.iter_markers("rota"))):
        if marker.args or not set(marker.kwargs) <= {"settings", "nodes", "tls"}:
            given = ", ".join([*map(repr, marker.args), *marker.kwargs])
            refuse(f"the marker rota has {given}: it takes settings={{...}}, nodes=N and tls=True")
        more, nodes = marker.kwargs.get("settings", {}), marker.kwargs.get("nodes", nodes)
        tls = marker.kwargs.get("tls", tls)
        if not isinstance(more, Mapping) or not isinstance(nodes, int):
            refuse(f"the marker rota has settings={more!r}, nodes={nodes!r}: give a mapping, and a whole number")
        settings |= more
    return {"settings": settings, "nodes": nodes, "tls": tls}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds to the report of a failed test what its groups were doing."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    server = item.stash.get(SERVER, None)
    if report.failed and report.when in ("setup", "call") and server is not None:
        report.sections.append(("rota: groups when the test failed", "\n".join(told_of(server))))
        trace = str(item.stash[TRACE])
        if trace:
            report.sections.append(("rota: the last requests and answers", trace.rstrip("\n")))
    return report  # type: ignore[return-value]


def told_of(server: Server) -> list[str]:
    """A paragraph for each group: what it is doing, and its last rebalances."""
    from rota import NotFoundError, RotaError

    lines = []
    try:
        for group in server.groups():
            # A group may have gone since it was listed.
            with suppress(NotFoundError):
                explanation = server.explain(group)
                lines.append(f"group {group}: {explanation}")
                lines += [f"    {rebalance}" for rebalance in explanation.rebalances]
    except RotaError as error:
        return [f"nothing can be said: {error}"]
    lines += [f"refused connection: {line}" for line in server.refused_connections()]
    return lines or ["the server has no groups: no consumer has reached it, or none with a group id"]
