"""Open transactions that have offsets of groups, as a cluster describes them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rota import _rota
from rota.groups.cluster import OFFSETS_TOPIC, Cluster

ONGOING = "Ongoing"
OPEN_STATES = (ONGOING, "PrepareCommit", "PrepareAbort")


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction whose end is not visible in all its partitions."""

    transactional_id: str
    state: str
    partition: int
    """The partition of `__consumer_offsets` that it has offsets in."""
    open_for_s: float
    aborted_in_s: float | None
    """When its time is over; None if it is being ended."""


def open_transactions(cluster: Cluster, groups: Sequence[str]) -> dict[str, list[OpenTransaction]]:
    """Of each group, the open transactions with offsets in its partition of `__consumer_offsets`, the oldest first.

    Their offsets may be those of another group in that partition: no broker tells. A broker that does not list
    transactions, or not for this user, has none.
    """
    told = cluster.transactions(OPEN_STATES)
    count = len(cluster.partitions([OFFSETS_TOPIC]).get(OFFSETS_TOPIC, ())) if told else 0
    if not count:
        return {}
    now_ms = time.time() * 1_000
    by_partition: dict[int, list[OpenTransaction]] = {}
    for name, one in sorted(told.items(), key=lambda pair: (pair[1].transaction_start_time_ms, pair[0])):
        age_ms = now_ms - one.transaction_start_time_ms
        left_s = max(0.0, one.transaction_timeout_ms - age_ms) / 1_000
        aborted_in_s = left_s if one.state.value == ONGOING else None
        for partition in (at.partition for at in one.topic_partitions if at.topic == OFFSETS_TOPIC):
            held = OpenTransaction(name, one.state.value, partition, max(0.0, age_ms) / 1_000, aborted_in_s)
            by_partition.setdefault(partition, []).append(held)
    return {group: by_partition.get(_rota.partition_for(group, count), []) for group in groups}
