"""Every invariant has a bug that breaks it (docs/checking.md), and a check that finds it."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from typing import NamedTuple

import pytest

from rota.audit.checks import CHECK_OF
from rota.audit.plant import journal
from tests.checks import planted_build
from tests.checks import planted_found as found
from tests.checks import planted_page as page
from tests.checks.planting import bugs
from tests.checks.tidy import ROOT

# One worker builds what it runs.
pytestmark = [pytest.mark.xdist_group("planted"), pytest.mark.timeout(3600)]

ROW = re.compile(r"^\| ([SL]\d+) \| (\w+) \| (\w+): `(.+?)` \| `?(.+?)`? \|$", re.MULTILINE)


#: What an engine says that does not name invariants.
SAYS = {"model": "a difference", "simulator": "a broken world"}


class Row(NamedTuple):
    """A line of the table."""

    id: str
    owner: str
    looks: str
    bug: str
    says: str


ROWS = [Row(*cells) for cells in ROW.findall((ROOT / "docs/checking.md").read_text(encoding="utf-8"))]


def rows(*looks: str) -> list[Row]:
    return [row for row in ROWS if row.looks in looks]


def shown(*looks: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows(*looks), ids=lambda row: row.id)


@cache
def killed() -> dict[str, list[str]]:
    """What the proofs found each bug to break."""
    told: dict[str, list[str]] = json.loads((ROOT / "python/rota/specs/killed.json").read_text(encoding="utf-8"))
    return told


def test_every_invariant_is_in_the_table_with_its_owner() -> None:
    vocabulary = tomllib.loads((ROOT / "python/rota/specs/vocabulary.toml").read_text(encoding="utf-8"))["invariants"]
    assert [(row.id, row.owner) for row in ROWS] == [(each["id"], each["owner"]) for each in vocabulary]
    looks = {"specification", "arithmetic", "exploration", "model", "simulator", "damage", "audit", "wire"}
    assert {row.looks for row in ROWS} == looks


@shown("specification", "arithmetic")
def test_a_bug_in_the_specification_is_listed_as_what_refutes_it(row: Row) -> None:
    """tests/checks/test_spec_classic.py plants it, with `make long` at the latest, and compares `killed.json`."""
    assert row.says in killed()[row.bug]
    assert row.looks == "arithmetic" or row.says.partition(":")[0] == row.id


@shown("exploration", "model", "simulator")
def test_a_bug_in_the_core_breaks_it_and_was_found(row: Row) -> None:
    (bug,) = [bug for bug in bugs() if bug.id == row.bug]
    assert row.id in re.findall(r"\w+", bug.breaks)
    assert page.results()[row.looks][row.bug]
    # What the exploration says is asked below.
    assert row.looks == "exploration" or row.says == SAYS[row.looks]


@pytest.fixture(scope="module")
def planted() -> None:
    """The exploration of the planted core."""
    planted_build.sim()


@shown("exploration")
@pytest.mark.usefixtures("planted")
def test_the_exploration_says_what_the_page_says(row: Row) -> None:
    assert found.invariant(row.bug) == row.says


@shown("damage")
def test_a_damaged_state_is_found_by_the_check_of_that_name(row: Row) -> None:
    damages = (ROOT / "rust/core/src/invariants/tests.rs").read_text(encoding="utf-8")
    assert re.search(rf'\("{row.says}", "{re.escape(row.bug)}', damages)


@shown("audit")
def test_a_fault_in_a_journal_is_found_by_a_check_of_that_invariant(row: Row) -> None:
    assert row.bug in journal.FAULTS
    assert CHECK_OF[journal.NAMES.get(row.bug, row.bug)].id == row.says == row.id


@shown("wire")
def test_a_server_that_breaks_it_is_played(row: Row) -> None:
    tests = (ROOT / "tests/wire/test_frames.py").read_text(encoding="utf-8")
    assert f"def test_{row.bug.replace(' ', '_')}_are_noticed" in tests
