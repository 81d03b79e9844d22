"""The certifier in Rust accepts the plans that have what is proved of the certifier, and no others."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rota.assign
from rota.specs import assignors
from rota.specs.logic import Spec, State

PROMISES = ("disjoint", "subscribed-only", "complete")
ROWS = 2_000  # plans of one shape that are made and judged together
Bools = NDArray[np.bool_]


class Columns:
    """What formulas ask a context for: few elements, and relations that are columns with one row for each input."""

    sizes = True

    def __init__(self, elements: Mapping[str, Iterable[Any]], symbols: Mapping[str, Any]) -> None:
        self.elements, self.value = elements, symbols.__getitem__

    def tuples(self, sorts: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """All tuples of elements of these sorts."""
        return itertools.product(*(self.elements[sort] for sort in sorts))


@dataclass(frozen=True)
class Plans:
    """Plans for groups of one shape: `topics` says how many partitions each topic has."""

    topics: dict[str, int]
    wants: Bools  # plan, member, topic
    gives: Bools  # plan, member, partition

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic by topic."""
        return [(topic, index) for topic, count in self.topics.items() for index in range(count)]

    def promised(self, spec: Spec) -> Bools:
        """By the formulas: which plans have what was proved of plans that are accepted."""
        names = list(self.topics)
        topic_of = [names.index(topic) for topic, _ in self.partitions]
        rows, members, _ = self.wants.shape
        elements = {"Member": range(members), "Topic": range(len(names)), "Partition": range(len(topic_of))}
        symbols = {
            "accepted": True,
            "gives": lambda m, p: self.gives[:, m, p],
            "subscribes": lambda m, t: self.wants[:, m, t],
            "topic": lambda p, t: topic_of[p] == t,
        }
        state = State(spec, Columns(elements, symbols))  # type: ignore[arg-type]
        good = np.ones(rows, dtype=np.bool_)
        for name in PROMISES:
            good &= spec.properties[name].holds(state)
        return good

    def accepted(self) -> Iterator[bool]:
        """What Rust says of each plan, and that the bounds that it states hold."""
        names, partitions = list(self.topics), self.partitions
        ids = [f"m{number}" for number in range(self.wants.shape[1])]
        for wanted, given in zip(self.wants.tolist(), self.gives.tolist(), strict=True):
            asks = {m: list(itertools.compress(names, row)) for m, row in zip(ids, wanted, strict=True)}
            plan = {m: list(itertools.compress(partitions, row)) for m, row in zip(ids, given, strict=True)}
            try:
                certificate = rota.assign.certify(asks, self.topics, plan)
            except rota.assign.PlanError:
                yield False
            else:
                loads = [len(plan[m]) for m in ids if asks[m]]
                assert all(certificate.min_load <= load <= certificate.max_load for load in loads), plan
                yield True


def made(random: np.random.Generator, shape: tuple[int, tuple[int, ...]], rows: int) -> Plans:
    """Plans that give each partition to a subscriber, half of them with one or two partitions too many or too few."""
    members, counts = shape
    topics = {f"t{number}": count for number, count in enumerate(counts)}
    topic_of = [number for number, count in enumerate(counts) for _ in range(count)]
    wants = random.random((rows, members, len(counts))) < 0.7
    chance = random.random((rows, members, len(topic_of))) * wants[:, :, topic_of]
    gives = (chance == chance.max(axis=1, keepdims=True)) & (chance > 0)
    slips = random.choice([0, 0, 1, 2], rows) if topic_of else np.zeros(rows, dtype=np.int64)
    for place in range(2):
        row = np.flatnonzero(slips > place)
        member, partition = random.integers(0, members, row.size), random.integers(0, max(len(topic_of), 1), row.size)
        gives[row, member, partition] ^= True
    return Plans(topics, wants, gives)


def shapes(random: np.random.Generator) -> Iterator[tuple[int, tuple[int, ...]]]:
    """How many members, and how many partitions each topic has: the borders first, then anything small."""
    yield from ((members, counts) for members in (1, 2) for counts in ((), (0,), (1,), (0, 1), (1, 1), (0, 0)))
    while True:
        yield int(random.integers(1, 6)), tuple(random.integers(0, 5, random.integers(1, 4)).tolist())


def compare(inputs: int, seed: int) -> int:
    """Compare so many plans; gives how many were accepted."""
    spec, random = assignors.certifier(), np.random.default_rng(seed)
    good = done = 0
    for shape in shapes(random):
        plans = made(random, shape, min(ROWS, inputs - done))
        for number, (said, right) in enumerate(zip(plans.accepted(), plans.promised(spec).tolist(), strict=True)):
            assert said == right, (plans.topics, plans.wants[number], plans.gives[number], said)
            good += said
            done += 1
        if done == inputs:
            return good
    raise AssertionError("shapes do not end")


def test_rust_accepts_what_was_proved_right() -> None:
    """`make specs-inputs` compares ten times as many."""
    assert 30_000 < compare(100_000, 1) < 70_000


def test_a_wrong_plan_is_not_promised() -> None:
    """The formulas, on columns, tell each way of being wrong."""
    right, twice, unsubscribed = [[1, 1], [0, 0]], [[1, 1], [1, 0]], [[1, 0], [0, 1]]
    one_missing, nothing = [[1, 0], [0, 0]], [[0, 0], [0, 0]]
    gives = np.array([right, twice, unsubscribed, one_missing, nothing], dtype=np.bool_)
    plans = Plans({"t": 2}, np.array([[[True], [False]]] * 5), gives)
    assert plans.promised(assignors.certifier()).tolist() == [True, False, False, False, False]
    assert list(plans.accepted()) == [True, False, False, False, False]
