"""C18 to C20 as bounded liveness: a ranking of the pairs of member and partition, which falls with each heartbeat that
acknowledges (docs/consumer-protocol.md §6).

A pair has rank 2 if the member may use the partition and has to give it up, 1 if it is pending revocation, and 1 if the
member lacks it: 2 if both. The sum over all pairs is finite, and no pair ever rises. So it falls only a finite number
of times.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.specs.consumer import group as c
from rota.specs.logic import And, Iff, Implies, Not, Or, Term
from rota.specs.properties import Properties


def excess(s: Term, v: Term, m: Term, p: Term) -> Term:
    """The member may use the partition, and it is not in its target."""
    return And(s.assigned(v, m, p), Not(wanted(s, v, m, p)))


def wanted(s: Term, v: Term, m: Term, p: Term) -> Term:
    """The member's target (§6.3)."""
    return And(s.target(v, m, p), s.subscribed(v, m, p))


def lacking(s: Term, v: Term, m: Term, p: Term) -> Term:
    """The member's target has the partition, and it may not use it yet."""
    return And(wanted(s, v, m, p), Not(s.assigned(v, m, p)))


def one(s: Term, v: Term, m: Term, p: Term) -> Term:
    """The rank is 1 or 2."""
    return Or(excess(s, v, m, p), s.pending(v, m, p), lacking(s, v, m, p))


def two(s: Term, v: Term, m: Term, p: Term) -> Term:
    """The rank is 2."""
    return Or(excess(s, v, m, p), And(s.pending(v, m, p), lacking(s, v, m, p)))


def acknowledges(s: Term) -> Term:
    """The member reports nothing that it has to give up already."""
    return And(s.reports, s.all("Partition", lambda p: Implies(s.reported(p), s.assigned(s.now, s.actor, p))))


def fits(s: Term) -> Term:
    """The target was computed for what the group is now, and subscriptions changed in whole requests only."""
    now, m = s.now, s.actor
    return And(
        s.group_epoch(now) == s.target_epoch(now),
        Or(
            s.changed,
            s.epoch(now, m) != s.target_epoch(now),
            s.all("Partition", lambda p: Implies(s.assigned(now, m, p), s.subscribed(now, m, p))),
        ),
    )


def of_heartbeats(formula: Callable[..., Term]) -> Callable[..., Term]:
    """Of the last step of a request that acknowledges."""

    def holds(s: Term, t: Term, action: Term, *at: Term) -> Term:
        return Implies(acknowledges(s), formula(s, t, *at)) if "reconciles" in action.tags else True

    return holds


def convergence(add: Properties) -> None:
    """C18: no rank rises."""
    add.step(
        "C18",
        "6.3",
        "no heartbeat that acknowledges raises the rank of a pair",
        "Member Partition",
        of_heartbeats(
            lambda s, t, m, p: And(
                Implies(one(s, t.now, m, p), one(s, s.now, m, p)), Implies(two(s, t.now, m, p), two(s, s.now, m, p))
            )
        ),
    )


def stays(s: Term, t: Term) -> Term:
    """Nothing falls."""
    return And(
        fits(s),
        s.all(
            "Partition",
            lambda p: And(
                Iff(one(s, s.now, s.actor, p), one(s, t.now, s.actor, p)),
                Iff(two(s, s.now, s.actor, p), two(s, t.now, s.actor, p)),
            ),
        ),
    )


def progress(add: Properties) -> None:
    """C18: what a heartbeat leaves, and C19."""
    add.step(
        "C18: falls",
        "6.3",
        "one that lowers no rank leaves a member that has nothing to give up and lacks only what others hold",
        "Partition",
        of_heartbeats(
            lambda s, t, p: Implies(
                And(stays(s, t), one(s, t.now, s.actor, p)),
                And(
                    lacking(s, t.now, s.actor, p),
                    Not(s.pending(t.now, s.actor, p)),
                    s.some("Member", lambda n: And(n != s.actor, c.holds(s, t.now, n, p))),
                ),
            )
        ),
    )
    add.step(
        "C18: arrives",
        "6.3",
        "one that leaves nothing to give up leaves the member at the target epoch",
        "",
        of_heartbeats(
            lambda s, t: Or(
                s.some("Partition", lambda p: s.pending(t.now, s.actor, p)),
                s.epoch(t.now, s.actor) == s.target_epoch(t.now),
            )
        ),
    )
    add.invariant(
        "C18: holders",
        "6.3",
        "a member that holds what another one lacks has to give it up",
        "Version Member Member Partition",
        lambda s, v, m, n, p: Implies(
            And(s.live(v), s.kind(v) == s.Consumer, m != n, lacking(s, v, m, p), c.holds(s, v, n, p)),
            Or(excess(s, v, n, p), s.pending(v, n, p)),
        ),
    )
    add.step(
        "C19",
        "6.3",
        "a member in UNRELEASED_PARTITIONS with nothing to give up gets everything that is free in this heartbeat",
        "Partition",
        lambda s, t, action, p: (
            Implies(
                And(
                    s.state(s.now, s.actor) == s.Unreleased,
                    s.all("Partition", lambda q: Not(excess(s, s.now, s.actor, q))),
                    wanted(s, s.now, s.actor, p),
                ),
                Or(
                    s.assigned(t.now, s.actor, p),
                    s.some("Member", lambda n: And(n != s.actor, c.holds(s, s.now, n, p))),
                ),
            )
            if "reconciles" in action.tags
            else True
        ),
    )


def conversions(add: Properties) -> None:
    """C20, and what induction needs."""
    add.step(
        "C20",
        "16.2",
        "an upgrade alone leaves every member stable with its target",
        "Member Partition",
        lambda s, t, action, m, p: (
            Implies(
                s.member(t.now, m),
                And(
                    s.state(t.now, m) == s.Stable,
                    Iff(s.assigned(t.now, m, p), s.target(t.now, m, p)),
                    Not(s.pending(t.now, m, p)),
                ),
            )
            if "upgrades" in action.tags
            else True
        ),
    )
    add.step(
        "C20: downgrade",
        "17.2",
        "a downgrade fences no member that has reached the group epoch",
        "Member",
        lambda s, t, action, m: (
            Implies(s.fenced(t.now, m), s.epoch(s.now, m) != s.group_epoch(s.now))
            if "downgrades" in action.tags
            else True
        ),
    )
    add.auxiliary(
        "stable",
        "a stable member at the target epoch of the group as it is now has its target",
        "Version Member Partition",
        lambda s, v, m, p: Implies(
            And(
                s.live(v),
                s.kind(v) == s.Consumer,
                s.group_epoch(v) == s.target_epoch(v),
                s.state(v, m) == s.Stable,
                s.epoch(v, m) == s.target_epoch(v),
                wanted(s, v, m, p),
            ),
            s.assigned(v, m, p),
        ),
    )
    add.auxiliary(
        "used or pending",
        "what a member has to give up it may not use",
        "Version Member Partition",
        lambda s, v, m, p: Not(And(s.live(v), s.assigned(v, m, p), s.pending(v, m, p))),
    )
