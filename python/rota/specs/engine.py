"""The engine's protocol (docs/engine-protocol.md): E1 to E4 for any number of nodes, epochs, positions and appends.

One partition. An append that was sent stays under way for ever, so it is carried out late, twice or not at all. An
owner is a node with an epoch. It loads once, has one append under way, and may stop at any time; then it never
continues. Sessions and clocks are left out: who may write does not depend on them. So are restores of the engine, and
the order of a snapshot's requests, which the explorer of `rust/engine` has.
"""

from __future__ import annotations

from functools import cache

from rota.specs.logic import And, If, Implies, Not, Or, Spec, Term
from rota.specs.planting import Bugs
from rota.specs.properties import Properties, grows

# Finite states in which bugs are looked for, and in which every event can happen.
SIZES = {"Epoch": 3, "Position": 3, "Node": 2, "Append": 3}


def init(s: Term) -> None:
    """The log is empty and every node idle."""
    s.clear("held", "claimed", "holds", "begun", "serves", "sent", "out", "knows")
    s.clear("stored", "tail", "folded", "acknowledged")


def owns(s: Term, n: Term, e: Term) -> Term:
    """The fence: epoch and node are those of the engine, and the partition is not released."""
    return And(s.held, s.epoch == e, s.owner == n)


def claim(s: Term, n: Term, e: Term, seen: Term) -> None:
    """Claim: the epoch that the claimant saw becomes the next one."""
    s.require(Or(Not(s.some("Epoch", s.claimed)), s.epoch == seen), "the epoch that was seen")
    s.require(Or(Not(s.some("Epoch", s.claimed)), s.older(seen, e)))
    s.epoch, s.owner, s.held = e, n, True
    s.add("claimed", e)
    s.add("holds", n, e)


def release(s: Term, n: Term, e: Term) -> None:
    """Release: the owner stops, then the engine marks the partition."""
    s.require(And(s.holds(n, e), owns(s, n, e)), "the release's owner")
    s.drop("serves", n, e)
    s.held = False


def load(s: Term, n: Term, e: Term) -> None:
    """Load: the owner knows the log. It is still the owner when it reads."""
    s.require(And(s.holds(n, e), Not(s.begun(n, e))))
    s.require(owns(s, n, e), "the load's owner")
    s.add("begun", n, e)
    s.add("serves", n, e)
    s.put("knows", lambda old, m, f, a: If(And(m == n, f == e), s.stored(a), old))


def unload(s: Term, n: Term, e: Term) -> None:
    """The session ends, the process dies, or the node learns that it is fenced."""
    s.require(s.serves(n, e))
    s.drop("serves", n, e)


def send(s: Term, n: Term, e: Term, a: Term) -> None:
    """Append: sent once the one before it is resolved, right after the newest entry that the owner knows."""
    s.require(And(s.serves(n, e), Not(s.sent(a)), s.by(a) == n, s.of(a) == e))
    s.require(s.all("Append", lambda b: Not(s.out(n, e, b))), "one append under way")
    s.require(s.all("Append", lambda b: Implies(s.knows(n, e, b), s.below(s.at(b), s.at(a)))))
    newest = s.some("Append", lambda b: And(s.knows(n, e, b), s.at(b) == s.after(a), s.adjacent(s.after(a), s.at(a))))
    s.require(If(s.first(a), s.all("Append", lambda b: Not(s.knows(n, e, b))), newest))
    s.add("sent", a)
    s.add("out", n, e, a)


def write(s: Term, a: Term) -> None:
    """Append: the engine carries it out, now or much later, for the first time or again."""
    s.require(s.sent(a))
    s.require(owns(s, s.by(a), s.of(a)), "the append's owner")
    s.require(s.all("Append", lambda b: Implies(s.tail(b), s.at(b) != s.at(a))), "a free position")
    prev = s.some("Append", lambda b: And(s.tail(b), s.at(b) == s.after(a)))
    nothing = s.all("Append", lambda b: Not(s.stored(b)))
    s.require(If(s.first(a), nothing, prev), "the entry before it")
    s.add("stored", a)
    s.add("tail", a)
    s.writer = s.of(a)


def acknowledge(s: Term, n: Term, e: Term, a: Term) -> None:
    """Append: the engine says that it is written, or refuses it because it finds it there."""
    s.require(And(s.serves(n, e), s.out(n, e, a)))
    s.require(s.stored(a), "the engine's answer")
    s.drop("out", n, e, a)
    s.add("knows", n, e, a)
    s.add("acknowledged", a)


def snapshot(s: Term, n: Term, e: Term, last: Term) -> None:
    """Head: what the owner knows up to an entry becomes the snapshot. The tail loses it, but not the newest entry."""
    s.require(And(s.begun(n, e), s.knows(n, e, last)))
    s.require(owns(s, n, e), "the head's owner")
    s.require(s.all("Append", lambda a: Implies(s.folded(a), Not(s.below(s.at(last), s.at(a))))), "the head before it")
    s.put("tail", lambda old, a: And(old, Or(s.below(s.at(last), s.at(a)), is_newest(s, n, e, a))))
    s.folded = lambda a: And(s.knows(n, e, a), Not(s.below(s.at(last), s.at(a))))
    s.writer = e


def is_newest(s: Term, n: Term, e: Term, a: Term) -> Term:
    """No entry that the owner knows comes after it."""
    return s.all("Append", lambda b: Implies(s.knows(n, e, b), Not(s.below(s.at(a), s.at(b)))))


def _add_orders(spec: Spec) -> None:
    """Epochs and positions are in a strict total order; `adjacent` is a position and the next one."""
    for sort, before in (("Epoch", "older"), ("Position", "below")):

        def is_order(s: Term, sort: str = sort, before: str = before) -> Term:
            less = getattr(s, before)
            return And(
                s.all(sort, lambda a: Not(less(a, a))),
                s.all(f"{sort} {sort}", lambda a, b: Or(a == b, less(a, b), less(b, a))),
                s.all(f"{sort} {sort} {sort}", lambda a, b, c: Implies(And(less(a, b), less(b, c)), less(a, c))),
            )

        spec.axioms.append(is_order)
    spec.axioms.append(
        lambda s: s.all(
            "Position Position Position",
            lambda p, q, r: Implies(s.adjacent(p, q), And(s.below(p, q), Not(And(s.below(p, r), s.below(r, q))))),
        )
    )


def _add_promises(spec: Spec) -> None:
    main = Properties(spec, "docs/engine-protocol.md §")
    main.invariant(
        "E1",
        "9",
        "what was acknowledged is in the snapshot or in the tail",
        "Append",
        lambda s, a: Implies(s.acknowledged(a), Or(s.tail(a), s.folded(a))),
    )
    main.invariant(
        "E2",
        "9",
        "epochs never fall along positions",
        "Append Append",
        lambda s, a, b: Implies(
            And(s.stored(a), s.stored(b), s.below(s.at(a), s.at(b))), Not(s.older(s.of(b), s.of(a)))
        ),
    )
    main.invariant(
        "E3",
        "9",
        "a position has one entry, which follows the position before it",
        "Append Append",
        lambda s, a, b: And(
            Implies(And(s.stored(a), s.stored(b), s.at(a) == s.at(b)), a == b),
            Implies(And(s.stored(a), Not(s.first(a))), s.adjacent(s.after(a), s.at(a))),
        ),
    )
    main.step(
        "E3 trimmed",
        "7.3",
        "an entry that only the snapshot has never comes back to the tail",
        "Append",
        lambda s, t, _action, a: Implies(And(s.stored(a), Not(s.tail(a))), Not(t.tail(a))),
    )
    main.step(
        "E4",
        "4.1",
        "nothing of an epoch is written after the claim of a later one",
        "Epoch",
        lambda s, t, action, e: (
            And(t.writer == s.epoch, Implies(s.claimed(e), Not(s.older(t.writer, e))))
            if "writes" in action.tags
            else True
        ),
    )
    main.step(
        "E4 log", "4.1", "only a write changes the log", "Append",
        lambda s, t, action, a: (
            True if "writes" in action.tags else And(Not(grows(s, t, "stored", a)), Not(grows(s, t, "tail", a)))
        ),
    )  # fmt: skip


def _add_auxiliary(spec: Spec) -> None:
    more = Properties(spec).auxiliary
    more("claims", "no claimed epoch is later than the present one", "Epoch",
         lambda s, e: Implies(s.claimed(e), Or(e == s.epoch, s.older(e, s.epoch))))  # fmt: skip
    more("holders", "an epoch has one holder, and was claimed", "Node Node Epoch",
         lambda s, n, m, e: And(Implies(s.holds(n, e), s.claimed(e)),
                                Implies(And(s.holds(n, e), s.holds(m, e)), n == m)))  # fmt: skip
    more("the holder", "the engine's owner claimed its epoch", "",
         lambda s: Implies(s.held, s.holds(s.owner, s.epoch)))  # fmt: skip
    more("loads", "only holders load, and only who has loaded serves", "Node Epoch",
         lambda s, n, e: And(Implies(s.begun(n, e), s.holds(n, e)),
                             Implies(s.serves(n, e), s.begun(n, e))))  # fmt: skip
    more("sent", "only who has loaded sends, at the next position", "Append",
         lambda s, a: Implies(s.sent(a), And(
             s.begun(s.by(a), s.of(a)),
             Or(s.out(s.by(a), s.of(a), a), s.knows(s.by(a), s.of(a), a)),
             Or(s.first(a), s.adjacent(s.after(a), s.at(a))))))  # fmt: skip
    more("out", "an append under way is the owner's only one, and not acknowledged", "Node Epoch Append Append",
         lambda s, n, e, a, b: Implies(s.out(n, e, a), And(
             s.sent(a), s.by(a) == n, s.of(a) == e, Not(s.acknowledged(a)),
             Implies(s.out(n, e, b), a == b),
             Implies(s.knows(n, e, b), s.below(s.at(b), s.at(a))))))  # fmt: skip
    more("knows", "an owner knows only what is stored", "Node Epoch Append",
         lambda s, n, e, a: Implies(s.knows(n, e, a), And(s.stored(a), s.begun(n, e))))  # fmt: skip
    more("knows all", "the newest owner knows all but its own append", "Node Append",
         lambda s, n, a: Implies(And(s.begun(n, s.epoch), s.stored(a)),
                                 Or(s.knows(n, s.epoch, a), s.out(n, s.epoch, a))))  # fmt: skip
    more("stored", "what is stored was sent, and is in the snapshot or in the tail", "Append",
         lambda s, a: And(Implies(s.stored(a), And(s.sent(a), Or(s.tail(a), s.folded(a)))),
                          Implies(Or(s.tail(a), s.folded(a), s.acknowledged(a)), s.stored(a))))  # fmt: skip
    more("the tail", "what comes after an entry of the tail is in the tail", "Append Append",
         lambda s, a, b: Implies(And(s.tail(a), s.stored(b), s.below(s.at(a), s.at(b))), s.tail(b)))  # fmt: skip


@cache
def engine() -> Spec:
    """The specification."""
    spec = Spec("engine", ["Append", "Node", "Epoch", "Position"])
    spec.symbols(
        True,
        """
        older: Epoch Epoch
        below, adjacent: Position Position
        at: Append -> Position        # what a request says
        of: Append -> Epoch
        by: Append -> Node
        after: Append -> Position     # of the entry before it
        first: Append                 # there is none
        """,
    )
    spec.symbols(
        False,
        """
        epoch: -> Epoch               # the engine's owner
        owner: -> Node
        held:
        claimed: Epoch                # epochs that were claimed
        writer: -> Epoch              # of the last write
        stored, tail, folded: Append  # ever written; in the tail; in the snapshot
        holds, begun, serves: Node Epoch
        sent, acknowledged: Append
        out, knows: Node Epoch Append
        """,
    )
    spec.init = init
    _add_orders(spec)
    spec.act("claim", claim, n="Node", e="Epoch", seen="Epoch")
    of_owner = {"n": "Node", "e": "Epoch"}
    spec.act("release", release, **of_owner)
    spec.act("load", load, **of_owner)
    spec.act("unload", unload, **of_owner)
    spec.act("send", send, **of_owner, a="Append")
    spec.act("acknowledge", acknowledge, **of_owner, a="Append")
    spec.act("write", write, "writes", a="Append")
    spec.act("snapshot", snapshot, "writes", n="Node", e="Epoch", last="Append")
    _add_promises(spec)
    _add_auxiliary(spec)
    return spec


BUGS = Bugs()
BUGS.without("append: the fence is ignored", "an append of any owner is written", "write", "the append's owner")
BUGS.without("append: follows anything", "an append is written although its entry before is gone", "write",
             "the entry before it")  # fmt: skip
BUGS.without("append: two under way", "an append does not wait for the one before it", "send", "one append under way")
BUGS.without("append: unknown is acknowledged", "an append is acknowledged without the engine's answer",
             "acknowledge", "the engine's answer")  # fmt: skip
BUGS.without("claim: compares nothing", "a claim succeeds although the owner changed", "claim",
             "the epoch that was seen")  # fmt: skip
BUGS.without("head: the fence is ignored", "an earlier owner writes a snapshot", "snapshot", "the head's owner")
BUGS.without("head: replaces any other", "a snapshot replaces one that has more", "snapshot", "the head before it")
