"""What has to be proved of a specification, and how: `logic.py` has the language.

*Initiation*: the initial state has the property. *Consecution*: an action keeps it, if all invariants held before.
*Satisfiability*: an action can happen. Proofs are for any number of elements. Models, that is counter-examples to
induction and runs, are looked for where sorts have few elements and quantifiers are written out: Z3 finds those fast.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import z3

from rota.specs.logic import Action, Context, Formula, Not, Property, Spec, State, Term, context_of

LIMIT_MS = 60_000


@dataclass(frozen=True)
class Result:
    """The outcome of one obligation. `verdict`: proved, framed (nothing it speaks of changed), refuted or unknown."""

    kind: str
    action: str
    claim: str
    verdict: str
    seconds: float = 0.0
    shown: str = ""

    @property
    def good(self) -> bool:
        """Whether the obligation is met."""
        return self.verdict in ("proved", "framed")


@dataclass
class Step:
    """An action on an arbitrary state that has the invariants: before, after, parameters, and what is assumed."""

    spec: Spec
    action: Action
    before: State
    after: State
    params: list[Any]
    assumed: dict[str, Formula]

    @classmethod
    def of(
        cls, spec: Spec, action: Action, dropped: Iterable[str] = (), sizes: Mapping[str, int] | None = None
    ) -> Step:
        """Without the requirements that have these labels."""
        before = State(spec, context_of(spec, tuple((sizes or {}).items())))
        before.context.count = 0
        assumed = {f"axiom {i}": axiom(before) for i, axiom in enumerate(spec.axioms)}
        assumed |= {p.name: before.context.invariant(p) for p in spec.properties.values() if not p.steps}
        after, params = before.copy(), before.context.parameters(action)
        after.__dict__["dropped"] = tuple(dropped)
        action.body(after, *params)
        assumed |= {f"requirement {i}": part for i, part in enumerate(after.required)}
        return cls(
            spec, action, before, after, params, {name: part for name, part in assumed.items() if part is not True}
        )

    def solver(self, without: str = "") -> Any:
        """A solver that has the assumptions, but for one."""
        solver = z3.Solver()
        solver.add(*(part for name, part in self.assumed.items() if name != without))
        return solver

    def goal(self, prop: Property) -> Formula:
        """What has to hold after the step; True if nothing that it speaks of was assigned."""
        if prop.steps:
            return prop.holds(self.before, self.after, self.action)
        context = self.before.context
        context.invariant(prop)
        return True if context.reads[prop].isdisjoint(self.after.values) else prop.holds(self.after)


def verdict_of(answer: Any, wanted: Any) -> str:
    """The verdict for Z3's answer where `wanted` meets the obligation."""
    return "proved" if answer == wanted else "unknown" if answer == z3.unknown else "refuted"


def prove(step: Step, properties: Iterable[Property], limit_ms: int = LIMIT_MS) -> Iterator[Result]:
    """Consecution of each property."""
    solver = step.solver()
    solver.set("timeout", limit_ms)
    for prop in properties:
        began = time.perf_counter()
        goal = step.goal(prop)
        if goal is True:
            yield Result("consecution", step.action.name, prop.name, "framed")
            continue
        solver.push()
        solver.add(Not(goal))
        verdict = verdict_of(solver.check(), z3.unsat)
        solver.pop()
        yield Result("consecution", step.action.name, prop.name, verdict, time.perf_counter() - began)


def possible(step: Step) -> Result:
    """Satisfiability: the action can happen; to be asked of a finite step."""
    began = time.perf_counter()
    verdict = verdict_of(step.solver().check(), z3.sat)
    return Result("satisfiability", step.action.name, "", verdict, time.perf_counter() - began)


def refute(step: Step, properties: Iterable[Property], without: str = "") -> Iterator[tuple[Property, str]]:
    """The properties that a finite step breaks, each with a counter-example to induction."""
    solver = step.solver(without)
    for prop in properties:
        goal = step.goal(prop)
        if goal is not True:
            solver.push()
            solver.add(Not(goal))
            if solver.check() == z3.sat:
                yield prop, counter_example(step, solver.model(), prop)
            solver.pop()


@dataclass(frozen=True)
class Run:
    """A run from the initial state: its actions with their parameters, and the model that says what these are."""

    context: Context
    model: Any
    taken: list[tuple[Action, list[Any]]]

    def lines(self) -> list[str]:
        """One line for each event."""
        return [f"{place + 1}. {event_line(*event, self.model)}" for place, event in enumerate(self.taken)]

    def word(self, term: Term) -> str:
        """What a term is in this run."""
        return str(self.model.eval(term, model_completion=True)).partition("/")[0]


def run_of(
    spec: Spec, actions: Iterable[str], sizes: Mapping[str, int], ends: Callable[[State], Formula] = lambda _: True
) -> Run | None:
    """A run of these actions from the initial state that `ends` as said; None if there is none."""
    state = State(spec, Context(spec, sizes))
    for axiom in spec.axioms:
        state.require(axiom(state))
    spec.init(state)
    taken = []
    for place, name in enumerate(actions):
        params = state.context.parameters(spec.actions[name], f"@{place}")
        spec.actions[name].body(state, *params)
        taken.append((spec.actions[name], params))
    state.require(ends(state))
    solver = z3.Solver()
    solver.add(*(part for part in state.required if part is not True))
    return Run(state.context, solver.model(), taken) if solver.check() == z3.sat else None


def event_line(action: Action, params: list[Any], model: Any) -> str:
    """The action with its parameters."""
    given = [
        f"{name}={str(model.eval(value, model_completion=True)).partition('/')[0]}"
        for name, value in zip(action.params, params, strict=True)
        if z3.is_expr(value)
    ]
    return f"{action.name}({', '.join(given)})"


def initiation(spec: Spec, limit_ms: int = LIMIT_MS) -> Iterator[Result]:
    """The initial state has every invariant."""
    state = State(spec)
    axioms = [axiom(state) for axiom in spec.axioms]
    spec.init(state)
    for prop in spec.properties.values():
        if not prop.steps:
            began = time.perf_counter()
            solver = z3.Solver()
            solver.set("timeout", limit_ms)
            solver.add(*axioms, *state.required, Not(prop.holds(state)))
            yield Result(
                "initiation", "init", prop.name, verdict_of(solver.check(), z3.unsat), time.perf_counter() - began
            )


# ---- counter-examples


def counter_example(step: Step, model: Any, prop: Property) -> str:
    """A counter-example to induction: a small table of the state, the event, and what it broke."""
    spec, context = step.spec, step.before.context
    universe = context.elements

    def read(term: Term) -> str:
        return str(term if isinstance(term, bool) else model.eval(term, model_completion=True)).partition("/")[0]

    lines = ["before, where every invariant holds   (-> after the event)"]
    for symbol in [*spec.rigid.values(), *spec.variables.values()]:
        tuples = list(itertools.product(*(universe[arg] for arg in symbol.args)))
        cells = []
        for at in tuples:
            if symbol.name in spec.rigid:
                told = read(context.symbols[symbol.name](*at) if at else context.symbols[symbol.name])
                later = told
            else:
                told, later = (read(state.applied(symbol.name, at)) for state in (step.before, step.after))
            where = " ".join(map(read, at))
            if symbol.result != "Bool" or not at:
                cells.append(f"{where}{': ' if where else ''}{told}" + (f" -> {later}" if later != told else ""))
            elif "True" in (told, later):
                cells.append({"TrueTrue": "", "FalseTrue": "+", "TrueFalse": "-"}[told + later] + f"({where})")
        if cells and cells != ["False"]:
            lines.append(f"  {symbol.name:<14} {', '.join(cells)}")
    lines += [f"event  {event_line(step.action, step.params, model)}", f"broken {prop.name}: {prop.says}"]
    return "\n".join(lines)
