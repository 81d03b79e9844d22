"""The events of offsets, of deletion, of the log, and of coordinators that crash and move: those that are about what is
durable. `events.py` has the others. Written from docs/protocol.md.
"""

from __future__ import annotations

from rota.specs import classic as c
from rota.specs.logic import And, If, Implies, Not, Or, Spec, Term

# ---- offsets (§10, §11) and deletion (§12.3)


def commits(spec: Spec) -> None:
    """Commits, their ends, fetches."""

    def write(s: Term, a: Term) -> None:
        s.require(And(s.serving, Not(s.deleting)))
        c.append(s, a, "Commit")

    def by_member(s: Term, a: Term, m: Term) -> None:
        s.require(s.member(m), "a member")
        s.require(s.st != s.CompletingRebalance, "no commit while the plan is made")
        s.require(s.sent_gen(a) == s.gen, "the generation is current")
        s.fix("sent_by", a, lambda n: n == m)
        s.fix("simple", a, False)
        write(s, a)
        s.add("session", m)

    def simply(s: Term, a: Term) -> None:
        s.require(Or(s.st == s.Empty, s.st == s.Dead), "no members")
        s.fix("simple", a, True)
        write(s, a)

    def durable(s: Term, a: Term, p: Term) -> None:
        s.require(And(s.kind(a) == s.Commit, s.part(a, p)))
        on_time = Not(s.late(a))
        c.hear(s, a)
        s.require(s.durable(a), "the commit is durable")
        s.put("shown", lambda old, q: If(s.part(a, q), a, old))
        s.put("has_shown", lambda old, q: Or(old, s.part(a, q)))
        s.put("told_commit", lambda old, b: Or(old, And(b == a, on_time)))
        absent = s.st == s.Dead
        s.gen, s.st, s.rooted = If(absent, s.zero, s.gen), If(absent, s.Empty, s.st), True

    def overdue(s: Term, a: Term) -> None:
        s.require(And(Or(s.kind(a) == s.Commit, s.kind(a) == s.Tombstone), s.unheard(a)))
        s.add("late", a)

    def fetch(s: Term, p: Term) -> None:
        s.require(s.serving, "the coordinator serves")
        s.require(And(s.has_shown(p), s.st != s.Dead))
        s.add("told_offset", p, s.shown(p))

    spec.act("commit", by_member, a="Append", m="Member")
    spec.act("simple commit", simply, a="Append")
    spec.act("commit durable", durable, a="Append", p="Partition")
    spec.act("commit or delete overdue", overdue, a="Append")
    spec.act("fetch", fetch, p="Partition")


def deletion(spec: Spec) -> None:
    """DeleteGroups, and retention, which answers no request: tombstones for the offsets and the group in one append."""

    def delete(s: Term, a: Term) -> None:
        s.require(And(s.st == s.Empty, Not(s.deleting), Not(s.creating)))
        c.append(s, a, "Tombstone")
        s.deleting = True

    def durable(s: Term, a: Term) -> None:
        s.require(s.kind(a) == s.Tombstone)
        on_time = Not(s.late(a))
        c.hear(s, a)
        s.require(s.durable(a), "the tombstones are durable")
        pending = s.pending
        s.put("gone", lambda old, m: Or(old, pending(m)))
        c.forget_group(s)
        s.clear("has_shown")
        s.put("told_deleted", lambda old, b: Or(old, And(b == a, on_time)))

    def failed(s: Term, a: Term) -> None:
        s.require(s.kind(a) == s.Tombstone)
        c.hear(s, a)
        s.require(Not(s.durable(a)))
        s.deleting = False
        # An error does not prove that the log has nothing, so the group's record is written again.
        s.owed_gen = If(s.owed, s.owed_gen, s.gen)
        s.owed = Or(s.owed, s.rooted)

    spec.act("delete", delete, a="Append")
    spec.act("delete durable", durable, a="Append")
    spec.act("delete failed", failed, a="Append")


# ---- ends of appends that change nothing in memory, or leave something owed


def other_ends(spec: Spec) -> None:
    """Appends that no request waits for, and completions that arrive after the round."""

    def ignored(s: Term, a: Term) -> None:
        c.hear(s, a)
        stale_plan = And(s.kind(a) == s.Plan, Not(And(s.planning, s.plan == a)))
        replacement = And(s.kind(a) == s.Replacement, c.abandoned(s, a), Not(And(s.durable(a), s.st == s.Stable)))
        creation = And(s.kind(a) == s.Creation, Not(And(s.creating, s.creation == a)), Not(s.durable(a)))
        emptied = And(s.kind(a) == s.Emptied, s.durable(a))
        commit = And(s.kind(a) == s.Commit, Not(s.durable(a)))
        s.require(Or(stale_plan, replacement, creation, emptied, commit, s.kind(a) == s.Rewrite), "no request waits")

    def emptied_failed(s: Term, a: Term) -> None:
        s.require(s.kind(a) == s.Emptied)
        c.hear(s, a)
        s.require(Not(s.durable(a)))
        s.owed, s.owed_gen = True, s.rec_gen(a)

    def write_again(s: Term, a: Term) -> None:
        s.require(And(s.owed, s.serving, s.st != s.Dead, Not(s.deleting)))
        s.require(
            s.all("Append", lambda b: Implies(And(s.unheard(b), c.is_group_record(s, b)), False)), "no newer record"
        )
        c.append(s, a, "Emptied")
        s.last = a
        s.fix("rec_gen", a, s.owed_gen)
        s.fix("rec_member", a, lambda _: False)
        s.fix("rec_leader", a, lambda _: False)
        s.owed = False

    spec.act("append ends, no request waits", ignored, a="Append")
    spec.act("emptied record failed", emptied_failed, a="Append")
    spec.act("emptied record written again", write_again, a="Append")


# ---- the log, crashes, handovers (§15)


def log(spec: Spec) -> None:
    """The log takes appends in order, of the epoch that is not fenced, or loses them."""

    def lands(s: Term, a: Term) -> None:
        epoch = s.log_epoch
        s.require(s.open(a))
        s.require(s.rec_epoch(a) == epoch, "the epoch is not fenced")
        s.require(
            s.all("Append", lambda b: Implies(And(s.open(b), s.rec_epoch(b) == epoch), s.not_after(a, b))),
            "the log keeps the order",
        )
        s.drop("open", a)
        s.add("durable", a)

    def group_record(s: Term, a: Term) -> None:
        s.require(c.is_group_record(s, a))
        lands(s, a)
        s.newest, s.log_group = a, True
        plan, gen = s.kind(a) == s.Plan, s.rec_gen(a)
        s.put("source", lambda old, g, b: Or(old, And(plan, g == gen, b == a)))
        s.put("sourced", lambda old, g: Or(old, And(plan, g == gen)))

    def commit(s: Term, a: Term) -> None:
        s.require(s.kind(a) == s.Commit)
        lands(s, a)
        s.put("log_shown", lambda old, p: If(s.part(a, p), a, old))
        s.put("log_has", lambda old, p: Or(old, s.part(a, p)))

    def tombstone(s: Term, a: Term) -> None:
        s.require(s.kind(a) == s.Tombstone)
        lands(s, a)
        s.clear("log_group", "log_has", *c.TOLD_IN_A_LIFE, *c.TOLD_IN_AN_INCARNATION)
        s.past = s.used

    def lost(s: Term, a: Term) -> None:
        s.require(s.open(a))
        s.drop("open", a)

    spec.act("log takes a group record", group_record, a="Append")
    spec.act("log takes a commit", commit, a="Append")
    spec.act("log takes tombstones", tombstone, a="Append")
    spec.act("log loses an append", lost, a="Append")


def incarnations(spec: Spec) -> None:
    """Crash, unload, fence, load."""

    def ends(s: Term) -> None:
        s.require(s.serving)
        c.lose_memory(s)

    def fence(s: Term, e: Term) -> None:
        s.require(Not(s.serving), "unloaded before it is fenced")
        s.require(And(s.not_above(s.log_epoch, e), e != s.log_epoch), "epochs grow")
        s.log_epoch = e

    def load_members(s: Term, heir: Term) -> None:
        c.folded(s, heir, True)

    def load_oversized(s: Term, heir: Term) -> None:
        c.folded(s, heir, True)
        c.begin_rebalance(s)
        c.waits(s)

    def load_empty(s: Term) -> None:
        c.folded(s, s.leader, False)
        newest = s.newest
        s.require(And(s.log_group, s.all("Member", lambda m: Not(s.rec_member(newest, m)))))
        s.st, s.gen = s.Empty, s.rec_gen(newest)

    def load_offsets(s: Term, p: Term) -> None:
        c.folded(s, s.leader, False)
        s.require(And(Not(s.log_group), s.log_has(p)))
        s.st, s.gen = s.Empty, s.zero

    def load_nothing(s: Term) -> None:
        c.folded(s, s.leader, False)
        s.require(And(Not(s.log_group), s.all("Partition", lambda p: Not(s.log_has(p)))))
        s.rooted = False

    spec.act("crash", ends)
    spec.act("unload", ends)
    spec.act("fence", fence, e="Epoch")
    spec.act("load Stable", load_members, tags="load", heir="Member")
    spec.act("load, too many members", load_oversized, tags="load", heir="Member")
    spec.act("load Empty", load_empty, tags="load")
    spec.act("load offsets only", load_offsets, tags="load", p="Partition")
    spec.act("load nothing", load_nothing, tags="load")
