"""The target assignment (§7), from its definition: `uniform` and `range`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from rota.model.consumer.data import Group, Member, Partition, Topic, subscribed, with_member
from rota.model.values import replace

ASSIGNORS = ("uniform", "range")
Plan = dict[str, list[Partition]]
Uniform = Callable[[Mapping[str, frozenset[Topic]], Mapping[str, frozenset[Partition]]], Plan]
"""The plan of `uniform`, of each member's topics and former target."""


def preferred(group: Group) -> str:
    """The assignor that most members name; `uniform` among equals, and if no member names one (§5.2)."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor)
    return max(ASSIGNORS, key=lambda name: (votes[name], -ASSIGNORS.index(name)))


def compute(group: Group, topics: Mapping[str, Topic], uniform: Uniform | None = None) -> Group:
    """Every member's target. A static newcomer has that of the member that it replaced (§7.2)."""
    wanted = {member_id: subscribed(group, member, topics) for member_id, member in group.members.items()}
    before = {m: each.target or frozenset() for m, each in group.members.items()}
    if preferred(group) == "range":
        plan: Mapping[str, list[Partition]] = _range(group, wanted)
    else:
        plan = (uniform or of_kafka)(wanted, before)
    for member_id, member in group.members.items():
        group = with_member(group, replace(member, target=frozenset(plan.get(member_id, ()))))
    return group


def _partitions(topics: frozenset[Topic]) -> list[Partition]:
    """In ascending order of topic id (§21)."""
    return sorted((topic.topic_id, index) for topic in topics for index in range(topic.partitions))


def of_kafka(wanted: Mapping[str, frozenset[Topic]], before: Mapping[str, frozenset[Partition]]) -> Plan:
    """Kafka's `uniform`; rota's may give other members one partition more (docs/departures.md D16)."""
    return (_uniform if len(set(wanted.values())) <= 1 else _balanced)(wanted, before)


def _uniform(wanted: Mapping[str, frozenset[Topic]], before: Mapping[str, frozenset[Partition]]) -> Plan:
    """All members want the same topics: the first R members have one partition more than the others, each keeps the
    first of what it had.
    """
    partitions = _partitions(next(iter(wanted.values()), frozenset()))
    each, more = divmod(len(partitions), max(1, len(wanted)))
    quota = {member: each + (at < more) for at, member in enumerate(wanted)}
    plan = {member: [p for p in sorted(before[member]) if p in partitions][: quota[member]] for member in wanted}
    taken = {partition for kept in plan.values() for partition in kept}
    loose = [partition for partition in partitions if partition not in taken]
    for member, kept in plan.items():
        lacking = quota[member] - len(kept)
        kept += loose[:lacking]
        del loose[:lacking]
    return plan


def _balanced(wanted: Mapping[str, frozenset[Topic]], before: Mapping[str, frozenset[Partition]]) -> Plan:
    """Members want different topics: keep what is still wanted, give the rest to the least loaded, topic by topic in
    descending order of partitions a subscriber, then even out.
    """
    plan = {m: [p for p in sorted(before[m]) if p in _partitions(topics)] for m, topics in wanted.items()}
    takers = {topic: [m for m in wanted if topic in wanted[m]] for topics in wanted.values() for topic in topics}
    order = sorted(takers, key=lambda t: (-t.partitions / len(takers[t]), len(takers[t]), t.topic_id))
    for topic in order:
        ranks = {m: at for at, m in enumerate(sorted(takers[topic], key=lambda m: len(plan[m])))}
        taken = {partition for kept in plan.values() for partition in kept}
        for index in range(topic.partitions):
            if (topic.topic_id, index) not in taken:
                plan[min(ranks, key=lambda m: (len(plan[m]), ranks[m]))].append((topic.topic_id, index))
    moved = True
    while moved:
        moved = any(_even_out(plan, topic, takers[topic]) for topic in order)
    return plan


def _even_out(plan: Plan, topic: Topic, takers: list[str]) -> bool:
    """One partition of a topic from its most loaded owner to its least loaded subscriber, if that evens the loads."""
    owners = [m for m in takers if any(p[0] == topic.topic_id for p in plan[m])]
    if not owners:
        return False
    most = max(reversed(owners), key=lambda m: len(plan[m]))
    least = min(takers, key=lambda m: len(plan[m]))
    if len(plan[most]) - len(plan[least]) <= 1:
        return False
    partition = max(p for p in plan[most] if p[0] == topic.topic_id)
    plan[most].remove(partition)
    plan[least].append(partition)
    return True


def _range(group: Group, wanted: Mapping[str, frozenset[Topic]]) -> Plan:
    """Topic by topic in ranges; static members by instance id come first, then dynamic ones by member id."""

    def place(member: Member) -> tuple[bool, str]:
        return member.instance_id is None, member.instance_id or member.member_id

    plan: Plan = {member: [] for member in wanted}
    for topic in sorted({topic for topics in wanted.values() for topic in topics}, key=lambda t: t.topic_id):
        takers = sorted((m for m in wanted if topic in wanted[m]), key=lambda m: place(group.members[m]))
        each, more = divmod(topic.partitions, len(takers))
        at = 0
        for rank, member in enumerate(takers):
            count = each + (rank < more)
            plan[member] += [(topic.topic_id, index) for index in range(at, at + count)]
            at += count
    return plan
