"""Judges one run of the demo from its evidence alone: pure functions, no client and no clock.

Each check returns sentences, one for each thing that is wrong. What is checked:

- disjoint: within one generation, in every Stable description of the group, and at every moment, no partition has two
  owners. The clock excuses one case, if the caller allows it: a member whose session has ended keeps its partitions
  until it learns of it, as Kafka's `onPartitionsLost` says;
- complete: once a step has settled, every partition of a subscribed topic has an owner who subscribes to the topic, and
  the consumers and the coordinator agree on who that is;
- kept: no acknowledged commit is missing at the end, and no owner resumed before one that was acknowledged earlier;
- seen: there was enough evidence to judge by. A run in which nothing was observed does not pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rota.demo.evidence import Checkpoint, Ended, Evidence, Ownership, Partition, Snapshot
from rota.why.words import counted

STABLE = "Stable"


@dataclass(frozen=True)
class Verdict:
    """What was wrong (nothing, if all is well), and how much was looked at."""

    failures: tuple[str, ...]
    lost_late: tuple[str, ...]
    """Overlaps that were excused, a sentence each."""
    generations: tuple[int, ...]
    stable_snapshots: int
    commits_acknowledged: int

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.failures


@dataclass(frozen=True)
class Tenure:
    """A member owned a partition from `from_ms` to `until_ms` (infinity: to the end of the run)."""

    member: str
    partition: Partition
    from_ms: float
    until_ms: float
    lost: bool = False
    """It ended because the member learned that its session had ended before."""


@dataclass(frozen=True)
class Overlap:
    """A member was given a partition while another one believed that it owned it."""

    older: Tenure
    newer: Tenure

    def __str__(self) -> str:
        both_ms = min(self.older.until_ms, self.newer.until_ms) - self.newer.from_ms
        owners = f"{self.older.member} and {self.newer.member}"
        return f"{self.newer.partition} was owned by {owners} at once, for {both_ms:.0f} ms"


def judge(
    evidence: Evidence, topics: Mapping[str, int], steps: Iterable[str], *, sessions_may_end: bool = False
) -> Verdict:
    """Judge a run over `topics` (name to number of partitions) whose script was `steps`.

    `sessions_may_end`: what the script does to the servers may keep a live member's heartbeats from them for longer
    than its session.
    """
    overlaps = list(tenures_overlap(tenures(evidence.ownerships, evidence.endings)))
    excused = [overlap for overlap in overlaps if sessions_may_end and overlap.older.lost]
    failures = [
        *generations_overlap(evidence.ownerships),
        *snapshots_overlap(evidence.snapshots),
        *(str(overlap) for overlap in overlaps if overlap not in excused),
        *checkpoints_wrong(evidence.checkpoints, topics),
        *commits_lost(evidence),
        *resumptions_early(evidence),
        *evidence_missing(evidence, topics, steps),
    ]
    generations = {told.generation for told in evidence.ownerships if told.assigned and told.generation is not None}
    return Verdict(
        failures=tuple(failures),
        lost_late=tuple(map(str, excused)),
        generations=tuple(sorted(generations)),
        stable_snapshots=sum(snapshot.state == STABLE for snapshot in evidence.snapshots),
        commits_acknowledged=len(evidence.commits),
    )


def generations_overlap(ownerships: Iterable[Ownership]) -> Iterator[str]:
    """Partitions that two members said they were assigned in one generation."""
    owners: dict[tuple[int, Partition], set[str]] = defaultdict(set)
    for told in ownerships:
        if told.assigned and told.generation is not None:
            for partition in told.partitions:
                owners[told.generation, partition].add(told.member)
    for (generation, partition), members in sorted(owners.items()):
        if len(members) > 1:
            yield f"generation {generation}: {partition} was assigned to {_named(members)}"


def snapshots_overlap(snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """Partitions that the coordinator gave to two members in a Stable group; each pair is said once."""
    said: set[tuple[Partition, frozenset[str]]] = set()
    for snapshot in snapshots:
        if snapshot.state != STABLE:
            continue
        for partition, members in _shared(snapshot.owners):
            if (partition, members) not in said:
                said.add((partition, members))
                yield f"the coordinator described a Stable group in which {_named(members)} own {partition}"


def tenures(ownerships: Iterable[Ownership], endings: Iterable[Ended]) -> list[Tenure]:
    """Ownership over time, as the consumers report it; a consumer that ended owns nothing any more."""
    found: list[Tenure] = []
    since: dict[str, dict[Partition, float]] = defaultdict(dict)
    events: list[Ownership | Ended] = sorted([*ownerships, *endings], key=lambda event: event.at_ms)
    for event in events:
        held = since[event.member]
        owned = event.partitions if isinstance(event, Ownership) else frozenset()
        gone = sorted(held.keys() - owned)
        lost = isinstance(event, Ownership) and event.lost
        found.extend(Tenure(event.member, partition, held.pop(partition), event.at_ms, lost) for partition in gone)
        for partition in owned - held.keys():
            held[partition] = event.at_ms
    for member, held in since.items():
        found.extend(Tenure(member, partition, from_ms, float("inf")) for partition, from_ms in held.items())
    return found


def tenures_overlap(found: Iterable[Tenure]) -> Iterator[Overlap]:
    """Moments at which two consumers both said that a partition was theirs."""
    by_partition: dict[Partition, list[Tenure]] = defaultdict(list)
    for tenure in found:
        by_partition[tenure.partition].append(tenure)
    for _, held in sorted(by_partition.items()):
        held.sort(key=lambda tenure: (tenure.from_ms, tenure.until_ms))
        longest = held[0]
        for tenure in held[1:]:
            if tenure.member != longest.member and tenure.from_ms < longest.until_ms:
                yield Overlap(longest, tenure)
            if tenure.until_ms > longest.until_ms:
                longest = tenure


def checkpoints_wrong(checkpoints: Iterable[Checkpoint], topics: Mapping[str, int]) -> Iterator[str]:
    """Settled groups in which a partition had no owner, two, or one who did not subscribe to it."""
    for checkpoint in checkpoints:
        for fault in checkpoint_faults(checkpoint, topics):
            yield f"after {checkpoint.step}: {fault}"


def checkpoint_faults(checkpoint: Checkpoint, topics: Mapping[str, int]) -> Iterator[str]:
    """What is wrong at one checkpoint. Empty: the group has settled, and is complete and disjoint."""
    subscribed = frozenset[str]().union(*checkpoint.subscriptions.values())
    expected = {Partition(topic, index) for topic in subscribed for index in range(topics[topic])}
    yield from _not_exactly(checkpoint.by_clients, expected, "by the consumers' word")
    for member, owned in sorted(checkpoint.by_clients.items()):
        foreign = {partition for partition in owned if partition.topic not in checkpoint.subscriptions.get(member, ())}
        if foreign:
            yield f"{member} owns {_named(map(str, foreign))} and does not subscribe to it"
    described = checkpoint.by_coordinator
    if described is None or described.state != STABLE:
        state = "was never described" if described is None else f"is {described.state}"
        yield f"the group {state}, not Stable"
        return
    if len(described.owners) != len(checkpoint.subscriptions):
        yield f"the group has {counted(len(described.owners), 'member')}, {len(checkpoint.subscriptions)} consumers run"
    yield from _not_exactly(described.owners, expected, "by the coordinator's word")
    if sorted(map(sorted, filter(None, described.owners.values()))) != sorted(
        map(sorted, filter(None, checkpoint.by_clients.values()))
    ):
        yield "the consumers and the coordinator disagree about who owns what"


def commits_lost(evidence: Evidence) -> Iterator[str]:
    """Acknowledged commits that are not there at the end: the offset read back is lower, or there is none."""
    last: dict[tuple[str, Partition], int] = {}
    for commit in sorted(evidence.commits, key=lambda commit: commit.at_ms):
        last[commit.member, commit.partition] = commit.offset
    for (member, partition), offset in sorted(last.items()):
        kept = evidence.committed.get(partition)
        if kept is None or kept < offset:
            found = "there is no commit" if kept is None else f"{kept} was read back"
            yield f"lost commit: {member} committed {offset} for {partition} successfully, at the end {found}"


def resumptions_early(evidence: Evidence) -> Iterator[str]:
    """New owners that began before an offset whose commit had been acknowledged when they were given the partition."""
    for resumed in evidence.resumptions:
        acknowledged = [
            commit.offset
            for commit in evidence.commits
            if commit.partition == resumed.partition and commit.at_ms <= resumed.since_ms
        ]
        if acknowledged and resumed.offset < max(acknowledged):
            yield (
                f"lost commit: {resumed.member} resumed {resumed.partition} at {resumed.offset},"
                f" after {max(acknowledged)} had been acknowledged"
            )


def evidence_missing(evidence: Evidence, topics: Mapping[str, int], steps: Iterable[str]) -> Iterator[str]:
    """Reasons why the rest of the evidence would prove nothing."""
    reached = [checkpoint.step for checkpoint in evidence.checkpoints]
    for step in steps:
        if step not in reached:
            yield f"the script never got past: {step}"
    if not any(snapshot.state == STABLE for snapshot in evidence.snapshots):
        yield "the coordinator never described a Stable group"
    silent = {Partition(topic, index) for topic, count in topics.items() for index in range(count)}
    silent -= {commit.partition for commit in evidence.commits}
    if silent:
        yield f"nothing was ever committed for {_named(map(str, silent))}"


def _not_exactly(owners: Mapping[str, frozenset[Partition]], expected: set[Partition], whose: str) -> Iterator[str]:
    owned = frozenset[Partition]().union(*owners.values())
    if expected - owned:
        yield f"{whose}, {_named(map(str, expected - owned))} had no owner"
    if owned - expected:
        yield f"{whose}, {_named(map(str, owned - expected))} should not have had an owner"
    for partition, members in _shared(owners):
        yield f"{whose}, {partition} was owned by {_named(members)}"


def _shared(owners: Mapping[str, frozenset[Partition]]) -> Iterator[tuple[Partition, frozenset[str]]]:
    members: dict[Partition, set[str]] = defaultdict(set)
    for member, owned in owners.items():
        for partition in owned:
            members[partition].add(member)
    for partition in sorted(members):
        if len(members[partition]) > 1:
            yield partition, frozenset(members[partition])


def _named(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *rest, last = sorted(names)
    return f"{', '.join(rest)} and {last}" if rest else last
