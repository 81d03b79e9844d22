"""From a classic group to a consumer group and back (docs/consumer-protocol.md §16, §17). What happens inside a classic
group is in `rota.specs.classic`; here a whole rebalance is one step.
"""

from __future__ import annotations

from rota.specs.consumer import group as c
from rota.specs.logic import And, If, Implies, Not, Or, Spec, Term


def classic_begins(s: Term, v: Term) -> None:
    """A classic JoinGroup makes a classic group, also of an Empty consumer group (§17.1)."""
    s.require(And(s.phase == s.Idle, s.kind(s.now) != s.Classic))
    d = c.begin(s)
    s.require(c.is_empty(d), "the group is empty")
    c.fresh_group(d)
    d.kind = d.Classic
    d.group_epoch = d.target_epoch = d.zero
    c.write(s, d, v)


def classic_rebalances(s: Term, v: Term, x: Term) -> None:
    """A rebalance of a classic group: other members, a later generation, a disjoint assignment of the leader, which is
    durable and answered to every member (S11, S26). A member that is no longer in it has given up everything.
    """
    s.require(And(s.phase == s.Idle, s.kind(s.now) == s.Classic, s.now == s.root))
    d = c.begin(s)
    c.open_up(s, d, v, "member", "assigned", "instance")
    c.bump(d, x)
    d.target_epoch = x
    d.classic = d.member
    d.clear("pending", "target", "subscribed", "mapped")
    for name in ("epoch", "previous"):
        setattr(d, name, lambda _: x)
    d.state = lambda _: d.Stable
    s.require(c.disjoint(d, "assigned"), "the leader's assignment is disjoint")
    s.require(s.all("Member Partition", lambda m, p: Implies(d.assigned(m, p), d.member(m))))
    s.require(s.all("Member Instance", lambda m, i: Implies(d.instance(m, i), d.member(m))))
    s.require(s.all("Member Member Instance", lambda m, n, i: Or(m == n, Not(d.instance(m, i)), Not(d.instance(n, i)))))
    s.require(
        s.all("Member Instance Instance", lambda m, i, j: Or(i == j, Not(d.instance(m, i)), Not(d.instance(m, j))))
    )
    c.write(s, d, v)
    s.root = v
    s.live = lambda u: u == v
    s.clear("waiting", "waits")
    s.told = lambda m, p: s.assigned(v, m, p)
    s.told_epoch = lambda m: If(s.member(v, m), x, s.away)
    s.add("answered", v)


def upgrades(s: Term, v: Term) -> None:
    """A consumer join converts a classic group, with members or between two rebalances; the join goes on from there
    (§16.2). One of generation 0, which has no members, is left out, and so is what members report that they are not
    assigned (departure D21).
    """
    s.require(And(s.phase == s.Idle, s.kind(s.now) == s.Classic, s.now == s.root))
    d = c.begin(s)
    old = d.copy()
    s.require(Or(Not(c.is_empty(d)), s.not_above(s.one, d.group_epoch)))
    d.kind = d.Consumer
    d.target_epoch = d.group_epoch
    d.classic = old.member
    for name in ("epoch", "previous"):
        setattr(d, name, lambda _: old.group_epoch)
    d.state = lambda _: d.Stable
    d.target = old.assigned
    d.granted_at = lambda *_: old.group_epoch
    d.clear("pending")
    d.mapped = lambda p: s.some("Member", lambda m: old.assigned(m, p))
    d.mapped_epoch = lambda _: old.group_epoch
    c.open_up(s, d, v, "subscribed")
    s.require(s.all("Member Partition", lambda m, p: Implies(d.subscribed(m, p), d.member(m))))
    c.write(s, d, v)


def empty_upgrades(s: Term, v: Term) -> None:
    """A consumer join meets an Empty classic group: a new consumer group; offsets stay (§16.2)."""
    s.require(And(s.phase == s.Idle, s.kind(s.now) == s.Classic))
    d = c.begin(s)
    s.require(c.is_empty(d), "the group is empty")
    c.fresh_group(d)
    c.write(s, d, v)


def becomes_classic(d: Term) -> None:
    """Generation G, each member's assignment what it held; that is its target if the group was Stable. A member of an
    older epoch is fenced: its next request gets ILLEGAL_GENERATION (§17.2).
    """
    old = d.copy()
    d.kind = d.Classic
    d.fenced = lambda m: And(old.member(m), old.epoch(m) != old.group_epoch)
    d.assigned = lambda m, p: c.held(old, m, p)
    d.clear("pending", "target", "subscribed", "mapped")
    d.target_epoch = d.group_epoch
    for name in ("epoch", "previous"):
        setattr(d, name, lambda _: old.group_epoch)
    d.state = lambda _: d.Stable
    d.classic = d.member


def downgrades(s: Term, v: Term, gone: Term) -> None:
    """Members are removed, and classic ones are left (§17.1); or none is, behind the JoinGroup that replaced
    the last consumer member. A group that was too large loses classic members only. A rebalance begins at once.
    """
    s.require(And(s.phase == s.Idle, s.kind(s.now) == s.Consumer))
    d = c.begin(s)
    s.require(s.all("Member", lambda m: Implies(gone(m), d.member(m))))
    s.require(
        s.all("Member", lambda m: Implies(And(d.member(m), Not(gone(m))), d.classic(m))), "the others are classic"
    )
    s.require(s.some("Member", lambda m: And(d.member(m), Not(gone(m)))), "a member is left")
    c.forget(d, gone)
    becomes_classic(d)
    c.write(s, d, v)


def downgrades_by_replacement(s: Term, v: Term, old: Term, new: Term, i: Term) -> None:
    """A static classic JoinGroup replaces the only consumer member. If the group is Stable then, the newcomer gets its
    part by SyncGroup; otherwise a rebalance begins at once (§17.2).
    """
    s.require(And(s.phase == s.Idle, c.is_here(s, old), c.is_static(s, old, i), Not(s.classic(s.now, old))))
    s.require(Not(s.member(s.now, new)), "the member is new")
    d = c.begin(s)
    s.require(s.all("Member", lambda m: Implies(And(d.member(m), m != old), d.classic(m))), "the others are classic")
    c.take_over(d, old, new, i, True)
    becomes_classic(d)
    d.put("fenced", lambda was, m: And(was, m != new))
    c.write(s, d, v)
    c.lets_go(s, new)


def classic_syncs(s: Term, m: Term) -> None:
    """SyncGroup in a classic group that is Stable."""
    s.require(And(s.phase == s.Idle, s.kind(s.now) == s.Classic, s.member(s.now, m), Not(s.fenced(s.now, m))))
    c.speaks(s, m)
    s.add("waiting", s.now, m)
    s.add("waits", s.now, m)


def conversions(spec: Spec) -> None:
    """The actions of this file."""
    v = {"v": "Version"}
    act = spec.act
    act("classic group begins", classic_begins, "restarts", **v)
    act("classic rebalance", classic_rebalances, "rebalances restarts", **v, x="Epoch")
    act("upgrade", upgrades, "upgrades", **v)
    act("upgrade: empty group", empty_upgrades, "restarts", **v)
    act("downgrade", downgrades, "downgrades", **v, gone="Member?")
    act(
        "downgrade: replacement",
        downgrades_by_replacement,
        "downgrades takes",
        **v,
        old="Member",
        new="Member",
        i="Instance",
    )
    act("classic sync", classic_syncs, "", m="Member")
