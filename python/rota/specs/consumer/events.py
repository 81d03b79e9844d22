"""What else happens to a consumer group: members go, offsets are committed, requests are refused, the log takes or
refuses versions, the coordinator crashes (docs/consumer-protocol.md §4.4, §8 to §11).
"""

from __future__ import annotations

from rota.specs.consumer import conversion
from rota.specs.consumer import group as c
from rota.specs.consumer.requests import of_members, requests
from rota.specs.logic import And, If, Implies, Not, Or, Spec, Term


def idle(s: Term) -> None:
    """No request is being served."""
    s.require(s.phase == s.Idle)


def group_of(s: Term) -> None:
    """There is a consumer group, and no request is being served."""
    s.require(And(s.phase == s.Idle, s.kind(s.now) == s.Consumer))


# ---- members go (§8, §9.3)


def removed(s: Term, v: Term, gone: Term, x: Term, left: Term) -> None:
    """The group without these members; the last one takes the target with it (§8.2)."""
    group_of(s)
    s.require(s.some("Member", gone))
    s.require(s.all("Member", lambda m: Implies(gone(m), s.member(s.now, m))), "only members are removed")
    d = c.begin(s)
    c.forget(d, gone)
    c.bump(d, x)
    s.require(left == s.some("Member", lambda m: d.member(m)), "a member is left")
    d.target_epoch = If(left, d.target_epoch, x)
    c.write(s, d, v)


def leaves(s: Term, v: Term, gone: Term, x: Term, left: Term) -> None:
    """Members leave for good, by -1 or LeaveGroup: they use nothing any more."""
    removed(s, v, gone, x, left)
    for name in ("waiting", "waits"):
        s.put(name, lambda was, _, m: And(was, Not(gone(m))))
    s.put("told", lambda was, m, _: And(was, Not(gone(m))))
    s.put("told_epoch", lambda was, m: If(gone(m), s.away, was))


def goes_away(s: Term, v: Term, m: Term, i: Term) -> None:
    """-2 of a static member: it keeps what it is assigned (§9.3)."""
    group_of(s)
    s.require(And(c.is_static(s, m, i), Not(s.classic(s.now, m))), "a static member")
    d = c.begin(s)
    old = d.copy()
    c.hold(d, m, lambda p: old.assigned(m, p), lambda _: False, d.away)
    d.put("previous", lambda was, n: If(n == m, old.previous(m), was))
    d.put("granted_at", lambda was, n, _: If(n == m, d.zero, was))
    c.write(s, d, v)
    c.lets_go(s, m)


def metadata_changes(s: Term, v: Term, x: Term) -> None:
    """Patterns were resolved outside a request (§15.2)."""
    group_of(s)
    d = c.begin(s)
    s.require(Not(c.is_empty(d)))
    of_members(s, d, v)
    c.bump(d, x)
    c.write(s, d, v)


def deletes(s: Term, v: Term) -> None:
    """DeleteGroups of an Empty group (§13.2): its offsets go, too."""
    group_of(s)
    d = c.begin(s)
    s.require(c.is_empty(d), "the group is empty")
    c.fresh_group(d)
    d.kind = d.Absent
    c.write(s, d, v)
    s.clear("stored")


# ---- classic members (§18.3)


def syncs(s: Term, m: Term, r: Term) -> None:
    """SyncGroup of a classic member: what it is assigned."""
    group_of(s)
    now = s.now
    s.require(And(s.member(now, m), s.classic(now, m), r == s.epoch(now, m)), "a classic member in its generation")
    s.require(Or(Not(c.below(s, r, s.target_epoch(now))), s.state(now, m) == s.Unrevoked), "no newer target")
    c.speaks(s, m)
    s.sent = r
    s.add("waiting", now, m)
    s.add("waits", now, m)


# ---- commits (§11)


def commits(s: Term, m: Term, r: Term, parts: Term) -> None:
    """With the member's epoch: any partition."""
    group_of(s)
    s.require(s.member(s.now, m), "a member")
    s.require(r == s.epoch(s.now, m), "the epoch is the member's")
    stores(s, m, r, parts)


def stores(s: Term, m: Term, r: Term, parts: Term) -> None:
    """Offsets of these partitions are stored."""
    s.put("stored", lambda was, p: Or(was, parts(p)))
    s.committer, s.committed_epoch, s.committed = m, r, parts


def commits_older(s: Term, m: Term, r: Term, parts: Term) -> None:
    """With an older one: only what the member has held since."""
    group_of(s)
    now = s.now
    s.require(s.member(now, m), "a member")
    s.require(Not(s.classic(now, m)), "not a classic member")
    s.require(And(c.below(s, r, s.epoch(now, m)), s.not_above(s.zero, r)), "an older epoch")
    s.require(
        s.all("Partition", lambda p: Implies(parts(p), c.holds(s, now, m, p))), "the member holds every partition"
    )
    s.require(
        s.all("Partition", lambda p: Implies(parts(p), s.not_above(s.granted_at(now, m, p), r))), "it held it then"
    )
    stores(s, m, r, parts)


def commits_simply(s: Term, parts: Term) -> None:
    """Without a member, into a group without members."""
    idle(s)
    s.require(s.all("Member", lambda m: Not(s.member(s.now, m))), "the group is empty")
    s.put("stored", lambda was, p: Or(was, parts(p)))


# ---- refusals (§3.4, §5.3, §9.1, §11)


def refuses_unknown(s: Term, m: Term) -> None:
    """UNKNOWN_MEMBER_ID."""
    group_of(s)
    s.require(Not(s.member(s.now, m)), "the member is unknown")
    s.add("said_unknown", m)


def refuses_epoch(s: Term, m: Term, r: Term, reported: Term, reports: Term) -> None:
    """FENCED_MEMBER_EPOCH."""
    group_of(s)
    now = s.now
    s.require(And(s.member(now, m), r != s.zero, r != s.epoch(now, m)), "another epoch")
    retry = And(
        c.below(s, r, s.epoch(now, m)),
        r == s.previous(now, m),
        reports,
        s.all("Partition", lambda p: Implies(reported(p), s.assigned(now, m, p))),
    )
    s.require(Not(retry), "not the previous epoch")
    s.add("said_fenced", m, r)


def refuses_instance(s: Term, m: Term, n: Term, i: Term) -> None:
    """FENCED_INSTANCE_ID: the instance has another member id."""
    group_of(s)
    s.require(And(c.is_static(s, n, i), m != n), "the instance has another member")
    s.add("said_instance", m, i)


def refuses_unreleased(s: Term, m: Term, n: Term, i: Term) -> None:
    """UNRELEASED_INSTANCE_ID: a join with an instance id that is in use, perhaps by the same member id."""
    group_of(s)
    s.require(And(c.is_static(s, n, i), Not(s.classic(s.now, n)), s.epoch(s.now, n) != s.away), "it is in use")
    s.add("said_unreleased", m, i)


def refuses_commit(s: Term, m: Term, r: Term, part: Term) -> None:
    """STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a classic member: nothing is stored."""
    group_of(s)
    now = s.now
    s.require(And(s.member(now, m), r != s.epoch(now, m)), "another epoch")
    s.require(
        Or(
            s.classic(now, m),
            c.below(s, s.epoch(now, m), r),
            c.below(s, r, s.zero),
            Not(c.holds(s, now, m, part)),
            Not(s.not_above(s.granted_at(now, m, part), r)),
        )
    )
    s.add("said_stale", m, r)


# ---- the log (§4.4)


def answer_goes(s: Term, u: Term, m: Term) -> None:
    """An answer goes out: from now on the client may act on it, at any time or never."""
    idle(s)
    s.require(s.waits(u, m))
    s.require(s.not_after(u, s.root), "the version is durable")
    gives = s.waiting(u, m)
    s.put("told", lambda was, n, p: Or(was, And(n == m, gives, s.assigned(u, m, p))))
    s.put("told_epoch", lambda was, n: If(n == m, s.epoch(u, m), was))
    s.drop("waiting", u, m)
    s.drop("waits", u, m)
    s.add("answered", u)


def log_takes(s: Term, v: Term) -> None:
    """The next version is durable. A member that is not in it is fenced: it may still use its last assignment until its
    next request, but commits nothing (C11).
    """
    idle(s)
    root = s.root
    s.require(And(s.live(v), v != root), "the log takes what is written")
    s.require(s.all("Version", lambda u: Or(Not(s.live(u)), u == root, s.not_after(v, u))), "in order")
    s.drop("live", root)
    s.root = v

    def fenced(m: Term) -> Term:
        return Or(Not(s.member(v, m)), s.fenced(v, m))

    s.put("told", lambda was, m, _: And(was, Not(fenced(m))))
    s.put("told_epoch", lambda was, m: If(fenced(m), s.away, was))
    for name in ("waiting", "waits"):
        s.put(name, lambda was, u, m: And(was, Or(Not(fenced(m)), Not(s.not_after(u, v)))))


def log_refuses(s: Term, v: Term) -> None:
    """The version after `v` is refused, and those behind it: the group is what it was before (§4.4)."""
    idle(s)
    s.require(And(s.live(v), v != s.now), "a live version")
    s.put("live", lambda was, u: And(was, s.not_after(u, v)))
    for name in ("waiting", "waits"):
        s.put(name, lambda was, u, _: And(was, s.not_after(u, v)))
    s.now = v


def crashes(s: Term) -> None:
    """Another coordinator reads the log; no answer goes out any more (§14.4)."""
    idle(s)
    root = s.root
    s.now = root
    s.live = lambda u: u == root
    s.clear("waiting", "waits")


def others(spec: Spec) -> None:
    """The actions of this file."""
    v, m, x = {"v": "Version"}, {"m": "Member"}, {"x": "Epoch"}
    gone = {"gone": "Member?"}
    r = {"r": "Epoch"}
    parts = {"parts": "Partition?"}
    act = spec.act
    act("leave", leaves, "bumps", **v, **gone, **x, left="Bool")
    act(
        "remove",
        removed,
        "bumps",
        says="members are removed: a timer, or another client's LeaveGroup",
        **v,
        **gone,
        **x,
        left="Bool",
    )
    act("away", goes_away, "goes away", **v, **m, i="Instance")
    act("metadata changes", metadata_changes, "bumps", **v, **x)
    act("delete", deletes, "restarts deletes", **v)
    act("sync", syncs, "syncs", **m, **r)
    act("commit", commits, "commits stores", **m, **r, **parts)
    act("commit: older epoch", commits_older, "commits stores", **m, **r, **parts)
    act("commit: no member", commits_simply, "stores", **parts)
    act("refuse: unknown", refuses_unknown, "refusal", **m)
    act("refuse: epoch", refuses_epoch, "refusal", **m, **r, reported="Partition?", reports="Bool")
    act("refuse: instance", refuses_instance, "refusal", **m, n="Member", i="Instance")
    act("refuse: unreleased", refuses_unreleased, "refusal", **m, n="Member", i="Instance")
    act("refuse: commit", refuses_commit, "refusal", **m, **r, part="Partition")
    act("answer", answer_goes, "answers", u="Version", **m)
    act("log takes a version", log_takes, "log", **v)
    act("log refuses", log_refuses, "log back", **v)
    act("crash", crashes, "log back")


def specification() -> Spec:
    """The whole protocol, without its properties."""
    spec = c.vocabulary()
    requests(spec)
    others(spec)
    conversion.conversions(spec)
    return spec
