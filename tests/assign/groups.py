"""Random groups, and the way between `rota.assign` and the naive model."""

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

import rota.assign
from rota.model.assignors import Owners, Partition, Says, previous_owners

RACKS = ("r1", "r2", "r3")


@dataclass(frozen=True)
class Group:
    """A group, its topics, and where their replicas are."""

    members: Mapping[str, Says]
    partitions: Mapping[str, int]
    racks: Mapping[Partition, frozenset[str]]

    @property
    def subscribers(self) -> dict[str, rota.assign.Subscriber]:
        """The members as `rota.assign` takes them."""
        return {
            member: rota.assign.Subscriber(
                sorted(says.topics), says.instance_id, list(says.owned), says.generation, says.rack
            )
            for member, says in self.members.items()
        }

    @property
    def topic_racks(self) -> dict[str, list[list[str]]]:
        """The racks as `rota.assign` takes them."""
        return {
            topic: [sorted(self.racks[topic, index]) for index in range(count)]
            for topic, count in self.partitions.items()
            if count > 0
        }

    def renamed(self, names: Mapping[str, str]) -> "Group":
        """The same group, its members in another order under other ids."""
        return Group({names[member]: self.members[member] for member in names}, self.partitions, self.racks)


def owners_of(plan: Mapping[str, list[Partition]]) -> Owners:
    """A plan by partition; a partition with two owners fails."""
    owners: Owners = {}
    for member, assigned in plan.items():
        for partition in assigned:
            assert partition not in owners, f"{partition} went to {owners[partition]} and to {member}"
            owners[partition] = member
    return owners


def worth(group: Group, owners: Owners, *, local: bool) -> tuple[list[int], int, int]:
    """What plans are compared by: loads from the highest, partitions away from their racks, partitions not kept."""
    loads = [sum(owner == member for owner in owners.values()) for member in group.members]
    previous, _ = previous_owners(group.members, group.partitions)
    away = 0
    for partition, owner in owners.items():
        rack = group.members[owner].rack
        away += bool(local and rack and rack not in group.racks[partition])
    return sorted(loads, reverse=True), away, sum(previous.get(one) != owner for one, owner in owners.items())


@st.composite
def groups(draw: st.DrawFn, *, racked: bool = True, static: bool = False) -> Group:
    """Up to five members, four topics of up to five partitions, claims right and wrong, racks or not."""
    topics = draw(st.lists(st.sampled_from(["a", "b", "c", "t1", "t10", "t2"]), min_size=1, max_size=4, unique=True))
    partitions = {topic: draw(st.integers(0, 5)) for topic in topics}
    ids = draw(st.lists(st.sampled_from(["c1", "c10", "c2", "m", "z", "é"]), min_size=1, max_size=5, unique=True))
    equal = draw(st.booleans())
    common = draw(st.frozensets(st.sampled_from([*topics, "unknown"])))
    instances = iter(draw(st.permutations(["i1", "i2", "i3", "i4", "i5"])))
    with_racks = racked and draw(st.booleans())
    everything = [(topic, index) for topic, count in partitions.items() for index in range(count + 1)]
    members = {
        member: Says(
            common if equal else draw(st.frozensets(st.sampled_from([*topics, "unknown"]))),
            next(instances) if static or draw(st.booleans()) else None,
            tuple(draw(st.lists(st.sampled_from([*everything, ("unknown", 0)]), max_size=8))),
            draw(st.integers(-1, 2)),
            draw(st.sampled_from([None, *RACKS])) if with_racks else None,
        )
        for member in ids
    }
    racks = {
        (topic, index): draw(st.frozensets(st.sampled_from(RACKS), max_size=2)) if with_racks else frozenset[str]()
        for topic, count in partitions.items()
        for index in range(count)
    }
    return Group(members, partitions, racks)
