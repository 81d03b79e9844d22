"""How properties of a protocol are written down, and words of the classic one that they share."""

from __future__ import annotations

from collections.abc import Callable

from rota.specs.logic import And, Not, Or, Property, Spec, Term

PAGE = "docs/protocol.md §"


class Properties:
    """Collects properties; each has its id, one English line and the section that says so."""

    def __init__(self, spec: Spec, page: str = PAGE) -> None:
        self.spec, self.page = spec, page

    def invariant(self, name: str, source: str, says: str, sorts: str, formula: Callable[..., Term]) -> None:
        """A state invariant `formula(state, elements of the sorts)`."""
        self._add(name, source, says, lambda s: s.all(sorts, lambda *at: formula(s, *at)) if sorts else formula(s))

    def auxiliary(self, name: str, says: str, sorts: str, formula: Callable[..., Term]) -> None:
        """An invariant that only induction needs."""
        self.invariant(name, "", says, sorts, formula)

    def step(self, name: str, source: str, says: str, sorts: str, formula: Callable[..., Term]) -> None:
        """A property of steps `formula(before, after, action, elements of the sorts)`."""
        self._add(
            name,
            source,
            says,
            lambda s, t, action: (
                s.all(sorts, lambda *at: formula(s, t, action, *at)) if sorts else formula(s, t, action)
            ),
            steps=True,
        )

    def _add(self, name: str, source: str, says: str, holds: Callable[..., Term], steps: bool = False) -> None:
        auxiliary = not source
        self.spec.properties[name] = Property(name, holds, says, self.page + source if source else "", steps, auxiliary)


def grows(s: Term, t: Term, name: str, *at: Term) -> Term:
    """The tuple came into the relation in this step."""
    return And(getattr(t, name)(*at), Not(getattr(s, name)(*at)))


def deleted(s: Term) -> Term:
    """Tombstones are in the log, and the coordinator has not heard of it."""
    return s.some("Append", lambda a: And(s.unheard(a), s.durable(a), s.kind(a) == s.Tombstone))


def living(s: Term, a: Term) -> Term:
    """A record of this life of the group that is in the log or may still come there."""
    return And(s.used(a), Not(s.past(a)), Or(s.durable(a), s.rec_epoch(a) == s.log_epoch))


def arriving(s: Term, a: Term) -> Term:
    """An append that the log may still take."""
    return And(s.open(a), s.rec_epoch(a) == s.log_epoch)
