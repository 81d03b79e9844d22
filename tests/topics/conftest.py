"""A server with topic `t` of two partitions, and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rota
from tests.wire.raw import Connection


@pytest.fixture
def rota_server() -> Iterator[rota.Server]:
    with rota.Server(settings={"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}) as server:
        server.create_topic("t", 2)
        yield server


@pytest.fixture
def address(rota_server: rota.Server) -> tuple[str, int]:
    return rota_server.host, rota_server.port


@pytest.fixture
def connection(address: tuple[str, int]) -> Iterator[Connection]:
    with Connection(address) as connection:
        yield connection
