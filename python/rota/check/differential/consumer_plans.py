"""Which of the most even plans `uniform` gives is the assignor's choice (docs/departures.md D16).

The lockstep asks rota's assignor for it, with the model's view of the group, and certifies the plan: the core agrees
only if it gave the assignor the same members, subscriptions, sizes and former targets. `tests/assign` checks the
assignor.
"""

from __future__ import annotations

from collections.abc import Mapping

from rota.assign import functions
from rota.model.consumer.data import Partition, Topic


def uniform_plan(
    wanted: Mapping[str, frozenset[Topic]], before: Mapping[str, frozenset[Partition]]
) -> dict[str, list[Partition]]:
    """Every member's partitions; `wanted` are its topics, `before` its former target."""
    topics = sorted({topic for topics in wanted.values() for topic in topics}, key=lambda topic: topic.topic_id)
    sizes = {f"{topic.topic_id:032x}": topic.partitions for topic in topics}
    members = {
        member_id: functions.Subscriber(
            sorted(f"{topic.topic_id:032x}" for topic in mine),
            owned=[(f"{at:032x}", index) for at, index in sorted(before[member_id]) if f"{at:032x}" in sizes],
            generation=0,
        )
        for member_id, mine in wanted.items()
    }
    plan = functions.uniform(members, sizes)
    functions.certify(members, sizes, plan)
    return {member_id: [(int(name, 16), index) for name, index in found] for member_id, found in plan.items()}
