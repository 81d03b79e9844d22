"""The assignors, naively: from their definitions, one partition at a time, in no hurry.

Written from what each assignor promises, not from `rust/assign`. Plans map a member to a set of partitions (topic,
index). `Says` is what a member says; order is the canonical one: static members by instance id, then dynamic ones by
member id; topics by name.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
Racks: TypeAlias = Mapping[Partition, frozenset[str]]
Owners: TypeAlias = dict[Partition, str]


@dataclass(frozen=True)
class Says:
    """A member: its topics, and what it claims from which generation."""

    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[Partition, ...] = ()
    generation: int = -1
    rack: str | None = None


Group: TypeAlias = Mapping[str, Says]


def members_in_order(group: Group) -> list[str]:
    """Static members by instance id, then dynamic ones by member id."""

    def key(member: str) -> tuple[bool, bytes]:
        instance_id = group[member].instance_id
        # Java compares strings by UTF-16 units.
        return instance_id is None, (member if instance_id is None else instance_id).encode("utf-16-be")

    return sorted(group, key=key)


def topics_in_order(partitions: Mapping[str, int]) -> list[str]:
    """By name."""
    return sorted(partitions, key=lambda topic: topic.encode("utf-16-be"))


def subscribers(group: Group, topic: str) -> list[str]:
    """Who subscribes to a topic, in order."""
    return [member for member in members_in_order(group) if topic in group[member].topics]


def assignable(group: Group, partitions: Mapping[str, int]) -> list[Partition]:
    """The partitions with a subscriber, in order."""
    return [
        (topic, i)
        for topic in topics_in_order(partitions)
        if subscribers(group, topic)
        for i in range(partitions[topic])
    ]


def roundrobin(group: Group, partitions: Mapping[str, int]) -> Owners:
    """Turn the ring until its member subscribes; give; turn on."""
    ring, at, owners = members_in_order(group), 0, {}
    for topic, index in assignable(group, partitions):
        while topic not in group[ring[at % len(ring)]].topics:
            at += 1
        owners[topic, index] = ring[at % len(ring)]
        at += 1
    return owners


def racks_matter(group: Group, members: Sequence[str], which: Sequence[Partition], racks: Racks) -> bool:
    """Some member's rack is among the partitions' racks, and not every partition is in all of these."""
    wanted = {group[member].rack for member in members} - {None, ""}
    everywhere = frozenset[str]().union(*(racks.get(partition, frozenset()) for partition in which))
    return bool(wanted & everywhere) and any(racks.get(partition, frozenset()) != everywhere for partition in which)


def in_rack(group: Group, member: str, partition: Partition, racks: Racks) -> bool:
    """A member without a rack is in every rack."""
    rack = group[member].rack
    return not rack or rack in racks.get(partition, frozenset())


class RangeTopic:
    """One topic on its way through `range`."""

    def __init__(self, topic: str, count: int, members: list[str]) -> None:
        self.topic, self.members = topic, members
        self.each, self.extra = divmod(count, len(members))
        self.count = dict.fromkeys(members, 0)
        self.unassigned = [(topic, index) for index in range(count)]

    def capacity(self, member: str) -> int:
        return max(0, self.each + (self.extra > 0) - self.count[member])

    def give(self, member: str, which: list[Partition], owners: Owners) -> None:
        for partition in which:
            owners[partition] = member
            self.unassigned.remove(partition)
        self.count[member] += len(which)
        if which and self.count[member] > self.each:
            self.extra -= 1

    def sweep(self, allowed: Callable[[str, Partition], bool], owners: Owners) -> None:
        for member in self.members:
            matching = [partition for partition in self.unassigned if allowed(member, partition)]
            self.give(member, matching[: self.capacity(member)], owners)


def range_(group: Group, partitions: Mapping[str, int], racks: Racks) -> Owners:
    """Topic by topic in ranges; where racks matter to some topic, first what is in the members' own racks."""
    owners: Owners = {}
    topics = [
        RangeTopic(topic, partitions[topic], subscribers(group, topic))
        for topic in topics_in_order(partitions)
        if subscribers(group, topic) and partitions[topic] > 0
    ]
    gates = {t.topic: racks_matter(group, t.members, t.unassigned, racks) for t in topics}

    def allowed(member: str, partition: Partition) -> bool:
        return in_rack(group, member, partition, racks)

    if any(gates.values()):
        classes: dict[tuple[tuple[str, ...], int], list[RangeTopic]] = {}
        for t in topics:
            asked = partitions[t.topic] if any(group[member].rack for member in t.members) else 0
            classes.setdefault((tuple(t.members), asked), []).append(t)
        for (members, count), alike in classes.items():
            if len(alike) == 1:
                if gates[alike[0].topic]:
                    alike[0].sweep(allowed, owners)
                continue
            for index in range(count):
                for member in members:
                    if all(allowed(member, (t.topic, index)) and t.capacity(member) > 0 for t in alike):
                        for t in alike:
                            t.give(member, [(t.topic, index)], owners)
                        break
    for t in topics:
        t.sweep(lambda _member, _partition: True, owners)
    return owners


def previous_owners(group: Group, partitions: Mapping[str, int]) -> tuple[Owners, set[Partition]]:
    """The previous owners, and the partitions that several members claim in the newest generation: these had no
    owner."""
    owners: Owners = {}
    contested = set()
    for partition in [(topic, index) for topic in partitions for index in range(partitions[topic])]:
        claims = [member for member in group if partition in group[member].owned]
        newest = max((max(group[member].generation, -1) for member in claims), default=-1)
        claims = [member for member in claims if max(group[member].generation, -1) == newest]
        if len(claims) == 1:
            owners[partition] = claims[0]
        elif claims:
            contested.add(partition)
    return owners, contested


Price: TypeAlias = tuple[int, int]
"""Partitions away from their racks, and moves: compared in this order."""
Way: TypeAlias = tuple[Price, list[tuple[Partition, str]]]
"""What it costs to give one more partition to a member, and who then gets what."""


def cheapest_ways(
    group: Group, owners: Owners, new: Partition, price: Callable[[Partition, str], Price]
) -> dict[str, Way]:
    """The cheapest way of a new partition to each member, by Bellman and Ford: members on the way pass one on."""
    takers = subscribers(group, new[0])
    ways: dict[str, Way] = {member: (price(new, member), [(new, member)]) for member in takers}
    changed = True
    while changed:
        changed = False
        for partition, owner in owners.items():
            if owner not in ways:
                continue
            (away, moves), steps = ways[owner]
            for member in subscribers(group, partition[0]):
                back, on = price(partition, owner), price(partition, member)
                cost = (away - back[0] + on[0], moves - back[1] + on[1])
                if member not in ways or cost < ways[member][0]:
                    ways[member] = (cost, [*steps, (partition, member)])
                    changed = True
    return ways


def best(group: Group, partitions: Mapping[str, int], racks: Racks) -> Owners:
    """The most even loads, then the fewest partitions away from their racks (if racks matter), then the fewest moves.

    One partition after the other takes the cheapest way to a member. The price of evenness is the sum of the squares of
    the loads: where it is least, the loads are the most even ones.
    """
    previous, _ = previous_owners(group, partitions)
    which = assignable(group, partitions)
    local = racks_matter(group, list(group), which, racks)
    owners: Owners = {}

    def price(partition: Partition, member: str) -> Price:
        away = local and not in_rack(group, member, partition, racks)
        return int(away), int(previous.get(partition) != member)

    for new in which:
        loads = Counter(owners.values())
        ways = cheapest_ways(group, owners, new, price)
        # The square of a load grows by 2 x load + 1, and only the last member on a way gets more.
        _, end = min(((loads[member], *cost), member) for member, (cost, _) in ways.items())
        owners.update(ways[end][1])
    return owners


def cooperative(group: Group, partitions: Mapping[str, int], target: Owners) -> Owners:
    """The part of a plan that may be assigned in this round: no partition that another member claims or that is
    contested."""
    previous, contested = previous_owners(group, partitions)
    return {
        partition: owner
        for partition, owner in target.items()
        if partition not in contested and previous.get(partition, owner) == owner
    }
