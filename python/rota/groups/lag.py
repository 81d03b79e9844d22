"""How far a group is behind, in messages and in seconds.

In messages it is the distance from the committed offset to the end of the log. In seconds it is the distance in time
from the message at the committed offset, which is the next one to be read, to the newest of the partition. Both times
are the messages' own timestamps, so it does not grow while nothing is produced; `waiting_s` does, which is the age of
the next message.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import TopicPartition

from rota.groups.cluster import Bounds, Cluster, Committed, Described, Member, Partition

MESSAGE_WAIT_S = 5.0
"""How long the messages at the committed offsets are waited for, all together."""
FETCH_BYTES_MAX = 65_536
"""Of one partition at once: only the first message matters."""


@dataclass(frozen=True)
class Row:
    """One partition of a group. What is None is not known; `unknown` says why the seconds are not."""

    topic: str
    partition: int
    committed: Committed | None
    end: int | None
    lag: int | None
    lag_s: float | None
    waiting_s: float | None
    unknown: str
    member: Member | None


def rows(cluster: Cluster, described: Described) -> list[Row]:
    """Every partition that a group committed for or is assigned, by topic and index."""
    committed = cluster.committed(described.group)
    owners = {at: member for member in described.members or [] for at in member.partitions}
    wanted = sorted(committed.keys() | owners.keys())
    bounds = cluster.bounds(wanted)
    readable = {
        at: committed[at].offset
        for at, bound in bounds.items()
        if at in committed and bound.first <= committed[at].offset < bound.end
    }
    newest = cluster.newest_ms(readable)
    following = timestamps(cluster, {at: offset for at, offset in readable.items() if at in newest})
    now_ms = time.time() * 1_000
    found = []
    for at in wanted:
        one, bound = committed.get(at), bounds.get(at)
        lag = None if one is None or bound is None else bound.end - one.offset
        lag_s = waiting_s = 0.0 if lag == 0 else None
        if at in following:
            lag_s = max(0, newest[at] - following[at]) / 1_000
            waiting_s = max(0.0, now_ms - following[at]) / 1_000
        unknown = "" if lag_s is not None else _why(one, bound, at in newest)
        found.append(
            Row(*at, one, None if bound is None else bound.end, lag, lag_s, waiting_s, unknown, owners.get(at))
        )
    return found


def _why(one: Committed | None, bound: Bounds | None, is_timed: bool) -> str:
    """Why the seconds are not known."""
    if bound is None:
        return "the partition does not exist any more"
    if one is None:
        return "nothing is committed"
    if one.offset < bound.first:
        return f"the messages before offset {bound.first} are deleted"
    if one.offset > bound.end:
        return "the committed offset is beyond the end of the log"
    return "the message did not come in time" if is_timed else "the broker told no timestamps"


def timestamps(cluster: Cluster, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
    """The timestamps, in ms, of the messages at these offsets, or of the next ones that are still there; those that do
    not come in time, or have none, are left out."""
    if not offsets:
        return {}
    found: dict[Partition, int] = {}
    deadline = time.monotonic() + MESSAGE_WAIT_S
    with cluster.consumer(FETCH_BYTES_MAX) as consumer:
        by_partition = {TopicPartition(*partition): partition for partition in offsets}
        consumer.assign(list(by_partition))
        for at, partition in by_partition.items():
            consumer.seek(at, offsets[partition])
        while by_partition and time.monotonic() < deadline:
            for at, messages in consumer.poll(500, max_records=10_000).items():
                consumer.pause(at)
                at_ms = messages[0].timestamp
                if at in by_partition and at_ms is not None and at_ms >= 0:
                    found[by_partition[at]] = at_ms
                by_partition.pop(at, None)
    return found
