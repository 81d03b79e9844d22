"""Planted protocol bugs. A bug drops requirements by their labels, does something more, or adds an event; a good
specification notices every one of them. A survivor is a missing invariant. `mutants_small.py` has more: bugs that
only one invariant notices.
"""

from __future__ import annotations

from rota.specs import classic as c
from rota.specs.logic import And, If, Not, Or, State, Term
from rota.specs.planting import also, event, without

# ---- forgotten requirements

without(
    "generation stands still", "a join phase ends without a new generation", "rejoin: completes", "the generation grows"
)
without(
    "empty generation stands still",
    "a phase that ends without members has no new generation",
    "join timer: empties",
    "the generation grows",
)
without("absent leader", "a member that did not join leads", "join timer: completes", "the leader has joined")
without("heir is not a member", "leadership passes to an id that is not a member", "leave", "the heir is a member")
without("leaderless", "the leader leaves, without a check whether others remain", "leave|expire", "the last one left")
without(
    "undurable phase",
    "a join phase ends before the record of the group is durable",
    "initial timer: completes",
    "the group is durable",
)
without("impatient", "a join phase ends although a member is missing", "rejoin: completes", "all joined")
without(
    "barrier forgotten on leave", "a leave does not test whether all joined", "leave Preparing", "all joined was tested"
)
without(
    "barrier forgotten on expiry",
    "an expiry does not test whether all joined",
    "expire Preparing",
    "all joined was tested",
)
without(
    "barrier forgotten on refusal",
    "a refusal for room does not test whether all joined (Kafka 4.4)",
    "refuse for room",
    "all joined was tested",
)
without(
    "barrier forgotten for a pending id",
    "the end of a pending id does not test whether all joined",
    "pending expires Preparing",
    "all joined was tested",
)
without("any plan", "any member's SyncGroup is taken for the leader's", "sync of the leader", "only the leader's plan")
without("second plan", "the leader's retry is appended again (Kafka 4.4)", "sync of the leader", "the first bytes win")
without(
    "plan before durable",
    "members get their assignments before the log has them",
    "plan durable",
    "the log has decided",
    "the plan is durable",
)
without("failed plan", "a plan that failed is taken for durable", "plan durable", "the plan is durable")
without(
    "plan of a past round", "the end of an old plan makes the group Stable", "plan durable", "the round is not over"
)
without(
    "sync answered in any state", "SyncGroup is answered before Stable", "sync in Stable", "a member of a Stable group"
)
without(
    "sync timer stops early",
    "the sync timer stops while a member is still to sync",
    "sync parks",
    "no member is still to sync",
)
without(
    "undurable replacement",
    "a replacement is answered although its record failed",
    "replacement durable",
    "the record is durable",
)
without(
    "hasty replacement",
    "a replacement is answered before its append has ended",
    "replacement durable",
    "the log has decided",
    "the record is durable",
)
without(
    "two holders", "a second member takes an instance that a member has", "join later", "no member has the instance"
)
without(
    "reused member id", "a minted member id was used before", "join later", "an id that was handed out, or a new one"
)
without(
    "reused newcomer id",
    "a replacement gets an id that was used before",
    "replace Preparing|replace Stable",
    "ids are new",
)
without(
    "wrong predecessor",
    "a replacement removes a member that does not hold the instance",
    "replace Preparing",
    "the instance is held by the old member",
)
without("unknown id heartbeats", "a heartbeat of any id is answered NONE", "heartbeat", "a member")
without("unknown id commits", "a commit of any id is accepted", "commit", "a member")
without(
    "commit while the plan is made",
    "a commit is taken in CompletingRebalance",
    "commit",
    "no commit while the plan is made",
)
without(
    "old generation commits",
    "generation fencing is dropped: a commit of another generation is taken",
    "commit",
    "the generation is current",
)
without(
    "simple commit with members",
    "a commit without member id is taken although the group has members",
    "simple commit",
    "no members",
)
without(
    "commit told before durable",
    "a commit is acknowledged before the log has it",
    "commit durable",
    "the log has decided",
    "the commit is durable",
)
without("failed commit told", "a commit that failed is acknowledged", "commit durable", "the commit is durable")
without("commits overtake", "ends of appends do not wait for older ones", "commit durable", "ends count in order")
without("failed delete told", "a deletion that failed is acknowledged", "delete durable", "the tombstones are durable")
without(
    "log reorders",
    "the log takes appends in another order",
    "log takes a commit|log takes a group record",
    "the log keeps the order",
)
without(
    "epoch not checked",
    "the log takes appends of a fenced epoch",
    "log takes a group record",
    "the epoch is not fenced",
    "the log keeps the order",
)
without(
    "fenced while serving",
    "another node fences and loads while this one serves",
    "fence",
    "unloaded before it is fenced",
)
without("old epoch", "a fence does not raise the epoch", "fence", "epochs grow")
without("load without a fence", "a node loads without fencing the log", "load Stable", "the log was fenced before")
without(
    "fenced without a replacement",
    "FENCED_INSTANCE_ID is said to the member that holds the instance",
    "refuse: fenced",
    "another has the instance",
)
without(
    "heartbeat after the end",
    "a coordinator that does not serve answers heartbeats",
    "heartbeat",
    "the coordinator serves",
    "a member",
)
without(
    "stale record written again",
    "an old record is written again after a newer one",
    "emptied record written again",
    "no newer record",
)
without(
    "undone and not written again",
    "a replacement is undone, and a newer record that names the newcomer is left on its way (Kafka 4.4)",
    "replacement failed|replacement overdue",
    "no newer record names the newcomer",
)

without(
    "parked member expires",
    "a session ends although the member is parked",
    "expire Preparing|expire",
    "a parked member does not expire",
)
without(
    "live member unknown", "UNKNOWN_MEMBER_ID is said to a member, which starts anew", "refuse: unknown", "not a member"
)


# ---- things done too much or not at all


@also("stale members kept", "absent dynamic members stay when the join phase ends", "join timer: completes")
def _(b: State, s: State, *_: Term) -> None:
    s.member, s.to_sync, s.session = b.member, b.member, b.member
    s.gone = b.gone


@also("Empty with members", "the group becomes Empty although members are left", "join timer: rearms")
def _(_: State, s: State, *__: Term) -> None:
    s.st, s.t_join = s.Empty, False


@also("round without a leader", "leadership is forgotten when the join phase ends", "rejoin: completes")
def _(_: State, s: State, *__: Term) -> None:
    s.has_leader = False


@also("leader's assignment for all", "every member gets the leader's assignment", "sync in Stable")
def _(b: State, s: State, m: Term) -> None:
    old = b.told_asg
    s.told_asg = lambda g, n, x: Or(old(g, n, x), And(g == b.gen, n == m, x == b.asg(b.leader)))


@also("empty assignment after reload", "a reload forgets the assignments", "load Stable")
def _(_: State, s: State, *__: Term) -> None:
    s.asg = lambda _: s.nothing


@also("assignment lost at replacement", "a newcomer does not get its predecessor's assignment", "replace Stable")
def _(_: State, s: State, old: Term, new: Term, i: Term, a: Term) -> None:
    s.put("asg", lambda was, m: If(m == new, s.nothing, was))


@also("sync told another generation", "an answer carries the assignment under a later generation", "sync in Stable")
def _(b: State, s: State, m: Term) -> None:
    old = b.told_asg
    s.told_asg = lambda g, n, x: Or(old(g, n, x), And(n == m, x == b.asg(m)))


@also(
    "leader in Stable answered as leader",
    "the leader's unchanged join in Stable is answered at once, and a follower is named leader",
    "rejoin unchanged",
)
def _(b: State, s: State, m: Term) -> None:
    s.add("told_leader", b.gen, m)


@also("list for followers", "followers are given the member list", "rejoin unchanged")
def _(b: State, s: State, m: Term) -> None:
    s.add("told_list", b.gen, m)


@also(
    "joiner named as leader",
    "an answer names its receiver as the leader, without telling it to lead",
    "rejoin unchanged",
)
def _(b: State, s: State, m: Term) -> None:
    s.add("told_names", b.gen, m)


@also("protocol changes in a round", "an unchanged join is answered with another protocol", "rejoin unchanged")
def _(b: State, s: State, m: Term) -> None:
    s.put("told_proto", lambda old, g, p: Or(old, g == b.gen))


@also("list without absent members", "absent static members are left out of the leader's list", "join timer: completes")
def _(b: State, s: State, g: Term, heir: Term, p: Term) -> None:
    old, parked = b.listed, b.parked_join
    s.listed = lambda h, i: If(h == g, s.some("Member", lambda m: And(parked(m), s.of(m, i))), old(h, i))


@also("list with former members", "members that left are still in the leader's list", "rejoin: completes")
def _(b: State, s: State, m: Term, g: Term, heir: Term, p: Term) -> None:
    s.put("listed", lambda old, h, i: Or(old, h == g))


@also("instance not taken over", "a replacement leaves the old member in the instance map", "replace Preparing")
def _(b: State, s: State, *_: Term) -> None:
    s.holder = b.holder


@also("instance kept by a leaver", "a static member that leaves keeps its instance", "leave|expire")
def _(b: State, s: State, *_: Term) -> None:
    s.holder = b.holder


@also("replaced member stays", "the replaced member is not removed", "replace Preparing")
def _(b: State, s: State, old: Term, new: Term, i: Term) -> None:
    s.add("member", old)
    s.add("session", old)


@also(
    "replacement not reverted",
    "a failed replacement leaves the newcomer in place, and the old id fenced",
    "replacement failed",
)
def _(b: State, s: State, a: Term, old: Term, new: Term, i: Term) -> None:
    c.exchange(s, old, new, i)


@also("replaced id revived", "after a reload the replaced id is a member again", "load Stable")
def _(b: State, s: State, *_: Term) -> None:
    s.put("member", lambda old, m: Or(old, And(s.buried(m), s.static(m))))


@also("leaver may return", "who left in PreparingRebalance stays parked", "leave Preparing")
def _(b: State, s: State, *_: Term) -> None:
    s.parked_join = b.parked_join
    s.member = b.member


@also("pending becomes a member by expiring", "a pending id that expires is added", "pending expires")
def _(b: State, s: State, m: Term) -> None:
    s.add("pending", m)


@also("tombstones spare offsets", "the offsets of a deleted group stay in the log", "log takes tombstones")
def _(b: State, s: State, *_: Term) -> None:
    s.log_has = b.log_has


@also("tombstones spare the group", "the record of a deleted group stays in the log", "log takes tombstones")
def _(b: State, s: State, *_: Term) -> None:
    s.log_group = b.log_group


@also("offsets survive deletion", "a deleted group's offsets stay in memory", "delete durable")
def _(b: State, s: State, *_: Term) -> None:
    s.has_shown = b.has_shown


@also("deletion told at once", "a deletion is acknowledged when it is handed to the log", "delete")
def _(b: State, s: State, a: Term) -> None:
    s.add("told_deleted", a)


@also("commit told at once", "a commit is acknowledged when it is handed to the log", "commit")
def _(b: State, s: State, a: Term, *_: Term) -> None:
    s.add("told_commit", a)


@also("replacement told at once", "a replacement is answered when it is handed to the log", "replace Stable")
def _(b: State, s: State, old: Term, new: Term, i: Term, a: Term) -> None:
    s.add("told_replaced", a)


@also("group told at once", "a direct first join succeeds before the group is durable", "create group and join")
def _(b: State, s: State, a: Term, m: Term, i: Term) -> None:
    s.add("told_join", m)


@also("offset of another partition", "a fetch gives another partition's offset, or one in flight", "fetch")
def _(b: State, s: State, p: Term) -> None:
    s.put("told_offset", lambda old, q, a: Or(old, And(q == p, s.used(a))))


@also("older offset", "a fetch gives an older commit", "fetch")
def _(b: State, s: State, p: Term) -> None:
    s.put("told_offset", lambda old, q, a: Or(old, And(q == p, s.durable(a), s.part(a, p), s.kind(a) == s.Commit)))


@also("reload forgets offsets", "a reload does not bring the offsets back", "load Stable")
def _(b: State, s: State, *_: Term) -> None:
    s.clear("has_shown")


@also("reload forgets the generation", "a reload starts with generation 0", "load Stable")
def _(b: State, s: State, *_: Term) -> None:
    s.gen = s.zero


@also("reload starts in CompletingRebalance", "a reload does not make the group Stable", "load Stable")
def _(b: State, s: State, *_: Term) -> None:
    s.st = s.CompletingRebalance


@also("session not armed", "a completed join phase arms no session", "rejoin: completes")
def _(b: State, s: State, *_: Term) -> None:
    s.session = b.session


@also("session not armed after sync", "an answered SyncGroup arms no session", "plan durable")
def _(b: State, s: State, *_: Term) -> None:
    s.session = b.session


@also("loaded without sessions", "loading arms no sessions", "load Stable")
def _(b: State, s: State, *_: Term) -> None:
    s.clear("session")


@also("no sync timer", "no timer watches who is still to sync (Kafka before 3.0)", "rejoin: completes")
def _(b: State, s: State, *_: Term) -> None:
    s.t_sync = False


@also("no join timer", "a rebalance arms no join timer", "leave")
def _(b: State, s: State, *_: Term) -> None:
    s.t_join = False


@also("no deadline of a plan", "an append of a plan has no deadline", "sync of the leader")
def _(b: State, s: State, *_: Term) -> None:
    s.t_plan = False


@also("no deadline of a newcomer", "a newcomer waits for its record without a deadline", "replace Stable")
def _(b: State, s: State, *_: Term) -> None:
    s.t_record = b.t_record


@also("pending id without a timer", "a pending id is remembered for ever", "hand out an id")
def _(b: State, s: State, *_: Term) -> None:
    s.pending_timer = b.pending_timer


@also("parked sync without a timer", "the sync timer stops at the first SyncGroup", "sync parks")
def _(b: State, s: State, *_: Term) -> None:
    s.t_sync = False
    s.clear("to_sync")


@also("refusal refreshes", "a refused heartbeat refreshes the session", "refuse: generation")
def _(b: State, s: State, m: Term, *_: Term) -> None:
    s.add("session", m)


@also("refusal removes", "a refused member is removed", "refuse: generation")
def _(b: State, s: State, m: Term, *_: Term) -> None:
    s.drop("to_sync", m)


@also("straight to Stable", "a join phase ends Stable, as if everybody had synced", "rejoin: completes")
def _(b: State, s: State, *_: Term) -> None:
    s.st = s.Stable


@also("back to CompletingRebalance", "a leave in Stable goes back to the round", "leave")
def _(b: State, s: State, *_: Term) -> None:
    s.st, s.t_join = s.CompletingRebalance, False


@also("joined flag kept", "who joined an earlier round counts as joined", "rejoin: completes")
def _(b: State, s: State, *_: Term) -> None:
    s.joined = lambda m: And(b.joined(m), Not(s.member(m)))


@also("late commit acknowledged", "a commit that was answered at its deadline is answered again", "commit durable")
def _(b: State, s: State, a: Term, p: Term) -> None:
    s.add("told_commit", a)


@also("late deletion acknowledged", "a deletion that was answered at its deadline is answered again", "delete durable")
def _(b: State, s: State, a: Term) -> None:
    s.add("told_deleted", a)


@also("overtaken newcomer stays parked", "a rebalance leaves the newcomer of a replacement parked (Kafka 4.4)", "leave")
def _(b: State, s: State, *_: Term) -> None:
    s.put("parked_join", lambda old, m: Or(old, And(b.newcomer(m), s.member(m))))


@also(
    "dead id still to sync",
    "a replaced id keeps its place among those still to sync, and the newcomer has none (Kafka 4.4)",
    "replace Stable",
)
def _(b: State, s: State, *_: Term) -> None:
    s.to_sync = b.to_sync


@also("assignment lost at rejoin", "an unchanged join empties the member's assignment", "rejoin unchanged")
def _(b: State, s: State, m: Term) -> None:
    s.put("asg", lambda old, n: If(n == m, s.nothing, old))


@also("last joiner leads", "who joins last becomes the leader", "rejoin")
def _(b: State, s: State, m: Term) -> None:
    s.leader = m


@also("heartbeat stops pending timers", "a heartbeat stops the timers of pending ids", "heartbeat")
def _(b: State, s: State, m: Term) -> None:
    s.clear("pending_timer")


@also("commit stops the session", "a commit stops the session timer and does not arm it again", "commit")
def _(b: State, s: State, a: Term, m: Term) -> None:
    s.drop("session", m)


@also("failed deletion forgets offsets", "a deletion that failed empties the group in memory", "delete failed")
def _(b: State, s: State, a: Term) -> None:
    s.clear("has_shown")


# ---- events that should not be


@event("generation falls", "the generation is set back", g="Generation")
def _(s: State, g: Term) -> None:
    s.require(And(s.st == s.PreparingRebalance, c.before(s, g, s.gen)))
    s.gen = g


@event("leaver revived", "an expired member comes back by a late timer", m="Member")
def _(s: State, m: Term) -> None:
    s.require(And(s.st == s.PreparingRebalance, s.gone(m), Not(s.static(m)), s.has_leader, Not(s.pending(m))))
    for name in ("member", "session"):
        s.add(name, m)


@event("Empty to Stable", "a group becomes Stable without a round", m="Member")
def _(s: State, m: Term) -> None:
    s.require(And(s.st == s.CompletingRebalance, Not(s.planning)))
    s.st = s.Stable


@event("join Dead", "a Dead group takes a member", m="Member", i="Instance")
def _(s: State, m: Term, i: Term) -> None:
    s.require(And(s.st == s.Dead, s.serving, Not(s.has_leader)))
    c.add_member(s, m, i)
    s.st, s.t_initial, s.rooted, s.gen = s.PreparingRebalance, True, True, s.gen


@event(
    "answer after unload",
    "a parked member is answered with success after the unload",
    g="Generation",
    m="Member",
    x="Bytes",
)
def _(s: State, g: Term, m: Term, x: Term) -> None:
    s.require(And(Not(s.serving), s.told_asg(g, m, x), Not(s.replaced(m))))
    s.add("told_alive", m)


@event("replaced id answered", "a replaced member's heartbeat is answered NONE", m="Member")
def _(s: State, m: Term) -> None:
    s.require(And(s.serving, s.replaced(m)))
    s.add("told_alive", m)


@event(
    "commit of a stale record",
    "a commit that was appended before a deletion is appended again by its late end",
    p="Partition",
    a="Append",
)
def _(s: State, p: Term, a: Term) -> None:
    s.require(
        And(
            s.serving,
            s.past(a),
            s.part(a, p),
            s.kind(a) == s.Commit,
            s.durable(a),
            Not(s.unheard(a)),
            Not(s.log_has(p)),
        )
    )
    s.put("log_shown", lambda old, q: If(q == p, a, old))
    s.add("log_has", p)


@event("late replacement ignored", "a replacement that was undone is in the log after all, and is ignored", a="Append")
def _(s: State, a: Term) -> None:
    s.require(And(s.kind(a) == s.Replacement, s.durable(a), s.st == s.Stable, c.abandoned(s, a)))
    c.hear(s, a)


@event("reload elects another", "a reload makes another member the leader", tags="load", heir="Member", other="Member")
def _(s: State, heir: Term, other: Term) -> None:
    c.folded(s, heir, True)
    s.require(And(s.rec_member(s.newest, other), other != heir))
    s.leader = other


@event("leader syncs again in Stable", "the leader's SyncGroup in Stable is taken for a plan", m="Member", a="Append")
def _(s: State, m: Term, a: Term) -> None:
    s.require(And(s.st == s.Stable, s.leader == m, Not(s.owed)))
    s.fix("sent_by", a, lambda n: n == m)
    c.append_group(s, a, "Plan")


@event("group deleted with members", "DeleteGroups does not look whether there are members", a="Append")
def _(s: State, a: Term) -> None:
    s.require(And(s.st == s.Stable, Not(s.deleting)))
    c.append(s, a, "Tombstone")
    s.deleting = True


@event("sync timer removes all", "the sync timer removes those too that have synced")
def _(s: State) -> None:
    s.require(And(s.t_sync, s.some("Member", s.to_sync)))
    c.remove(s, lambda _: True, s.leader, False)
    c.begin_rebalance(s)
    s.t_join = True


@event("log loses a durable append", "an append that was acknowledged is not in the log any more", a="Append")
def _(s: State, a: Term) -> None:
    s.require(s.durable(a))
    s.drop("durable", a)
