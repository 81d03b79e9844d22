"""A server of three nodes with topic `orders`, and connections to all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from tests.journaled import journaled

from .peer import Nodes

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[rota.Server]:
    with journaled(tmp_path / "journal", nodes=3, settings=SETTINGS) as server:
        server.create_topic("orders", 6)
        yield server


@pytest.fixture
def nodes(three: rota.Server) -> Iterator[Nodes]:
    with Nodes(three) as nodes:
        yield nodes
