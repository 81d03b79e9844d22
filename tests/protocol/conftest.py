"""`pytest tests/protocol --rewrite` writes what happened into the vectors; review the difference like code."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="regenerate the expectations in the vectors")
