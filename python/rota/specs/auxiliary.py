"""Invariants of the classic protocol that only induction needs: what memory, the log and records in flight look like
in each state. They are proved like the others; `invariants.py` has those that mean something to a user.
"""

from __future__ import annotations

from rota.specs import classic as c
from rota.specs.logic import And, Iff, Implies, Not, Or
from rota.specs.properties import Properties, arriving, deleted, living


def members(add: Properties) -> None:
    """Auxiliary: who is what."""
    aux = add.auxiliary
    aux(
        "minted",
        "members, pending ids and removed ids were minted",
        "Member",
        lambda s, m: Implies(
            Or(s.member(m), s.pending(m), s.gone(m), s.replaced(m), s.displaced(m), s.buried(m)), s.minted(m)
        ),
    )
    aux(
        "new incarnations",
        "a coordinator that does not serve has removed no member, and only durable replacements count",
        "Member",
        lambda s, m: Implies(Not(s.serving), And(Not(s.gone(m)), Implies(s.replaced(m), s.buried(m)))),
    )
    aux(
        "of members",
        "parked, awaited, new and timed ids are members",
        "Member",
        lambda s, m: Implies(
            Or(s.parked_join(m), s.parked_sync(m), s.to_sync(m), s.fresh(m), s.session(m), s.newcomer(m)), s.member(m)
        ),
    )
    aux(
        "pending ids",
        "a pending id is dynamic and no member",
        "Member",
        lambda s, m: Implies(s.pending(m), And(Not(s.static(m)), Not(s.member(m)))),
    )
    aux(
        "dead",
        "a group that is not in memory waits for nothing",
        "",
        lambda s: And(
            Implies(s.st == s.Dead, Not(Or(s.has_leader, s.rooted, s.creating, s.deleting))),
            Implies(s.st != s.Dead, s.serving),
            Implies(s.owed, s.rooted),
        ),
    )
    aux(
        "join timers",
        "join timers belong to join phases",
        "",
        lambda s: Implies(Or(s.t_initial, s.t_join, s.held), s.st == s.PreparingRebalance),
    )
    aux(
        "sync timers",
        "the sync timer belongs to a round, a plan to CompletingRebalance",
        "Member",
        lambda s, m: And(
            Implies(Or(s.t_sync, s.to_sync(m)), c.in_round(s)),
            Implies(Or(s.planning, s.parked_sync(m), s.t_plan), s.st == s.CompletingRebalance),
            Not(And(s.parked_sync(m), s.to_sync(m))),
        ),
    )


def replacements(add: Properties) -> None:
    """Auxiliary: replacements that are being written."""
    aux = add.auxiliary
    aux(
        "newcomers",
        "outside a join phase only newcomers of replacements are parked in JoinGroup",
        "Member",
        lambda s, m: And(
            Implies(s.newcomer(m), And(s.st == s.Stable, s.parked_join(m), s.static(m), Not(s.fresh(m)))),
            Implies(And(s.parked_join(m), s.st != s.PreparingRebalance), s.newcomer(m)),
        ),
    )
    aux(
        "displaced",
        "who is being replaced may come back",
        "Member",
        lambda s, m: Implies(
            s.displaced(m),
            And(s.st == s.Stable, s.static(m), Not(s.member(m)), Not(s.gone(m)), Not(s.replaced(m)), Not(s.buried(m))),
        ),
    )
    aux(
        "replacing",
        "a replacement that is being written",
        "Append Member Member",
        lambda s, a, o, n: Implies(
            s.replacing(a, o, n),
            And(s.displaced(o), s.newcomer(n), s.unheard(a), s.kind(a) == s.Replacement, Not(s.late(a))),
        ),
    )


def rows(add: Properties) -> None:
    """Auxiliary: replacements of one instance in a row."""
    aux = add.auxiliary
    aux(
        "fenced newcomers",
        "a newcomer that was replaced while its record was on its way may come back, and its successor waits",
        "Append Member Member Instance",
        lambda s, a, m, n, i: Implies(
            s.fenced(a, m),
            And(
                s.displaced(m),
                s.unheard(a),
                s.kind(a) == s.Replacement,
                Not(s.late(a)),
                Implies(And(s.member(n), s.of(m, i), s.of(n, i)), s.newcomer(n)),
            ),
        ),
    )
    aux(
        "fenced or waiting",
        "the newcomer of an append either waits or was fenced",
        "Append Member Member Member",
        lambda s, a, m, o, n: Implies(s.fenced(a, m), And(Not(s.replacing(a, o, n)), Implies(s.fenced(a, n), m == n))),
    )
    aux(
        "fenced by a later one",
        "who waits was written after all that it fenced, and falls back to none of them",
        "Append Append Member Member Member Instance",
        lambda s, a, b, m, o, n, i: Implies(
            And(s.fenced(a, m), s.replacing(b, o, n), s.of(m, i), s.of(n, i)), And(s.not_after(a, b), o != m)
        ),
    )
    aux(
        "replacing instance",
        "a replacement has the same instance",
        "Append Member Member Instance",
        lambda s, a, o, n, i: Implies(And(s.replacing(a, o, n), s.of(o, i)), s.of(n, i)),
    )
    aux(
        "replacing once",
        "a member is replaced by one append at a time, and one append brings it",
        "Append Append Member Member Member",
        lambda s, a, b, o, m, n: And(
            Implies(And(s.replacing(a, o, m), s.replacing(b, o, n)), And(a == b, m == n)),
            Implies(And(s.replacing(a, o, n), s.replacing(b, m, n)), And(a == b, m == o)),
            Implies(And(s.fenced(a, m), s.fenced(b, m)), a == b),
        ),
    )
    aux(
        "an append replaces one",
        "an append is of one replacement",
        "Append Member Member Member Member",
        lambda s, a, o, n, m, k: Implies(And(s.replacing(a, o, n), s.replacing(a, m, k)), And(o == m, n == k)),
    )
    aux(
        "leader syncs first",
        "once the leader has synced its plan is being written",
        "",
        lambda s: Implies(And(s.st == s.CompletingRebalance, Not(s.to_sync(s.leader))), s.planning),
    )


def lives(add: Properties) -> None:
    """Auxiliary: a group's beginning and end."""
    aux = add.auxiliary
    aux(
        "creating",
        "a group that is not durable waits for its record",
        "",
        lambda s: And(
            Implies(And(s.st != s.Dead, Not(s.rooted)), s.creating),
            Implies(s.held, s.creating),
            Implies(s.creating, And(s.unheard(s.creation), s.kind(s.creation) == s.Creation, Not(s.late(s.creation)))),
        ),
    )
    aux(
        "deleting",
        "only an Empty group is being deleted",
        "Append",
        lambda s, a: And(
            Implies(s.deleting, And(s.st == s.Empty, s.rooted, Not(s.creating))),
            Implies(And(s.unheard(a), s.kind(a) == s.Tombstone), s.deleting),
        ),
    )
    aux(
        "unheard past",
        "what is past and unheard waits for the tombstones to be heard of",
        "",
        lambda s: Or(s.all("Append", lambda a: Not(And(s.unheard(a), s.past(a)))), deleted(s)),
    )
    aux(
        "nothing shown",
        "who does not serve shows nothing",
        "Partition",
        lambda s, p: Implies(s.has_shown(p), s.serving),
    )
    for name in ("told_names", "told_leader", "told_list", "told_proto"):
        sort = "Protocol" if name == "told_proto" else "Member"
        aux(
            f"{name} needs a group",
            f"without a durable group there is no `{name}`",
            f"Append Generation {sort}",
            lambda s, a, g, x, name=name: Implies(
                Or(Not(s.rooted), And(s.unheard(a), s.kind(a) == s.Tombstone, s.durable(a))),
                Not(getattr(s, name)(g, x)),
            ),
        )


def appends(add: Properties) -> None:
    """Auxiliary: the log and what is on its way."""
    aux = add.auxiliary
    aux(
        "appends",
        "what is on its way, and what the log has",
        "Append",
        lambda s, a: And(
            Implies(Or(s.open(a), s.durable(a), s.unheard(a), s.past(a)), s.used(a)),
            Implies(s.durable(a), Not(s.open(a))),
            Implies(s.late(a), s.used(a)),
            Implies(s.used(a), s.not_above(s.rec_epoch(a), s.own_epoch)),
            Implies(s.unheard(a), And(s.serving, s.rec_epoch(a) == s.own_epoch)),
            Implies(And(s.serving, s.open(a), s.rec_epoch(a) == s.own_epoch), s.unheard(a)),
            Implies(arriving(s, a), Not(s.past(a))),
        ),
    )
    aux(
        "epochs",
        "the log's epoch is not older than the coordinator's",
        "",
        lambda s: s.not_above(s.own_epoch, s.log_epoch),
    )
    aux(
        "log order",
        "what arrives comes after what is there",
        "Append Append",
        lambda s, a, b: Implies(And(s.durable(a), arriving(s, b)), s.not_after(a, b)),
    )
    aux(
        "hearing order",
        "what is unheard comes after what was heard",
        "Append Append",
        lambda s, a, b: Implies(And(s.used(a), Not(s.unheard(a)), s.unheard(b)), s.not_after(a, b)),
    )
    aux(
        "newest",
        "the newest record",
        "Append",
        lambda s, a: And(
            Implies(s.log_group, And(s.durable(s.newest), c.is_group_record(s, s.newest))),
            Implies(
                And(s.durable(a), Not(s.past(a)), c.is_group_record(s, a)), And(s.log_group, s.not_after(a, s.newest))
            ),
        ),
    )
    aux(
        "last tombstones",
        "nothing is appended after tombstones that are on their way",
        "Append Append",
        lambda s, a, b: Implies(
            And(Or(arriving(s, a), s.unheard(a)), s.kind(a) == s.Tombstone, s.used(b)), s.not_after(b, a)
        ),
    )


def contents(add: Properties) -> None:
    """Auxiliary: what records say."""
    aux = add.auxiliary
    aux(
        "told commits",
        "an acknowledged commit has completed",
        "Append",
        lambda s, a: Implies(s.told_commit(a), And(s.kind(a) == s.Commit, Not(s.unheard(a)), s.used(a))),
    )
    aux(
        "after tombstones",
        "with durable tombstones that are unheard everything is past",
        "Append Append Partition",
        lambda s, a, b, p: Implies(
            And(s.unheard(a), s.durable(a), s.kind(a) == s.Tombstone),
            And(Implies(s.used(b), s.past(b)), Not(s.log_has(p)), Not(s.log_group)),
        ),
    )
    aux(
        "record members",
        "records name ids that were minted; new and emptied groups have none",
        "Append Member",
        lambda s, a, m: Implies(
            And(s.used(a), c.is_group_record(s, a), s.rec_member(a, m)),
            And(s.minted(m), s.kind(a) != s.Creation, s.kind(a) != s.Emptied),
        ),
    )
    aux(
        "record instances",
        "a record has one member of an instance",
        "Append Member Member Instance",
        lambda s, a, m, n, i: Implies(
            And(s.used(a), c.is_group_record(s, a), s.rec_member(a, m), s.rec_member(a, n), s.of(m, i), s.of(n, i)),
            m == n,
        ),
    )
    aux(
        "creations",
        "a new group has generation 0",
        "Append",
        lambda s, a: Implies(And(s.used(a), s.kind(a) == s.Creation), s.rec_gen(a) == s.zero),
    )


def order(add: Properties) -> None:
    """Auxiliary: the order of records."""
    aux = add.auxiliary
    aux(
        "rootless",
        "a group that is not durable has no records but of its creation",
        "Append Generation",
        lambda s, a, g: Implies(
            And(s.serving, Not(s.rooted)),
            And(
                Implies(And(living(s, a), c.is_group_record(s, a)), s.kind(a) == s.Creation),
                Implies(s.log_group, s.kind(s.newest) == s.Creation),
                Not(s.sourced(g)),
            ),
        ),
    )
    aux(
        "arriving order",
        "what arrives later is of no earlier generation",
        "Append Append",
        lambda s, a, b: Implies(
            And(arriving(s, a), arriving(s, b), c.is_group_record(s, a), c.is_group_record(s, b), s.not_after(a, b)),
            s.no_later(s.rec_gen(a), s.rec_gen(b)),
        ),
    )
    aux(
        "arriving generations",
        "what arrives is of no earlier generation than the log",
        "Append",
        lambda s, a: Implies(
            And(arriving(s, a), c.is_group_record(s, a), s.log_group), s.no_later(s.rec_gen(s.newest), s.rec_gen(a))
        ),
    )
    aux(
        "unheard order",
        "an unheard record is of no earlier generation than what came before",
        "Append Append",
        lambda s, a, b: Implies(
            And(
                s.unheard(a),
                c.is_group_record(s, a),
                Or(s.durable(b), arriving(s, b)),
                Not(s.past(b)),
                c.is_group_record(s, b),
                s.not_after(b, a),
            ),
            s.no_later(s.rec_gen(b), s.rec_gen(a)),
        ),
    )
    aux(
        "owed",
        "what is owed is not older than the log, unless something newer is on its way",
        "",
        lambda s: Implies(
            s.owed,
            And(
                s.serving,
                Or(deleted(s), s.no_later(s.owed_gen, s.gen)),
                Or(
                    s.some("Append", lambda a: And(s.unheard(a), s.durable(a), c.is_group_record(s, a))),
                    Implies(s.log_group, s.no_later(s.rec_gen(s.newest), s.owed_gen)),
                ),
            ),
        ),
    )


def plans(add: Properties) -> None:
    """Auxiliary: plans that are being written."""
    aux = add.auxiliary
    aux(
        "planning",
        "the plan that is being written",
        "Member",
        lambda s, m: Implies(
            s.planning,
            And(
                s.unheard(s.plan),
                Not(s.past(s.plan)),
                s.kind(s.plan) == s.Plan,
                s.rec_gen(s.plan) == s.gen,
                Iff(s.rec_member(s.plan, m), s.member(m)),
            ),
        ),
    )
    aux(
        "no plan yet",
        "before the leader has synced there is no plan of this generation",
        "Append",
        lambda s, a: Implies(
            And(
                s.st == s.CompletingRebalance,
                s.used(a),
                Not(s.past(a)),
                s.kind(a) == s.Plan,
                s.rec_epoch(a) == s.own_epoch,
                s.rec_gen(a) == s.gen,
            ),
            And(s.planning, a == s.plan),
        ),
    )


def sources(add: Properties) -> None:
    """Auxiliary: where the assignments of a generation come from."""
    aux = add.auxiliary
    aux(
        "sources",
        "the source of a generation is its durable plan",
        "Generation Append",
        lambda s, g, a: And(
            Implies(
                s.source(g, a), And(s.durable(a), s.kind(a) == s.Plan, s.rec_gen(a) == g, Not(s.past(a)), s.sourced(g))
            ),
            Implies(And(s.durable(a), s.kind(a) == s.Plan, Not(s.past(a))), s.source(s.rec_gen(a), a)),
        ),
    )
    aux(
        "sourced",
        "a generation with a durable plan is not later than the log",
        "Generation",
        lambda s, g: Implies(s.sourced(g), And(s.log_group, s.no_later(g, s.rec_gen(s.newest)))),
    )
    aux(
        "plans arrive once",
        "no plan arrives for a generation that has one",
        "Append",
        lambda s, a: Implies(And(arriving(s, a), s.kind(a) == s.Plan), Not(s.sourced(s.rec_gen(a)))),
    )
    aux(
        "rounds are planned",
        "Stable has a durable plan; CompletingRebalance only one that is not heard of",
        "",
        lambda s: And(
            Implies(s.st == s.Stable, s.sourced(s.gen)),
            Implies(And(s.st == s.CompletingRebalance, s.sourced(s.gen)), And(s.planning, Not(s.open(s.plan)))),
        ),
    )


def copies(add: Properties) -> None:
    """Auxiliary: records that repeat a plan."""
    aux = add.auxiliary
    aux(
        "records of members",
        "a durable record with members belongs to a generation with a plan",
        "Append Member",
        lambda s, a, m: Implies(
            And(living(s, a), c.is_group_record(s, a), s.rec_member(a, m), s.kind(a) != s.Plan), s.sourced(s.rec_gen(a))
        ),
    )
    aux(
        "record assignments",
        "records repeat the assignments of the plan",
        "Append Append Member Member Instance",
        lambda s, a, b, m, o, i: Implies(
            And(
                living(s, a),
                c.is_group_record(s, a),
                s.source(s.rec_gen(a), b),
                s.rec_member(a, m),
                s.of(m, i),
                s.rec_member(b, o),
                s.of(o, i),
            ),
            s.rec_asg(a, m) == s.rec_asg(b, o),
        ),
    )
    aux(
        "records list",
        "records have the instances that were listed",
        "Append Member Instance",
        lambda s, a, m, i: Implies(
            And(living(s, a), c.is_group_record(s, a), s.rec_member(a, m), s.of(m, i)), s.listed(s.rec_gen(a), i)
        ),
    )
    aux(
        "records list all",
        "records with members have all that were listed",
        "Append Instance",
        lambda s, a, i: Implies(
            And(living(s, a), c.is_group_record(s, a), s.listed(s.rec_gen(a), i)),
            Or(
                s.all("Member", lambda n: Not(s.rec_member(a, n))),
                s.some("Member", lambda m: And(s.rec_member(a, m), s.of(m, i))),
            ),
        ),
    )


def displaced_copies(add: Properties) -> None:
    """Auxiliary: records that replacements leave behind."""
    aux = add.auxiliary
    aux(
        "replaced records",
        "whom a newcomer falls back to is in no record from its own on, nor from those on that it fenced",
        "Append Append Append Member Member Member Instance",
        lambda s, a, b, d, m, o, n, i: Implies(
            And(
                s.replacing(a, o, n),
                s.used(b),
                c.is_group_record(s, b),
                Or(
                    s.not_after(a, b),
                    And(s.fenced(d, m), s.of(m, i), s.of(n, i), s.not_after(d, b)),
                ),
            ),
            Not(s.rec_member(b, o)),
        ),
    )
    aux(
        "newcomers are new",
        "a newcomer is in no record before its own",
        "Append Append Member Member",
        lambda s, a, b, o, n: Implies(
            And(s.replacing(a, o, n), s.used(b), c.is_group_record(s, b), s.not_after(b, a), a != b),
            Not(s.rec_member(b, n)),
        ),
    )
    aux(
        "last plan",
        "while a plan is being written nothing of the group is appended after it",
        "",
        lambda s: Implies(s.planning, s.last == s.plan),
    )
    aux(
        "fenced records",
        "a newcomer that was fenced is in no record from the next one's on",
        "Append Append Append Member Member Member Instance",
        lambda s, a, b, d, m, k, o, i: Implies(
            And(
                s.fenced(a, m),
                s.of(m, i),
                s.of(k, i),
                Or(s.fenced(b, k), s.replacing(b, o, k)),
                s.not_after(a, b),
                a != b,
                s.used(d),
                c.is_group_record(s, d),
                s.not_after(b, d),
            ),
            Not(s.rec_member(d, m)),
        ),
    )


def visible(add: Properties) -> None:
    """Auxiliary: which commits are visible."""
    aux = add.auxiliary
    aux(
        "shown",
        "what is shown is a durable commit that was heard of",
        "Partition",
        lambda s, p: Implies(
            s.has_shown(p),
            And(
                s.durable(s.shown(p)), s.part(s.shown(p), p), s.kind(s.shown(p)) == s.Commit, Not(s.unheard(s.shown(p)))
            ),
        ),
    )
    aux(
        "log shows",
        "what a reload shows is a durable commit",
        "Partition",
        lambda s, p: Implies(
            s.log_has(p), And(s.durable(s.log_shown(p)), s.part(s.log_shown(p), p), s.kind(s.log_shown(p)) == s.Commit)
        ),
    )
    aux(
        "all shown",
        "no durable commit that was heard of is newer than what is shown",
        "Append Partition",
        lambda s, a, p: Implies(
            And(s.serving, s.durable(a), Not(s.unheard(a)), s.kind(a) == s.Commit, s.part(a, p), Not(s.past(a))),
            And(s.has_shown(p), s.not_after(a, s.shown(p))),
        ),
    )
    aux(
        "log shows all",
        "no durable commit is newer than what a reload shows",
        "Append Partition",
        lambda s, a, p: Implies(
            And(s.durable(a), s.kind(a) == s.Commit, s.part(a, p), Not(s.past(a))),
            And(s.log_has(p), s.not_after(a, s.log_shown(p))),
        ),
    )
