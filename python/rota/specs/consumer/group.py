"""A consumer group, its log and its clients' memories, and the steps that events are made of. Written from
docs/consumer-protocol.md.

The group is a sequence of *versions*. A change makes a version; what a version says is rigid. `now` is the version in
memory, `root` the newest one that the log has, and those from root to now are *live*: a crash goes back to the root, a
refused write to some live version. Every invariant of the group holds in all live versions.

A request passes through the phases of 4.3: find the member, update it, compute the target, reconcile. Each is an action
of its own and may make a version, so that the log may take a part of a batch. Real batches are whole: the specification
allows more than the coordinator does.
"""

from __future__ import annotations

from functools import partial

from rota.specs.classic import order_of
from rota.specs.logic import And, If, Not, Or, Spec, Term

CONTENT = """
    kind: -> Kind
    group_epoch, target_epoch: -> Epoch
    member, classic: Member               # the classic ones speak the classic protocol (§18)
    epoch, previous: Member -> Epoch
    state: Member -> MemberState
    assigned, pending, target: Member Partition
    granted_at: Member Partition -> Epoch # the assignment epoch
    subscribed: Member Partition          # partitions of the topics that the member is subscribed to
    instance: Member Instance
    mapped: Partition                     # the partition epoch map: who has an entry, and which epoch it says
    mapped_epoch: Partition -> Epoch
    fenced: Member                        # by this very version: its generation is not theirs (§17.2)
"""

RIGID = """
    away, zero, one: -> Epoch             # -2, 0, 1
    not_above: Epoch Epoch                # the order of epochs
    not_after: Version Version            # the order of writes
"""

VARIABLES = """
    now, root: -> Version
    live, used: Version
    # the request that is being served (§4.3)
    phase: -> Phase
    actor: -> Member
    reports:                              # it says what the member owns,
    reported: Partition                   # namely this
    joins:                                # its epoch is 0
    sent: -> Epoch                        # its epoch, if it is a heartbeat
    changed:                              # the subscription changed in this request
    stored: Partition                     # offsets
"""

GHOSTS = """
    told: Member Partition                # what the client may be using
    told_epoch: Member -> Epoch           # of the last answer
    waiting: Version Member               # an answer with an assignment waits for this version
    waits: Version Member                 # an answer, with or without one
    answered: Version                     # something that depends on this version was answered
    said_unknown: Member
    said_fenced, said_stale: Member Epoch
    said_instance, said_unreleased: Member Instance
    committer: -> Member                  # the last commit that was stored
    committed_epoch: -> Epoch
    committed: Partition
"""

ENUMS = {
    "Kind": ("Absent", "Consumer", "Classic"),
    "MemberState": ("Stable", "Unrevoked", "Unreleased"),
    "Phase": ("Idle", "Updating", "Targeting", "Reconciling"),
}
OWN = ("assigned", "pending", "target", "subscribed", "instance")


def content() -> Spec:
    """What a version says, as variables: a draft of a version assigns them."""
    spec = Spec("content")
    spec.enums = ENUMS
    spec.symbols(False, CONTENT)
    return spec


DRAFT = content()


# ---- words


def below(s: Term, a: Term, b: Term) -> Term:
    """The epoch a is smaller than b."""
    return And(s.not_above(a, b), a != b)


def holds(s: Term, v: Term, m: Term, p: Term) -> Term:
    """The member holds the partition in this version (§1.2)."""
    return Or(s.assigned(v, m, p), s.pending(v, m, p))


def held(d: Term, m: Term, p: Term) -> Term:
    """The same in a draft."""
    return Or(d.assigned(m, p), d.pending(m, p))


def wanted(d: Term, m: Term, p: Term) -> Term:
    """The target without topics that the member is no longer subscribed to: B of §6.3."""
    return And(d.target(m, p), d.subscribed(m, p))


def acknowledged(s: Term, revoked: Term) -> Term:
    """The report has nothing of these partitions (§6)."""
    return And(s.reports, s.all("Partition", lambda p: Not(And(revoked(p), s.reported(p)))))


def is_here(s: Term, m: Term) -> Term:
    """A member of a consumer group."""
    return And(s.kind(s.now) == s.Consumer, s.member(s.now, m))


def is_static(s: Term, m: Term, i: Term) -> Term:
    """The member has the instance id."""
    return And(s.member(s.now, m), s.instance(s.now, m, i))


def unknown_instance(s: Term, i: Term) -> Term:
    """No member has the instance id."""
    return s.all("Member", lambda n: Not(is_static(s, n, i)))


def is_empty(d: Term) -> Term:
    """A draft without members."""
    return d.all("Member", lambda m: Not(d.member(m)))


def disjoint(d: Term, name: str) -> Term:
    """No partition is in the sets of two members."""
    relation = getattr(d, name)
    return d.all("Member Member Partition", lambda m, n, p: Or(m == n, Not(relation(m, p)), Not(relation(n, p))))


# ---- versions


def begin(s: Term) -> Term:
    """A draft of the next version: so far what memory says."""
    d = s.draft(DRAFT, s.now)
    d.fenced = lambda _: False
    return d


def open_up(s: Term, d: Term, v: Term, *names: str) -> None:
    """These may say anything in the next version."""
    for name in names:
        rigid = getattr(s, name)
        d.values[name] = partial(rigid, v) if DRAFT.variables[name].args else rigid(v)
    d.__dict__["opened"] = names


def write(s: Term, d: Term, v: Term) -> None:
    """The draft becomes the version in memory, on its way to the log (§4.4)."""
    if s.spoil:
        s.spoil(d)
    s.require(Not(s.used(v)))
    s.require(s.all("Version", lambda u: Or(Not(s.used(u)), s.not_after(u, v))))
    for name in DRAFT.variables:
        if name not in d.__dict__.get("opened", ()):
            s.fix(name, v, getattr(d, name))
    s.add("used", v)
    s.add("live", v)
    s.now = v


# ---- members


def hold(d: Term, m: Term, assigned: Term, pending: Term, epoch: Term) -> None:
    """The member holds other partitions, or the same with another epoch; the map follows (§6.4)."""
    old = d.copy()
    d.put("assigned", lambda was, n, p: If(n == m, assigned(p), was))
    d.put("pending", lambda was, n, p: If(n == m, pending(p), was))
    d.put("previous", lambda was, n: If(n == m, old.epoch(m), was))
    d.put("epoch", lambda was, n: If(n == m, epoch, was))
    d.mapped = lambda p: Or(And(old.mapped(p), Not(held(old, m, p))), assigned(p), pending(p))
    d.mapped_epoch = lambda p: If(Or(assigned(p), pending(p)), epoch, old.mapped_epoch(p))


def forget(d: Term, gone: Term) -> None:
    """These members are not there any more: they stop holding at once (§6.4)."""
    old = d.copy()
    d.put("member", lambda was, m: And(was, Not(gone(m))))
    for name in OWN:
        d.put(name, lambda was, m, _: And(was, Not(gone(m))))
    d.put("classic", lambda was, m: And(was, Not(gone(m))))
    d.mapped = lambda p: And(old.mapped(p), d.some("Member", lambda m: And(held(old, m, p), Not(gone(m)))))


def admit(d: Term, m: Term, speaks_classic: bool) -> None:
    """A new member: epoch 0, nothing held (§1.2)."""
    d.add("member", m)
    d.put("classic", lambda was, n: If(n == m, speaks_classic, was))
    for name in ("epoch", "previous"):
        d.put(name, lambda was, n: If(n == m, d.zero, was))
    d.put("state", lambda was, n: If(n == m, d.Stable, was))


def take_over(d: Term, old: Term, new: Term, i: Term, speaks_classic: bool) -> None:
    """`new` gets everything that `old` has but the member id; its epochs are 0 (§9.2). What `new` had itself ends."""
    was = d.copy()
    forget(d, lambda m: Or(m == old, m == new))
    d.add("member", new)
    for name in ("assigned", "pending", "target", "subscribed"):
        d.put(name, lambda now, m, p, name=name: If(m == new, getattr(was, name)(old, p), now))
    d.put("granted_at", lambda now, m, p: If(m == new, was.granted_at(old, p), now))
    d.put("instance", lambda now, m, j: If(m == new, j == i, now))
    d.put("classic", lambda now, m: If(m == new, speaks_classic, now))
    d.put("state", lambda now, m: If(m == new, was.state(old), now))
    for name in ("epoch", "previous"):
        d.put(name, lambda now, m: If(m == new, d.zero, now))
    d.mapped = lambda p: And(was.mapped(p), Or(held(was, old, p), Not(held(was, new, p))))
    d.put("mapped_epoch", lambda now, p: If(held(was, old, p), d.zero, now))


def rename(d: Term, m: Term, i: Term) -> None:
    """The member has this instance id, and no other."""
    d.put("instance", lambda was, n, j: If(n == m, j == i, was))


def bump(d: Term, x: Term) -> None:
    """The group epoch rises (§5.2)."""
    d.require(below(d, d.group_epoch, x), "the group epoch rises")
    d.group_epoch = x


def fresh_group(d: Term) -> None:
    """A consumer group that nothing was written of: both epochs are 1 (§1.1)."""
    d.kind = d.Consumer
    d.group_epoch = d.target_epoch = d.one
    for name in ("member", "classic", "mapped", *OWN):
        d.clear(name)


# ---- clients


def speaks(s: Term, m: Term) -> None:
    """A client that sends a request no longer acts on an earlier answer."""
    for name in ("waiting", "waits"):
        s.put(name, lambda was, _, n: And(was, n != m))


def lets_go(s: Term, m: Term) -> None:
    """The client uses nothing: it leaves, or joins."""
    speaks(s, m)
    s.put("told", lambda was, n, _: And(was, n != m))
    s.put("told_epoch", lambda was, n: If(n == m, s.away, was))


def asks(s: Term, m: Term, reported: Term, reports: Term, joins: Term) -> None:
    """A request of a member begins: what it does not report as owned the client does not use."""
    s.require(s.phase == s.Idle)
    speaks(s, m)
    s.put("told_epoch", lambda was, n: If(And(n == m, joins), s.away, was))
    s.put("told", lambda was, n, p: And(was, Or(n != m, Not(reports), reported(p))))
    s.phase, s.actor, s.reports, s.joins, s.changed = s.Updating, m, reports, joins, False
    s.reported = reported


def init(s: Term) -> None:
    """Nothing was written, no client was answered; the first version says that there is no group."""
    s.clear(*(name for name, symbol in s.spec.variables.items() if symbol.result == "Bool"))
    s.phase = s.Idle
    first = s.now
    s.root = first
    s.add("live", first)
    s.add("used", first)
    s.told_epoch = lambda _: s.away
    d = s.draft(DRAFT, first)
    fresh_group(d)
    d.kind = d.Absent
    d.fenced = lambda _: False
    for name in ("kind", "group_epoch", "target_epoch", "member", "classic", "mapped", "fenced", *OWN):
        s.fix(name, first, getattr(d, name))


def vocabulary() -> Spec:
    """The sorts, in the one order that alternations follow, and the symbols."""
    spec = Spec("consumer")
    spec.sorts = ["Version", "Partition", "Instance", "Member", "Epoch"]
    spec.enums = ENUMS
    spec.symbols(True, RIGID)
    for symbol in DRAFT.variables.values():
        spec.symbols(True, f"{symbol.name}: Version {' '.join(symbol.args)} -> {symbol.result}")
    spec.symbols(False, VARIABLES + GHOSTS)
    spec.axioms = [
        *order_of("not_above", "Epoch"),
        *order_of("not_after", "Version"),
        lambda s: And(below(s, s.away, s.zero), below(s, s.zero, s.one)),
        lambda s: s.all("Epoch", lambda x: Or(x == s.away, s.not_above(s.zero, x))),
        lambda s: s.all("Epoch", lambda x: Or(x == s.away, x == s.zero, s.not_above(s.one, x))),
    ]
    spec.init = init
    return spec
