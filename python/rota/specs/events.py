"""The events of the classic protocol, one action each, at the granularity of the coordinator: requests, timers, ends of
appends, the log, crashes and handovers. An event that can end a join phase comes once for every outcome, as `leave`
and `leave: completes`. Written from docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.specs import classic as c
from rota.specs.logic import And, If, Implies, Not, Or, Spec, Term
from rota.specs.statics import replacement_ends
from rota.specs.storage import commits, deletion, incarnations, log, other_ends

Body = Callable[..., None]

# How an event that tests "all joined", or begins a rebalance, can end: more parameters, and what happens.
COMPLETES = {"g": "Generation", "heir2": "Member", "p": "Protocol"}
EMPTIES = {"g": "Generation", "e": "Append"}


def by_all_completes(s: Term, g: Term, heir2: Term, p: Term) -> None:
    """Everybody joined."""
    c.by_all(s)
    c.completes(s, g, heir2, p)


def by_all_empties(s: Term, g: Term, e: Term) -> None:
    """No member is left."""
    c.by_all(s)
    c.empties(s, g, e)


def by_all_holds(s: Term) -> None:
    """Everybody joined, but the new group's record is in flight."""
    c.by_all(s)
    c.holds(s)


def not_initial(ending: Body) -> Body:
    """The ending, which joins and leaves do not bring about during an initial delay."""

    def body(s: Term, *params: Term) -> None:
        s.require(Not(s.t_initial), "not during the initial delay")
        ending(s, *params)

    return body


Endings = dict[str, tuple[Body, dict[str, str]]]
ENDS: Endings = {
    "completes": (by_all_completes, COMPLETES),
    "empties": (by_all_empties, EMPTIES),
    "holds": (by_all_holds, {}),
}
# A join or leave finds a phase held back only in an initial delay, which it does not end ("L6: held" is proved).
TEST: Endings = {"": (c.goes_on, {})} | {
    word: (not_initial(ENDS[word][0]), ENDS[word][1]) for word in ("completes", "empties")
}
EXPIRY_TEST: Endings = {"": (c.still_missing, {}), **ENDS}
AFTER_BEGIN: Endings = {"": (c.waits, {}), "completes": ENDS["completes"], "empties": ENDS["empties"]}
JOINER_BEGINS: Endings = {word: AFTER_BEGIN[word] for word in ("", "completes")}
TIMER: Endings = {
    "completes": (c.completes, COMPLETES),
    "empties": (c.empties, EMPTIES),
    "holds": (c.holds, {}),
}
JOIN_TIMER: Endings = {word: TIMER[word] for word in ("completes", "empties")} | {
    "rearms": (c.rearms, {"heir": "Member"})
}


def with_endings(spec: Spec, name: str, body: Body, endings: Endings, says: str, tags: str = "", **params: str) -> None:
    """One action for each way in which the event ends; `body` may begin a rebalance."""
    count = len(params)
    for word, (ending, more) in endings.items():

        def whole(s: Term, *given: Term, ending: Body = ending) -> None:
            body(s, *given[:count])
            ending(s, *given[count:])

        full = f"{name}: {word}" if word else name
        spec.act(full, whole, tags, says=says + (f", and the join phase {word}" if word else ""), **params, **more)


def exists(s: Term) -> Term:
    """The group is in memory."""
    return And(s.st != s.Dead, s.serving)


# ---- JoinGroup (§4)


def create(s: Term, a: Term) -> None:
    """A JoinGroup with the empty id makes the group and appends its record (§4.10)."""
    c.fresh_group(s)
    s.creating, s.creation = True, a
    c.append_group(s, a, "Creation", proto=False)


def hand_out(s: Term, m: Term) -> None:
    """MEMBER_ID_REQUIRED (§4.6)."""
    s.require(exists(s))
    s.require(Not(s.static(m)))
    c.mint(s, m)
    s.add("pending", m)
    s.add("pending_timer", m)


def join_empty(s: Term, m: Term, i: Term) -> None:
    """The first member of a memberless group (§4.2, lines 7, 8, 10): the initial delay runs."""
    s.require(And(s.st == s.Empty, Not(s.deleting)))
    c.add_member(s, m, i)
    s.st, s.t_initial = s.PreparingRebalance, True
    s.put("joined", lambda _, n: n == m)


def join_more(s: Term, m: Term, i: Term) -> None:
    """A new member during a join phase."""
    s.require(s.st == s.PreparingRebalance)
    c.add_member(s, m, i)


def join_later(s: Term, m: Term, i: Term) -> None:
    """A new member begins a rebalance."""
    c.begin_rebalance(s)
    c.add_member(s, m, i)


def rejoin(s: Term, m: Term) -> None:
    """A member joins during a join phase; a second request of a parked one takes its place (§4.8)."""
    s.require(And(s.st == s.PreparingRebalance, s.member(m)))
    c.park(s, m)


def rejoin_begins(s: Term, m: Term) -> None:
    """A member with another list, or the leader in Stable (§4.2, lines 15, 17)."""
    s.require(s.member(m))
    c.begin_rebalance(s)
    c.park(s, m)


def rejoin_answered(s: Term, m: Term) -> None:
    """Nothing changed: answered at once (§4.2, lines 15, 16)."""
    s.require(And(c.in_round(s), s.member(m)))
    s.require(Implies(s.st == s.Stable, And(m != s.leader, Not(s.newcomer(m)))))
    leads = m == s.leader
    c.tell_round(s, s.leader)
    s.add("told_join", m)
    gen = s.gen
    for name in ("told_leader", "told_list"):
        s.put(name, lambda old, g, n: Or(old, And(g == gen, n == m, leads)))


def replace_joining(s: Term, old: Term, new: Term, i: Term) -> None:
    """A static replacement during a join phase (§9.3)."""
    s.require(s.st == s.PreparingRebalance)
    c.swap(s, old, new, i)
    for name in ("replaced", "gone"):
        s.add(name, old)
    c.park(s, new)


def replace_begins(s: Term, old: Term, new: Term, i: Term) -> None:
    """A static replacement in CompletingRebalance, or one in Stable that changes the vote (§9.3)."""
    c.swap(s, old, new, i)
    c.begin_rebalance(s)
    for name in ("replaced", "gone"):
        s.add(name, old)
    c.park(s, new)


def replace_stable(s: Term, old: Term, new: Term, i: Term, a: Term) -> None:
    """A static replacement in Stable: written, and the newcomer waits for it (§9.3)."""
    s.require(Not(s.newcomer(old)))
    write_replacement(s, old, old, new, i, a)


def replace_newcomer(s: Term, first: Term, old: Term, new: Term, i: Term, b: Term, a: Term) -> None:
    """The same of one whose own record `b` is on its way: the last one falls back to whom it would have (§9.3)."""
    s.require(s.replacing(b, first, old))
    s.drop("replacing", b, first, old)
    s.add("fenced", b, old)
    write_replacement(s, first, old, new, i, a)


def write_replacement(s: Term, first: Term, old: Term, new: Term, i: Term, a: Term) -> None:
    """`new` takes the place of `old`, and should that fail `first` is back."""
    s.require(s.st == s.Stable)
    c.swap(s, old, new, i)
    c.park(s, new)
    for name in ("newcomer", "t_record"):
        s.add(name, new)
    s.add("displaced", old)
    s.add("replacing", a, first, new)
    s.require(Not(s.owed), "what is owed is written first")
    c.append_group(s, a, "Replacement")


def refused_for_room(s: Term, m: Term, heir: Term, left: Term) -> None:
    """GROUP_MAX_SIZE_REACHED: the sender leaves the group, and "all joined" is tested (§4.4)."""
    s.require(And(s.st == s.PreparingRebalance, Or(And(s.member(m), Not(s.parked_join(m))), s.pending(m))))
    s.require(s.some("Member", s.parked_join))  # some member takes the room
    c.remove(s, lambda n: n == m, heir, left)
    for name in ("pending", "pending_timer"):
        s.drop(name, m)


def joins(spec: Spec) -> None:
    """The actions of JoinGroup."""
    add = {"m": "Member", "i": "Instance"}
    swap = {"old": "Member", "new": "Member", "i": "Instance"}
    act = spec.act

    def create_and_hand_out(s: Term, a: Term, m: Term) -> None:
        create(s, a)
        hand_out(s, m)

    def create_and_join(s: Term, a: Term, m: Term, i: Term) -> None:
        create(s, a)
        join_empty(s, m, i)

    act("create group and hand out an id", create_and_hand_out, says="the group is created", a="Append", m="Member")
    act("create group and refuse", create, a="Append")
    act("create group and join", create_and_join, says="the group is created by its first member", a="Append", **add)
    act("hand out an id", hand_out, m="Member")
    act("join Empty", join_empty, **add)
    with_endings(spec, "join Preparing", join_more, TEST_JOIN, "a new member joins", **add)
    with_endings(spec, "join later", join_later, {"": (c.waits, {})}, "a new member begins a rebalance", **add)
    with_endings(spec, "rejoin", rejoin, TEST_JOIN, "a member joins", m="Member")
    with_endings(spec, "rejoin changed", rejoin_begins, JOINER_BEGINS, "a member begins a rebalance", m="Member")
    act("rejoin unchanged", rejoin_answered, m="Member")
    with_endings(
        spec, "replace Preparing", replace_joining, TEST_JOIN, "a static member is replaced", "removes", **swap
    )
    with_endings(spec, "replace and rebalance", replace_begins, JOINER_BEGINS, "a static member is replaced", **swap)
    act("replace Stable", replace_stable, **swap, a="Append")
    act("replace Stable, a newcomer", replace_newcomer, first="Member", **swap, b="Append", a="Append")
    room = {"m": "Member", "heir": "Member", "left": "Bool"}
    with_endings(
        spec, "refuse for room", refused_for_room, TEST_JOIN, "a member is refused and removed", "removes", **room
    )


TEST_JOIN: Endings = {word: TEST[word] for word in ("", "completes")}


# ---- the timers of the join phase


def timers(spec: Spec) -> None:
    """Join and initial timer (§5.3, §5.4)."""

    def join_timer(s: Term) -> None:
        s.require(s.t_join, "the join timer ran")

    def initial_timer(s: Term) -> None:
        s.require(s.t_initial)

    with_endings(spec, "join timer", join_timer, JOIN_TIMER, "the join timer fires", "timer expires")
    with_endings(spec, "initial timer", initial_timer, TIMER, "the initial delay is over", "timer expires")
    spec.act("initial timer again", initial_timer, says="the initial delay is extended")


def creation_overdue_again(s: Term, a: Term) -> None:
    """The record of a group that the log has something of already takes too long: the group stays."""
    s.require(And(s.creating, s.creation == a, s.unheard(a), Not(s.late(a)), s.rooted, Not(s.held)))
    s.add("late", a)
    s.creating = False


def creation_ends(spec: Spec) -> None:
    """The record of a new group (§4.10)."""

    def heard(s: Term, a: Term) -> None:
        s.require(And(s.creating, s.creation == a))
        c.hear(s, a)
        s.creating = False

    def kept(s: Term, a: Term) -> None:
        heard(s, a)
        s.require(Or(s.durable(a), s.rooted), "the record is durable")
        s.rooted = True

    def plain(s: Term, a: Term) -> None:
        kept(s, a)
        s.require(Not(s.held))

    def held(s: Term, a: Term) -> None:
        kept(s, a)
        s.require(s.held, "a join phase was held back")

    def undone(s: Term) -> None:
        s.require(Not(s.rooted))
        member, pending = s.member, s.pending
        s.put("gone", lambda old, m: Or(old, member(m), pending(m)))
        c.forget_group(s)

    def failed(s: Term, a: Term) -> None:
        heard(s, a)
        s.require(Not(s.durable(a)))
        undone(s)

    def overdue(s: Term, a: Term) -> None:
        s.require(And(s.creating, s.creation == a, s.unheard(a), Not(s.late(a))))
        s.add("late", a)
        undone(s)

    def late(s: Term, a: Term, held: bool = False) -> None:
        s.require(And(s.kind(a) == s.Creation, s.late(a), s.durable(a), s.held if held else Not(s.held)))
        c.hear(s, a)
        absent = s.st == s.Dead
        s.gen, s.st, s.rooted = If(absent, s.zero, s.gen), If(absent, s.Empty, s.st), True

    ends = {word: TIMER[word] for word in ("completes", "empties")}
    spec.act("creation durable", plain, a="Append")
    with_endings(
        spec,
        "creation durable, held phase ends",
        held,
        ends,
        "the record of the new group is durable",
        "timer",
        a="Append",
    )
    spec.act("creation failed", failed, a="Append")
    spec.act("creation overdue", overdue, a="Append")
    spec.act("creation overdue, the group stays", creation_overdue_again, a="Append")
    spec.act("creation durable late", late, a="Append")
    with_endings(
        spec,
        "creation durable late, held phase ends",
        lambda s, a: late(s, a, held=True),
        ends,
        "an older record of the group is durable",
        "timer",
        a="Append",
    )


# ---- SyncGroup (§6)


def sync_parks(s: Term, m: Term, last: Term) -> None:
    """Park a SyncGroup; `last`: no member is still to sync, and the sync timer stops (§6.2)."""
    s.require(And(s.st == s.CompletingRebalance, s.member(m)))
    s.add("parked_sync", m)
    s.drop("to_sync", m)
    s.require(Implies(last, s.all("Member", lambda n: Not(s.to_sync(n)))), "no member is still to sync")
    s.t_sync = And(s.t_sync, Not(last))


def sync_follower(s: Term, m: Term, last: Term) -> None:
    """A follower, or the leader again while its plan is being written (§6.3)."""
    s.require(Or(m != s.leader, s.planning), "the leader's plan is being written")
    sync_parks(s, m, last)


def sync_leader(s: Term, m: Term, last: Term, a: Term) -> None:
    """The leader's plan is appended (§6.3)."""
    s.require(m == s.leader, "only the leader's plan")
    s.require(Not(s.planning), "the first bytes win")
    sync_parks(s, m, last)
    s.planning, s.plan, s.t_plan = True, a, True
    s.fix("sent_by", a, lambda n: n == m)
    s.require(Not(s.owed), "what is owed is written first")
    c.append_group(s, a, "Plan")


def sync_stable(s: Term, m: Term) -> None:
    """The stored assignment, at once."""
    s.require(And(s.st == s.Stable, s.member(m)), "a member of a Stable group")
    s.add("told_asg", s.gen, m, s.asg(m))
    s.require(Or(Not(s.t_sync), s.some("Member", lambda n: And(s.to_sync(n), n != m))))
    s.drop("to_sync", m)


def sync_stable_last(s: Term, m: Term) -> None:
    """The same by the last that was still to sync: the sync timer stops (§6.5)."""
    s.require(And(s.st == s.Stable, s.member(m)), "a member of a Stable group")
    s.require(And(s.t_sync, s.all("Member", lambda n: Implies(s.to_sync(n), n == m))))
    s.add("told_asg", s.gen, m, s.asg(m))
    s.drop("to_sync", m)
    s.t_sync = False


def plan_ends(spec: Spec) -> None:
    """The end of the leader's append (§6.4)."""

    def relevant(s: Term, a: Term) -> None:
        s.require(And(s.planning, s.plan == a, s.st == s.CompletingRebalance), "the round is not over")

    def durable(s: Term, a: Term) -> None:
        relevant(s, a)
        c.hear(s, a)
        s.require(s.durable(a), "the plan is durable")
        parked, gen = s.parked_sync, s.gen
        s.put("asg", lambda _, m: s.rec_asg(a, m))
        asg = s.asg
        s.put("told_asg", lambda old, g, m, x: Or(old, And(g == gen, parked(m), x == asg(m))))
        s.put("session", lambda old, m: Or(old, parked(m)))
        s.clear("parked_sync", "planning", "t_plan")
        s.st = s.Stable

    def fails(s: Term) -> None:
        c.begin_rebalance(s)
        c.waits(s)

    def failed(s: Term, a: Term) -> None:
        relevant(s, a)
        c.hear(s, a)
        s.require(Not(s.durable(a)))
        fails(s)

    def overdue(s: Term, a: Term) -> None:
        relevant(s, a)
        s.require(s.unheard(a))
        s.add("late", a)
        fails(s)

    spec.act("plan durable", durable, a="Append")
    spec.act("plan failed", failed, a="Append")
    spec.act("plan overdue", overdue, a="Append")


def sync_timer(s: Term, heir: Term, left: Term) -> None:
    """Everybody still to sync is removed, and a rebalance begins (§6.5)."""
    s.require(s.t_sync)
    missing = s.to_sync
    s.require(s.some("Member", missing))
    c.remove(s, missing, heir, left)
    c.begin_rebalance(s)


# ---- heartbeats, leaves, expiries (§7, §8)


def heartbeat(s: Term, m: Term) -> None:
    """NONE or REBALANCE_IN_PROGRESS, and the session is refreshed."""
    s.require(s.serving, "the coordinator serves")
    s.require(And(s.st != s.Empty, s.member(m)), "a member")
    s.add("session", m)
    s.add("told_alive", m)


def leave(s: Term, leaving: Term, heir: Term, left: Term) -> None:
    """A batch of members and pending ids leaves (§8)."""
    s.require(s.all("Member", lambda m: Implies(leaving(m), Or(s.member(m), s.pending(m)))))
    s.require(s.some("Member", leaving))
    c.remove(s, leaving, heir, left)
    for name in ("pending", "pending_timer"):
        s.put(name, lambda old, m: And(old, Not(leaving(m))))


def leave_preparing(s: Term, leaving: Term, heir: Term, left: Term) -> None:
    """In PreparingRebalance "all joined" is tested once."""
    s.require(s.st == s.PreparingRebalance)
    leave(s, leaving, heir, left)


def leave_round(s: Term, leaving: Term, heir: Term, left: Term) -> None:
    """In CompletingRebalance and Stable a rebalance begins."""
    leave(s, leaving, heir, left)
    c.begin_rebalance(s)


def leave_empty(s: Term, leaving: Term) -> None:
    """Pending ids leave an Empty group."""
    s.require(s.st == s.Empty)
    leave(s, leaving, s.leader, False)


def expire(s: Term, m: Term, heir: Term, left: Term) -> None:
    """A session ends, or a new member's first join takes too long (§7.3)."""
    s.require(And(s.member(m), s.session(m)))
    s.require(Or(s.fresh(m), And(Not(s.parked_join(m)), Not(s.parked_sync(m)))), "a parked member does not expire")
    c.remove(s, lambda n: n == m, heir, left)


def expire_preparing(s: Term, m: Term, heir: Term, left: Term) -> None:
    """In PreparingRebalance "all joined" is tested, in an initial delay too."""
    s.require(s.st == s.PreparingRebalance)
    expire(s, m, heir, left)


def expire_round(s: Term, m: Term, heir: Term, left: Term) -> None:
    """In CompletingRebalance and Stable a rebalance begins."""
    expire(s, m, heir, left)
    c.begin_rebalance(s)


def session_of_parked(s: Term, m: Term) -> None:
    """The timer of a parked member fires and is not armed again."""
    s.require(And(s.member(m), s.session(m), Not(s.fresh(m)), Or(s.parked_join(m), s.parked_sync(m))))
    s.drop("session", m)


def forget_pending(s: Term, m: Term) -> None:
    """The timer of a pending id fires."""
    s.require(And(s.pending(m), s.pending_timer(m)))
    s.drop("pending", m)
    s.drop("pending_timer", m)
    s.add("gone", m)


def pending_preparing(s: Term, m: Term) -> None:
    """In PreparingRebalance "all joined" is tested, in an initial delay too."""
    s.require(s.st == s.PreparingRebalance)
    forget_pending(s, m)


def pending_elsewhere(s: Term, m: Term) -> None:
    """In other states nothing else happens."""
    s.require(s.st != s.PreparingRebalance)
    forget_pending(s, m)


def members(spec: Spec) -> None:
    """The actions of SyncGroup, Heartbeat, LeaveGroup and of sessions."""
    spec.act("sync parks", sync_follower, m="Member", last="Bool")
    spec.act("sync of the leader", sync_leader, m="Member", last="Bool", a="Append")
    spec.act("sync in Stable", sync_stable, m="Member")
    spec.act("sync in Stable, the last", sync_stable_last, m="Member")
    some = {"heir": "Member", "left": "Bool"}
    begun = {word: AFTER_BEGIN[word] for word in ("", "empties")}
    with_endings(spec, "sync timer", sync_timer, begun, "the sync timer fires", "removes expires", **some)
    spec.act("heartbeat", heartbeat, m="Member")
    many = {"leaving": "Member?", **some}
    with_endings(spec, "leave Preparing", leave_preparing, TEST, "members leave", "removes", **many)
    with_endings(spec, "leave", leave_round, begun, "members leave", "removes", **many)
    spec.act("leave Empty", leave_empty, leaving="Member?")
    one = {"m": "Member", **some}
    with_endings(spec, "expire Preparing", expire_preparing, EXPIRY_TEST, "a member expires", "removes expires", **one)
    with_endings(spec, "expire", expire_round, begun, "a member expires", "removes expires", **one)
    spec.act("session of a parked member", session_of_parked, m="Member")
    with_endings(spec, "pending expires Preparing", pending_preparing, EXPIRY_TEST, "a pending id expires", m="Member")
    spec.act("pending expires", pending_elsewhere, m="Member")


# ---- refusals: they change nothing but what the sender knows


def refusals(spec: Spec) -> None:
    """Wrong generation, unknown, replaced identity, a rebalance in progress."""

    def fenced(s: Term, m: Term, i: Term) -> None:
        s.require(s.serving, "the coordinator serves")
        s.require(And(s.of(m, i), s.some("Member", lambda n: And(s.holder(i, n), n != m))), "another has the instance")
        s.add("told_fenced", m)

    def unknown(s: Term, m: Term) -> None:
        s.require(s.serving, "the coordinator serves")
        s.require(Not(s.member(m)), "not a member")
        s.add("told_unknown", m)

    def generation(s: Term, m: Term, g: Term) -> None:
        s.require(And(s.member(m), g != s.gen))

    def rebalancing(s: Term, m: Term) -> None:
        s.require(And(s.member(m), s.st == s.PreparingRebalance))

    def not_served(s: Term) -> None:
        s.require(Not(s.serving))

    spec.act("refuse: fenced", fenced, tags="refusal", m="Member", i="Instance")
    spec.act("refuse: unknown", unknown, tags="refusal", m="Member")
    spec.act("refuse: generation", generation, tags="refusal", m="Member", g="Generation")
    spec.act("refuse: sync or commit while rebalancing", rebalancing, tags="refusal", m="Member")
    spec.act("refuse: not the coordinator", not_served, tags="refusal")


def specification() -> Spec:
    """The protocol without its properties."""
    spec = c.vocabulary()
    for part in (
        joins,
        timers,
        creation_ends,
        members,
        plan_ends,
        replacement_ends,
        refusals,
        commits,
        deletion,
        other_ends,
        log,
        incarnations,
    ):
        part(spec)
    return spec
