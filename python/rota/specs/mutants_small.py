"""Planted bugs so small that one invariant alone notices them: they show that each invariant is needed."""

from __future__ import annotations

from collections.abc import Callable

from rota.specs import classic as c
from rota.specs.logic import And, If, Implies, Not, Or, State, Term
from rota.specs.planting import also, event, without


@also("replacement records count as plans", "a second plan of a generation becomes durable", "log takes a group record")
def _(b: State, s: State, a: Term) -> None:
    s.put("source", lambda old, g, r: Or(old, And(s.kind(a) == s.Replacement, g == s.rec_gen(a), r == a, s.sourced(g))))


@also("joiner named after a reload", "an answer after a reload names its receiver as the leader", "rejoin unchanged")
def _(b: State, s: State, m: Term) -> None:
    s.require(s.all("Member", lambda n: And(Not(s.told_list(b.gen, n)), Not(s.told_leader(b.gen, n)))))
    s.add("told_names", b.gen, m)


@also(
    "emptied record not loaded", "loading overlooks the record of a group that became empty", "log takes a group record"
)
def _(b: State, s: State, a: Term) -> None:
    s.require(b.log_group)
    s.newest = If(s.kind(a) == s.Emptied, b.newest, a)


@also("pending ids survive unload", "an unloaded group remembers pending ids", "unload")
def _(b: State, s: State) -> None:
    s.pending, s.pending_timer = b.pending, b.pending_timer


@event(
    "assignment for an unknown id",
    "a member that was not in the round gets an empty assignment",
    m="Member",
    i="Instance",
)
def _(s: State, m: Term, i: Term) -> None:
    s.require(And(s.st == s.Stable, s.of(m, i), Not(s.listed(s.gen, i)), Not(s.replaced(m))))
    s.require(
        s.all("Append Member", lambda a, o: Implies(And(s.source(s.gen, a), s.of(o, i)), Not(s.rec_member(a, o))))
    )
    s.add("told_asg", s.gen, m, s.nothing)


def plan_for(s: State, a: Term, chosen: Callable[[Term], Term]) -> None:
    """The leader's plan, written for a chosen set of members."""
    s.require(And(s.st == s.CompletingRebalance, Not(s.planning), s.to_sync(s.leader), s.t_sync, Not(s.owed)))
    leader = s.leader
    s.planning, s.plan, s.t_plan = True, a, True
    s.fix("sent_by", a, lambda n: n == leader)
    c.append(s, a, "Plan")
    s.fix("rec_gen", a, s.gen)
    s.fix("rec_member", a, chosen)
    s.fix("rec_leader", a, lambda m: m == leader)


@event(
    "plan for an unknown id",
    "the plan that is written has a member that the leader was not given",
    a="Append",
    x="Member",
)
def _(s: State, a: Term, x: Term) -> None:
    s.require(And(s.minted(x), Not(s.member(x))))
    member = s.member
    plan_for(s, a, lambda m: Or(member(m), m == x))


@event("plan without a member", "the plan that is written leaves out a member", a="Append", x="Member")
def _(s: State, a: Term, x: Term) -> None:
    s.require(And(s.member(x), x != s.leader))
    member = s.member
    plan_for(s, a, lambda m: And(member(m), m != x))


@also("told when parked", "a parked SyncGroup is answered at once with nothing", "sync parks")
def _(b: State, s: State, m: Term, last: Term) -> None:
    s.require(And(Not(s.sourced(s.gen)), s.all("Instance", lambda i: Implies(s.of(m, i), s.listed(s.gen, i)))))
    s.add("told_asg", s.gen, m, s.nothing)


@event(
    "failed deletion confirmed",
    "a deletion that failed is acknowledged once a later one has emptied the log",
    a="Append",
)
def _(s: State, a: Term) -> None:
    s.require(And(s.serving, s.kind(a) == s.Tombstone, Not(s.durable(a)), s.used(a), Not(s.late(a))))
    s.require(s.all("Append", lambda b: Implies(And(s.used(b), s.not_after(b, a)), s.past(b))))
    s.add("told_deleted", a)


@event("round reopened", "a Stable group goes back to CompletingRebalance")
def _(s: State) -> None:
    s.require(And(s.st == s.Stable, s.all("Member", lambda m: Not(s.parked_join(m)))))
    s.st = s.CompletingRebalance


@event(
    "late creation with a member",
    "a group that was given up takes a member when its record turns out durable",
    m="Member",
    i="Instance",
)
def _(s: State, m: Term, i: Term) -> None:
    s.require(And(s.st == s.Dead, s.serving, Not(s.has_leader), s.log_group, Not(s.minted(m))))
    c.add_member(s, m, i)
    s.st, s.t_initial, s.rooted, s.gen = s.PreparingRebalance, True, True, s.zero


@event(
    "plan of an emptied group",
    "the record of an emptied group is taken for a plan",
    g="Generation",
    a="Append",
    b="Append",
)
def _(s: State, g: Term, a: Term, b: Term) -> None:
    s.require(And(s.source(g, a), s.kind(b) == s.Emptied, s.durable(b), a != b))
    s.add("source", g, b)


@event("deletion confirmed by a commit", "the end of a commit is taken for that of a deletion", a="Append")
def _(s: State, a: Term) -> None:
    s.require(And(s.serving, s.durable(a), s.kind(a) == s.Commit, Not(s.late(a))))
    s.add("told_deleted", a)


without("failed creation", "a group whose record failed counts as durable", "creation durable", "the record is durable")


@event("live member fenced", "a member is fenced although it was not replaced", m="Member")
def _(s: State, m: Term) -> None:
    s.require(And(s.member(m), s.static(m)))
    s.add("replaced", m)


@also("replacement forgotten", "a crash forgets who was replaced durably", "crash")
def _(b: State, s: State) -> None:
    s.clear("replaced")


@also("offset in flight", "a fetch gives a commit that the log does not have yet", "fetch")
def _(b: State, s: State, p: Term) -> None:

    def flying(a: Term) -> Term:
        return And(s.unheard(a), Not(s.durable(a)), s.part(a, p), s.kind(a) == s.Commit, Not(s.past(a)))

    s.put("told_offset", lambda old, q, a: Or(old, And(q == p, flying(a))))


@event("older commit visible again", "an older commit replaces a newer one", p="Partition", a="Append", b="Append")
def _(s: State, p: Term, a: Term, b: Term) -> None:
    s.require(And(s.serving, s.has_shown(p), s.durable(a), Not(s.unheard(a)), s.kind(a) == s.Commit, s.part(a, p)))
    s.require(And(s.not_after(a, s.shown(p)), Not(s.past(a)), s.unheard(b), s.part(b, p), s.kind(b) == s.Commit))
    s.put("shown", lambda old, q: If(q == p, a, old))


@also("reload raises the generation", "a reload gives a generation that never existed", "load Stable")
def _(b: State, s: State, *_: Term) -> None:
    s.require(c.before(s, s.rec_gen(s.newest), b.gen))
    s.gen = b.gen


@event(
    "deleted offset visible again", "an offset from before a deletion is shown", p="Partition", a="Append", b="Append"
)
def _(s: State, p: Term, a: Term, b: Term) -> None:
    s.require(
        And(
            s.serving, Not(s.has_shown(p)), s.past(a), s.durable(a), s.part(a, p), s.kind(a) == s.Commit, s.st != s.Dead
        )
    )
    s.require(And(Not(s.unheard(a)), s.unheard(b), s.part(b, p), s.kind(b) == s.Commit, Not(s.deleting)))
    s.put("shown", lambda old, q: If(q == p, a, old))
    s.add("has_shown", p)


@also(
    "plan without a deadline", "the append of a plan has no deadline, while followers are awaited", "sync of the leader"
)
def _(b: State, s: State, m: Term, last: Term, a: Term) -> None:
    s.require(s.t_sync)
    s.t_plan = False


@also(
    "join timer before the record",
    "the initial delay of a group that is not durable goes over into a phase that the join timer ends",
    "initial timer again",
)
def _(b: State, s: State) -> None:
    s.require(And(Not(s.rooted), c.someone_missing(s)))
    s.t_initial, s.t_join = False, True


@also("Empty keeps a member", "a group that becomes Empty keeps a static member", "leave Empty")
def _(b: State, s: State, *_: Term) -> None:
    s.st, s.t_join = s.CompletingRebalance, False
