"""Assignors for any number of members and partitions: range and round-robin by arithmetic, and the certifier of plans.

*Range* gives member k of m, of n = q m + r partitions, the q or (for k < r) q + 1 partitions from k q + min(k, r) on.
*Round-robin* gives the next partition to the next member that subscribes. Both are proved by induction over members or
partitions.

*The certifier* takes any plan and accepts it only if it is complete, disjoint and gives no member what it did not
subscribe to. Its algorithm is `certifier()`: first the members' lists are merged into one owner for each partition,
refusing a partition that has one; then topic by topic the subscribers are marked, and each partition must have a
marked owner, or none if no member subscribes. `rust/assign/src/certify.rs` implements it.

*Composition*: if members get what the plan of their generation says (S11), and plans are certified, then in one
generation no two members, except replacements of each other, are assigned the same partition, and every partition of a
subscribed topic has an owner.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import z3

from rota.specs.invariants import classic
from rota.specs.logic import And, Iff, Implies, Not, Property, Spec, State, Term
from rota.specs.obligations import Result, Step, initiation, prove, verdict_of

# ---- range and round-robin


def range_start(k: Any, q: Any, r: Any) -> Any:
    """Where member k's partitions start."""
    return k * q + z3.If(k < r, k, r)


def range_length(k: Any, q: Any, r: Any) -> Any:
    """How many partitions member k has."""
    return q + z3.If(k < r, 1, 0)


def turn_load(k: Any, full: Any, turn: Any) -> Any:
    """How many partitions member k has after `full` rounds and `turn` more turns."""
    return full + z3.If(k < turn, 1, 0)


def next_turn(turn: Any, m: Any) -> Any:
    """Whose turn it is when `turn` has had one partition."""
    return z3.If(turn + 1 == m, 0, turn + 1)


def next_full(full: Any, turn: Any, m: Any) -> Any:
    """How many rounds are over when `turn` has had one partition."""
    return z3.If(turn + 1 == m, full + 1, full)


def candidate(turn: Any, tried: Any, m: Any) -> Any:
    """Who is asked when `tried` members from `turn` on have been asked."""
    return z3.If(turn + tried < m, turn + tried, turn + tried - m)


def distance(turn: Any, j: Any, m: Any) -> Any:
    """How many members are asked before member j."""
    return z3.If(j >= turn, j - turn, j - turn + m)


Claims = dict[str, tuple[str, Any]]


def arithmetic() -> Claims:
    """Claims about all n, m and k: English, and a formula that holds for all values of its variables."""
    return {**_of_range(), **_of_turns(), **_of_searches()}


def _of_range() -> Claims:
    """The m members are a topic's subscribers: no other member gets its partitions."""
    n, m, q, r, k, j, p = z3.Ints("n m q r k j p")
    split = z3.And(m > 0, q >= 0, r >= 0, r < m, n == q * m + r)
    mine = z3.And(range_start(k, q, r) <= p, p < range_start(k, q, r) + range_length(k, q, r))
    start_j, start_k = z3.Ints("start_j start_k")
    return {
        "range: the first starts at 0, the last ends at n": (
            "nothing before the first or after the last",
            z3.Implies(split, z3.And(range_start(z3.IntVal(0), q, r) == 0, range_start(m, q, r) == n)),
        ),
        "range: adjacent": (
            "each member's partitions end where the next one's start",
            z3.Implies(
                z3.And(split, k >= 0, k < m), range_start(k, q, r) + range_length(k, q, r) == range_start(k + 1, q, r)
            ),
        ),
        "range: complete, by induction": (
            "what is before member k + 1's start is before member k's, or is member k's",
            z3.Implies(
                z3.And(split, k >= 0, k < m, p >= 0, p < range_start(k + 1, q, r)),
                z3.Or(p < range_start(k, q, r), mine),
            ),
        ),
        "range: disjoint, by induction": (
            "who comes later starts no earlier than where member j ends, if that held for k",
            z3.Implies(
                z3.And(
                    split,
                    j >= 0,
                    j < k,
                    k < m,
                    start_k == range_start(k, q, r),
                    start_j == range_start(j, q, r) + range_length(j, q, r),
                    start_j <= start_k,
                ),
                start_j <= range_start(k + 1, q, r),
            ),
        ),
        "range: balanced": (
            "loads differ by one at most",
            z3.Implies(split, z3.And(range_length(k, q, r) - range_length(j, q, r) <= 1, range_length(k, q, r) >= q)),
        ),
    }


def _of_turns() -> Claims:
    """Round-robin where everybody subscribes to everything."""
    m, k, j, full, turn = z3.Ints("m k j full turn")
    turn_after, full_after = next_turn(turn, m), next_full(full, turn, m)
    going = z3.And(m > 0, turn >= 0, turn < m, full >= 0, k >= 0, k < m)
    return {
        "round-robin: every partition has one owner": (
            "the owner of each partition is a function of its place: turn, below m",
            z3.Implies(going, z3.And(turn_after >= 0, turn_after < m)),
        ),
        "round-robin: loads, by induction": (
            "the member whose turn it is gets one partition, other members get none",
            z3.Implies(
                going, turn_load(k, full_after, turn_after) == turn_load(k, full, turn) + z3.If(k == turn, 1, 0)
            ),
        ),
        "round-robin: balanced": (
            "loads differ by one at most",
            z3.Implies(z3.And(going, j >= 0, j < m), turn_load(k, full, turn) - turn_load(j, full, turn) <= 1),
        ),
        "round-robin: nothing at first": (
            "before the first turn no member has a partition",
            z3.Implies(z3.And(going, full == 0, turn == 0), turn_load(k, full, turn) == 0),
        ),
    }


def _of_searches() -> Claims:
    """Round-robin where some do not subscribe: from whose turn it is, the first that does is looked for."""
    m, j, turn, tried = z3.Ints("m j turn tried")
    wants = z3.Function("wants", z3.IntSort(), z3.BoolSort())
    asked = candidate(turn, tried, m)
    going = z3.And(m > 0, turn >= 0, turn < m, tried >= 0, tried < m, j >= 0, j < m)
    refused = z3.Implies(distance(turn, j, m) < tried, z3.Not(wants(j)))
    return {
        "round-robin: complete": (
            "while no member asked so far subscribes, a subscriber is still to be asked in this round",
            z3.Implies(
                z3.And(going, refused, wants(j)), z3.And(tried <= distance(turn, j, m), distance(turn, j, m) < m)
            ),
        ),
        "round-robin: subscribed-only, by induction": (
            "the search goes on only if who was asked does not subscribe: none of those that were asked does",
            z3.Implies(
                z3.And(going, refused, z3.Not(wants(asked))),
                z3.And(asked >= 0, asked < m, z3.Implies(distance(turn, j, m) < tried + 1, z3.Not(wants(j)))),
            ),
        ),
    }


# ---- the certifier


def certifier() -> Spec:
    """The certifier as a state machine: one action for each step of its loops (§18 says what a plan looks like)."""
    spec = Spec("certifier")
    spec.sorts = ["Topic", "Partition", "Member", "Load"]
    spec.symbols(
        True,
        """
        topic: Partition Topic
        subscribes: Member Topic
        gives: Member Partition           # the plan: members' lists
        least, most: -> Load              # the stated bounds of loads
        load: Member -> Load              # how many partitions a member has in the end
        up_to: Load Load
    """,
    )
    spec.symbols(
        False,
        """
        merged: Member                    # whose list was read
        read: Member Partition            # entries that were read
        owner: Partition Member
        merging, measuring, accepted:
        opened, closed: Topic             # topics whose subscribers were marked; the finished ones
        marked: Member
        seen: Partition
        weighed: Member
    """,
    )
    spec.axioms = [
        lambda s: s.all("Partition Topic Topic", lambda p, t, u: Implies(And(s.topic(p, t), s.topic(p, u)), t == u)),
    ]
    spec.init = _init
    spec.act("read an entry", _read, m="Member", p="Partition")
    spec.act("end of the lists", _merged)
    spec.act("mark subscribers", _mark, t="Topic")
    spec.act("look at a partition", _look, t="Topic", p="Partition", m="Member")
    spec.act("look at a partition without owner", _look_at_none, t="Topic", p="Partition")
    spec.act("end of a topic", _close, t="Topic")
    spec.act("weigh", _weigh, m="Member")
    spec.act("accept", _accept)
    _promises(spec)
    _loops(spec)
    return spec


def _init(s: Term) -> None:
    """It begins with the members' lists."""
    s.clear(*s.spec.variables)
    s.merging = True


def _read(s: Term, m: Term, p: Term) -> None:
    """An entry of a member's list: the partition must not have an owner."""
    s.require(And(s.merging, s.gives(m, p), Not(s.read(m, p))))
    s.require(s.all("Member", lambda n: Not(s.owner(p, n))), "no member has it yet")
    s.add("read", m, p)
    s.add("owner", p, m)


def _merged(s: Term) -> None:
    """All lists were read."""
    s.require(s.merging)
    s.require(s.all("Member Partition", lambda m, p: Implies(s.gives(m, p), s.read(m, p))), "all lists were read")
    s.merging = False


def _mark(s: Term, t: Term) -> None:
    """The subscribers of the next topic are marked."""
    s.require(And(Not(s.merging), Not(s.accepted), Not(s.opened(t))))
    s.require(s.all("Topic", lambda u: Implies(s.opened(u), s.closed(u))))
    s.add("opened", t)
    s.marked = lambda m: s.subscribes(m, t)


def _look(s: Term, t: Term, p: Term, m: Term) -> None:
    """A partition with an owner, who must be marked."""
    s.require(And(s.opened(t), Not(s.closed(t)), s.topic(p, t), s.owner(p, m)))
    s.require(s.marked(m), "the owner is marked")
    s.add("seen", p)


def _look_at_none(s: Term, t: Term, p: Term) -> None:
    """A partition without owner: no member may be marked."""
    s.require(And(s.opened(t), Not(s.closed(t)), s.topic(p, t)))
    s.require(s.all("Member", lambda m: Not(s.owner(p, m))))
    s.require(s.all("Member", lambda m: Not(s.marked(m))), "no member is marked")
    s.add("seen", p)


def _close(s: Term, t: Term) -> None:
    """All partitions of a topic were looked at."""
    s.require(s.opened(t))
    s.require(s.all("Partition", lambda p: Implies(s.topic(p, t), s.seen(p))), "all partitions were seen")
    s.add("closed", t)


def _weigh(s: Term, m: Term) -> None:
    """A member's load must be within the bounds."""
    s.require(And(s.up_to(s.least, s.load(m)), s.up_to(s.load(m), s.most)), "the load is within the bounds")
    s.add("weighed", m)


def _accept(s: Term) -> None:
    """Everything was looked at."""
    s.require(Not(s.merging))
    s.require(s.all("Topic", s.closed), "all topics were looked at")
    s.require(s.all("Member", s.weighed), "all loads were weighed")
    s.accepted = True


def _prop(spec: Spec, name: str, says: str, sorts: str, formula: Any, auxiliary: bool = False) -> None:
    """Add an invariant of the certifier."""
    spec.properties[name] = Property(
        name, lambda s: s.all(sorts, lambda *at: formula(s, *at)), says, "docs/protocol.md §18", auxiliary=auxiliary
    )


def _promises(spec: Spec) -> None:
    """What an accepted plan is."""
    _prop(
        spec,
        "disjoint",
        "what is accepted gives no partition to two members",
        "Partition Member Member",
        lambda s, p, m, n: Implies(And(s.accepted, s.gives(m, p), s.gives(n, p)), m == n),
    )
    _prop(
        spec,
        "subscribed-only",
        "an accepted plan gives no member a partition of a topic to which it does not subscribe",
        "Topic Partition Member",
        lambda s, t, p, m: Implies(And(s.accepted, s.gives(m, p), s.topic(p, t)), s.subscribes(m, t)),
    )
    _prop(
        spec,
        "complete",
        "an accepted plan gives every partition of a subscribed topic to a member",
        "Topic Partition Member",
        lambda s, t, p, m: Implies(
            And(s.accepted, s.topic(p, t), s.subscribes(m, t)), s.some("Member", lambda n: s.gives(n, p))
        ),
    )
    _prop(
        spec,
        "balanced",
        "what is accepted has loads within the stated bounds",
        "Member",
        lambda s, m: Implies(s.accepted, And(s.up_to(s.least, s.load(m)), s.up_to(s.load(m), s.most))),
    )


def _loops(spec: Spec) -> None:
    """The invariants of the certifier's loops."""
    _prop(
        spec,
        "merge loop",
        "the owner of a partition is who was read to have it, and only one",
        "Partition Member Member",
        lambda s, p, m, n: And(
            Iff(s.read(m, p), s.owner(p, m)),
            Implies(s.read(m, p), s.gives(m, p)),
            Implies(And(s.owner(p, m), s.owner(p, n)), m == n),
            Implies(And(Not(s.merging), s.gives(m, p)), s.read(m, p)),
        ),
        True,
    )
    _prop(
        spec,
        "topic loop",
        "the marked members are the subscribers of the topic that is open",
        "Topic Topic Member",
        lambda s, t, u, m: And(
            Implies(And(s.opened(t), Not(s.closed(t))), Iff(s.marked(m), s.subscribes(m, t))),
            Implies(s.closed(t), s.opened(t)),
            Implies(And(s.opened(t), Not(s.closed(t)), s.opened(u), Not(s.closed(u))), t == u),
            Implies(s.opened(t), Not(s.merging)),
        ),
        True,
    )
    _prop(
        spec,
        "partition loop",
        "a partition that was seen has a subscribed owner, or no subscriber",
        "Topic Partition Member",
        lambda s, t, p, m: And(
            Implies(And(s.seen(p), s.topic(p, t), s.owner(p, m)), s.subscribes(m, t)),
            Implies(And(s.seen(p), s.topic(p, t), s.subscribes(m, t)), s.some("Member", lambda n: s.owner(p, n))),
            Implies(And(s.closed(t), s.topic(p, t)), s.seen(p)),
            Implies(s.seen(p), Not(s.merging)),
        ),
        True,
    )
    _prop(
        spec,
        "end",
        "it accepts when every topic is closed and every load weighed",
        "Topic Member",
        lambda s, t, m: And(
            Implies(s.accepted, And(s.closed(t), s.weighed(m), Not(s.merging))),
            Implies(s.weighed(m), And(s.up_to(s.least, s.load(m)), s.up_to(s.load(m), s.most))),
        ),
        True,
    )


# ---- composition


def composition(certified: bool = True) -> Claims:
    """The theorem: assumptions and the negated conclusion, which must be unsatisfiable together. It is about plans that
    are `certified`, and false of others."""
    spec = classic()
    s = State(spec)
    s.context.count = 0
    topic = z3.DeclareSort("Topic")
    place = z3.DeclareSort("TopicPartition")
    sorts, member, bytes_ = s.context.sorts, s.context.sorts["Member"], s.context.sorts["Bytes"]
    owns = z3.Function("owns", bytes_, place, z3.BoolSort())
    in_topic = z3.Function("in_topic", place, topic, z3.BoolSort())
    wants = z3.Function("wants", sorts["Instance"], topic, z3.BoolSort())
    p, t = z3.Const("p", place), z3.Const("t", topic)
    m, n, o = z3.Consts("m n o", member)
    i, j = z3.Consts("i j", sorts["Instance"])
    g, a = z3.Const("g", sorts["Generation"]), z3.Const("a", sorts["Append"])
    x, y = z3.Consts("x y", bytes_)
    used = ("S11", "S11: only members", "S34: all", "sources", "appends")
    assumed = [spec.properties[name].holds(s) for name in used] + [axiom(s) for axiom in spec.axioms]
    disjoint = z3.ForAll(
        [m, n, p],
        z3.Implies(
            z3.And(s.rec_member(a, m), s.rec_member(a, n), owns(s.rec_asg(a, m), p), owns(s.rec_asg(a, n), p)), m == n
        ),
    )
    complete = z3.ForAll(
        [p, t, i],
        z3.Implies(
            z3.And(in_topic(p, t), wants(i, t), s.listed(g, i)),
            z3.Exists([o], z3.And(s.rec_member(a, o), owns(s.rec_asg(a, o), p))),
        ),
    )
    two = z3.And(
        s.source(g, a), s.told_asg(g, m, x), s.told_asg(g, n, y), owns(x, p), owns(y, p), s.of(m, i), s.of(n, j), i != j
    )
    ownerless = z3.And(
        s.source(g, a),
        in_topic(p, t),
        wants(i, t),
        s.listed(g, i),
        z3.ForAll([o], z3.Implies(s.rec_member(a, o), z3.Not(owns(s.rec_asg(a, o), p)))),
    )
    return {
        "composition: one owner": (
            "in a generation no two members, except replacements, are assigned the same partition",
            z3.And(*assumed, disjoint if certified else True, two),
        ),
        "composition: every partition": (
            "every partition of a topic that a listed member subscribes to has an owner in the plan",
            z3.And(*assumed, complete if certified else True, ownerless),
        ),
    }


def check(limit_ms: int = 60_000) -> Iterator[Result]:
    """All obligations of this file."""
    yield from check_arithmetic(limit_ms)
    spec = certifier()
    yield from initiation(spec, limit_ms)
    for action in spec.actions.values():
        yield from prove(Step.of(spec, action), spec.properties.values(), limit_ms)
    yield from check_composition(limit_ms)


def check_arithmetic(limit_ms: int = 60_000) -> Iterator[Result]:
    """Range and round-robin."""
    for name, (_, formula) in arithmetic().items():
        yield _one("arithmetic", name, z3.Not(formula), limit_ms)


def check_composition(limit_ms: int = 60_000, certified: bool = True) -> Iterator[Result]:
    """The theorem."""
    for name, (_, formula) in composition(certified).items():
        yield _one("composition", name, formula, limit_ms)


def _one(kind: str, name: str, denied: Any, limit_ms: int) -> Result:
    """One obligation that is met when the formula has no model."""
    began = time.perf_counter()
    solver = z3.Solver()
    solver.set("timeout", limit_ms)
    solver.add(denied)
    answer, shown = solver.check(), ""
    if answer == z3.sat:
        model = solver.model()
        shown = ", ".join(f"{symbol.name()}={model[symbol]}" for symbol in model.decls() if symbol.arity() == 0)
    return Result(kind, "", name, verdict_of(answer, z3.unsat), time.perf_counter() - began, shown)
