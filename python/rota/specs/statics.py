"""The ends of static replacements in Stable: a newcomer waits for its record, stands or falls with it, and may be
itself replaced before. `events.py` has their beginnings. Written from docs/protocol.md §9.3.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.specs import classic as c
from rota.specs.logic import And, If, Not, Or, Spec, Term

Body = Callable[..., None]


def newer(s: Term, a: Term) -> Term:
    """A record of the group that was appended later is on its way."""
    return s.some("Append", lambda b: And(s.unheard(b), c.is_group_record(s, b), s.not_after(a, b), a != b))


def alone(body: Body) -> Body:
    """The replacement is undone, and no newer record names the newcomer."""

    def whole(s: Term, a: Term, *given: Term) -> None:
        s.require(Not(newer(s, a)), "no newer record names the newcomer")
        body(s, a, *given)

    return whole


def again(body: Body) -> Body:
    """It is undone, and one does: the group is written again."""

    def whole(s: Term, a: Term, *given: Term) -> None:
        s.require(newer(s, a))
        body(s, a, *given[:-1])
        s.require(Not(s.owed), "what is owed is written first")
        c.append_group(s, given[-1], "Rewrite")

    return whole


def waited(s: Term, a: Term, old: Term, new: Term, i: Term) -> None:
    """`new` has waited for `a`, the record by which it replaces `old`."""
    s.require(And(s.replacing(a, old, new), s.of(old, i), s.newcomer(new), s.member(new)))
    s.drop("replacing", a, old, new)
    for name in ("newcomer", "t_record", "parked_join"):
        s.drop(name, new)
    s.drop("displaced", old)


def durable(s: Term, a: Term, old: Term, new: Term, i: Term, v9: Term) -> None:
    """The replacement is final and its join answered; before v9 a leader's answer names its predecessor."""
    waited(s, a, old, new, i)
    c.hear(s, a)
    s.require(s.durable(a), "the record is durable")
    for name in ("replaced", "gone", "buried"):
        s.add(name, old)
    s.add("session", new)
    leads, gen = s.leader == new, s.gen
    c.tell_round(s, If(And(leads, Not(v9)), old, s.leader))
    for name in ("told_leader", "told_list"):
        s.put(name, lambda was, g, m: Or(was, And(g == gen, m == new, leads, v9)))
    s.add("told_join", new)
    s.add("told_replaced", a)


def revert(s: Term, old: Term, new: Term, i: Term) -> None:
    """`old` is back in the place of `new`."""
    c.exchange(s, new, old, i)
    s.add("gone", new)
    displaced = s.displaced  # no append falls back to the members that `new` had fenced in a row
    for name in ("replaced", "gone"):
        s.put(name, lambda was, m: Or(was, And(displaced(m), s.of(m, i))))
    s.put("displaced", lambda was, m: And(was, Not(s.of(m, i))))
    s.put("fenced", lambda was, _, m: And(was, Not(s.of(m, i))))


def failed(s: Term, a: Term, old: Term, new: Term, i: Term) -> None:
    """The log did not take the record."""
    waited(s, a, old, new, i)
    c.hear(s, a)
    s.require(Not(s.durable(a)))
    revert(s, old, new, i)


def overdue(s: Term, a: Term, old: Term, new: Term, i: Term) -> None:
    """The record takes too long."""
    s.require(s.unheard(a))
    waited(s, a, old, new, i)
    s.add("late", a)
    revert(s, old, new, i)


def link(s: Term, a: Term, first: Term, mid: Term, new: Term, i: Term, b: Term) -> None:
    """`mid`, whose record is `a`, was replaced by `new`, which waits for `b` and falls back to `first`."""
    s.require(And(s.fenced(a, mid), s.replacing(b, first, new), s.of(mid, i), s.of(first, i)))
    c.hear(s, a)
    s.drop("fenced", a, mid)


def link_durable(s: Term, a: Term, first: Term, mid: Term, new: Term, i: Term, b: Term) -> None:
    """From now on `new` falls back to `mid`."""
    link(s, a, first, mid, new, i, b)
    s.require(s.durable(a), "the record is durable")
    s.drop("replacing", b, first, new)
    s.add("replacing", b, mid, new)
    s.drop("displaced", first)
    for name in ("replaced", "gone", "buried"):
        s.add(name, first)


def link_failed(s: Term, a: Term, first: Term, mid: Term, new: Term, i: Term, b: Term) -> None:
    """`mid` is gone for good."""
    link(s, a, first, mid, new, i, b)
    s.require(Not(s.durable(a)))
    s.drop("displaced", mid)
    for name in ("replaced", "gone"):
        s.add(name, mid)


def late(s: Term, a: Term, b: Term) -> None:
    """The record of a replacement that was undone is durable: the group is written again as it is."""
    s.require(And(s.kind(a) == s.Replacement, s.durable(a), s.st == s.Stable, c.abandoned(s, a)))
    c.hear(s, a)
    s.require(Not(s.owed), "what is owed is written first")
    c.append_group(s, b, "Rewrite")


def replacement_ends(spec: Spec) -> None:
    """The end of a replacement's append."""
    who = {"a": "Append", "old": "Member", "new": "Member", "i": "Instance"}
    spec.act("replacement durable", durable, **who, v9="Bool")
    for word, body in (("failed", failed), ("overdue", overdue)):
        spec.act(f"replacement {word}", alone(body), says="the replacement is undone", **who)
        says = "the replacement is undone, and a newer record names the newcomer: the group is written again"
        spec.act(f"replacement {word}: written again", again(body), says=says, **who, b="Append")
    row = {"a": "Append", "first": "Member", "mid": "Member", "new": "Member", "i": "Instance", "b": "Append"}
    says = "a newcomer's record is durable, and the one that replaced it falls back to it from now on"
    spec.act("replacement durable, replaced again", link_durable, says=says, **row)
    spec.act("replacement failed, replaced again", link_failed, says="the record of a replaced newcomer failed", **row)
    spec.act("replacement durable late", late, a="Append", b="Append")
