"""What is proved of the newer protocol. The ids are those of `vocabulary.toml`; text after a colon is a part of that
property. Names in words are *auxiliary*: induction needs them.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.specs.consumer import auxiliary, ranking
from rota.specs.consumer import group as c
from rota.specs.consumer.events import specification
from rota.specs.logic import And, Iff, Implies, Not, Or, Spec, Term
from rota.specs.properties import Properties, grows

PAGE = "docs/consumer-protocol.md §"


def live(formula: Callable[..., Term]) -> Callable[..., Term]:
    """Of every version that a crash or a refused write may bring back, memory included."""
    return lambda s, v, *at: Implies(s.live(v), formula(s, v, *at))


def of_consumer(formula: Callable[..., Term]) -> Callable[..., Term]:
    """Of every live version that is a consumer group."""
    return lambda s, v, *at: Implies(And(s.live(v), s.kind(v) == s.Consumer), formula(s, v, *at))


def one_owner(add: Properties) -> None:
    """C1 and C2."""
    add.invariant(
        "C1",
        "6.4",
        "a partition is held by at most one member",
        "Version Member Member Partition",
        live(lambda s, v, m, n, p: Or(m == n, Not(c.holds(s, v, m, p)), Not(c.holds(s, v, n, p)))),
    )
    add.invariant(
        "C2",
        "6.4",
        "no two members may be using a partition, however late they act on an answer",
        "Member Member Partition",
        lambda s, m, n, p: Or(m == n, Not(s.told(m, p)), Not(s.told(n, p))),
    )


def epochs(add: Properties) -> None:
    """C3."""
    add.invariant(
        "C3",
        "5.1",
        "the target epoch is at most the group epoch, a member's at most the target epoch",
        "Version Member",
        of_consumer(
            lambda s, v, m: And(
                s.not_above(s.target_epoch(v), s.group_epoch(v)),
                Implies(s.member(v, m), s.not_above(s.epoch(v, m), s.target_epoch(v))),
            )
        ),
    )
    add.step(
        "C3: grows",
        "5.1",
        "group epoch and target epoch do not fall while a group lives",
        "",
        lambda s, t, action: (
            True
            if action.tags & {"back", "restarts"}
            else And(
                s.not_above(s.group_epoch(s.now), s.group_epoch(t.now)),
                s.not_above(s.target_epoch(s.now), s.target_epoch(t.now)),
            )
        ),
    )
    add.invariant(
        "C3: empty",
        "8.2",
        "the target epoch of a group without members is the group epoch",
        "Version",
        of_consumer(lambda s, v: Or(s.some("Member", lambda m: s.member(v, m)), s.target_epoch(v) == s.group_epoch(v))),
    )
    add.step(
        "C3: life",
        "13.2",
        "the life of a group ends only without members",
        "Member",
        lambda s, _, action, m: (
            Not(s.member(s.now, m)) if "restarts" in action.tags and "rebalances" not in action.tags else True
        ),
    )


def member_epochs(add: Properties) -> None:
    """C4."""
    add.step(
        "C4",
        "5.1",
        "a member's epoch falls only to 0 when a static member comes back, and to -2",
        "Member",
        lambda s, t, action, m: (
            True
            if action.tags & {"back", "restarts", "upgrades"}
            else Implies(
                And(s.member(s.now, m), t.member(t.now, m)),
                Or(
                    s.not_above(s.epoch(s.now, m), s.epoch(t.now, m)),
                    And(s.epoch(t.now, m) == s.zero, "takes" in action.tags),
                    And(s.epoch(t.now, m) == s.away, action.name == "away"),
                ),
            )
        ),
    )
    add.step(
        "C4: away",
        "9.3",
        "only a static member of the newer protocol goes away",
        "Member",
        lambda s, t, action, m: (
            Implies(
                And(s.epoch(s.now, m) != s.away, s.epoch(t.now, m) == s.away),
                And(Not(s.classic(s.now, m)), s.some("Instance", lambda i: s.instance(s.now, m, i))),
            )
            if action.name == "away"
            else True
        ),
    )
    add.step(
        "C4: answers",
        "5.1",
        "the epochs in the answers to a member do not fall until it joins, leaves or is fenced",
        "Member",
        lambda s, t, action, m: s.not_above(s.told_epoch(m), t.told_epoch(m)) if "answers" in action.tags else True,
    )


def reconciliation(add: Properties) -> None:
    """C5 and C6."""
    moves = {"back", "restarts", "takes", "upgrades", "downgrades"}
    add.step(
        "C5",
        "6.3",
        "a partition is granted only if no other member holds it",
        "Member Member Partition",
        lambda s, t, action, m, n, p: (
            True
            if action.tags & moves
            else Implies(
                And(s.assigned(t.now, m, p), Not(s.assigned(s.now, m, p)), m != n), Not(c.holds(s, s.now, n, p))
            )
        ),
    )
    add.step(
        "C5: pending",
        "6.3",
        "nothing is granted while the member has something to give up",
        "Member Partition Partition",
        lambda s, t, action, m, p, q: (
            True
            if action.tags & moves
            else Implies(And(s.assigned(t.now, m, p), Not(s.assigned(s.now, m, p))), Not(s.pending(t.now, m, q)))
        ),
    )
    add.step(
        "C6",
        "6.1",
        "a partition is no longer pending revocation only by a report without it, or because the member goes",
        "Member Partition",
        lambda s, t, action, m, p: (
            True
            if action.tags & moves or action.name == "away"
            else Implies(
                And(s.pending(s.now, m, p), Not(s.pending(t.now, m, p)), s.member(t.now, m)),
                And(m == s.actor, s.reports, Not(s.reported(p))),
            )
        ),
    )


def durability(add: Properties) -> None:
    """C8 and C9."""
    add.step(
        "C8",
        "4.2",
        "a changed assignment is in the answer, and so is that of a join",
        "Partition",
        lambda s, t, action, p: (
            Implies(
                And(
                    Not(s.classic(s.now, s.actor)),
                    Or(s.joins, s.assigned(s.now, s.actor, p) != s.assigned(t.now, s.actor, p)),
                ),
                t.waiting(t.now, s.actor),
            )
            if "reconciles" in action.tags
            else True
        ),
    )
    add.invariant(
        "C9",
        "4.4",
        "what an answer depends on is in the log",
        "Version",
        lambda s, v: Implies(s.answered(v), s.not_after(v, s.root)),
    )
    add.step(
        "C9: kept",
        "4.4",
        "no crash and no refused write loses what was answered",
        "Version",
        lambda s, t, _, v: Implies(t.answered(v), s.not_after(v, t.now)),
    )


def statics(add: Properties) -> None:
    """C10."""
    add.invariant(
        "C10",
        "9.1",
        "an instance has one member",
        "Version Member Member Instance",
        live(lambda s, v, m, n, i: Or(m == n, Not(s.instance(v, m, i)), Not(s.instance(v, n, i)))),
    )
    add.invariant(
        "C10: one",
        "9.1",
        "a member has one instance",
        "Version Member Instance Instance",
        live(lambda s, v, m, i, j: Or(i == j, Not(s.instance(v, m, i)), Not(s.instance(v, m, j)))),
    )
    add.invariant(
        "C10: members",
        "9.1",
        "a member id with an instance is a member",
        "Version Member Instance",
        live(lambda s, v, m, i: Implies(s.instance(v, m, i), s.member(v, m))),
    )
    add.step(
        "C10: return",
        "9.2",
        "the member that comes back for an instance has its partitions and its target",
        "Member Member Instance Partition",
        lambda s, t, action, m, n, i, p: (
            Implies(
                And(s.instance(s.now, m, i), s.instance(t.now, n, i)),
                And(
                    Iff(s.assigned(t.now, n, p), s.assigned(s.now, m, p)),
                    Iff(s.target(t.now, n, p), s.target(s.now, m, p)),
                    Iff(s.subscribed(t.now, n, p), s.subscribed(s.now, m, p)),
                ),
            )
            if "takes" in action.tags and "downgrades" not in action.tags
            else True
        ),
    )
    add.step(
        "C10: no bump",
        "9.2",
        "the group epoch rises only if the input of the assignment changes",
        "",
        lambda s, t, action: (
            True
            if action.tags & {"back", "restarts", "bumps", "downgrades"}
            else s.group_epoch(s.now) == s.group_epoch(t.now)
        ),
    )
    add.step(
        "C10: in use",
        "9.1",
        "a consumer join takes an instance only from a member that is away or classic",
        "Member Instance",
        lambda s, t, action, m, i: (
            Implies(
                And(s.instance(s.now, m, i), Not(s.instance(t.now, m, i))),
                Or(s.epoch(s.now, m) == s.away, s.classic(s.now, m), m == t.actor),
            )
            if "returns" in action.tags
            else True
        ),
    )


def commits(add: Properties) -> None:
    """C11."""

    def current(s: Term, t: Term) -> Term:
        return t.committed_epoch == s.epoch(s.now, t.committer)

    add.step(
        "C11",
        "11",
        "a commit with an older epoch is stored only if the member has held every partition since",
        "Partition",
        lambda s, t, action, p: (
            Implies(
                And(t.committed(p), Not(current(s, t))),
                And(
                    c.below(s, t.committed_epoch, s.epoch(s.now, t.committer)),
                    c.holds(s, s.now, t.committer, p),
                    s.not_above(s.granted_at(s.now, t.committer, p), t.committed_epoch),
                ),
            )
            if "commits" in action.tags
            else True
        ),
    )
    add.step(
        "C11: members",
        "11",
        "a commit is stored for a member, or into a group without members; a removed member stores nothing",
        "Member",
        lambda s, t, action, m: (
            s.member(s.now, t.committer)
            if "commits" in action.tags
            else Implies(s.some("Partition", lambda p: grows(s, t, "stored", p)), Not(s.member(s.now, m)))
        ),
    )
    add.step(
        "C11: classic",
        "11",
        "a classic member commits in its generation only",
        "",
        lambda s, t, action: (
            Implies(s.classic(s.now, t.committer), current(s, t)) if "commits" in action.tags else True
        ),
    )


def fencing(add: Properties) -> None:
    """C12."""
    add.step(
        "C12",
        "3",
        "a refused request changes nothing",
        "Partition Member Version",
        lambda s, t, action, p, m, v: (
            And(
                s.now == t.now,
                Iff(s.stored(p), t.stored(p)),
                Iff(s.live(v), t.live(v)),
                s.phase == t.phase,
                Iff(s.told(m, p), t.told(m, p)),
            )
            if "refusal" in action.tags
            else True
        ),
    )
    add.step(
        "C12: unknown",
        "3.4",
        "UNKNOWN_MEMBER_ID is said to no member",
        "Member",
        lambda s, t, _, m: Implies(grows(s, t, "said_unknown", m), Not(s.member(s.now, m))),
    )
    add.step(
        "C12: epoch",
        "5.3",
        "FENCED_MEMBER_EPOCH refuses an epoch that is neither 0 nor the member's",
        "Member Epoch",
        lambda s, t, _, m, r: Implies(
            grows(s, t, "said_fenced", m, r), And(s.member(s.now, m), r != s.zero, r != s.epoch(s.now, m))
        ),
    )
    add.step(
        "C12: instance",
        "9.1",
        "FENCED_INSTANCE_ID is not said to the member that has the instance",
        "Member Instance",
        lambda s, t, _, m, i: Implies(grows(s, t, "said_instance", m, i), Not(s.instance(s.now, m, i))),
    )
    add.step(
        "C12: unreleased",
        "9.1",
        "UNRELEASED_INSTANCE_ID refuses only an instance whose member is not away",
        "Member Member Instance",
        lambda s, t, _, m, n, i: Implies(
            And(grows(s, t, "said_unreleased", m, i), s.instance(s.now, n, i)), s.epoch(s.now, n) != s.away
        ),
    )


def serving(add: Properties) -> None:
    """C12: what is served."""
    add.step(
        "C12: commit",
        "11",
        "a commit with the member's epoch is not refused for its epoch",
        "Member Epoch",
        lambda s, t, _, m, r: Implies(grows(s, t, "said_stale", m, r), r != s.epoch(s.now, m)),
    )
    add.step(
        "C12: served",
        "5.3",
        "a heartbeat is served only with the member's epoch, or with the previous one and nothing foreign",
        "Partition",
        lambda s, t, action, p: (
            Or(
                t.sent == s.epoch(s.now, t.actor),
                And(
                    t.sent == s.previous(s.now, t.actor),
                    c.below(s, t.sent, s.epoch(s.now, t.actor)),
                    t.reports,
                    Implies(t.reported(p), s.assigned(s.now, t.actor, p)),
                ),
            )
            if "beats" in action.tags
            else True
        ),
    )
    add.step(
        "C12: sync",
        "18.3",
        "SyncGroup is served to a classic member in its generation",
        "Member",
        lambda s, t, action, m: (
            Implies(grows(s, t, "waiting", s.now, m), And(s.classic(s.now, m), t.sent == s.epoch(s.now, m)))
            if "syncs" in action.tags
            else True
        ),
    )
    add.step(
        "C12: members",
        "3.4",
        "a heartbeat is served only for a member",
        "",
        lambda s, t, action: s.member(s.now, t.actor) if "beats" in action.tags else True,
    )


def conversions(add: Properties) -> None:
    """C14."""
    add.step(
        "C14: epochs",
        "16.2",
        "an upgrade begins with the generation as group epoch, target epoch and epoch of every member",
        "Member",
        lambda s, t, action, m: (
            And(
                s.group_epoch(t.now) == s.group_epoch(s.now),
                s.target_epoch(t.now) == s.group_epoch(s.now),
                Implies(s.member(t.now, m), s.epoch(t.now, m) == s.group_epoch(s.now)),
            )
            if "upgrades" in action.tags
            else True
        ),
    )
    add.step(
        "C14: members",
        "16.2",
        "an upgrade keeps members and instances, as classic members",
        "Member Instance",
        lambda s, t, action, m, i: (
            And(
                Iff(s.member(s.now, m), s.member(t.now, m)),
                Iff(s.member(s.now, m), s.classic(t.now, m)),
                Iff(s.instance(s.now, m, i), s.instance(t.now, m, i)),
            )
            if "upgrades" in action.tags
            else True
        ),
    )
    add.step(
        "C14: assignments",
        "16.2",
        "an upgrade keeps every assignment, and makes it the target",
        "Member Partition",
        lambda s, t, action, m, p: (
            And(
                Iff(s.assigned(s.now, m, p), s.assigned(t.now, m, p)),
                Iff(s.assigned(s.now, m, p), s.target(t.now, m, p)),
            )
            if "upgrades" in action.tags
            else True
        ),
    )


def downgrades(add: Properties) -> None:
    """C14: from consumer to classic, and what stays."""
    add.step(
        "C14: generation",
        "17.2",
        "a downgrade has the group epoch as its generation",
        "",
        lambda s, t, action: (
            And(s.kind(t.now) == s.Classic, s.group_epoch(t.now) == s.group_epoch(s.now))
            if "downgrades" in action.tags
            else True
        ),
    )
    add.step(
        "C14: downgrade",
        "17.2",
        "a downgrade gives each member that stays what it held, and keeps its instance",
        "Member Partition Instance",
        lambda s, t, action, m, p, i: (
            Implies(
                And(s.member(s.now, m), s.member(t.now, m)),
                And(
                    Iff(s.assigned(t.now, m, p), Or(s.assigned(s.now, m, p), s.pending(s.now, m, p))),
                    Iff(s.instance(t.now, m, i), s.instance(s.now, m, i)),
                ),
            )
            if "downgrades" in action.tags
            else True
        ),
    )
    add.step(
        "C14: last",
        "17.1",
        "a downgrade leaves a member, and none that was not classic",
        "",
        lambda s, t, action: (
            And(
                s.some("Member", lambda m: s.member(t.now, m)),
                s.all(
                    "Member",
                    lambda m: Implies(And(s.member(s.now, m), s.member(t.now, m)), s.classic(s.now, m)),
                ),
            )
            if "downgrades" in action.tags
            else True
        ),
    )
    add.step(
        "C14: offsets",
        "16.2",
        "offsets stay, but for commits and the deletion of the group",
        "Partition",
        lambda s, t, action, p: True if action.tags & {"stores", "deletes"} else Iff(s.stored(p), t.stored(p)),
    )


def consumer() -> Spec:
    """The newer protocol with its properties."""
    add = Properties(specification(), PAGE)
    for part in (
        one_owner,
        epochs,
        member_epochs,
        reconciliation,
        durability,
        statics,
        commits,
        fencing,
        serving,
        conversions,
        downgrades,
        ranking.convergence,
        ranking.progress,
        ranking.conversions,
        auxiliary.versions,
        auxiliary.members,
        auxiliary.holdings,
        auxiliary.clients,
        auxiliary.answers,
    ):
        part(add)
    return add.spec
