"""What is proved of the classic protocol. The ids are those of `vocabulary.toml`; an id with a letter is a part
of that invariant. Names in words are *auxiliary*: only induction needs them.
"""

from __future__ import annotations

from rota.specs import auxiliary as aux
from rota.specs import classic as c
from rota.specs import liveness
from rota.specs.events import specification
from rota.specs.logic import And, Iff, Implies, Not, Or, Spec
from rota.specs.properties import Properties, deleted, grows, living

EDGES = (
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
)


def leaders(add: Properties) -> None:
    """S1 to S3: who leads, and whose plan it is."""
    add.invariant(
        "S1",
        "5.6",
        "the members named leader of a generation are one member and its static replacements",
        "Generation Member Member Instance Instance",
        lambda s, g, m, n, i, j: Implies(And(s.told_leader(g, m), s.told_leader(g, n), s.of(m, i), s.of(n, j)), i == j),
    )
    add.invariant(
        "S1: durable",
        "6.3",
        "the assignments answered in a generation come from one plan, across crashes too",
        "Generation Append Append",
        lambda s, g, a, b: Implies(And(s.source(g, a), s.source(g, b)), a == b),
    )
    add.step(
        "S2",
        "6.3",
        "a plan is appended in CompletingRebalance for a member that was named leader of this generation",
        "Append Member",
        lambda s, t, _, a, m: Implies(
            And(grows(s, t, "used", a), s.kind(a) == s.Plan, s.sent_by(a, m)),
            And(s.st == s.CompletingRebalance, s.told_leader(s.gen, m), s.rec_gen(a) == s.gen),
        ),
    )
    add.invariant(
        "S2: once",
        "6.3",
        "a coordinator appends the plan of a generation once",
        "Append Append",
        lambda s, a, b: Implies(
            And(
                s.used(a),
                s.used(b),
                Not(s.past(a)),
                Not(s.past(b)),
                s.kind(a) == s.Plan,
                s.kind(b) == s.Plan,
                s.rec_epoch(a) == s.rec_epoch(b),
                s.rec_gen(a) == s.rec_gen(b),
            ),
            a == b,
        ),
    )
    add.invariant(
        "S3",
        "5.6",
        "a group with members has one of them as leader, one without has none",
        "Member",
        lambda s, m: And(Implies(s.member(m), s.has_leader), Implies(s.has_leader, s.member(s.leader))),
    )
    add.step(
        "S3: stays",
        "5.6",
        "a leader stays while it is a member, but for one that missed the join phase",
        "",
        lambda s, t, _: Implies(
            And(s.has_leader, t.has_leader, s.leader != t.leader),
            Or(Not(t.member(s.leader)), And(s.gen != t.gen, Not(s.parked_join(s.leader)))),
        ),
    )


def answers(add: Properties) -> None:
    """S9: what the answers of a generation say."""
    add.invariant(
        "S9",
        "4.9",
        "all answers of a generation name one leader, up to its replacements",
        "Generation Member Member Instance Instance",
        lambda s, g, m, n, i, j: Implies(And(s.told_names(g, m), s.told_names(g, n), s.of(m, i), s.of(n, j)), i == j),
    )
    add.invariant(
        "S9: protocol",
        "4.9",
        "all answers of a generation name one protocol",
        "Generation Protocol Protocol",
        lambda s, g, p, q: Implies(And(s.told_proto(g, p), s.told_proto(g, q)), p == q),
    )
    add.invariant(
        "S9: list",
        "4.9",
        "only the leader of a generation is given the member list",
        "Generation Member Member Instance Instance",
        lambda s, g, m, n, i, j: Implies(And(s.told_list(g, m), s.told_names(g, n), s.of(m, i), s.of(n, j)), i == j),
    )
    for name, says in (("told_names", "S9 now"), ("told_leader", "S1 now"), ("told_list", "S9 list now")):
        add.auxiliary(
            says,
            f"in a round, `{name}` of the generation is the leader's instance",
            "Member Instance Instance",
            lambda s, m, i, j, name=name: Implies(
                And(c.in_round(s), getattr(s, name)(s.gen, m), s.of(m, i), s.of(s.leader, j)), i == j
            ),
        )
        add.auxiliary(
            f"{name} is old",
            f"`{name}` speaks of no later generation",
            "Generation Member",
            lambda s, g, m, name=name: Implies(getattr(s, name)(g, m), s.no_later(g, s.gen)),
        )
    add.auxiliary(
        "told_proto is old",
        "`told_proto` speaks of no later generation",
        "Generation Protocol",
        lambda s, g, p: Implies(s.told_proto(g, p), s.no_later(g, s.gen)),
    )
    add.auxiliary(
        "S9 protocol now",
        "in a round the answered protocol is the group's",
        "Protocol",
        lambda s, p: Implies(And(c.in_round(s), s.told_proto(s.gen, p)), p == s.proto),
    )
    add.auxiliary(
        "leader told",
        "in CompletingRebalance the leader got an answer that names it leader",
        "",
        lambda s: Implies(s.st == s.CompletingRebalance, s.told_leader(s.gen, s.leader)),
    )


def generations(add: Properties) -> None:
    """S4 and S5: generations and transitions."""
    add.step(
        "S4",
        "5.4",
        "the generation does not fall while the group lives, and grows at every join completion",
        "",
        lambda s, t, _: Implies(
            And(s.st != s.Dead, t.st != s.Dead),
            And(
                s.no_later(s.gen, t.gen),
                Implies(And(s.st == s.PreparingRebalance, t.st != s.PreparingRebalance), s.gen != t.gen),
            ),
        ),
    )
    add.invariant(
        "S4: reload",
        "15.1",
        "nothing in the log is of a later generation than what a reload gives",
        "Append",
        lambda s, a: Implies(
            And(s.durable(a), Not(s.past(a)), c.is_group_record(s, a)),
            And(s.log_group, s.no_later(s.rec_gen(a), s.rec_gen(s.newest))),
        ),
    )
    add.step(
        "S5",
        "2",
        "only the legal transitions happen",
        "",
        lambda s, t, _: Or(
            *(And(s.st == getattr(s, a), t.st == getattr(s, b)) for a, b in EDGES),
            And(
                c.in_round(s), Or(t.st == s.CompletingRebalance, t.st == s.Empty), c.before(s, s.gen, t.gen)
            ),  # a phase at once
            And(s.st == t.st, Implies(c.in_round(s), s.gen == t.gen)),
            t.st == s.Dead,
            And(s.st == s.Dead, Or(t.st == s.Empty, Not(s.serving), t.gen == s.zero)),
        ),
    )
    add.step(
        "S5: end",
        "12.3",
        "tombstones are written only of a group without members",
        "Append Member",
        lambda s, t, _, a, m: Implies(And(grows(s, t, "used", a), s.kind(a) == s.Tombstone), Not(s.member(m))),
    )
    add.invariant(
        "S6",
        "2",
        "Empty has no members; a round has a protocol and a leader; Dead has nothing",
        "Member",
        lambda s, m: And(
            Implies(Or(s.st == s.Empty, s.st == s.Dead), Not(s.member(m))),
            Implies(c.in_round(s), And(s.has_leader, s.has_proto)),
            Implies(s.st == s.Dead, Not(s.pending(m))),
        ),
    )


def shapes(add: Properties) -> None:
    """S6 to S8: shapes of states, and who is in a round."""
    add.step(
        "S6: dead",
        "2",
        "a Dead group takes no member but into a new life",
        "Member",
        lambda s, t, action, m: Implies(
            And(s.st == s.Dead, t.member(m), "load" not in action.tags),
            And(t.st == s.PreparingRebalance, t.gen == s.zero, t.creating),
        ),
    )
    add.invariant(
        "S7",
        "5.4",
        "in a round every dynamic member joined since the last rebalance began",
        "Member",
        lambda s, m: Implies(And(c.in_round(s), s.member(m), Not(s.static(m))), s.joined(m)),
    )
    add.step(
        "S8",
        "5.2",
        "without a timer a join phase ends only when everybody has joined",
        "Member",
        lambda s, t, action, m: (
            True
            if "timer" in action.tags
            else Implies(
                And(s.st == s.PreparingRebalance, Or(t.st == s.CompletingRebalance, t.st == s.Empty)),
                And(Implies(t.member(m), t.joined(m)), "removes" in action.tags or Implies(s.member(m), t.member(m))),
            )
        ),
    )
    add.auxiliary(
        "parked joined",
        "who is parked in JoinGroup during a join phase has joined",
        "Member",
        lambda s, m: Implies(And(s.st == s.PreparingRebalance, s.parked_join(m)), s.joined(m)),
    )
    add.auxiliary(
        "appends are not later",
        "no record of this incarnation is of a later generation",
        "Append",
        lambda s, a: Implies(
            And(
                s.used(a),
                Not(s.past(a)),
                c.is_group_record(s, a),
                s.rec_epoch(a) == s.own_epoch,
                s.serving,
                s.st != s.Dead,
            ),
            s.no_later(s.rec_gen(a), s.gen),
        ),
    )
    add.auxiliary(
        "log not later",
        "the log is not ahead of a living group",
        "",
        lambda s: Implies(And(s.log_group, s.st != s.Dead), s.no_later(s.rec_gen(s.newest), s.gen)),
    )


def assignments(add: Properties) -> None:
    """S11 and S34: the assignments that members get."""
    add.invariant(
        "S11",
        "6.4",
        "an answered assignment is the one that the leader's plan has for this member or its predecessor",
        "Generation Append Member Member Instance Bytes",
        lambda s, g, a, m, o, i, x: Implies(
            And(s.told_asg(g, m, x), s.source(g, a), s.of(m, i), s.of(o, i), s.rec_member(a, o)), x == s.rec_asg(a, o)
        ),
    )
    add.invariant(
        "S11: only members",
        "6.4",
        "only members in the leader's list get assignments",
        "Generation Member Instance Bytes",
        lambda s, g, m, i, x: Implies(And(s.told_asg(g, m, x), s.of(m, i)), s.listed(g, i)),
    )
    add.auxiliary(
        "S11 now",
        "in Stable, assignments are those of the plan",
        "Append Member Member Instance",
        lambda s, a, m, o, i: Implies(
            And(s.st == s.Stable, s.member(m), s.source(s.gen, a), s.of(m, i), s.of(o, i), s.rec_member(a, o)),
            s.asg(m) == s.rec_asg(a, o),
        ),
    )
    add.invariant(
        "S34",
        "5.4",
        "the plan of a generation is for the members that its leader was given",
        "Append Member Instance",
        lambda s, a, m, i: Implies(
            And(living(s, a), s.kind(a) == s.Plan, s.rec_member(a, m), s.of(m, i)), s.listed(s.rec_gen(a), i)
        ),
    )
    add.invariant(
        "S34: all",
        "5.4",
        "every member that the leader was given is in the plan",
        "Append Instance",
        lambda s, a, i: Implies(
            And(living(s, a), s.kind(a) == s.Plan, s.listed(s.rec_gen(a), i)),
            s.some("Member", lambda m: And(s.rec_member(a, m), s.of(m, i))),
        ),
    )


def durable_first(add: Properties) -> None:
    """S26: no answer precedes the durability of its records."""
    add.auxiliary(
        "listed",
        "in a round exactly the members' instances were listed",
        "Instance",
        lambda s, i: Implies(
            c.in_round(s), Iff(s.listed(s.gen, i), s.some("Member", lambda m: And(s.member(m), s.of(m, i))))
        ),
    )
    add.invariant(
        "S26",
        "6.4",
        "no assignment is answered before it is durable",
        "Generation Member Bytes",
        lambda s, g, m, x: Implies(s.told_asg(g, m, x), s.sourced(g)),
    )
    add.invariant(
        "S26: commit",
        "10.3",
        "no commit is acknowledged before it is durable",
        "Append",
        lambda s, a: Implies(s.told_commit(a), s.durable(a)),
    )
    add.invariant(
        "S26: replacement",
        "9.3",
        "no replacement in Stable succeeds before it is durable",
        "Append",
        lambda s, a: Implies(s.told_replaced(a), s.durable(a)),
    )
    add.invariant(
        "S26: delete",
        "12.3",
        "no deletion is acknowledged before it is durable",
        "Append",
        lambda s, a: Implies(s.told_deleted(a), s.durable(a)),
    )
    add.step(
        "S18",
        "10.3",
        "a commit or deletion that was answered at its deadline is not answered again",
        "Append",
        lambda s, t, _, a: Implies(Or(grows(s, t, "told_commit", a), grows(s, t, "told_deleted", a)), Not(s.late(a))),
    )
    add.step(
        "S26: group",
        "4.10",
        "no JoinGroup succeeds before the group is durable",
        "Member",
        lambda s, t, _, m: Implies(grows(s, t, "told_join", m), Or(s.rooted, t.rooted)),
    )
    add.invariant(
        "S26: root",
        "4.10",
        "a group taken for durable is in the log",
        "",
        lambda s: Implies(s.rooted, Or(s.log_group, s.some("Partition", s.log_has), deleted(s))),
    )


def statics(add: Properties) -> None:
    """S16, S17: instances."""
    add.invariant(
        "S16",
        "9",
        "an instance is held exactly by the static member that has it",
        "Instance Member",
        lambda s, i, m: And(
            Implies(s.holder(i, m), And(s.member(m), s.of(m, i), s.static(m))),
            Implies(And(s.member(m), s.of(m, i), s.static(m)), s.holder(i, m)),
        ),
    )
    add.invariant(
        "S16: one",
        "9",
        "an instance has one holder",
        "Instance Member Member",
        lambda s, i, m, n: Implies(And(s.holder(i, m), s.holder(i, n)), m == n),
    )
    add.invariant(
        "S17",
        "9.3",
        "a replaced member id is not a member again",
        "Member",
        lambda s, m: Implies(s.replaced(m), And(Not(s.member(m)), Not(s.pending(m)))),
    )
    add.invariant(
        "S17: durable",
        "9.3",
        "an answered replacement survives crashes",
        "Member",
        lambda s, m: And(
            Implies(s.buried(m), And(s.replaced(m), Implies(s.log_group, Not(s.rec_member(s.newest, m)))))
        ),
    )
    add.step(
        "S17: silent",
        "9.3",
        "a replaced member id gets no success answer",
        "Member Generation Bytes",
        lambda s, t, _, m, g, x: Implies(
            s.replaced(m),
            Not(
                Or(
                    grows(s, t, "told_leader", g, m),
                    grows(s, t, "told_alive", m),
                    grows(s, t, "told_join", m),
                    grows(s, t, "told_asg", g, m, x),
                )
            ),
        ),
    )
    add.step(
        "S17: fenced",
        "9.1",
        "the holder of an instance id does not get FENCED_INSTANCE_ID",
        "Member Instance",
        lambda s, t, _, m, i: Implies(grows(s, t, "told_fenced", m), Not(s.holder(i, m))),
    )
    add.auxiliary(
        "buried records",
        "no record that may still land has a member that was replaced durably",
        "Member Append",
        lambda s, m, a: Implies(
            And(s.buried(m), s.open(a), c.is_group_record(s, a), s.rec_epoch(a) == s.log_epoch), Not(s.rec_member(a, m))
        ),
    )


def fencing(add: Properties) -> None:
    """S14 and S15: refusals and commits."""
    add.step(
        "S14",
        "3",
        "a refusal changes nothing in the group",
        "Member",
        lambda s, t, action, m: (
            True
            if "refusal" not in action.tags
            else And(
                s.st == t.st,
                s.gen == t.gen,
                s.leader == t.leader,
                *(
                    Iff(getattr(s, name)(m), getattr(t, name)(m))
                    for name in ("member", "pending", "parked_join", "parked_sync", "to_sync", "session")
                ),
            )
        ),
    )
    add.step(
        "S14: unknown",
        "7.1",
        "UNKNOWN_MEMBER_ID is said to no member",
        "Member",
        lambda s, t, _, m: Implies(grows(s, t, "told_unknown", m), Not(s.member(m))),
    )
    add.step(
        "S15",
        "10.1",
        "a plain commit is taken from a member in its generation, or simply if there are no members",
        "Append Member Member",
        lambda s, t, _, a, m, n: Implies(
            And(grows(s, t, "used", a), s.kind(a) == s.Commit),
            And(
                Implies(s.simple(a), Not(s.member(n))),
                Implies(
                    And(Not(s.simple(a)), s.sent_by(a, m)),
                    And(s.member(m), s.sent_gen(a) == s.gen, s.st != s.CompletingRebalance),
                ),
            ),
        ),
    )
    add.step(
        "S25",
        "11.2",
        "a fetch gives no older commit than one acknowledged before",
        "Partition Append Append",
        lambda s, t, _, p, a, b: Implies(
            And(grows(s, t, "told_offset", p, a), s.told_commit(b), s.part(b, p), Not(s.past(b))), s.not_after(b, a)
        ),
    )


def offsets(add: Properties) -> None:
    """S22, S25 and S31: what is visible."""
    add.step(
        "S25: durable",
        "11.2",
        "a fetch gives a durable commit of this partition",
        "Partition Append",
        lambda s, t, _, p, a: Implies(
            grows(s, t, "told_offset", p, a), And(s.durable(a), s.part(a, p), s.kind(a) == s.Commit)
        ),
    )
    add.step(
        "S31",
        "10.3",
        "commits of a partition become visible in log order",
        "Partition",
        lambda s, t, _, p: Implies(And(s.serving, t.has_shown(p), s.has_shown(p)), s.not_after(s.shown(p), t.shown(p))),
    )
    add.invariant(
        "S22",
        "15.1",
        "with nothing in flight, the offsets are what the log gives",
        "Partition",
        lambda s, p: Implies(
            And(
                s.serving,
                Not(deleted(s)),
                s.all("Append", lambda a: Not(And(s.unheard(a), s.part(a, p), s.kind(a) == s.Commit))),
            ),
            And(Iff(s.has_shown(p), s.log_has(p)), Implies(s.has_shown(p), s.shown(p) == s.log_shown(p))),
        ),
    )


def reloads(add: Properties) -> None:
    """S22 of the group: what a reload gives."""
    add.invariant(
        "S22: group",
        "15.1",
        "a Stable group is in the log: its generation, and its members' instances",
        "Member Instance",
        lambda s, m, i: Implies(
            And(s.st == s.Stable),
            And(
                s.log_group,
                s.rec_gen(s.newest) == s.gen,
                Implies(And(s.rec_member(s.newest, m), s.of(m, i)), s.listed(s.gen, i)),
            ),
        ),
    )
    add.step(
        "S22: loads",
        "15.1",
        "a reload gives what the last record says: members, assignments, leader and protocol",
        "Member",
        lambda s, t, action, m: (
            And(
                Implies(And(s.log_group, s.rec_member(s.newest, m)), t.member(m)),
                Implies(t.member(m), And(s.log_group, s.rec_member(s.newest, m), t.asg(m) == s.rec_asg(s.newest, m))),
                Implies(t.member(m), t.proto == s.rec_proto(s.newest)),
                Implies(t.has_leader, s.rec_leader(s.newest, t.leader)),
            )
            if "load" in action.tags
            else True
        ),
    )
    add.invariant(
        "S22: on its way",
        "9.3",
        "of those whom a record on its way names in Stable, the last one names members only",
        "Append Member",
        lambda s, a, m: Implies(
            And(
                s.st == s.Stable,
                s.unheard(a),
                c.is_group_record(s, a),
                Not(And(s.late(a), s.kind(a) == s.Replacement)),
                s.rec_member(a, m),
                Not(s.member(m)),
            ),
            Not(s.rec_member(s.last, m)),
        ),
    )
    add.step(
        "S22: members",
        "9.3",
        "when a completion arrives in Stable, the last record names none of its members that left",
        "Append Member",
        lambda s, t, _, a, m: Implies(
            And(
                s.unheard(a),
                Not(t.unheard(a)),
                t.durable(a),
                c.is_group_record(s, a),
                t.st == t.Stable,
                s.rec_member(a, m),
                Not(t.member(m)),
            ),
            Not(s.rec_member(t.last, m)),
        ),
    )


def log(add: Properties) -> None:
    """S28, S29: epochs and lives."""
    add.invariant(
        "S28",
        "15",
        "a coordinator that serves has the epoch that is not fenced",
        "",
        lambda s: Implies(s.serving, s.own_epoch == s.log_epoch),
    )
    add.step(
        "S28: answers",
        "15",
        "who does not serve gives no success answer",
        "Member Generation Bytes Append Partition",
        lambda s, t, _, m, g, x, a, p: Implies(
            Not(s.serving),
            Not(
                Or(
                    grows(s, t, "told_leader", g, m),
                    grows(s, t, "told_asg", g, m, x),
                    grows(s, t, "told_join", m),
                    grows(s, t, "told_alive", m),
                    grows(s, t, "told_commit", a),
                    grows(s, t, "told_replaced", a),
                    grows(s, t, "told_deleted", a),
                    grows(s, t, "told_offset", p, a),
                )
            ),
        ),
    )
    add.invariant(
        "S29",
        "13",
        "nothing from before a deletion is loaded",
        "Partition",
        lambda s, p: And(
            Implies(s.log_group, Not(s.past(s.newest))), Implies(s.log_has(p), Not(s.past(s.log_shown(p))))
        ),
    )
    add.invariant(
        "S29: offsets",
        "13",
        "nothing from before a deletion is shown",
        "Partition",
        lambda s, p: Implies(And(s.has_shown(p), s.past(s.shown(p))), deleted(s)),
    )
    add.invariant(
        "S29: told",
        "13",
        "an answered deletion covers everything written before",
        "Append Append",
        lambda s, a, b: Implies(And(s.told_deleted(a), s.used(b), s.not_after(b, a), a != b), s.past(b)),
    )
    add.invariant(
        "S29: member",
        "8",
        "a removed member id does not come back in this incarnation",
        "Member",
        lambda s, m: Implies(s.gone(m), And(Not(s.member(m)), Not(s.pending(m)))),
    )


def classic() -> Spec:
    """The protocol with its properties."""
    spec = specification()
    add = Properties(spec)
    rounds = (leaders, answers, generations, shapes, assignments)
    told = (*rounds, durable_first, statics, fencing, offsets, reloads, log, liveness.syncing, liveness.watchers)
    memory = (aux.members, aux.replacements, aux.rows, aux.lives)
    records = (aux.appends, aux.contents, aux.order, aux.plans, aux.sources, aux.copies, aux.displaced_copies)
    for part in (*told, *memory, *records, aux.visible):
        part(add)
    return spec
