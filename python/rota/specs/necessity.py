"""Why each auxiliary invariant is there: without it an event breaks another property.

`necessary.json` names the event, the property and how many elements show it; `rota check proofs` looks for the state
again, in which every other invariant holds. `python -m rota.specs.necessity PROTOCOL` writes the file. An invariant for
which nothing is found is one too many. Those that are not auxiliary are needed because some planted bug breaks only
them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import z3

from rota.specs.logic import Formula, Not, Or, Spec
from rota.specs.obligations import Result, Step, verdict_of
from rota.specs.protocols import Protocol, protocols


class Witness(NamedTuple):
    """The event that breaks a property, and the name of the sizes at which it does."""

    event: str
    breaks: str
    sizes: str


def witnesses(protocol: Protocol) -> dict[str, Witness]:
    """By auxiliary invariant."""
    return {name: Witness(*row) for name, row in protocol.necessary.items()}


class Without:
    """A finite step whose assumptions can be left out one by one."""

    def __init__(self, spec: Spec, event: str, sizes: Mapping[str, int]) -> None:
        self.step = Step.of(spec, spec.actions[event], sizes=sizes)
        self.solver = z3.Solver()
        self.guards = {name: z3.Bool(f"with {name}") for name in self.step.assumed}
        self.solver.add(*(z3.Implies(guard, self.step.assumed[name]) for name, guard in self.guards.items()))
        self.goals: dict[str, Formula] = {}

    def goal(self, name: str) -> Formula:
        """What has to hold after the step."""
        if name not in self.goals:
            self.goals[name] = self.step.goal(self.step.spec.properties[name])
        return self.goals[name]

    def check(self, without: str, broken: Iterable[str]) -> z3.CheckSatResult:
        """Whether one of these properties is broken in a state in which all invariants but one hold."""
        self.solver.push()
        self.solver.add(Or(*(Not(self.goal(name)) for name in broken)))
        answer = self.solver.check(*(guard for name, guard in self.guards.items() if name != without))
        self.solver.pop()
        return answer


def prove(protocol: Protocol, event: str, sizes: str) -> Iterator[Result]:
    """Necessity of all invariants that this event shows at these sizes."""
    without = Without(protocol.spec, event, protocol.levels[sizes])
    for name, witness in witnesses(protocol).items():
        if (witness.event, witness.sizes) == (event, sizes):
            began = time.perf_counter()
            verdict = verdict_of(without.check(name, [witness.breaks]), z3.sat)
            yield Result("necessity", event, name, verdict, time.perf_counter() - began)


def search(protocol: Protocol, names: Iterable[str]) -> dict[str, Witness]:
    """Look for witnesses, with few elements first."""
    left, found = list(names), dict[str, Witness]()
    for sizes, elements in protocol.levels.items():
        for event in protocol.spec.actions:
            if left:
                fresh = shown(Without(protocol.spec, event, elements), left)
                found |= {name: Witness(event, broken, sizes) for name, broken in fresh.items()}
                left = [name for name in left if name not in found]
                for name in fresh:
                    print(f"{name}: {found[name]}", flush=True)
    for name in left:
        print(f"{name}: nothing found, is it needed?", flush=True)
    return found


def shown(step: Without, names: Iterable[str]) -> dict[str, str]:
    """Those of the invariants that this event shows to be needed, each with what it breaks."""
    properties = step.step.spec.properties
    main = sorted(properties, key=lambda name: properties[name].auxiliary)
    found = {}
    for name in names:
        others = [other for other in main if other != name]
        if step.check(name, others) == z3.sat:
            found[name] = next(other for other in others if step.check(name, [other]) == z3.sat)
    return found


if __name__ == "__main__":
    which, *only = sys.argv[1:]
    chosen = protocols()[which]
    order = [prop.name for prop in chosen.spec.properties.values() if prop.auxiliary]
    made = (witnesses(chosen) if only else {}) | search(chosen, only or order)
    chosen.write("necessary", {name: made[name] for name in order if name in made})
