"""The certifier in Rust accepts the plans that have what is proved of the certifier, and no others.

`python -m tests.specs.test_certifier 1000000` compares more of them.
"""

from __future__ import annotations

import random
import sys

import rota.assign
from specs import assignors
from specs.logic import Spec
from specs.structures import Structure

PROMISES = ("disjoint", "subscribed-only", "complete")
TOPICS = {"t": 2, "u": 1}
MEMBERS = ("a", "b", "c")
PARTITIONS = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]


def accepted(wanted: dict[str, list[str]], plan: dict[str, list[tuple[str, int]]]) -> bool:
    """What Rust says."""
    try:
        rota.assign.certify(wanted, TOPICS, plan)
    except rota.assign.PlanError:
        return False
    return True


def proved(spec: Spec, wanted: dict[str, list[str]], plan: dict[str, list[tuple[str, int]]]) -> bool:
    """What was proved of plans that are accepted, evaluated."""
    rigid = {
        "gives": lambda m, p: p in plan[m],
        "subscribes": lambda m, t: t in wanted[m],
        "topic": lambda p, t: p[0] == t,
    }
    structure = Structure(spec, rigid, {})
    for sort, elements in (("Topic", TOPICS), ("Partition", PARTITIONS), ("Member", plan)):
        structure.know(sort, elements)
    structure.values["accepted"] = True
    return all(spec.properties[name].holds(structure) for name in PROMISES)


def compare(inputs: int, seed: int) -> int:
    """Compare so many plans, of which about half come near to being right; gives how many were accepted."""
    spec, choices = assignors.certifier(), random.Random(seed)
    good = 0
    for _ in range(inputs):
        members = MEMBERS[: choices.randint(1, 3)]
        wanted = {m: [t for t in TOPICS if choices.random() < 0.7] for m in members}
        plan: dict[str, list[tuple[str, int]]] = {m: [] for m in members}
        for partition in PARTITIONS:
            able = [m for m in members if partition[0] in wanted[m]]
            if able:
                plan[choices.choice(able)].append(partition)
        for _ in range(choices.choice((0, 0, 1, 2))):  # a partition too many, or one too few
            m, partition = choices.choice(members), choices.choice(PARTITIONS)
            plan[m] = sorted({*plan[m]} ^ {partition})
        said = accepted(wanted, plan)
        assert said == proved(spec, wanted, plan), (wanted, plan, said)
        good += said
    return good


def test_rust_accepts_what_was_proved_right() -> None:
    good = compare(20_000, 1)
    assert 5_000 < good < 15_000


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(f"{count} plans compared, {compare(count, 2)} accepted")
