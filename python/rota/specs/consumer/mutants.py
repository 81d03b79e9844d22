"""Planted bugs of the newer protocol. A bug drops requirements by their labels, changes the version that an action
makes, does something more, or is an event of its own. Every one of them is found.
"""

from __future__ import annotations

from rota.specs.consumer import group as c
from rota.specs.consumer import requests
from rota.specs.logic import And, If, Not, Or, State, Term
from rota.specs.planting import Bugs

BUGS = Bugs()
without, also, event = BUGS.without, BUGS.also, BUGS.event

# ---- forgotten requirements

without("epoch not compared", "a heartbeat is served with any epoch", "heartbeat", "the epoch is the member's")
without("removed member's heartbeat", "a heartbeat of a removed member is served", "heartbeat", "a member")
without(
    "any older epoch", "a heartbeat is served with any older epoch", "heartbeat: previous epoch", "the previous epoch"
)
without(
    "foreign partitions",
    "a heartbeat with the previous epoch may report partitions that the member is not assigned",
    "heartbeat: previous epoch",
    "nothing foreign",
)
without(
    "live instance replaced",
    "a join replaces a static member that is not away",
    "join: replaces",
    "the old member is away",
)
without(
    "instance taken twice",
    "a join with an instance id that another member has makes a new member",
    "join: new static member|join: becomes static|classic join: new static member",
    "no member has the instance",
)
without("known member anew", "a join of a known member makes a new one", "join: new member", "the member is new")
without(
    "group epoch stands still",
    "a changed subscription does not raise the group epoch",
    "input changes",
    "the group epoch rises",
)
without("removal without a bump", "a removal does not raise the group epoch", "remove|leave", "the group epoch rises")
without("overlapping plan", "the assignor gives a partition to two members", "target computed", "the plan is disjoint")
without(
    "target computed twice",
    "the target is computed again for the same group epoch",
    "target computed",
    "the group epoch is ahead",
)
without(
    "revocation not awaited",
    "a member goes to the target epoch although its report has what it has to give up",
    "settle",
    "the report has nothing of it",
)
without(
    "cut not awaited",
    "a topic that is no longer subscribed is given up although the report has it",
    "cut, acknowledged",
    "the report has nothing of it",
)
without(
    "pending not awaited",
    "a member in UNREVOKED_PARTITIONS is computed before it has acknowledged",
    "settle|revoke",
    "something is to be computed",
)
without(
    "member stays behind", "a member is left as it is although it has to move", "unchanged", "nothing is to be computed"
)
without("cut forgotten", "partitions of dropped topics stay assigned", "unchanged", "nothing is to be cut")
without("lost news", "a changed assignment is left out of the answer", "settle", "news is given")
without("away without an instance", "a classic member, or an unknown id, goes away with -2", "away", "a static member")
without(
    "last one unnoticed", "the last member goes, and the target epoch stays behind", "leave|remove", "a member is left"
)
without("deleted with members", "a group with members is deleted", "delete", "the group is empty")
without(
    "classic begins too early",
    "a consumer group with members becomes a new classic one",
    "classic group begins",
    "the group is empty",
)
without(
    "old generation syncs",
    "SyncGroup is served in an older generation, or to a consumer member",
    "sync",
    "a classic member in its generation",
)
without("commit of any epoch", "a commit is stored whatever its epoch is", "commit", "the epoch is the member's")
without("commit of a removed member", "a commit is stored for a removed member", "commit", "a member")
without(
    "older commit of a classic member",
    "a classic member may commit with an older generation",
    "commit: older epoch",
    "not a classic member",
)
without("newer commit", "a commit with a newer epoch is stored", "commit: older epoch", "an older epoch")
without(
    "older commit for any partition",
    "a commit with an older epoch is stored for partitions of other members (Kafka before 4.3 refuses all)",
    "commit: older epoch",
    "the member holds every partition",
)
without(
    "assignment epoch ignored",
    "a commit with an older epoch is stored for a partition that was granted later",
    "commit: older epoch",
    "it held it then",
)
without(
    "commit without a member",
    "a commit without member id is stored although there are members",
    "commit: no member",
    "the group is empty",
)
without("known member refused", "UNKNOWN_MEMBER_ID is said to a member", "refuse: unknown", "the member is unknown")
without("right epoch fenced", "FENCED_MEMBER_EPOCH refuses the member's epoch", "refuse: epoch", "another epoch")
without(
    "holder fenced",
    "FENCED_INSTANCE_ID is said to the member that has the instance",
    "refuse: instance",
    "the instance has another member",
)
without(
    "away is in use",
    "UNRELEASED_INSTANCE_ID refuses an instance whose member is away",
    "refuse: unreleased",
    "it is in use",
)
without("right commit refused", "STALE_MEMBER_EPOCH refuses the member's epoch", "refuse: commit", "another epoch")
without("told before durable", "an answer goes out before its version is durable", "answer", "the version is durable")
without("log takes a later version", "the log takes a later version first", "log takes a version", "in order")
without(
    "log makes things up", "the log takes what was not written", "log takes a version", "the log takes what is written"
)
without(
    "back to anything",
    "a refused write takes the group back to a version that is not live",
    "log refuses",
    "a live version",
)
without(
    "consumer member left",
    "a downgrade leaves members of the newer protocol",
    "downgrade|downgrade: replacement",
    "the others are classic",
)
without(
    "downgrade of an empty group", "the last member's removal makes a classic group", "downgrade", "a member is left"
)
without(
    "overlapping classic plan",
    "a classic leader gives a partition to two members",
    "classic rebalance",
    "the leader's assignment is disjoint",
)


# ---- versions that say something else


def of_actor(s: State, n: Term) -> Term:
    """The member of the request."""
    return n == s.actor


@also("grants what is busy", "a partition is granted although another member holds it", "settle", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    wanted = d.copy()
    d.put("assigned", lambda was, n, p: Or(was, And(of_actor(s, n), c.wanted(wanted, n, p))))


@also("steals", "a partition is taken from a member whose target lacks it", "settle", drafted=True)
def _(s: State, d: State, v: Term, gives: Term, lacks: Term) -> None:
    s.require(gives)
    was = d.copy()

    def stolen(p: Term) -> Term:
        return And(
            c.wanted(was, s.actor, p),
            s.all(
                "Member",
                lambda n: Or(of_actor(s, n), Not(c.held(was, n, p)), And(was.assigned(n, p), Not(was.target(n, p)))),
            ),
            s.some("Member", lambda n: And(Not(of_actor(s, n)), was.assigned(n, p))),
        )

    d.assigned = lambda n, p: If(
        of_actor(s, n), Or(was.assigned(n, p), stolen(p)), And(was.assigned(n, p), Not(stolen(p)))
    )


@also(
    "grants while revoking",
    "a free partition is granted to a member that has something to give up",
    "revoke",
    drafted=True,
)
def _(s: State, d: State, *_: Term) -> None:
    was = d.copy()
    d.put("assigned", lambda old, n, p: Or(old, And(of_actor(s, n), c.wanted(was, n, p), Not(was.mapped(p)))))


@also("pending forgotten", "a new target forgets what is pending revocation", "target computed", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    d.put("pending", lambda old, n, _: And(old, Not(of_actor(s, n))))


@also("revokes what stays", "a revocation takes partitions of the target, too", "revoke", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    was = d.copy()
    d.put("assigned", lambda old, n, _: And(old, Not(of_actor(s, n))))
    d.put("pending", lambda old, n, p: Or(old, And(of_actor(s, n), was.assigned(n, p))))


@also("free partition left", "a member that leaves STABLE is not granted what is free", "settle", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    now = s.now
    d.put(
        "assigned",
        lambda old, n, p: And(old, Or(Not(of_actor(s, n)), s.state(now, n) == s.Unreleased, s.assigned(now, n, p))),
    )


@also("epoch stays", "a member that has settled stays at its epoch", "settle", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    now = s.now
    d.put("epoch", lambda old, n: If(of_actor(s, n), s.epoch(now, n), old))


@also("epoch of the group", "a member that has settled gets the group epoch, not the target's", "settle", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    d.put("epoch", lambda old, n: If(of_actor(s, n), d.group_epoch, old))


@also("cut starts over", "a member whose topics are cut goes back to epoch 0", "cut", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    d.put("epoch", lambda old, n: If(of_actor(s, n), d.zero, old))


@also(
    "settles in UNREVOKED", "a member that has given everything up stays in UNREVOKED_PARTITIONS", "cut", drafted=True
)
def _(s: State, d: State, *_: Term) -> None:
    d.put("state", lambda old, n: If(of_actor(s, n), d.Stable, old))


@also("map without pending", "what is pending revocation has no entry in the map", "revoke", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    was = d.copy()
    d.mapped = lambda p: And(was.mapped(p), Not(was.pending(s.actor, p)))


@also("map keeps entries", "a removed member's partitions keep their entries", "remove", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    now = s.now
    d.mapped = lambda p: s.mapped(now, p)


@also("map loses entries", "a removal drops the entries of other members", "remove", drafted=True)
def _(_: State, d: State, *__: Term) -> None:
    d.clear("mapped")


@also("new member at the group epoch", "a new member begins at the group epoch", "join: new member", drafted=True)
def _(_: State, d: State, v: Term, m: Term) -> None:
    d.put("epoch", lambda old, n: If(n == m, d.group_epoch, old))


@also("replaced member keeps partitions", "a replaced member keeps its partitions", "join: replaces", drafted=True)
def _(s: State, d: State, v: Term, old: Term, *_: Term) -> None:
    now = s.now
    d.add("member", old)
    d.put("assigned", lambda was, n, p: Or(was, And(n == old, s.assigned(now, n, p))))


@also("empty return", "a static member comes back with nothing", "join: replaces", drafted=True)
def _(_: State, d: State, v: Term, old: Term, new: Term, i: Term) -> None:
    d.put("assigned", lambda was, n, _: And(was, n != new))


@also("return without a target", "a static member comes back without its target", "join: replaces", drafted=True)
def _(_: State, d: State, v: Term, old: Term, new: Term, i: Term) -> None:
    d.put("target", lambda was, n, _: And(was, n != new))


@also("return bumps", "the return of a static member raises the group epoch", "join: returns", drafted=True)
def _(s: State, d: State, v: Term, *_: Term) -> None:
    old = d.group_epoch
    c.open_up(s, d, v, "group_epoch")
    s.require(c.below(s, old, d.group_epoch))


@also("two instances", "a member that becomes static keeps its old instance", "join: becomes static", drafted=True)
def _(s: State, d: State, v: Term, m: Term, i: Term) -> None:
    now = s.now
    d.put("instance", lambda was, n, j: Or(was, s.instance(now, n, j)))


@also("instance left behind", "a removed member keeps its instance", "remove", drafted=True)
def _(s: State, d: State, *_: Term) -> None:
    now = s.now
    d.instance = lambda n, j: s.instance(now, n, j)


@also("target epoch starts over", "the target epoch of an emptied group is 1", "remove", drafted=True)
def _(_: State, d: State, v: Term, gone: Term, x: Term, left: Term) -> None:
    d.target_epoch = If(left, d.target_epoch, d.one)


@also("emptied group epoch starts over", "the group epoch of an emptied group is 1", "remove", drafted=True)
def _(_: State, d: State, v: Term, gone: Term, x: Term, left: Term) -> None:
    d.group_epoch = d.target_epoch = If(left, d.target_epoch, d.one)


@also(
    "away keeps pending", "a member that goes away keeps what it has to give up, without an entry", "away", drafted=True
)
def _(s: State, d: State, *_: Term) -> None:
    now = s.now
    d.pending = lambda n, p: s.pending(now, n, p)


# ---- conversion


@also("upgrade forgets", "an upgrade makes members without assignments", "upgrade", drafted=True)
def _(_: State, d: State, *__: Term) -> None:
    d.clear("assigned", "target", "mapped")


@also(
    "upgrade as consumers",
    "an upgrade takes classic members for members of the newer protocol",
    "upgrade",
    drafted=True,
)
def _(_: State, d: State, *__: Term) -> None:
    d.clear("classic")


@also("upgrade at epoch 0", "members of an upgraded group begin at epoch 0", "upgrade", drafted=True)
def _(_: State, d: State, *__: Term) -> None:
    d.epoch = lambda _: d.zero


@also("upgrade waits", "members of an upgraded group begin in UNRELEASED_PARTITIONS", "upgrade", drafted=True)
def _(_: State, d: State, *__: Term) -> None:
    d.state = lambda _: d.Unreleased


@also("upgrade without a map", "the map of an upgraded group is empty", "upgrade", drafted=True)
def _(_: State, d: State, *__: Term) -> None:
    d.clear("mapped")


@also("downgrade bumps", "a downgrade has a generation after the group epoch", "downgrade*", drafted=True)
def _(s: State, d: State, v: Term, *_: Term) -> None:
    old = d.group_epoch
    c.open_up(s, d, v, "group_epoch")
    s.require(c.below(s, old, d.group_epoch))


@also("downgrade gives targets", "a downgrade gives members their targets, as in Kafka", "downgrade", drafted=True)
def _(s: State, d: State, v: Term, gone: Term) -> None:
    now = s.now
    d.assigned = lambda n, p: And(d.member(n), s.target(now, n, p))


@also(
    "replacement gives targets",
    "a downgrade by a static replacement gives members their targets, as in Kafka, and those of an older epoch count",
    "downgrade: replacement",
    drafted=True,
)
def _(s: State, d: State, v: Term, old: Term, new: Term, i: Term) -> None:
    now = s.now
    d.assigned = lambda n, p: If(n == new, s.target(now, old, p), And(d.member(n), s.target(now, n, p)))
    d.clear("fenced")


@also("downgrade fences all", "a downgrade fences every member", "downgrade", drafted=True)
def _(_: State, d: State, *__: Term) -> None:
    d.fenced = lambda m: d.member(m)


@also("offsets lost on the way", "a downgrade loses the offsets", "downgrade")
def _(_: State, s: State, *__: Term) -> None:
    s.clear("stored")


# ---- clients, answers and the log


@also("answers the target", "an answer gives the target", "answer")
def _(b: State, s: State, u: Term, m: Term) -> None:
    s.put("told", lambda was, n, p: Or(was, And(n == m, b.target(u, m, p))))


@also("answers what is pending", "an answer gives what memory has now, not what is durable", "answer")
def _(b: State, s: State, u: Term, m: Term) -> None:
    s.put("told", lambda was, n, p: Or(was, And(n == m, b.assigned(b.now, m, p))))


@also("answers at once", "a heartbeat that changes nothing does not wait for earlier writes", "unchanged")
def _(b: State, s: State, *_: Term) -> None:
    s.add("answered", b.now)


@also("answers an older epoch", "an answer says the previous epoch", "answer")
def _(b: State, s: State, u: Term, m: Term) -> None:
    s.put("told_epoch", lambda was, n: If(n == m, b.previous(u, m), was))


@event("crash loses the log", "a crash goes back to a version before the last durable one", "back", u="Version")
def _(s: State, u: Term) -> None:
    s.require(And(s.phase == s.Idle, s.used(u), Not(s.live(u))))
    s.now = u
    s.clear("waiting", "waits")


@also("refusal forgets", "a refusal takes from the member its last answer", "refuse: unknown")
def _(_: State, s: State, *__: Term) -> None:
    s.clear("told")


@also("late answers", "a client acts on an answer after it has sent another request", "heartbeat|join: known member")
def _(b: State, s: State, *_: Term) -> None:
    for name in ("waiting", "waits"):
        setattr(s, name, getattr(b, name))


@also("removed members told", "an answer to a removed member counts", "log takes a version")
def _(b: State, s: State, *_: Term) -> None:
    s.told = b.told


@also("fenced answers", "an answer on its way to a fenced member counts", "log takes a version")
def _(b: State, s: State, *_: Term) -> None:
    for name in ("waiting", "waits"):
        setattr(s, name, getattr(b, name))


@event(
    "one at a time",
    "a member in UNRELEASED_PARTITIONS gets one of two free partitions",
    "reconciles",
    v="Version",
    gives="Bool",
    lacks="Bool",
    p="Partition",
    q="Partition",
)
def _(s: State, v: Term, gives: Term, lacks: Term, p: Term, q: Term) -> None:
    now, m = s.now, s.actor

    def leave(d: State) -> None:
        s.require(
            And(p != q, d.assigned(m, p), d.assigned(m, q), Not(s.assigned(now, m, p)), Not(s.assigned(now, m, q)))
        )
        d.drop("assigned", m, q)

    s.__dict__["spoil"] = leave
    requests.settle(s, v, gives, lacks)


@event(
    "late request", "a request arrives after a later one of the same member, and says that it owns nothing", m="Member"
)
def _(s: State, m: Term) -> None:
    told = s.told
    requests.joins_again(s, m)
    s.told = told


@event(
    "forgotten timer",
    "a member in UNREVOKED_PARTITIONS is taken for acknowledged after a while",
    v="Version",
    m="Member",
)
def _(s: State, v: Term, m: Term) -> None:
    s.require(And(s.phase == s.Idle, c.is_here(s, m), s.state(s.now, m) == s.Unrevoked))
    d = c.begin(s)
    old = d.copy()
    c.hold(d, m, lambda p: old.assigned(m, p), lambda _: False, d.epoch(m))
    d.put("state", lambda was, n: If(n == m, d.Stable, was))
    c.write(s, d, v)


@event("members merged", "a join gives a member what another has as well", v="Version", m="Member", n="Member")
def _(s: State, v: Term, m: Term, n: Term) -> None:
    s.require(And(s.phase == s.Idle, c.is_here(s, m), c.is_here(s, n), m != n))
    d = c.begin(s)
    old = d.copy()
    d.put("assigned", lambda was, k, p: Or(was, And(k == m, old.assigned(n, p))))
    c.write(s, d, v)
