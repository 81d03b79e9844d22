"""The broker and the scene."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import rota

from .groups_scene import Scene

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
ELSEWHERE = os.environ.get("ROTA_TEST_BROKER")


@pytest.fixture(scope="session")
def server() -> Iterator[rota.Server]:
    with rota.Server(settings=SETTINGS) as server:
        yield server


@pytest.fixture(params=["rota", *(["elsewhere"] if ELSEWHERE else [])])
def scene(request: pytest.FixtureRequest, server: rota.Server) -> Iterator[Scene]:
    scene = Scene(ELSEWHERE if request.param == "elsewhere" and ELSEWHERE else server.bootstrap_servers)
    yield scene
    scene.end()


@pytest.fixture
def own_scene(server: rota.Server) -> Iterator[Scene]:
    """A scene on rota's own server, for what other brokers have no controls."""
    scene = Scene(server.bootstrap_servers)
    yield scene
    scene.end()
