"""A server, and its address for raw sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rota

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}


@pytest.fixture
def rota_server() -> Iterator[rota.Server]:
    with rota.Server(settings=SETTINGS) as server:
        yield server


@pytest.fixture
def address(rota_server: rota.Server) -> tuple[str, int]:
    return rota_server.host, rota_server.port
