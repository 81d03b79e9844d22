"""The steps of a heartbeat and of a classic JoinGroup (docs/consumer-protocol.md §4.3): find the member, update it,
compute the target, reconcile.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.specs.consumer import group as c
from rota.specs.logic import And, If, Iff, Implies, Not, Or, Spec, Term

Body = Callable[..., None]
EMPTY = {"reported": lambda _: False, "reports": True, "joins": True}


# ---- 1, 2: find or create the member (§3.4, §9.1, §16.3, §18.2)


def consumer_group(s: Term) -> None:
    """There is a consumer group."""
    s.require(s.kind(s.now) == s.Consumer)


def create(s: Term, v: Term) -> None:
    """A join makes the group."""
    s.require(And(s.phase == s.Idle, s.kind(s.now) == s.Absent))
    d = c.begin(s)
    c.fresh_group(d)
    c.write(s, d, v)


def joins_new(s: Term, v: Term, m: Term) -> None:
    """A dynamic member that the group does not know."""
    newcomer(s, v, m, False)
    c.asks(s, m, **EMPTY)
    c.lets_go(s, m)


def newcomer(s: Term, v: Term, m: Term, speaks_classic: bool, *instances: Term) -> None:
    """The member is new to the group."""
    consumer_group(s)
    s.require(Not(s.member(s.now, m)), "the member is new")
    d = c.begin(s)
    c.admit(d, m, speaks_classic)
    for i in instances:
        s.require(c.unknown_instance(s, i), "no member has the instance")
        c.rename(d, m, i)
    c.write(s, d, v)


def joins_new_static(s: Term, v: Term, m: Term, i: Term) -> None:
    """A static member that the group does not know."""
    newcomer(s, v, m, False, i)
    c.asks(s, m, **EMPTY)
    c.lets_go(s, m)


def joins_again(s: Term, m: Term) -> None:
    """Epoch 0 of a known member, which gives no instance id."""
    s.require(And(c.is_here(s, m), Not(s.classic(s.now, m))))
    c.asks(s, m, **EMPTY)


def becomes_static(s: Term, v: Term, m: Term, i: Term) -> None:
    """Epoch 0 of a known member with an instance id that no member has."""
    s.require(c.is_here(s, m))
    s.require(c.unknown_instance(s, i), "no member has the instance")
    d = c.begin(s)
    c.rename(d, m, i)
    d.drop("classic", m)
    c.write(s, d, v)
    c.asks(s, m, **EMPTY)


def replaces(s: Term, v: Term, old: Term, new: Term, i: Term) -> None:
    """A static member that is away comes back under another member id (§9.2)."""
    s.require(And(c.is_here(s, old), c.is_static(s, old, i), old != new))
    s.require(s.epoch(s.now, old) == s.away, "the old member is away")
    replaced(s, v, old, new, i, False)
    c.asks(s, new, **EMPTY)
    c.lets_go(s, new)


def replaced(s: Term, v: Term, old: Term, new: Term, i: Term, speaks_classic: bool) -> None:
    """`new` is in the place of `old`."""
    d = c.begin(s)
    c.take_over(d, old, new, i, speaks_classic)
    c.write(s, d, v)


def returns(s: Term, v: Term, m: Term, i: Term) -> None:
    """A static member that is away comes back under its own member id."""
    s.require(And(c.is_here(s, m), c.is_static(s, m, i)))
    s.require(s.epoch(s.now, m) == s.away, "the old member is away")
    d = c.begin(s)
    old = d.copy()
    c.hold(d, m, lambda p: old.assigned(m, p), lambda p: old.pending(m, p), d.zero)
    c.write(s, d, v)
    c.asks(s, m, **EMPTY)


def replaces_classic(s: Term, v: Term, old: Term, new: Term, i: Term) -> None:
    """A consumer join with the instance id of a classic member, perhaps by that member itself (§16.3)."""
    s.require(And(c.is_here(s, old), c.is_static(s, old, i), s.classic(s.now, old)))
    replaced(s, v, old, new, i, False)
    c.asks(s, new, **EMPTY)
    c.lets_go(s, new)


def beats(s: Term, m: Term, r: Term, reported: Term, reports: Term) -> None:
    """A heartbeat with the member's epoch; an instance id in it is the member's."""
    s.require(And(c.is_here(s, m), Not(s.classic(s.now, m))), "a member")
    s.require(r == s.epoch(s.now, m), "the epoch is the member's")
    s.require(s.not_above(s.one, r))
    s.sent = r
    c.asks(s, m, reported, reports, False)


def beats_again(s: Term, m: Term, r: Term, reported: Term) -> None:
    """A heartbeat with the previous epoch: the answer with the newer one was lost (§5.3)."""
    s.require(And(c.is_here(s, m), Not(s.classic(s.now, m))), "a member")
    s.require(And(c.below(s, r, s.epoch(s.now, m)), s.not_above(s.one, r)))
    s.require(r == s.previous(s.now, m), "the previous epoch")
    s.require(s.all("Partition", lambda p: Implies(reported(p), s.assigned(s.now, m, p))), "nothing foreign")
    s.sent = r
    c.asks(s, m, reported, True, False)


def changes_over(s: Term, v: Term, m: Term, reported: Term, reports: Term, joins: Term) -> None:
    """A consumer heartbeat with the id of a classic member, epoch 0 or its generation (§16.3)."""
    s.require(And(c.is_here(s, m), s.classic(s.now, m)))
    s.require(Implies(joins, And(reports, s.all("Partition", lambda p: Not(reported(p))))))
    d = c.begin(s)
    d.drop("classic", m)
    c.write(s, d, v)
    c.asks(s, m, reported, reports, joins)


def classic_joins(s: Term, v: Term, m: Term, reported: Term) -> None:
    """JoinGroup of a member that the group does not know; it reports what its metadata says (§18.2)."""
    newcomer(s, v, m, True)
    c.asks(s, m, reported, True, False)
    c.lets_go(s, m)


def classic_joins_static(s: Term, v: Term, m: Term, i: Term, reported: Term) -> None:
    """JoinGroup with an instance id that no member has."""
    newcomer(s, v, m, True, i)
    c.asks(s, m, reported, True, False)
    c.lets_go(s, m)


def classic_rejoins(s: Term, m: Term, reported: Term) -> None:
    """JoinGroup of a classic member."""
    s.require(And(c.is_here(s, m), s.classic(s.now, m)))
    c.asks(s, m, reported, True, False)


def becomes_classic(s: Term, v: Term, m: Term, reported: Term) -> None:
    """JoinGroup with the id of a dynamic consumer member (§18.2)."""
    s.require(And(c.is_here(s, m), Not(s.classic(s.now, m))))
    s.require(s.all("Instance", lambda i: Not(s.instance(s.now, m, i))))
    d = c.begin(s)
    d.add("classic", m)
    c.write(s, d, v)
    c.asks(s, m, reported, True, False)


def classic_replaces(s: Term, v: Term, old: Term, new: Term, i: Term, reported: Term) -> None:
    """JoinGroup without a member id, with the instance id of a member: it is replaced without condition (§18.2)."""
    s.require(And(c.is_here(s, old), c.is_static(s, old, i), Not(s.member(s.now, new))))
    replaced(s, v, old, new, i, True)
    c.asks(s, new, reported, True, False)
    c.lets_go(s, new)


# ---- 3 to 6: what the assignment depends on (§5.2)


def nothing_new(s: Term) -> None:
    """Neither subscription nor metadata changed."""
    s.require(s.phase == s.Updating)
    s.phase = s.Targeting


def input_changes(s: Term, v: Term, x: Term, changed: Term) -> None:
    """A subscription, the preferred assignor or the metadata changed: the group epoch rises."""
    s.require(s.phase == s.Updating)
    d = c.begin(s)
    of_members(s, d, v)
    c.bump(d, x)
    c.write(s, d, v)
    s.phase, s.changed = s.Targeting, changed


def of_members(s: Term, d: Term, v: Term) -> None:
    """Subscriptions change."""
    c.open_up(s, d, v, "subscribed")
    s.require(s.all("Member Partition", lambda m, p: Implies(d.subscribed(m, p), d.member(m))))


def pattern_changes(s: Term, v: Term) -> None:
    """The member has another pattern, which is not resolved and matches nothing: the group epoch stays (§5.2)."""
    s.require(s.phase == s.Updating)
    d = c.begin(s)
    old, actor = d.copy(), s.actor
    of_members(s, d, v)
    s.require(s.all("Member Partition", lambda m, p: Or(m == actor, Iff(d.subscribed(m, p), old.subscribed(m, p)))))
    s.require(s.all("Partition", lambda p: Implies(d.subscribed(actor, p), old.subscribed(actor, p))))
    c.write(s, d, v)
    s.phase, s.changed = s.Targeting, True


# ---- 7: the target (§7)


def target_stays(s: Term) -> None:
    """There is nothing to compute, or the interval is not over."""
    s.require(s.phase == s.Targeting)
    s.phase = s.Reconciling


def target_computed(s: Term, v: Term) -> None:
    """The assignor gives each partition to one member, who is subscribed to it."""
    s.require(s.phase == s.Targeting)
    s.require(s.group_epoch(s.now) != s.target_epoch(s.now), "the group epoch is ahead")
    d = c.begin(s)
    c.open_up(s, d, v, "target")
    s.require(c.disjoint(d, "target"), "the plan is disjoint")
    s.require(s.all("Member Partition", lambda m, p: Implies(d.target(m, p), And(d.member(m), d.subscribed(m, p)))))
    d.target_epoch = d.group_epoch
    c.write(s, d, v)
    s.phase = s.Reconciling


# ---- 8 to 10: reconcile this member, and answer (§6)


def answers(s: Term, gives: Term, changed: Term) -> None:
    """The answer waits for what is in memory. It has the assignment if it is asked for, or changed (§4.2). That of a
    JoinGroup never has it.
    """
    m, now = s.actor, s.now
    speaks_classic = s.classic(now, m)
    s.require(Implies(gives, Not(speaks_classic)))
    s.require(Implies(And(Not(speaks_classic), Or(s.joins, changed)), gives), "news is given")
    s.put("waiting", lambda was, v, n: Or(was, And(v == now, n == m, gives)))
    s.add("waits", now, m)
    s.phase = s.Idle


def reconciles(s: Term) -> Term:
    """The draft, and what is cut and computed."""
    s.require(s.phase == s.Reconciling)
    return c.begin(s)


def acked(s: Term, d: Term) -> Term:
    """The member reports nothing of what it has to give up."""
    return c.acknowledged(s, lambda p: d.pending(s.actor, p))


def computes(s: Term, d: Term) -> Term:
    """The rows of 6.1 that compute."""
    m = s.actor
    return Or(
        And(d.state(m) == d.Stable, d.epoch(m) != d.target_epoch),
        And(d.state(m) == d.Unrevoked, acked(s, d)),
        d.state(m) == d.Unreleased,
    )


def nothing_to_cut(s: Term, d: Term) -> Term:
    """Every partition that the member may use is of a topic that it is subscribed to."""
    m = s.actor
    return d.all("Partition", lambda p: Implies(d.assigned(m, p), d.subscribed(m, p)))


def unchanged(s: Term, gives: Term) -> None:
    """The member stays as it is (§6.1)."""
    d = reconciles(s)
    s.require(Not(computes(s, d)), "nothing is to be computed")
    s.require(Implies(s.changed, nothing_to_cut(s, d)), "nothing is to be cut")
    answers(s, gives, False)


def cuts(s: Term) -> tuple[Term, Term, Term]:
    """The draft, what the member keeps, and what it has to give up (§6.2)."""
    d = reconciles(s)
    m, old = s.actor, d.copy()
    s.require(Not(computes(s, d)), "nothing is to be computed")
    s.require(s.changed)
    s.require(Not(nothing_to_cut(s, d)))
    return (
        d,
        lambda p: And(old.assigned(m, p), old.subscribed(m, p)),
        lambda p: Or(old.pending(m, p), And(old.assigned(m, p), Not(old.subscribed(m, p)))),
    )


def cut(s: Term, v: Term, gives: Term) -> None:
    """Partitions of topics that the member is no longer subscribed to have to be given up (§6.2)."""
    d, kept, revoked = cuts(s)
    m = s.actor
    s.require(Not(c.acknowledged(s, revoked)))
    c.hold(d, m, kept, revoked, d.epoch(m))
    d.put("state", lambda was, n: If(n == m, d.Unrevoked, was))
    c.write(s, d, v)
    answers(s, gives, True)


def cut_acknowledged(s: Term, v: Term, gives: Term) -> None:
    """The same, and the report lacks them already."""
    d, kept, revoked = cuts(s)
    m = s.actor
    s.require(c.acknowledged(s, revoked), "the report has nothing of it")
    c.hold(d, m, kept, lambda _: False, d.epoch(m))
    d.put("state", lambda was, n: If(n == m, d.Stable, was))
    c.write(s, d, v)
    answers(s, gives, True)


def compute(s: Term) -> tuple[Term, Term, Term]:
    """The draft, what the member keeps, and what it has to give up (§6.3)."""
    d = reconciles(s)
    s.require(computes(s, d), "something is to be computed")
    m, old = s.actor, d.copy()
    return (
        d,
        lambda p: And(old.assigned(m, p), c.wanted(old, m, p)),
        lambda p: And(old.assigned(m, p), Not(c.wanted(old, m, p))),
    )


def revoke(s: Term, v: Term, gives: Term) -> None:
    """Something has to be given up first (§6.3, line 1)."""
    d, kept, revoked = compute(s)
    m = s.actor
    s.require(s.some("Partition", revoked))
    s.require(Not(c.acknowledged(s, revoked)))
    c.hold(d, m, kept, revoked, d.epoch(m))
    d.put("state", lambda was, n: If(n == m, d.Unrevoked, was))
    c.write(s, d, v)
    answers(s, gives, True)


def settle(s: Term, v: Term, gives: Term, lacks: Term) -> None:
    """The member goes to the target epoch with what it keeps and what is free (§6.3, lines 2 to 4)."""
    d, kept, revoked = compute(s)
    m, old = s.actor, d.copy()
    nothing = s.all("Partition", lambda p: Not(revoked(p)))
    s.require(Or(nothing, c.acknowledged(s, revoked)), "the report has nothing of it")

    def free(p: Term) -> Term:
        """No other member has an entry in the map."""
        return Or(Not(old.mapped(p)), c.held(old, m, p))

    def granted(p: Term) -> Term:
        return And(c.wanted(old, m, p), Not(old.assigned(m, p)), free(p))

    s.require(Iff(lacks, s.some("Partition", lambda p: And(c.wanted(old, m, p), Not(free(p))))))
    c.hold(d, m, lambda p: Or(kept(p), granted(p)), lambda _: False, d.target_epoch)
    d.put("granted_at", lambda was, n, p: If(And(n == m, granted(p)), d.target_epoch, was))
    d.put("state", lambda was, n: If(n == m, If(lacks, d.Unreleased, d.Stable), was))
    c.write(s, d, v)
    news = s.some("Partition", lambda p: And(old.assigned(m, p), Not(d.assigned(m, p))))
    answers(s, gives, Or(news, s.some("Partition", granted)))


def requests(spec: Spec) -> None:
    """The actions of 4.3."""
    v, m = {"v": "Version"}, {"m": "Member"}
    i = {"i": "Instance"}
    swap = {"old": "Member", "new": "Member"}
    w = {"reported": "Partition?"}
    null = {"reports": "Bool"}
    act = spec.act
    act("join: create the group", create, "restarts", **v)
    act("join: new member", joins_new, "joins", **v, **m)
    act("join: new static member", joins_new_static, "joins", **v, **m, **i)
    act("join: known member", joins_again, "", **m)
    act("join: becomes static", becomes_static, "", **v, **m, **i)
    act("join: replaces", replaces, "takes returns", **v, **swap, **i)
    act("join: returns", returns, "takes returns", **v, **m, **i)
    act("join: replaces a classic member", replaces_classic, "takes returns", **v, **swap, **i)
    act("join: changes over", changes_over, "", **v, **m, **w, **null, joins="Bool")
    act("heartbeat", beats, "beats", **m, r="Epoch", **w, **null)
    act("heartbeat: previous epoch", beats_again, "beats", **m, r="Epoch", **w)
    act("classic join: new member", classic_joins, "joins", **v, **m, **w)
    act("classic join: new static member", classic_joins_static, "joins", **v, **m, **i, **w)
    act("classic join: known member", classic_rejoins, "", **m, **w)
    act("classic join: becomes classic", becomes_classic, "", **v, **m, **w)
    act("classic join: replaces", classic_replaces, "takes", **v, **swap, **i, **w)
    act("nothing changes", nothing_new)
    act("input changes", input_changes, "bumps", **v, x="Epoch", changed="Bool")
    act("pattern changes", pattern_changes, "", **v)
    act("target stays", target_stays)
    act("target computed", target_computed, "computes", **v)
    gives = {"gives": "Bool"}
    act("unchanged", unchanged, "reconciles", **gives)
    act("cut", cut, "reconciles", **v, **gives)
    act("cut, acknowledged", cut_acknowledged, "reconciles", **v, **gives)
    act("revoke", revoke, "reconciles", **v, **gives)
    act("settle", settle, "reconciles", **v, **gives, lacks="Bool")
