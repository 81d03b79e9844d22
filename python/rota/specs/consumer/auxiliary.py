"""Invariants of the newer protocol that only induction needs. They are proved like the others."""

from __future__ import annotations

from rota.specs.consumer import group as c
from rota.specs.logic import And, Implies, Not, Or
from rota.specs.properties import Properties


def versions(add: Properties) -> None:
    """Auxiliary: the versions that are live."""
    aux = add.auxiliary
    aux(
        "live versions",
        "root and memory are live, and every live version is between them",
        "Version",
        lambda s, v: And(
            s.live(s.root),
            s.live(s.now),
            Implies(s.live(v), And(s.used(v), s.not_after(s.root, v), s.not_after(v, s.now))),
        ),
    )


def members(add: Properties) -> None:
    """Auxiliary: what members have."""
    aux = add.auxiliary
    aux(
        "non-members",
        "a member id outside the group has nothing",
        "Version Member Partition",
        lambda s, v, m, p: Implies(
            And(s.live(v), Not(s.member(v, m))),
            Not(Or(c.holds(s, v, m, p), s.target(v, m, p), s.subscribed(v, m, p), s.classic(v, m))),
        ),
    )
    aux(
        "kinds",
        "no group has no members; a classic group has one epoch, pends nothing, and only it fences",
        "Version Member Partition",
        lambda s, v, m, p: And(
            Implies(And(s.live(v), s.kind(v) == s.Absent), Not(s.member(v, m))),
            Implies(
                And(s.live(v), s.kind(v) == s.Classic),
                And(
                    Not(s.pending(v, m, p)),
                    s.target_epoch(v) == s.group_epoch(v),
                    Implies(s.member(v, m), s.epoch(v, m) == s.group_epoch(v)),
                ),
            ),
            Implies(And(s.live(v), s.fenced(v, m)), s.kind(v) == s.Classic),
        ),
    )
    aux(
        "first epochs",
        "a consumer group has a target epoch of 1 or more, and so has a classic one with members a generation",
        "Version Member",
        lambda s, v, m: And(
            Implies(And(s.live(v), s.kind(v) == s.Consumer), s.not_above(s.one, s.target_epoch(v))),
            Implies(And(s.live(v), s.kind(v) == s.Classic, s.member(v, m)), s.not_above(s.one, s.group_epoch(v))),
            Implies(s.live(v), s.not_above(s.zero, s.group_epoch(v))),
        ),
    )
    aux(
        "pending",
        "only a member in UNREVOKED_PARTITIONS has something to give up",
        "Version Member Partition",
        lambda s, v, m, p: Implies(And(s.live(v), s.pending(v, m, p)), s.state(v, m) == s.Unrevoked),
    )


def holdings(add: Properties) -> None:
    """Auxiliary: what members hold, and what they are to hold."""
    aux = add.auxiliary
    aux(
        "map",
        "who holds a partition has an entry in the map, with its epoch",
        "Version Member Partition",
        lambda s, v, m, p: Implies(
            And(s.live(v), s.kind(v) == s.Consumer, c.holds(s, v, m, p)),
            And(s.mapped(v, p), s.mapped_epoch(v, p) == s.epoch(v, m)),
        ),
    )
    aux(
        "map is held",
        "every entry of the map is of a partition that a member holds",
        "Version Partition",
        lambda s, v, p: Implies(
            And(s.live(v), s.kind(v) == s.Consumer, s.mapped(v, p)), s.some("Member", lambda m: c.holds(s, v, m, p))
        ),
    )
    aux(
        "targets",
        "targets are disjoint",
        "Version Member Member Partition",
        lambda s, v, m, n, p: Or(Not(s.live(v)), m == n, Not(s.target(v, m, p)), Not(s.target(v, n, p))),
    )
    aux(
        "within target",
        "a member at the target epoch holds nothing but its target",
        "Version Member Partition",
        lambda s, v, m, p: Implies(
            And(s.live(v), s.kind(v) == s.Consumer, s.epoch(v, m) == s.target_epoch(v), c.holds(s, v, m, p)),
            s.target(v, m, p),
        ),
    )


def clients(add: Properties) -> None:
    """Auxiliary: what clients may be using, and requests that are being served."""
    aux = add.auxiliary
    aux(
        "actors",
        "a request that is being served is that of a member of a consumer group",
        "Version Partition",
        lambda s, v, p: Implies(
            s.phase != s.Idle,
            And(
                s.kind(s.now) == s.Consumer,
                s.member(s.now, s.actor),
                Not(s.waits(v, s.actor)),
                Implies(And(s.reports, s.told(s.actor, p)), s.reported(p)),
            ),
        ),
    )
    aux(
        "told is held",
        "what a member may be using it holds in every live version, unless it is gone or fenced there",
        "Version Member Partition",
        lambda s, v, m, p: Implies(
            And(s.live(v), s.told(m, p), s.member(v, m), Not(s.fenced(v, m))), c.holds(s, v, m, p)
        ),
    )
    aux(
        "told members",
        "only a member that the log has may be using something",
        "Member Partition",
        lambda s, m, p: Implies(s.told(m, p), And(s.member(s.root, m), Not(s.fenced(s.root, m)))),
    )


def answers(add: Properties) -> None:
    """Auxiliary: answers on their way."""
    aux = add.auxiliary
    aux(
        "answers are held",
        "what an answer on its way gives, the member holds in every later live version, unless it is gone or fenced",
        "Version Version Member Partition",
        lambda s, u, v, m, p: Implies(
            And(
                s.waiting(u, m),
                s.assigned(u, m, p),
                s.live(v),
                s.not_after(u, v),
                s.member(v, m),
                Not(s.fenced(v, m)),
            ),
            c.holds(s, v, m, p),
        ),
    )
    aux(
        "answers",
        "an answer on its way depends on a version that was made; a durable one is to a member that the log has",
        "Version Member",
        lambda s, u, m: And(
            Implies(s.waiting(u, m), s.waits(u, m)),
            Implies(s.waits(u, m), s.not_after(u, s.now)),
            Implies(And(s.waits(u, m), s.not_after(u, s.root)), And(s.member(s.root, m), Not(s.fenced(s.root, m)))),
        ),
    )
    aux(
        "one answer",
        "a member waits for one answer",
        "Version Version Member",
        lambda s, u, v, m: Implies(And(s.waits(u, m), s.waits(v, m)), u == v),
    )
    aux(
        "epochs of answers",
        "no later live version has a member at an older epoch than the answer on its way, unless it is gone or fenced",
        "Version Version Member",
        lambda s, u, v, m: Implies(
            And(s.waits(u, m), s.live(v), s.not_after(u, v), s.member(v, m), Not(s.fenced(v, m))),
            s.not_above(s.epoch(u, m), s.epoch(v, m)),
        ),
    )
    aux(
        "answered epochs",
        "the answer on its way has no older epoch than the one before",
        "Version Member",
        lambda s, u, m: Implies(s.waits(u, m), s.not_above(s.told_epoch(m), s.epoch(u, m))),
    )
    aux(
        "told epochs",
        "no live version has a member at an older epoch than that of its last answer, unless it is gone or fenced",
        "Version Member",
        lambda s, v, m: And(
            Implies(And(s.live(v), s.member(v, m), Not(s.fenced(v, m))), s.not_above(s.told_epoch(m), s.epoch(v, m))),
            Implies(Or(Not(s.member(s.root, m)), s.fenced(s.root, m)), s.told_epoch(m) == s.away),
        ),
    )
