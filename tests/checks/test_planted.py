"""The planted bugs are in the copy and nowhere else; each was found, and what shows five of them is the shortest way.

`make planted` runs every engine against every bug and writes docs/generated/planted.md and planted-consumers.md.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rota.check.differential import volume
from tests.checks import planted_build
from tests.checks import planted_found as found
from tests.checks import planted_inside as inside
from tests.checks import planted_page as page
from tests.checks.planting import (
    CONSUMER_REGISTRY,
    CORE,
    CRATES,
    VARIABLE,
    Bug,
    PlantingError,
    bugs,
    planted,
    span_of,
)
from tests.checks.tidy import ROOT

# One worker builds what it runs.
pytestmark = [pytest.mark.xdist_group("planted"), pytest.mark.timeout(3600)]

TRAP = re.compile(r"TRAP-(\d+)")
CLASSIC_TRAPS = {*range(1, 15), 17, 19, 20}
NAMES = [bug.id for bug in bugs()]
CONSUMER_NAMES = [bug.id for bug in bugs(CONSUMER_REGISTRY)]


def test_every_bug_has_one_place_in_the_core() -> None:
    texts = "".join(planted(CORE).values())
    names = NAMES + CONSUMER_NAMES
    assert all(f'crate::planted::is("{name}")' in texts for name in names)
    assert len(set(names)) == len(names)
    assert len(NAMES) >= 40
    assert len(CONSUMER_NAMES) >= 60


def test_every_classic_trap_is_planted() -> None:
    traps = {int(number) for bug in bugs() for number in TRAP.findall(bug.breaks)}
    # What 15, 16 and 18 are about does not exist here.
    assert traps == CLASSIC_TRAPS


def test_a_bug_whose_place_is_gone_or_not_the_only_one_is_refused() -> None:
    text = "    fn one() {\n        a();\n        b();\n        b();\n    }\n\n    fn two() {\n        c();\n    }\n"
    bug = Bug("b", "", "", "f.rs", "one", "a();", "x();")
    assert bug.planted(text).count('{ if crate::planted::is("b") { x(); } else { a(); } }') == 1
    for find in ("b();", "c();"):
        with pytest.raises(PlantingError, match=r"times in f\.rs, fn one, not once"):
            replace(bug, find=find).planted(text)
    with pytest.raises(PlantingError, match="there are 0 functions three"):
        span_of(text, "three")


def test_no_build_but_the_copys_has_a_planted_bug() -> None:
    names = [VARIABLE, "planted::is", *NAMES, *CONSUMER_NAMES]
    sources = [path for folder in ("rust", "python") for path in (ROOT / folder).rglob("*") if _is_source(path)]
    assert len(sources) > 100
    assert f'"{VARIABLE}"' in planted(CORE)["planted.rs"]
    assert [str(path) for path in sources if any(name in path.read_text() for name in names)] == []
    assert not [crate for crate in CRATES if (ROOT / crate / "src/planted.rs").exists()]


def _is_source(path: Path) -> bool:
    return path.suffix in (".rs", ".toml", ".py", ".pyi") and "target" not in path.parts


def test_the_page_has_every_bug_and_each_was_found_by_two_engines_or_more() -> None:
    told = page.results()
    assert list(told) == list(found.ENGINES), "make planted writes the page"
    assert [name for name in NAMES if sum(map(bool, (of[name] for of in told.values()))) < 2] == []


def test_the_page_says_what_an_engine_is_and_counts_what_it_found() -> None:
    assert page.text(page.results()) == page.PAGE.read_text()
    worlds, states = f"{found.WORLDS:,} worlds", f"{found.STATES:,} states"
    runs = f"{inside.SEEDS:,} runs of {volume.STEPS_OF_A_RUN} steps"
    examples = f"{inside.EXAMPLES:,} runs of {inside.EXAMPLE_STEPS} steps"
    assert [bounds for bounds in (worlds, states, runs, examples) if bounds not in page.HEAD] == []


def test_each_bug_of_the_newer_protocol_was_found_by_two_engines_or_more() -> None:
    told = page.results(page.CONSUMER)
    assert list(told) == list(found.CONSUMER_ENGINES), "make planted writes the page"
    assert [name for name in CONSUMER_NAMES if sum(map(bool, (of[name] for of in told.values()))) < 2] == []
    assert page.text(told, page.CONSUMER) == page.CONSUMER.path.read_text()
    states = f"{found.CONSUMER_STATES:,} states"
    runs = f"{inside.WALK_SEEDS} runs of {volume.STEPS_OF_A_RUN} steps"
    assert [bounds for bounds in (states, runs) if bounds not in page.CONSUMER.head] == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("docs/exploration.md", "Of the {all} planted bugs the exploration finds {exploration} within"),
        ("docs/simulate.md", "are in the coordinator itself, {simulator} are found within"),
        (
            "docs/checking.md",
            "model {model}, Hypothesis {Hypothesis}, exploration {exploration}, simulator {simulator}",
        ),
        ("CHANGELOG.md", "it finds {exploration} of the {all} planted bugs"),
    ],
)
def test_what_other_pages_quote_is_what_the_page_says(path: str, says: str) -> None:
    counts = {engine: sum(map(bool, of.values())) for engine, of in page.results().items()}
    text = " ".join((ROOT / path).read_text().split())
    assert says.format(all=len(NAMES), **counts) in text


def test_the_simulator_found_every_classic_trap() -> None:
    simulator = page.results()["simulator"]
    found = {int(number) for bug in bugs() if simulator[bug.id] for number in TRAP.findall(bug.breaks)}
    assert found == CLASSIC_TRAPS
    assert simulator["new-members-never-expire"], "the half of TRAP-03 that needs a join phase of five minutes"


@pytest.fixture(scope="module")
def engine() -> Path:
    """The explorer of the planted core."""
    return planted_build.sim()


@pytest.mark.parametrize(
    ("bug", "events"),
    [
        ("a-heartbeat-is-refused-while-loading", 1),
        ("one-instance-has-two-members", 3),
        ("commits-of-any-generation-count", 3),
        ("a-lost-sync-is-waited-for", 4),
        ("a-plan-is-told-before-it-is-durable", 5),
    ],
)
@pytest.mark.usefixtures("engine")
def test_the_explorer_finds_a_planted_bug_on_the_shortest_way_there_is(bug: str, events: int) -> None:
    result = found.exploration(bug)
    assert result is not None
    assert result.events == events
    assert result == page.results()["exploration"][bug], "make planted writes the page"


def test_without_a_bug_in_the_environment_the_planted_core_is_the_core(engine: Path) -> None:
    assert engine.exists()
    assert VARIABLE not in os.environ
    assert found.exploration("") is None
