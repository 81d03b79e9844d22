"""Open transactions that have offsets of groups, as a cluster describes them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rota import _rota
from rota.groups.cluster import OFFSETS_TOPIC, Cluster, Partition

ONGOING = "Ongoing"
OPEN_STATES = (ONGOING, "PrepareCommit", "PrepareAbort")


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction whose end is not visible in all its partitions."""

    transactional_id: str
    state: str
    partition: int
    """The partition that it has records in."""
    open_for_s: float
    aborted_in_s: float | None
    """When its time is over; None if it is being ended."""

    @property
    def fate(self) -> str:
        """`has been open for 41.0 s and is aborted in 19.0 s at the latest`."""
        left_s = self.aborted_in_s
        ending = "is being ended" if left_s is None else f"is aborted in {left_s:.1f} s at the latest"
        return f"has been open for {self.open_for_s:.1f} s and {ending}"


def open_transactions(cluster: Cluster, groups: Sequence[str]) -> dict[str, list[OpenTransaction]]:
    """Of each group, the open transactions with offsets in its partition of `__consumer_offsets`, the oldest first.

    Their offsets may be those of another group in that partition: no broker tells. A broker that does not list
    transactions, or not for this user, has none.
    """
    found = _by_place(cluster)
    count = len(cluster.partitions([OFFSETS_TOPIC]).get(OFFSETS_TOPIC, ())) if found else 0
    if not count:
        return {}
    return {group: found.get((OFFSETS_TOPIC, _rota.partition_for(group, count)), []) for group in groups}


def open_in(cluster: Cluster, places: Sequence[Partition]) -> dict[Partition, list[OpenTransaction]]:
    """Of each partition, the open transactions with records in it, the oldest first."""
    found = _by_place(cluster) if places else {}
    return {at: found.get(at, []) for at in places}


def _by_place(cluster: Cluster) -> dict[Partition, list[OpenTransaction]]:
    told = cluster.transactions(OPEN_STATES)
    now_ms = time.time() * 1_000
    found: dict[Partition, list[OpenTransaction]] = {}
    for name, one in sorted(told.items(), key=lambda pair: (pair[1].transaction_start_time_ms, pair[0])):
        age_ms = now_ms - one.transaction_start_time_ms
        left_s = max(0.0, one.transaction_timeout_ms - age_ms) / 1_000
        aborted_in_s = left_s if one.state.value == ONGOING else None
        for at in one.topic_partitions:
            held = OpenTransaction(name, one.state.value, at.partition, max(0.0, age_ms) / 1_000, aborted_in_s)
            found.setdefault((at.topic, at.partition), []).append(held)
    return found
