"""Kafka's own classes and rota's assignors on the same random groups: `make compare-assignors`.

    python -m tests.assign.differential [--cases 10000] [--seed 1]

`range`, `roundrobin` and `server_range` must be equal. Of the others no plan may be worse than Kafka's: first its loads
(sorted, highest first), then, where racks matter, the partitions away from their members' racks, then the partitions
that do not stay with their owner. The table counts how often rota's is better, and in what first. Plans of Kafka that
are not complete, not disjoint or not subscribed to are counted; `--show` shows the first group of each verdict.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import rota.assign
from rota.model import assignors as naive
from rota.model.assignors import Owners, Partition, Says
from tests.assign.groups import RACKS, Group, worth
from tests.assign.kafka import Kafka, KafkaError

EXACT = ("range", "roundrobin", "server_range")
ROUNDS_MAX = 12


def random_group(source: random.Random, kind: str) -> Group:
    """A group of up to eight members and six topics of up to twelve partitions.

    `kind` has words: `unequal` subscriptions, `racks`, and for what members own `fresh` (nothing), `joined` (a settled
    group that others joined or that lost some), `claims` (any, of any generation, also by several).
    """
    words = kind.split()
    topics = [f"t{number}" for number in range(source.randint(1, 6))]
    partitions = {topic: source.randint(1, 12) for topic in topics}
    ids = [f"m{number:02}" for number in source.sample(range(40), source.randint(1, 8))]
    static = source.random() < 0.3
    common = frozenset(source.sample(topics, source.randint(1, len(topics))))
    racked = "racks" in words
    members = {}
    for place, member in enumerate(ids):
        own = frozenset(topic for topic in topics if source.random() < 0.6) if "unequal" in words else common
        instance = f"i{len(ids) - place}" if static and source.random() < 0.7 else None
        rack = source.choice([None, *RACKS, *RACKS]) if racked else None
        members[member] = Says(own or frozenset([source.choice(topics)]), instance, (), -1, rack)
    racks = {}
    for topic, count in partitions.items():
        for index in range(count):
            racks[topic, index] = frozenset(source.sample(RACKS, source.randint(1, 2))) if racked else frozenset[str]()
    group = Group(members, partitions, racks)
    if "joined" in words:
        return joined(source, group)
    if "claims" in words:
        return claiming(source, group)
    return group


def joined(source: random.Random, group: Group) -> Group:
    """What a settled group of some of the members owned, before others came and some of these went."""
    old = source.sample(sorted(group.members), source.randint(1, len(group.members)))
    ghosts = [f"gone{number}" for number in range(source.randint(0, 2))]
    topics = next(iter(group.members.values())).topics
    before = {member: group.members[member] for member in old} | {ghost: Says(topics) for ghost in ghosts}
    plan = rota.assign.assign(
        source.choice(["range", "roundrobin", "sticky"]),
        Group(before, group.partitions, group.racks).subscribers,
        group.partitions,
    )
    members = {
        member: Says(said.topics, said.instance_id, tuple(plan.get(member, ())), 3 if member in old else -1, said.rack)
        for member, said in group.members.items()
    }
    return Group(members, group.partitions, group.racks)


def claiming(source: random.Random, group: Group) -> Group:
    """Claims of anything in any generation."""
    everything: list[Partition] = [
        (topic, index) for topic, count in group.partitions.items() for index in range(count)
    ]
    members = {}
    for member, said in group.members.items():
        owned = source.sample(everything, min(len(everything), source.randint(0, 6)))
        members[member] = Says(said.topics, said.instance_id, tuple(owned), source.randint(0, 3), said.rack)
    return Group(members, group.partitions, group.racks)


def matters(group: Group) -> bool:
    which = naive.assignable(group.members, group.partitions)
    return naive.racks_matter(group.members, list(group.members), which, group.racks)


def owners(plan: dict[str, list[Partition]]) -> Owners:
    return {partition: member for member, assigned in plan.items() for partition in assigned}


def settled(group: Group, plan_of: Callable[[Group], rota.assign.Plan]) -> tuple[rota.assign.Plan, int]:
    """The plan in which a cooperative group ends, and the number of rounds until no member revokes partitions."""
    plan: dict[str, list[Partition]] = {}
    for rounds in range(1, ROUNDS_MAX + 1):
        plan = plan_of(group)
        gives_up = any(set(says.owned) - set(plan.get(member, ())) for member, says in group.members.items())
        members = {
            member: Says(says.topics, says.instance_id, tuple(plan.get(member, ())), 3 + rounds, says.rack)
            for member, says in group.members.items()
        }
        group = Group(members, group.partitions, group.racks)
        if not gives_up:
            return plan, rounds
    return plan, ROUNDS_MAX + 1


@dataclass
class Tally:
    """What became of the groups of one assignor and kind."""

    counts: Counter[str] = field(default_factory=Counter)
    kafka_rounds: Counter[int] = field(default_factory=Counter)
    rota_rounds: Counter[int] = field(default_factory=Counter)
    shown: dict[str, str] = field(default_factory=dict)

    def compare(self, group: Group, kafka: dict[str, list[Partition]], ours: dict[str, list[Partition]]) -> str:
        """Which plan is better, and in what."""
        target = naive.assignable(group.members, group.partitions)
        try:
            rota.assign.certify(group.subscribers, group.partitions, kafka)
        except rota.assign.PlanError as error:
            self.shown.setdefault("invalid", f"{error}: {group}")
            return "invalid"
        assert sorted(owners(ours)) == sorted(target), "rota's plan is not complete"
        local = matters(group)
        mine, theirs = worth(group, owners(ours), local=local), worth(group, owners(kafka), local=local)
        if mine > theirs:
            self.shown.setdefault("worse", f"{mine} against {theirs}: {group}")
            return "worse"
        for what, one, other in zip(("loads", "racks", "moves"), mine, theirs, strict=True):
            if one != other:
                self.shown.setdefault(what, f"{mine} against {theirs}: {group}")
                return what
        return "same"


def check(kafka: Kafka, name: str, group: Group, tally: Tally) -> None:
    """One group through both."""
    racks = group.topic_racks if name != "uniform" else None

    def ours(group: Group) -> dict[str, list[Partition]]:
        return rota.assign.assign(name, group.subscribers, group.partitions, racks=racks)

    try:
        if name == "cooperative_sticky":
            mine, rounds = settled(group, ours)
            tally.rota_rounds[rounds] += 1
            theirs, rounds = settled(group, lambda group: kafka.plan(name, group))
            tally.kafka_rounds[rounds] += 1
            if rounds > ROUNDS_MAX:
                tally.counts["unsettled"] += 1
                tally.shown.setdefault("unsettled", str(group))
                return
        else:
            mine, theirs = ours(group), kafka.plan(name, group)
    except KafkaError as error:
        tally.counts["error"] += 1
        tally.shown.setdefault("error", f"{error}: {group}")
        return
    if name in EXACT:
        verdict = "same" if owners(mine) == owners(theirs) else "worse"
        if verdict == "worse":
            tally.shown.setdefault("worse", f"{mine} against {theirs}: {group}")
    else:
        verdict = tally.compare(group, theirs, mine)
    tally.counts[verdict] += 1


KINDS = {
    "range": ("fresh", "fresh racks", "fresh unequal", "fresh unequal racks"),
    "roundrobin": ("fresh", "fresh unequal"),
    "server_range": ("fresh", "fresh unequal"),
    "sticky": (
        "fresh unequal",
        "joined",
        "joined racks",
        "joined unequal",
        "joined unequal racks",
        "claims",
        "claims unequal",
        "claims unequal racks",
    ),
    "cooperative_sticky": ("joined", "joined racks", "joined unequal", "joined unequal racks"),
    "uniform": ("fresh unequal", "joined", "joined unequal"),
}


def rows(cases: int, seed: int) -> Iterator[tuple[str, str, Tally]]:
    """The tally of each assignor and kind; `cases` in all."""
    kinds = [(name, kind) for name, all_of_it in KINDS.items() for kind in all_of_it]
    with Kafka() as kafka:
        for name, kind in kinds:
            tally = Tally()
            source = random.Random(f"{seed} {name} {kind}")
            for _ in range(-(-cases // len(kinds))):
                check(kafka, name, random_group(source, kind), tally)
            yield name, kind, tally


COLUMNS = ("same", "loads", "racks", "moves", "worse", "invalid", "error", "unsettled")


def main() -> int:
    """Print the table; 1 if any of rota's plans is worse."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="show the first group of each verdict")
    chosen = parser.parse_args()
    titles = "".join(f"{column:>10}" for column in COLUMNS)
    print(f"{'assignor':<19}{'groups':<22}{'n':>6}{titles}  rounds: rota, Kafka")
    worse = 0
    for name, kind, tally in rows(chosen.cases, chosen.seed):
        counts = "".join(f"{tally.counts[column]:>10}" for column in COLUMNS)
        rounds = f"  {dict(sorted(tally.rota_rounds.items()))}, {dict(sorted(tally.kafka_rounds.items()))}"
        print(f"{name:<19}{kind:<22}{tally.counts.total():>6}{counts}{rounds if tally.rota_rounds else ''}", flush=True)
        worse += tally.counts["worse"]
        for verdict, text in tally.shown.items():
            if chosen.show or verdict in ("worse", "error"):
                print(f"    {verdict}: {text}")
    print("loads, racks, moves: rota's plan is better, first in that; worse: it is not")
    print("invalid, error, unsettled: Kafka's plan breaks a promise, there is none, or it still changes in round 12")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
