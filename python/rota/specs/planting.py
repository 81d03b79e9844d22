"""How protocol bugs are planted in the specification, and found: an invariant fails, with a counter-example."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from rota.specs.logic import Action, Spec, State, Term
from rota.specs.obligations import Step, refute

# The elements of each sort in the finite states in which a bug is looked for.
SIZES = {
    "Partition": 1,
    "Append": 3,
    "Epoch": 2,
    "Generation": 3,
    "Instance": 2,
    "Member": 3,
    "Protocol": 2,
    "Bytes": 2,
}
# A smaller choice: quick, and enough for most actions to happen.
FEW = SIZES | {"Append": 2, "Member": 2, "Instance": 2, "Generation": 2}


@dataclass(frozen=True)
class Mutant:
    """A bug in the actions whose names match `where`. `then(before, after, *parameters)` runs after the action. If the
    bug is `drafted`, `then(state, draft, *parameters)` changes the version that the action makes.
    """

    name: str
    says: str
    where: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    then: Callable[..., None] | None = None
    added: Action | None = None
    drafted: bool = False

    def actions(self, spec: Spec) -> Iterator[Action]:
        """The actions with the bug in them."""
        if self.added:
            yield self.added
        for action in spec.actions.values():
            if any(fnmatchcase(action.name, pattern) for pattern in self.where):
                yield replace(action, body=self._spoilt(action.body)) if self.then else action

    def _spoilt(self, body: Callable[..., None]) -> Callable[..., None]:
        then = self.then
        assert then is not None

        def whole(s: State, *params: Term) -> None:
            before = s.copy()
            body(s, *params)
            then(before, s, *params)

        def drafted(s: State, *params: Term) -> None:
            s.__dict__["spoil"] = lambda draft: then(s, draft, *params)
            body(s, *params)
            s.__dict__["spoil"] = None

        return drafted if self.drafted else whole


Then = Callable[..., None]


class Bugs(list[Mutant]):
    """The bugs of a protocol, as they are planted."""

    def without(self, name: str, says: str, where: str, *labels: str) -> None:
        """A bug that forgets requirements."""
        self.append(Mutant(name, says, tuple(where.split("|")), labels))

    def also(self, name: str, says: str, where: str, drafted: bool = False) -> Callable[[Then], Then]:
        """A bug that does something more."""

        def plant(then: Then) -> Then:
            self.append(Mutant(name, says, tuple(where.split("|")), then=then, drafted=drafted))
            return then

        return plant

    def event(self, name: str, says: str, tags: str = "", **params: str) -> Callable[[Then], Then]:
        """A bug that is an event of its own."""

        def plant(body: Then) -> Then:
            self.append(Mutant(name, says, (), added=Action(f"bug: {name}", params, body, frozenset(tags.split()))))
            return body

        return plant


MUTANTS = Bugs()
without, also, event = MUTANTS.without, MUTANTS.also, MUTANTS.event


def with_bug(spec: Spec, mutant: Mutant) -> Spec:
    """The protocol with a bug in it, for runs."""

    def forgets(body: Then) -> Then:
        def whole(s: State, *params: Term) -> None:
            s.__dict__["dropped"] = mutant.dropped
            body(s, *params)
            s.__dict__["dropped"] = ()

        return whole

    spoilt = {action.name: replace(action, body=forgets(action.body)) for action in mutant.actions(spec)}
    return replace(spec, actions={**spec.actions, **spoilt})


def killers(spec: Spec, mutant: Mutant, sizes: Mapping[str, int] = SIZES) -> dict[str, str]:
    """The properties that a bug breaks, each with a counter-example; auxiliary ones only if it breaks no other."""
    found: dict[str, str] = {}
    for auxiliary in (False, True):
        for action in mutant.actions(spec):
            step = Step.of(spec, action, mutant.dropped, sizes)
            left = [prop for prop in spec.properties.values() if prop.auxiliary == auxiliary and prop.name not in found]
            for prop, shown in refute(step, left):
                found[prop.name] = shown
                if auxiliary:
                    return found
        if found:
            return found
    return found
