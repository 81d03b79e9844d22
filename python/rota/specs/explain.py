"""Properties in words: `rota check proofs --explain ID`, and docs/generated/proved.md (`python -m rota.specs.explain`).

`killed.json` lists which planted bugs break which property. `python -m rota.specs.explain PROTOCOL ...` writes it, and
`tests/checks/test_spec_classic.py` compares it with what the bugs do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rota._rota import nearest
from rota.specs import necessity
from rota.specs.arithmetic_bugs import ARITHMETIC_BUGS
from rota.specs.claims import claims
from rota.specs.consumer import words as consumer_words
from rota.specs.jobs import run
from rota.specs.logic import Action, Context, Property, Spec, State, Term
from rota.specs.protocols import Protocol, protocols
from rota.specs.transactions import words as transactions_words

ASSUMPTIONS = """\
* One group of one coordinator partition; groups share only the order of the log.
* An event is atomic, as in the coordinator: one event, one step.
* The log keeps the order of appends, takes no append of a fenced epoch, and completes appends in that order. An append
  that is in the log stays there. A new epoch is fenced only when the old coordinator has been unloaded or has crashed.
* Member ids are unique.
* While a deletion is in flight, the group takes no member and no commit.
* If the record of a group that was written again after an undone replacement fails, the specification ends there.
* An append that ends with an error is not in the log. The coordinator writes again what a failed deletion may have
  removed, but a load before that is left out.
* Left out: deleting a group whose creation is in flight, offsets that expire while their group stays, a commit of an
  earlier life that releases a held join phase.
* S1 and S9 hold within one incarnation, because a crash forgets whom the old coordinator named. Answers about
  assignments, commits, replacements and deletions are kept across crashes.

`tests/checks/test_spec_refinement.py` follows runs of the Python model, together with the core, by these actions. An
action, or several in a row, must accept each step, give the state that the model's abstracts to, and give its answers.
In the other direction, Z3 finds a run from the initial state in which every action happens (`rota.specs.runs`), and
`tests/checks/test_spec_replay.py` plays each of these runs on the core, which does exactly that.
"""

ARITHMETIC = (
    ("The timing wheel", "For all 64-bit instants, level by level.", ("wheel: ",)),
    (
        "Assignors",
        "For all numbers of members and partitions. Range is about one topic and its subscribers, and the loads of "
        "round-robin about members that all subscribe to everything.",
        ("range: ", "round-robin: ", "certifier: ", "composition: "),
    ),
)

OPEN = """\
| what | why not here | covered by |
|---|---|---|
| "+1 exactly", `group.max.size`, cached counts (S4's arithmetic, S21, S24) | counting is not first-order | explorer |
| when timers fire (S20, S30, L1, L5; how long L2 to L4 take) | only the wheel has time here | explorer, model |
| the vote (S10) | counting | model |
| S12, S13 for sticky plans | depends on the plan: the certifier, proved here, runs on every plan | oracle |
| S22 by member id, exactly | proved: the last record names no undone member; not if writing it again fails | model |
| S22 for protocol and leader | proved: a reload gives the last record's; not that memory still has them | model |
| S18 except deadlines, S23, S27, S32, S33 | answers, platforms, many generations, connections | simulator, clients |
| the Rust code | the wheel's arithmetic is compared input by input, the protocol event by event | explorer, model |
"""

FALSE = """\
* **"A durable record of a replacement is enough; one that fails is just undone" (S22, by member id).** False: static
  members 1 and 2 are replaced in Stable, each with a record in flight; the second record names both newcomers; the
  first append fails, and its replacement is undone; the second is durable. The log has the first newcomer, which got an
  error, and memory its predecessor. Found here; the group is now written again in that case (docs/protocol.md §9.3):
  S22: on its way, S22: members.
* **"A failed replacement restores its predecessor."** False for two in a row: 1 is replaced by 2, and 2 by 3, in
  Stable, both records in flight; both fail. Kafka 4.4 would restore 2, which the log never had; rota restores 1, and
  2 only if its record is durable. Also found here: both fail by their deadline, 4 replaces 1, and only then is 2's
  record durable; the model would have fallen back to 2, the core wrote the group again, as docs/protocol.md §9.3 says.
* **"A removed member does not come back by reload."** False across incarnations: joins and leaves that leave members
  behind are not written (docs/protocol.md §14). Events: A and B join, the plan is durable, B leaves, the coordinator
  crashes before the next plan, the log is folded: B is a member again. True within one incarnation (S29: member), and
  for answered replacements (S17: durable).
* **"A generation is given once."** False across incarnations: a generation is in no record before its plan is. Events:
  static member A, the only one, joins and syncs in generation 1, and joins again: generation 2. The coordinator
  crashes, and loads generation 1. B joins, the join phase ends without A, and B's plan is of generation 2. A still
  knows generation 2, so its commits are accepted for what B has now. Kafka 4.4.0 does the same.
* **"One leader per generation."** False by member id: a static replacement of the leader in Stable leads the same
  generation (S1 speaks of replacement chains).
* **"Nothing of an assignment is in memory before the plan is durable."** False: the assignments of the last round stay
  until the next plan is installed (docs/protocol.md §5.1). True is S26: no member gets it.
"""


def bugs() -> dict[str, list[str]]:
    """The properties that each planted bug breaks, as they were found last."""
    return {bug: broken for each in protocols().values() for bug, broken in each.killed.items()}


def planted() -> dict[str, str]:
    """What each planted bug is."""
    found = {bug.name: bug.says for each in protocols().values() for bug in each.bugs}
    return found | {bug.name: bug.says for bug in ARITHMETIC_BUGS}


def named(known: Iterable[str], name: str) -> str:
    """The id that is meant: in any case, and without `wheel: ` or the like in front if nothing else is called that.
    Raises KeyError with the ids that are close."""
    ids = list(known)
    whole = [each for each in ids if each.lower() == name.lower()]
    tails = [each for each in ids if each.lower().partition(": ")[2] == name.lower()]
    if not whole and len(tails) != 1:
        close = tails or [found for found in [nearest(name, ids)] if found]
        hint = (
            f"did you mean {', '.join(f'`{one}`' for one in close)}?" if close else f"there are {len(ids)}, such as S11"
        )
        raise KeyError(f"there is no property `{name}`: {hint}")
    return (whole or tails)[0]


def formula(spec: Spec, prop: Property) -> str:
    """The formula as Z3 prints it. Of a property of steps it is that of any action; what is primed is of the state
    after it. Some speak only of actions that have a tag."""
    before = State(spec)
    if not prop.steps:
        return str(prop.holds(before))
    after = State(spec, Context(spec, primed=True))
    tags = ("", *sorted({tag for action in spec.actions.values() for tag in action.tags}))
    told = {tag: prop.holds(before, after, Action("any", {}, _nothing, frozenset({tag}))) for tag in tags}
    if told[""] is not True:
        return str(told[""])
    return "\n".join(f"{tag}: {said}" for tag, said in told.items() if said is not True)


def _nothing(*_: Term) -> None:
    """The body of an action whose tags alone matter."""


def explain(name: str) -> str:
    """English, source, formula, why it is needed, and the bugs that break it."""
    other = claims()
    of = {prop: each for each in protocols().values() for prop in each.spec.properties}
    known = named([*of, *other], name)
    if known in other:
        claim = other[known]
        lines = [f"{known}  {claim.says}", f"source   {claim.source}"]
        text = claim.formula()
    else:
        spec = of[known].spec
        prop = spec.properties[known]
        lines = [f"{known}  {prop.says}", f"source   {prop.source or 'auxiliary: induction needs it'}"]
        lines += [f"needed   {needed(of[known], known)}"] if prop.auxiliary else []
        text = formula(spec, prop)
    lines += ["formula  " + text.replace("\n", "\n         ")]
    parts = [each for each in of if each.startswith(known + ":")]
    lines += [f"see also {', '.join(parts)}"] if parts else []
    breaking = [bug for bug, broken in bugs().items() if known in broken]
    says = planted()
    lines += ["bugs that break it"] if breaking else []
    lines += [f"  {bug}: {says[bug]}" for bug in breaking]
    return "\n".join(lines)


def needed(protocol: Protocol, name: str) -> str:
    """What breaks without an auxiliary invariant."""
    witness = necessity.witnesses(protocol)[name]
    return f"without it `{witness.event}` breaks `{witness.breaks}`"


def page() -> str:
    """`docs/generated/proved.md`."""
    killed = bugs()
    lines = [
        "# What is proved",
        "",
        "Made by `python -m rota.specs.explain`; [proofs](../proofs.md) describes how to read and run them.",
        "Everything here holds for any number of members, instances, generations, epochs, appends, partitions, crashes",
        "and handovers.",
        *of_protocol(
            protocols()["classic"],
            "The classic protocol",
            "one for each event and each way in which it ends. The text after a colon is a\n"
            'part of that invariant. "Bugs" counts the planted bugs that break the property.',
        ),
        *of_protocol(
            protocols()["consumer"],
            "The newer protocol",
            "one for each step of a request (docs/consumer-protocol.md §4.3) and for\neach other event. C18 to C20 are "
            "liveness by a ranking (`python/rota/specs/consumer/ranking.py`).",
        ),
        *of_protocol(
            protocols()["transactions"],
            "Transactions",
            "for any number of transactional ids, transactions, batches, partitions\n"
            "and crashes (docs/transactions.md).",
        ),
    ]
    for title, of, prefixes in ARITHMETIC:
        lines += ["", f"## {title}", "", of, "", "| claim | says | bugs |", "|---|---|---|"]
        for name, claim in claims().items():
            if name.startswith(prefixes):
                lines.append(f"| {name} | {claim.says} | {sum(name in broken for broken in killed.values())} |")
    lines += [
        "",
        "## Assumptions",
        "",
        ASSUMPTIONS,
        "### Of the newer protocol",
        "",
        consumer_words.ASSUMPTIONS,
        "### Of transactions",
        "",
        transactions_words.ASSUMPTIONS,
        "## False as commonly stated",
        "",
        FALSE,
        "### In the newer protocol",
        "",
        consumer_words.FALSE,
        "## Not proved here",
        "",
        OPEN + consumer_words.OPEN + transactions_words.OPEN,
    ]
    return "\n".join(lines).rstrip() + "\n"


def of_protocol(protocol: Protocol, title: str, actions: str) -> Iterator[str]:
    """The tables of a protocol."""
    spec, killed = protocol.spec, protocol.killed
    yield from ("", f"## {title}", "", *f"{len(spec.actions)} actions, {actions}".splitlines(), "")
    yield from ("| property | says | source | bugs |", "|---|---|---|---|")
    for prop in spec.properties.values():
        if not prop.auxiliary:
            count = sum(prop.name in broken for broken in killed.values())
            kind = " (of steps)" if prop.steps else ""
            yield f"| {prop.name}{kind} | {prop.says} | {prop.source} | {count} |"
    yield from (
        "",
        "### Auxiliary",
        "",
        "Only induction needs these; they are proved like the others. Each one is needed: without it,",
        "and with all others, the event breaks the property, in a state that `rota check proofs` finds.",
        "",
        "| name | says | without it | breaks |",
        "|---|---|---|---|",
    )
    for prop in spec.properties.values():
        if prop.auxiliary:
            why = necessity.witnesses(protocol)[prop.name]
            yield f"| {prop.name} | {prop.says} | {why.event} | {why.breaks} |"


def write(root: Path, which: Iterable[str]) -> None:
    """Write the page, and first the bugs' tables of these protocols."""
    for protocol in map(protocols().__getitem__, which):
        arithmetic = ARITHMETIC_BUGS if protocol.name == "classic" else []
        jobs = [f"{protocol.prefix}mutant: {bug.name}" for bug in protocol.bugs] + [
            f"arithmetic bug: {bug.name}" for bug in arithmetic
        ]
        found = {rows[0]["name"]: sorted(rows[0]["breaks"]) for _, rows in run(jobs, 2)}
        protocol.write("killed", {bug.name: found[bug.name] for bug in (*protocol.bugs, *arithmetic)})
    (root / "docs/generated/proved.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).resolve().parents[3], sys.argv[1:])
