"""`rota simulate --plan` and `--draw`: the same plan gives the same figures, which say what was planned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from rota import simulate
from rota.assign import InputError
from rota.cli import app
from rota.simulate import drawing, plan
from tests.checks.tidy import ROOT

runner = CliRunner()
PLANS = sorted((ROOT / "docs/plans").glob("*.toml"))
SVG = "{http://www.w3.org/2000/svg}"
SMALL = plan.Plan(
    plan.Group(members=3, partitions=6, static=True, session_timeout_ms=20_000),
    plan.Deploy(every_ms=30_000, down_ms=5_000),
)


def with_group(**settings: object) -> plan.Plan:
    return replace(SMALL, group=replace(SMALL.group, **settings))  # type: ignore[arg-type]


def test_static_members_that_are_back_in_time_cost_their_own_absence_and_nothing_else() -> None:
    cost = plan.cost(SMALL, worlds=3)
    assert (cost.rebalances, cost.moved) == (0, 0)
    absences_s = 6 * 5
    assert abs(cost.unowned_s - absences_s) < 6
    assert abs(cost.longest_s - 5) < 1


def test_dynamic_members_move_their_partitions_and_leave_them_for_a_shorter_time() -> None:
    cost = plan.cost(with_group(static=False), worlds=3)
    assert cost.rebalances >= 6
    assert cost.moved > 0
    assert cost.longest_s < 5


def test_static_members_that_are_gone_for_longer_than_their_session_are_given_up() -> None:
    late = replace(SMALL, deploy=plan.Deploy(every_ms=60_000, down_ms=40_000))
    cost = plan.cost(late, worlds=2)
    assert cost.rebalances > 0
    assert cost.longest_s >= 15


def test_gaps_moves_and_rebalances_are_counted_from_the_begin_of_the_deploy() -> None:
    begin_ms = plan.STEADY_MS
    one = replace(SMALL, group=replace(SMALL.group, partitions=1))
    spans = [  # (seat, generation, from, to): 3 s without an owner, then the other process
        (0, 1, 0, begin_ms - 500),
        (0, 1, begin_ms - 500, begin_ms + 1_000),
        (1, 2, begin_ms + 4_000, begin_ms + 9_000),
        (1, 3, begin_ms + 9_000, one.end_ms()),
    ]
    owned = [
        {"process": [seat, 1], "partition": "topic-0", "generation": generation, "from_ms": from_ms, "to_ms": to_ms}
        for seat, generation, from_ms, to_ms in spans
    ]
    world = replace(plan.world(one, 0), owned=owned)
    assert plan.of_world(one, world) == plan.Cost(unowned_s=3, longest_s=3, rebalances=2, moved=1)


def test_the_same_seed_gives_the_same_world() -> None:
    assert plan.world(SMALL, 3) == plan.world(SMALL, 3)
    assert plan.world(SMALL, 3) != plan.world(SMALL, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("members = ", "not TOML"),
        ("[fleet]", "no table `fleet`"),
        ("group = 3", "has to be a table"),
        ("[group]\nmember = 3", "`group.member` is not known"),
        ("[group]\nmembers = 'three'", "of type int"),
        ("[group]\nstatic = 1", "of type bool"),
        ("[group]\nmembers = 0", "give 1 to 200"),
        ("[group]\nassignor = 'uniform'", "choose one of"),
        ("[deploy]\npattern = 'canary'", "choose one of rolling"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan.read(text)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InputError, match=r"heartbeat"):
        plan.world(with_group(heartbeat_interval_ms=30_000), 0)


def test_the_command_compares_static_and_dynamic_members(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("[group]\nmembers = 2\n[deploy]\ndown_ms = 2_000\n")
    result = runner.invoke(app, ["simulate", "--plan", str(file), "--json"])
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout)) == ["dynamic", "static"]
    missing = runner.invoke(app, ["simulate", "--plan", str(tmp_path / "none.toml")])
    assert missing.exit_code == 2
    assert "cannot read" in missing.stderr


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_documented_plans_have_their_pictures(path: Path) -> None:
    assert plan.read(path.read_text()).group.members == 6
    assert ElementTree.parse(path.with_suffix(".svg")).getroot().tag == f"{SVG}svg"


def test_there_are_three_documented_plans() -> None:
    assert len(PLANS) == 3


def test_a_picture_has_a_row_for_each_process_and_a_bar_for_each_time_of_ownership() -> None:
    world = simulate.world(3)
    assert world is not None
    root = ElementTree.fromstring(drawing.svg(world, "a < b"))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {life["name"] for life in world.lives} <= set(texts)
    assert {fault["kind"] for fault in world.faults if int(fault["at_ms"]) >= 0} <= set(texts)
    bars = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert len(bars) == len(world.owned)
    assert root.findtext(f"{SVG}title") == "a < b"


def test_a_seed_without_room_for_the_worlds_behind_it_is_refused() -> None:
    most = 2**64 - plan.WORLDS
    ended = runner.invoke(app, ["simulate", "--plan", str(PLANS[0]), "--seed", str(most + 1)])
    says = f"--seed is `{most + 1}`: with --plan give a whole number from 0 to {most}"
    assert (ended.exit_code, ended.stderr) == (2, f"rota: {says}\n")
    assert plan.cost(SMALL, worlds=1, seed=2**64 - 1).rebalances >= 0
