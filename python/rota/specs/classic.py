"""The classic group protocol over any number of members, instances, generations, appends and partitions: what a
coordinator, its log and its clients' memories are, and the steps that events are made of. `events.py` has the
events. Written from docs/protocol.md.

One group of one coordinator partition. A dynamic member counts as an instance of its own, so "one replacement chain"
is "one instance". What a record says is rigid: an append that was never used may say anything, and using it requires
that it says what it must. Counting (capacity, "+1") and durations are left to other checks; who has a timer is here.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.specs.logic import And, If, Implies, Not, Or, Spec, Term

GROUP_RECORDS = ("Creation", "Plan", "Replacement", "Emptied", "Rewrite")

RIGID = """
    zero: -> Generation
    no_later: Generation Generation       # the order of generations
    first_epoch: -> Epoch
    not_above: Epoch Epoch                # the order of epochs
    not_after: Append Append              # the order of the log
    of: Member Instance                   # whose member id it is
    static: Member
    nothing: -> Bytes
    kind: Append -> Kind
    rec_epoch: Append -> Epoch            # of the coordinator that appended it
    rec_gen: Append -> Generation
    rec_proto: Append -> Protocol
    rec_member: Append Member
    rec_leader: Append Member
    rec_asg: Append Member -> Bytes
    sent_by: Append Member                # the leader whose plan it is, the member that commits
    sent_gen: Append -> Generation        # the generation a commit names
    simple: Append                        # a commit without member and generation
    part: Append Partition                # the partitions of a commit
"""

VARIABLES = """
    # the group in memory (docs/protocol.md §1)
    st: -> State
    gen: -> Generation
    has_leader:
    leader: -> Member
    has_proto:
    proto: -> Protocol
    member: Member
    holder: Instance Member
    pending: Member
    parked_join, parked_sync, to_sync, fresh: Member
    asg: Member -> Bytes
    # timers (docs/protocol.md §16.2): Session and NewMember, InitialDelay, Join, Sync, Append
    session: Member
    pending_timer: Member
    t_initial, t_join, t_sync, t_plan:
    t_record: Member                      # the newcomer of a replacement waits for its record until then
    # appends that the group waits for
    held:                                 # a completed join phase waits for the record of the new group
    rooted:                               # some record of the group is known to be durable
    creating:
    creation: -> Append
    planning:
    plan: -> Append
    newcomer, displaced: Member           # of a replacement that is being written
    replacing: Append Member Member       # whom the group falls back to, the newcomer
    fenced: Append Member                 # a newcomer that was replaced before its own record ended
    deleting:
    owed:                                 # the record of an Empty group is written again: it or its tombstone failed
    owed_gen: -> Generation
    unheard, late: Append                 # its end was not reported yet; its deadline has passed
    shown: Partition -> Append            # the newest commit that counts
    has_shown: Partition
    # the coordinator and its log
    serving:
    own_epoch, log_epoch: -> Epoch
    used, open, durable: Append
    newest: -> Append                     # the last group record
    last: -> Append                       # the one that was appended last
    log_group:                            # there is one, and no tombstone after it
    log_shown: Partition -> Append
    log_has: Partition
"""

GHOSTS = """
    minted: Member                        # ids that were ever handed out
    joined: Member                        # sent JoinGroup since the last rebalance began
    gone: Member                          # removed in this incarnation
    replaced: Member                      # replaced for good, in this incarnation or durably
    buried: Member                        # replaced durably, and the new id was answered
    past: Append                          # of an earlier life of the group
    source: Generation Append             # the durable plan of a generation
    sourced: Generation
    listed: Generation Instance           # the leader's member list
    told_leader: Generation Member        # "you lead"
    told_names: Generation Member         # "this one leads"
    told_list: Generation Member          # who was given the list
    told_proto: Generation Protocol
    told_asg: Generation Member Bytes
    told_join: Member                     # JoinGroup was answered with success
    told_alive: Member                    # heartbeat answered NONE
    told_commit, told_replaced, told_deleted: Append
    told_offset: Partition Append
    told_fenced, told_unknown: Member
"""

TOLD_IN_A_LIFE = ("source", "sourced", "listed", "told_asg")
TOLD_IN_AN_INCARNATION = ("told_leader", "told_names", "told_list", "told_proto", "told_join", "told_alive")


def order_of(less: str, sort: str) -> list[Callable[[Term], Term]]:
    """Axioms of a total order."""
    return [
        lambda s: s.all(sort, lambda a: getattr(s, less)(a, a)),
        lambda s: s.all(
            f"{sort} {sort}", lambda a, b: Implies(And(getattr(s, less)(a, b), getattr(s, less)(b, a)), a == b)
        ),
        lambda s: s.all(f"{sort} {sort}", lambda a, b: Or(getattr(s, less)(a, b), getattr(s, less)(b, a))),
        lambda s: s.all(
            f"{sort} {sort} {sort}",
            lambda a, b, c: Implies(And(getattr(s, less)(a, b), getattr(s, less)(b, c)), getattr(s, less)(a, c)),
        ),
    ]


AXIOMS = [
    *order_of("no_later", "Generation"),
    *order_of("not_above", "Epoch"),
    *order_of("not_after", "Append"),
    lambda s: s.all("Generation", lambda g: s.no_later(s.zero, g)),
    lambda s: s.all("Epoch", lambda e: s.not_above(s.first_epoch, e)),
    lambda s: s.all("Member Instance Instance", lambda m, i, j: Implies(And(s.of(m, i), s.of(m, j)), i == j)),
    # a dynamic member is the only one of its instance
    lambda s: s.all(
        "Member Member Instance",
        lambda m, n, i: Implies(And(s.of(m, i), s.of(n, i), Not(s.static(m))), m == n),
    ),
    lambda s: s.all(
        "Append Member Member", lambda a, m, n: Implies(And(s.rec_leader(a, m), s.rec_leader(a, n)), m == n)
    ),
]


# ---- words


def before(s: Term, a: Term, b: Term) -> Term:
    """The generation a is smaller than b."""
    return And(s.no_later(a, b), a != b)


def is_group_record(s: Term, a: Term) -> Term:
    """The append writes the group's record."""
    return And(s.kind(a) != s.Commit, s.kind(a) != s.Tombstone)


def abandoned(s: Term, a: Term) -> Term:
    """No replacement that may still fall waits for this append."""
    return And(
        s.all("Member Member", lambda m, n: Not(s.replacing(a, m, n))), s.all("Member", lambda m: Not(s.fenced(a, m)))
    )


def in_round(s: Term) -> Term:
    """The group has a generation that its members know."""
    return Or(s.st == s.CompletingRebalance, s.st == s.Stable)


def all_joined(s: Term) -> Term:
    """Every member has a parked join and no id is pending (docs/protocol.md §5.2)."""
    return And(
        s.all("Member", lambda m: Implies(s.member(m), s.parked_join(m))), s.all("Member", lambda m: Not(s.pending(m)))
    )


def someone_missing(s: Term) -> Term:
    """The negation of `all_joined`."""
    return s.some("Member", lambda m: Or(And(s.member(m), Not(s.parked_join(m))), s.pending(m)))


def nobody(s: Term) -> Term:
    """The group has no members."""
    return s.all("Member", lambda m: Not(s.member(m)))


# ---- appends


def append(s: Term, a: Term, kind: str) -> None:
    """Hand a record to the log: the last one so far, under the coordinator's epoch."""
    s.require(Not(s.used(a)))
    s.require(s.all("Append", lambda b: Implies(s.used(b), s.not_after(b, a))))
    s.fix("kind", a, getattr(s, kind))
    s.fix("rec_epoch", a, s.own_epoch)
    s.add("used", a)
    s.add("open", a)
    s.add("unheard", a)


def append_group(s: Term, a: Term, kind: str, proto: bool = True) -> None:
    """Append the group as it is in memory, with an assignment of its own if it is the leader's plan."""
    append(s, a, kind)
    s.last = a
    s.fix("rec_gen", a, s.gen)
    s.fix("rec_member", a, s.member)
    s.fix("rec_leader", a, lambda m: And(s.has_leader, m == s.leader))
    if proto:
        s.fix("rec_proto", a, s.proto)
    if kind in ("Replacement", "Rewrite"):
        s.fix("rec_asg", a, s.asg)


def hear(s: Term, a: Term) -> None:
    """The end of an append is reported: ends count in the order of the appends (docs/protocol.md §10.3)."""
    s.require(s.unheard(a))
    s.require(Not(s.open(a)), "the log has decided")
    s.require(s.all("Append", lambda b: Implies(s.unheard(b), s.not_after(a, b))), "ends count in order")
    s.drop("unheard", a)
    s.owed = And(s.owed, Not(And(s.durable(a), s.kind(a) != s.Commit)))


# ---- members


def mint(s: Term, m: Term) -> None:
    """A member id that no member has had."""
    s.require(Not(s.minted(m)), "ids are new")
    s.add("minted", m)


def remove(s: Term, leaving: Term, heir: Term, left: Term) -> None:
    """Remove the members of a set. `left` says whether any remain; if the leader left, `heir` leads (§5.6)."""
    gone = s.gone
    member, leader = s.member, s.leader
    s.gone = lambda m: Or(gone(m), And(member(m), leaving(m)))
    s.put("holder", lambda old, _, m: And(old, Not(leaving(m))))
    for name in ("member", "parked_join", "parked_sync", "to_sync", "fresh", "session", "newcomer", "t_record"):
        s.put(name, lambda old, m: And(old, Not(leaving(m))))
    s.leader = If(leaving(leader), heir, leader)
    s.require(Implies(left, s.member(s.leader)), "the heir is a member")
    s.require(Implies(Not(left), nobody(s)), "the last one left")
    s.has_leader = left


def add_member(s: Term, m: Term, i: Term) -> None:
    """Add a dynamic member, new or pending, or a static one whose instance no member has, and park its join (§4.7)."""
    s.require(s.of(m, i))
    s.require(Or(Not(s.minted(m)), And(s.pending(m), Not(s.static(m)))), "an id that was handed out, or a new one")
    s.require(Not(s.member(m)))
    s.require(s.all("Member", lambda n: Not(s.holder(i, n))), "no member has the instance")
    s.add("minted", m)
    for name in ("pending", "pending_timer"):
        s.drop(name, m)
    s.leader = If(s.has_leader, s.leader, m)
    s.has_leader = True
    for name in ("member", "fresh", "session"):
        s.add(name, m)
    s.put("holder", lambda old, j, n: Or(old, And(j == i, n == m, s.static(m))))
    s.put("asg", lambda old, n: If(n == m, s.nothing, old))
    park(s, m)


def park(s: Term, m: Term) -> None:
    """Withhold the answer of a JoinGroup."""
    s.add("parked_join", m)
    s.add("joined", m)


def swap(s: Term, old: Term, new: Term, i: Term) -> None:
    """A new member id takes the place of the one that has the instance (§9.3)."""
    s.require(s.holder(i, old), "the instance is held by the old member")
    s.require(And(s.of(new, i), s.static(new), s.static(old)))
    mint(s, new)
    exchange(s, old, new, i)
    for name in ("newcomer", "t_record", "fresh"):
        s.drop(name, old)


def exchange(s: Term, old: Term, new: Term, i: Term) -> None:
    """`new` has what `old` had: instance, leadership, assignment, its place among those still to sync, a session."""
    awaited, bytes_ = s.to_sync(old), s.asg(old)
    for name in ("member", "session"):
        s.drop(name, old)
        s.add(name, new)
    s.drop("holder", i, old)
    s.add("holder", i, new)
    for name in ("parked_join", "parked_sync", "to_sync"):
        s.drop(name, old)
    s.put("to_sync", lambda was, m: Or(was, And(m == new, awaited)))
    s.put("asg", lambda was, m: If(m == new, bytes_, was))
    s.leader = If(s.leader == old, new, s.leader)


# ---- the join phase (§5)


def begin_rebalance(s: Term) -> None:
    """From CompletingRebalance or Stable (§5.1). A replacement that is being written stands from now on (§9.3)."""
    s.require(in_round(s))
    completing = s.st == s.CompletingRebalance
    displaced, newcomer, parked = s.displaced, s.newcomer, s.parked_sync
    s.put("asg", lambda old, m: If(And(completing, s.member(m)), s.nothing, old))
    s.put("session", lambda old, m: Or(old, parked(m), newcomer(m)))
    s.put("parked_join", lambda old, m: And(old, Not(newcomer(m))))
    s.put("replaced", lambda old, m: Or(old, displaced(m)))
    s.put("gone", lambda old, m: Or(old, displaced(m)))
    s.clear("parked_sync", "to_sync", "t_sync", "planning", "t_plan", "joined")
    s.clear("newcomer", "displaced", "t_record", "replacing", "fenced")
    s.st = s.PreparingRebalance


def waits(s: Term) -> None:
    """A rebalance has begun and a member is missing: the join timer runs."""
    s.require(someone_missing(s))
    s.t_join = True


def goes_on(s: Term) -> None:
    """ "All joined" is false, or an initial delay runs, or the new group's record is in flight."""
    s.require(s.st == s.PreparingRebalance)
    s.require(Or(s.t_initial, s.held, someone_missing(s)), "all joined was tested")


def still_missing(s: Term) -> None:
    """The test after an expiry: an initial delay does not matter."""
    s.require(s.st == s.PreparingRebalance)
    s.require(Or(s.held, someone_missing(s)), "all joined was tested")


def by_all(s: Term) -> None:
    """The join phase ends because all joined: not in an initial delay, not before its end is allowed."""
    s.require(all_joined(s), "all joined")
    s.require(And(s.st == s.PreparingRebalance, Not(s.held)))


def end_of_phase(s: Term) -> None:
    """What every end of a join phase stops."""
    s.clear("t_initial", "t_join", "held", "fresh", "to_sync")


def completes(s: Term, g: Term, heir: Term, p: Term) -> None:
    """The join phase ends with members (§5.4)."""
    s.require(s.rooted, "the group is durable")
    s.require(before(s, s.gen, g), "the generation grows")
    s.require(s.parked_join(heir), "the leader has joined")
    s.require(Implies(s.parked_join(s.leader), heir == s.leader), "a leader that joined stays")
    parked = s.parked_join
    remove(s, lambda m: And(Not(parked(m)), Not(s.static(m))), heir, True)
    s.leader = heir
    s.gen, s.st, s.has_proto, s.proto = g, s.CompletingRebalance, True, p
    tell_round(s, heir)
    s.put("told_join", lambda old, m: Or(old, parked(m)))
    s.add("told_leader", g, heir)
    s.add("told_list", g, heir)
    s.put("listed", lambda old, h, i: If(h == g, s.some("Member", lambda m: And(s.member(m), s.of(m, i))), old))
    end_of_phase(s)
    s.to_sync = s.member
    s.put("session", lambda old, m: Or(old, s.member(m)))
    s.clear("parked_join")
    s.t_sync = True


def tell_round(s: Term, leader: Term) -> None:
    """A success answer of JoinGroup: generation, leader, protocol."""
    s.add("told_names", s.gen, leader)
    s.add("told_proto", s.gen, s.proto)


def empties(s: Term, g: Term, e: Term) -> None:
    """The join phase ends without members: a generation, and a record that no answer waits for (§5.4)."""
    s.require(s.rooted, "the group is durable")
    s.require(before(s, s.gen, g), "the generation grows")
    parked = s.parked_join
    remove(s, lambda m: And(Not(parked(m)), Not(s.static(m))), s.leader, False)
    s.gen, s.st, s.has_proto = g, s.Empty, False
    end_of_phase(s)
    write_emptied(s, e)


def write_emptied(s: Term, e: Term) -> None:
    """Append the record of a group without members."""
    s.require(Not(s.owed), "what is owed is written first")
    append_group(s, e, "Emptied", proto=False)


def rearms(s: Term, heir: Term) -> None:
    """Only absent static members are left when the timer fires: it runs again."""
    s.require(s.all("Member", lambda m: Not(s.parked_join(m))), "no member has joined")
    remove(s, lambda m: Not(s.static(m)), heir, True)
    s.clear("t_initial", "held")
    s.t_join = True


def holds(s: Term) -> None:
    """The join phase could end, but the record of the new group is not durable (§4.10)."""
    s.require(Not(s.rooted))
    s.clear("t_initial", "t_join")
    s.held = True


# ---- the group as a whole


def forget_group(s: Term) -> None:
    """The group is not in memory any more."""
    s.clear(
        "member",
        "holder",
        "pending",
        "pending_timer",
        "parked_join",
        "parked_sync",
        "to_sync",
        "fresh",
        "session",
        "has_leader",
        "has_proto",
        "joined",
        "newcomer",
        "displaced",
        "replacing",
        "fenced",
        "t_record",
        "t_initial",
        "t_join",
        "t_sync",
        "t_plan",
        "held",
        "rooted",
        "creating",
        "planning",
        "deleting",
    )
    s.st = s.Dead


def fresh_group(s: Term) -> None:
    """A group with nothing in it: Empty, generation 0."""
    s.require(s.st == s.Dead)
    s.require(s.serving, "the coordinator serves")
    s.st, s.gen = s.Empty, s.zero


def lose_memory(s: Term) -> None:
    """The coordinator ends: crash or unload. What clients know stays."""
    forget_group(s)
    s.clear("serving", "unheard", "late", "owed", "has_shown", "gone", *TOLD_IN_AN_INCARNATION)
    s.replaced = s.buried


def folded(s: Term, heir: Term, members: bool) -> None:
    """What loading makes of the log (§15.1): the last group record and the newest commits."""
    s.require(And(Not(s.serving), s.st == s.Dead))
    s.require(And(s.not_above(s.own_epoch, s.log_epoch), s.own_epoch != s.log_epoch), "the log was fenced before")
    s.serving, s.own_epoch, s.rooted = True, s.log_epoch, True
    s.shown, s.has_shown = s.log_shown, s.log_has
    newest = s.newest
    if members:
        s.require(And(s.log_group, s.rec_leader(newest, heir), s.rec_member(newest, heir)))
        s.st, s.gen, s.has_leader, s.leader, s.has_proto = s.Stable, s.rec_gen(newest), True, heir, True
        s.proto = s.rec_proto(newest)
        for name in ("member", "session", "joined"):
            setattr(s, name, lambda m: s.rec_member(newest, m))
        s.holder = lambda i, m: And(s.rec_member(newest, m), s.of(m, i), s.static(m))
        s.asg = lambda m: s.rec_asg(newest, m)


def init(s: Term) -> None:
    """A coordinator that serves an empty partition: no group, no records, no answers."""
    s.clear(*(name for name, symbol in s.spec.variables.items() if symbol.result == "Bool"))
    s.st, s.serving, s.gen = s.Dead, True, s.zero
    s.own_epoch = s.log_epoch = s.first_epoch


def vocabulary() -> Spec:
    """The sorts, in the one order that alternations follow, and the symbols."""
    spec = Spec("classic")
    spec.sorts = ["Partition", "Append", "Epoch", "Generation", "Instance", "Member", "Protocol", "Bytes"]
    spec.enums = {
        "State": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
        "Kind": (*GROUP_RECORDS, "Tombstone", "Commit"),
    }
    spec.symbols(True, RIGID)
    spec.symbols(False, VARIABLES + GHOSTS)
    spec.axioms = list(AXIOMS)
    spec.init = init
    return spec
