"""Servers: one with topic `t` of two partitions and a connection to it, one of three nodes and connections to all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from harness.peer import Nodes
from harness.raw import Connection
from tests.journaled import journaled

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}


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


@pytest.fixture
def three(tmp_path: Path) -> Iterator[rota.Server]:
    """Three nodes with topic `orders`."""
    with journaled(tmp_path / "journal", nodes=3, settings=SETTINGS) as server:
        server.create_topic("orders", 6)
        yield server


@pytest.fixture
def nodes(three: rota.Server) -> Iterator[Nodes]:
    with Nodes(three) as nodes:
        yield nodes
