"""L2 to L4 and L6 without their durations: every wait has a timer. How long it takes is for other checks."""

from __future__ import annotations

from rota.specs import classic as c
from rota.specs.logic import And, Implies, Not, Or
from rota.specs.properties import Properties


def syncing(add: Properties) -> None:
    """L2: who watches SyncGroup."""
    add.invariant(
        "L2",
        "6.5",
        "the sync timer runs while a member is still to sync",
        "Member",
        lambda s, m: Implies(s.to_sync(m), s.t_sync),
    )
    add.invariant(
        "L2: members",
        "9.3",
        "who is still to sync is a member",
        "Member",
        lambda s, m: Implies(s.to_sync(m), s.member(m)),
    )
    add.invariant(
        "L2: plan", "10.3", "a plan that is waited for has a deadline", "", lambda s: Implies(s.planning, s.t_plan)
    )


def watchers(add: Properties) -> None:
    """L3, L4, L6: sessions, parked requests, pending ids, the join phase."""
    add.invariant(
        "L3",
        "7.2",
        "a member that is not parked has an armed session",
        "Member",
        lambda s, m: Implies(And(s.member(m), Not(s.parked_join(m)), Not(s.parked_sync(m))), s.session(m)),
    )
    add.step(
        "L3: parked",
        "7.3",
        "no timer removes who is parked, but for a new member, and a newcomer that was still to sync",
        "Member",
        lambda s, t, action, m: (
            Implies(And(Or(s.parked_join(m), s.parked_sync(m)), Not(s.fresh(m)), Not(s.newcomer(m))), t.member(m))
            if "expires" in action.tags
            else True
        ),
    )
    add.invariant(
        "L4",
        "16.2",
        "a join phase has a timer, or waits for the record of the new group",
        "",
        lambda s: Implies(s.st == s.PreparingRebalance, Or(s.t_initial, s.t_join, And(s.held, s.creating))),
    )
    add.invariant(
        "L4: newcomer",
        "9.3",
        "who waits for the record of a replacement has a deadline",
        "Member",
        lambda s, m: Implies(Or(s.newcomer(m), And(s.parked_join(m), s.st != s.PreparingRebalance)), s.t_record(m)),
    )
    add.invariant(
        "L4: sync",
        "6.2",
        "who is parked in SyncGroup has the sync timer or the plan's deadline",
        "Member",
        lambda s, m: Implies(s.parked_sync(m), Or(s.t_sync, s.t_plan)),
    )
    add.invariant(
        "L4: pending",
        "4.6",
        "a pending id has a timer",
        "Member",
        lambda s, m: Implies(s.pending(m), s.pending_timer(m)),
    )
    add.invariant(
        "L6",
        "5.2",
        "a join phase that waits misses a member",
        "",
        lambda s: Implies(And(s.st == s.PreparingRebalance, Not(s.t_initial), Not(s.held)), c.someone_missing(s)),
    )
    add.invariant(
        "L6: held",
        "4.10",
        "the join phase of a group that is not durable is in its initial delay or held back, and has no join timer",
        "",
        lambda s: And(
            Implies(And(s.st == s.PreparingRebalance, Not(s.rooted)), Or(s.t_initial, s.held)),
            Implies(s.t_join, s.rooted),
        ),
    )
