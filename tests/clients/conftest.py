"""The broker, the scene, and the table of results at the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.journaled import journaled

from .family import need
from .matrix import Result, table
from .scene import Scene

if TYPE_CHECKING:
    import rota

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "0",
}
CELL = "clients-matrix"
"""The user property that says where in the table a test belongs: (scenario, client)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        metavar="HOST:PORT",
        help="run tests/clients against this broker (also ROTA_TEST_BROKER), not against a rota.Server of their own",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "scenario(name): the row of the clients' table of results")
    config.addinivalue_line("markers", "only_on_rota: what Apache Kafka has and rota has not (yet)")


def existing_broker(config: pytest.Config) -> str | None:
    return config.getoption("broker", default=None) or os.environ.get("ROTA_TEST_BROKER") or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        scenario = item.get_closest_marker("scenario")
        if scenario is None:
            continue
        # A test is about its parameters `family` and `assignor`, or about a `mix` of families.
        callspec = getattr(item, "callspec", None)
        told = callspec.params if callspec is not None else {}
        family = getattr(told.get("family"), "name", "several")
        item.add_marker("clients")
        if family == "java":
            item.add_marker("java")
        row = ", ".join(filter(None, (scenario.args[0], told.get("assignor"), told.get("mix"))))
        item.user_properties.append((CELL, (row, family)))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    results: list[Result] = []
    for outcome in ("passed", "failed", "skipped", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            place = dict(getattr(report, "user_properties", [])).get(CELL)
            if place is not None:
                told = "failed" if outcome == "error" else outcome
                results.append(Result(place[0], place[1], told, report.duration))
    if results:
        terminalreporter.section(f"clients on {existing_broker(config) or 'rota'}")
        for line in table(results):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def own_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[rota.Server | None]:
    """The rota.Server of this session, unless a broker was named; its journal is folded again at the end."""
    if existing_broker(request.config) is not None:
        yield None
        return
    with journaled(tmp_path_factory.mktemp("journal"), settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, own_server: rota.Server | None) -> str:
    """HOST:PORT of the broker under test."""
    if own_server is not None:
        return own_server.bootstrap_servers
    named = existing_broker(request.config)
    assert named is not None
    return named


@pytest.fixture(autouse=True)
def _applicable(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("only_on_rota") and existing_broker(request.config) is not None:
        pytest.skip("about what rota refuses; the broker that was named may support it")
    if "family" in request.fixturenames:
        need(request.getfixturevalue("family"))


@pytest.fixture
def scene(broker: str, own_server: rota.Server | None, tmp_path: Path) -> Iterator[Scene]:
    """Unique names and this test's clients, which end with it."""
    scene = Scene(broker, tmp_path, own_server)
    try:
        yield scene
    finally:
        scene.close()


@pytest.fixture
def scene_with(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Scene]]:
    """A scene on a rota.Server of its own, with further settings."""
    if existing_broker(request.config) is not None:
        pytest.skip("needs a broker with settings of its own")
    with contextlib.ExitStack() as ends:

        def begin(settings: dict[str, str]) -> Scene:
            server = ends.enter_context(journaled(tmp_path / "journal", settings=SETTINGS | settings))
            scene = Scene(server.bootstrap_servers, tmp_path, server)
            ends.callback(scene.close)
            return scene

        yield begin
