"""What is said about the model is so. What it does is tested by tests/protocol and by test_differential.py."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import re
from pathlib import Path

import pytest

from rota import model

ROOT = Path(__file__).parent.parent.parent
# The assignors' model stands beside the coordinator's, and has tests of its own.
MODULES = sorted(path for path in (ROOT / "python/rota/model").glob("*.py") if path.stem != "assignors")


def test_the_walk_through_a_rebalance_is_true() -> None:
    results = doctest.testfile(str(ROOT / "docs/model.md"), module_relative=False)
    assert results.failed == 0
    assert results.attempted > 20


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_model_imports_nothing_of_the_core(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        allowed = ("rota.model", "__future__", "collections.abc", "dataclasses", "typing")
        assert [name for name in names if not name.startswith(allowed)] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_public_function_cites_the_protocol(path: Path) -> None:
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    helpers = {"emit", "put", "change", "find", "alter"}  # moves, not rules
    public = [node for node in functions if not node.name.startswith("_") and node.name not in helpers]
    assert [node.name for node in public if not re.search(r"§\d", ast.get_docstring(node) or "")] == []


def test_a_state_is_a_value() -> None:
    before, _ = model.step(model.State(), 0, model.Loaded())
    kept = dataclasses.replace(before)
    join = model.JoinGroup("g", "", (("range", b""),))
    first = model.step(before, 5, model.Submit(1, join, "x"))
    assert before == kept
    assert model.step(before, 5, model.Submit(1, join, "x")) == first
