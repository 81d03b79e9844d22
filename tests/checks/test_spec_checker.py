"""The checker can fail: wrong invariants, impossible actions and disorder are found, and told readably."""

import re
from dataclasses import replace
from typing import Any

import pytest
import z3

from rota.specs import arithmetic_bugs, assignors, explain, jobs, necessity, wheel
from rota.specs.logic import And, Implies, Property, Spec
from rota.specs.obligations import Result, Step, initiation, possible, prove, refute
from rota.specs.planting import FEW
from tests.checks.tidy import ROOT


def toggles() -> Spec:
    """A light that can be switched on for ever."""
    spec = Spec("toggles")
    spec.sorts = ["Light", "Room"]
    spec.symbols(True, "inside: Light Room")
    spec.symbols(False, "on: Light")
    spec.init = lambda s: s.clear("on")
    spec.act("switch on", lambda s, light: s.add("on", light), light="Light")
    return spec


def invariant(name: str, formula: Any) -> Property:
    return Property(name, lambda s: s.all("Light", lambda light: formula(s, light)), f"{name}, in English")


def test_a_wrong_invariant_gives_a_counter_example() -> None:
    spec = toggles()
    spec.properties["dark"] = invariant("dark", lambda s, light: s.on(light) == False)  # noqa: E712
    [result] = prove(Step.of(spec, spec.actions["switch on"]), spec.properties.values())
    assert result.verdict == "refuted"
    [(_, shown)] = refute(
        Step.of(spec, spec.actions["switch on"], sizes={"Light": 2, "Room": 1}), spec.properties.values()
    )
    assert re.search(r"^  on +\+\(Light\d\)$", shown, re.MULTILINE)
    assert re.search(r"^event  switch on\(light=Light\d\)$", shown, re.MULTILINE)
    assert shown.endswith("broken dark: dark, in English")


def test_an_invariant_that_does_not_hold_at_first_is_refuted() -> None:
    spec = toggles()
    spec.properties["bright"] = invariant("bright", lambda s, light: s.on(light))
    assert [result.verdict for result in initiation(spec)] == ["refuted"]


def test_an_action_that_cannot_happen_is_refuted() -> None:
    spec = toggles()
    spec.properties["dark"] = invariant("dark", lambda s, light: s.on(light) == False)  # noqa: E712
    spec.act("switch off", lambda s, light: s.require(s.on(light)), light="Light")
    assert possible(Step.of(spec, spec.actions["switch off"], sizes={"Light": 2, "Room": 1})).verdict == "refuted"


def test_what_nothing_changed_is_framed() -> None:
    spec = toggles()
    spec.properties["inside"] = invariant("inside", lambda s, light: s.some("Room", lambda room: s.inside(light, room)))
    assert [r.verdict for r in prove(Step.of(spec, spec.actions["switch on"]), spec.properties.values())] == ["framed"]


def test_alternations_against_the_order_are_found() -> None:
    spec = toggles()
    state = Step.of(spec, spec.actions["switch on"]).before
    forward = state.all("Light", lambda light: state.some("Room", lambda room: state.inside(light, room)))
    backward = state.all("Room", lambda room: state.some("Light", lambda light: state.inside(light, room)))
    assert spec.misordered([forward]) == []
    assert spec.misordered([backward]) == ["Room -> Light"]


def test_a_misspelt_variable_is_refused() -> None:
    spec = toggles()
    spec.act("misspelt", lambda s, light: setattr(s, "onn", light), light="Light")
    with pytest.raises(AttributeError, match="toggles has no variable `onn`"):
        Step.of(spec, spec.actions["misspelt"])


def test_a_wrong_invariant_of_the_protocol_is_readable() -> None:
    spec = jobs.specification()
    wrong = Property(
        "wrong",
        lambda s: s.all("Member", lambda m: Implies(And(s.st == s.Stable, s.member(m)), m == s.leader)),
        "a Stable group has one member",
    )
    step = Step.of(spec, spec.actions["plan durable"], sizes=FEW)
    [(_, shown)] = refute(step, [wrong])
    assert "event  plan durable(a=Append" in shown
    assert re.search(r"^  st +CompletingRebalance -> Stable$", shown, re.MULTILINE)
    assert shown.endswith("broken wrong: a Stable group has one member")


# ---- wheel and assignors


def bad(results: Any) -> list[Result]:
    return [result for result in results if not result.good]


@pytest.mark.proof
def test_the_wheel_is_proved() -> None:
    assert not bad(wheel.check())


def test_a_wrong_claim_about_the_wheel_gives_numbers() -> None:
    def late(level: int, w: dict[str, Any]) -> Any:
        """Claims that a slot starts at its deadline."""
        slot = wheel.slot_of(wheel.Bits, w["deadline"], level)
        start = wheel.slot_start(wheel.Bits, w["now"], level, slot)
        return z3.Implies(wheel.linked(w["now"], w["deadline"], level), start == w["deadline"])

    wrong = bad(wheel.check({"late": late}))
    assert len(wrong) == wheel.LEVELS - 1
    assert re.search(r"now=\d+, .*deadline=\d+", wrong[0].shown)


@pytest.mark.proof
def test_the_assignors_are_proved() -> None:
    assert not bad(assignors.check())


@pytest.mark.parametrize("action", assignors.certifier().actions)
def test_a_step_of_the_certifier_can_happen(action: str) -> None:
    spec = assignors.certifier()
    assert possible(Step.of(spec, spec.actions[action], sizes=arithmetic_bugs.SIZES)).good


def test_a_planted_bug_is_undone_afterwards() -> None:
    real = dict(vars(wheel))
    assert arithmetic_bugs.ARITHMETIC_BUGS[0].breaks(["wheel: first to reach"])
    assert dict(vars(wheel)) == real


# ---- what is needed


def test_an_invariant_that_nothing_needs_is_noticed() -> None:
    spec = toggles()
    spec.symbols(False, "burnt: Light")
    spec.init = lambda s: s.clear("on", "burnt")

    def switch_on(s: Any, light: Any) -> None:
        s.add("on", light)
        s.add("burnt", light)

    spec.name = "lamps"
    spec.act("switch on", switch_on, light="Light")
    spec.properties["warm"] = invariant("warm", lambda s, light: Implies(s.on(light), s.burnt(light)))
    spec.properties["lit"] = replace(
        invariant("lit", lambda s, light: Implies(s.burnt(light), s.on(light))), auxiliary=True
    )
    spec.properties["inside"] = replace(
        invariant("inside", lambda s, light: s.some("Room", lambda room: s.inside(light, room))), auxiliary=True
    )
    step = necessity.Without(spec, "switch on", {"Light": 2, "Room": 1})
    assert necessity.shown(step, ["lit", "inside"]) == {}


def test_a_needed_invariant_is_shown_by_what_breaks() -> None:
    spec = toggles()
    spec.name = "switches"
    spec.symbols(False, "ready: Light")
    spec.init = lambda s: s.clear("on", "ready")

    def switch_on(s: Any, light: Any) -> None:
        s.require(s.ready(light))
        s.add("on", light)

    spec.act("switch on", switch_on, light="Light")
    spec.properties["housed"] = invariant(
        "housed", lambda s, light: Implies(s.on(light), s.some("Room", lambda room: s.inside(light, room)))
    )
    spec.properties["wired"] = invariant(
        "wired", lambda s, light: Implies(s.ready(light), s.some("Room", lambda room: s.inside(light, room)))
    )
    step = necessity.Without(spec, "switch on", {"Light": 2, "Room": 1})
    assert necessity.shown(step, ["wired", "housed"]) == {"wired": "housed"}


# ---- the page


def test_the_worked_example_does_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/proofs.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    for block in blocks[:3]:
        exec(block, scope)  # noqa: S102 - the page's own code
    printed = capsys.readouterr().out
    assert "grant refuted" in printed
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert shown
    assert [line.split()[0] for line in shown[1].splitlines()] == [
        line.split()[0] for line in printed[printed.index("before,") :].splitlines()
    ]
    exec(blocks[3], scope)  # noqa: S102
    exec(blocks[1], scope)  # noqa: S102
    assert "refuted" not in capsys.readouterr().out


def test_a_property_of_steps_sees_both_sides() -> None:
    spec = toggles()
    grows = Property(
        "grows", lambda s, t, _: s.all("Light", lambda light: Implies(s.on(light), t.on(light))), steps=True
    )
    spec.properties["grows"] = grows
    assert [r.good for r in prove(Step.of(spec, spec.actions["switch on"]), [grows])] == [True]
    spec.act("switch off", lambda s, light: s.drop("on", light), light="Light")
    assert [r.good for r in prove(Step.of(spec, spec.actions["switch off"]), [grows])] == [False]
    assert replace(grows, name="other").steps


def test_the_page_of_what_is_proved_is_up_to_date() -> None:
    assert (ROOT / "docs/generated/proved.md").read_text(encoding="utf-8") == explain.page()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("S3", "has_leader"),
        ("S31", "not_after(shown("),
        ("S31", "shown'("),
        ("S14", "refusal: ForAll("),
        ("S8", "joined'("),
        ("dead", "st == Dead"),
        ("wheel: linked in time", "slot_start(now, "),
        ("Linked in time", "slot_start: The first instant of a slot"),
        ("wheel: next_deadline never late", "ULE(slot_start("),
        ("range: balanced", "range_length(k, q, r) - range_length(j, q, r)"),
        ("round-robin: balanced", "turn_load: How many partitions member k has"),
        ("certifier: complete", "accepted"),
        ("composition: one owner", "told_asg("),
    ],
)
def test_every_property_has_a_formula(name: str, said: str) -> None:
    """Of a property of steps too: what is primed is of the state after. And something shows that it is needed."""
    shown = explain.explain(name)
    assert said in shown[shown.index("formula") :]
    assert "bugs that break it\n" in shown or "\nneeded   without it" in shown


def test_what_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(KeyError, match=r"`balanced`: did you mean .*`range: balanced`.*`certifier: bal"):
        explain.explain("balanced")
