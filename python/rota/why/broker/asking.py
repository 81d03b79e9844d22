"""What is asked of a broker: looks at a group for some time, and the records of the group."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rota import _rota
from rota.why.broker.history import History, partition_for
from rota.why.broker.movement import Look

if TYPE_CHECKING:
    from rota.groups.cluster import Cluster

OFFSETS_TOPIC = "__consumer_offsets"
LOOK_EVERY_S = 1.0
FETCH_BYTES_MAX = 1 << 20
POLL_MS = 500
RECORDS_AT_ONCE = 10_000
STILL_S = 10.0
"""How long the records may bring nothing before the rest of them counts as unreadable."""

Tell = Callable[[str], None]
Pause = Callable[[float], None]


def look(cluster: Cluster, group: str) -> Look:
    """The group now. Raises GroupsError, also if it does not exist."""
    [described] = cluster.describe([group])
    committed = cluster.committed(group)
    assigned = {at for member in described.members or [] for at in member.partitions}
    bounds = cluster.bounds(sorted(committed.keys() | assigned))
    return Look(time.monotonic(), described, committed, {at: bound.end for at, bound in bounds.items()})


def looks(cluster: Cluster, group: str, watch_s: float, tell: Tell, pause: Pause) -> list[Look]:
    """Looks at a group every LOOK_EVERY_S, for `watch_s` seconds; once if that is 0. Raises GroupsError."""
    found = [look(cluster, group)]
    while (left_s := watch_s - (found[-1].at_s - found[0].at_s)) > 0:
        tell(f"watches group {group}: {left_s:.0f} s left")
        pause(min(LOOK_EVERY_S, left_s))
        found.append(look(cluster, group))
    return found


def history(cluster: Cluster, group: str, since_ms: int, tell: Tell) -> tuple[History, str]:
    """The records of a group since a time, and why some or all of them could not be read, or "". `since_ms`:
    milliseconds since the Unix epoch."""
    from rota.groups.errors import GroupsError

    try:
        partitions = cluster.partitions([OFFSETS_TOPIC]).get(OFFSETS_TOPIC, [])
        if not partitions:
            return History(group, is_whole=False), f"{OFFSETS_TOPIC} is not there, or an ACL forbids to read it"
        at = (OFFSETS_TOPIC, partition_for(group, len(partitions)))
        bounds = cluster.bounds([at])[at]
        if bounds.end == 0:
            return History(group, is_whole=False), f"{OFFSETS_TOPIC} is empty here: this broker does not show them"
        begin = cluster.at_time([at], since_ms)[at]
        begin = bounds.end if begin < 0 else begin
        found = History(group, is_whole=begin == 0)
        return found, _read(cluster, found, at, begin, bounds.end, tell)
    except GroupsError as error:
        return History(group, is_whole=False), str(error)


def _read(cluster: Cluster, found: History, at: tuple[str, int], begin: int, end: int, tell: Tell) -> str:
    from kafka import TopicPartition

    place, position, damaged = TopicPartition(*at), begin, 0
    moved_s = time.monotonic()
    with cluster.consumer(FETCH_BYTES_MAX, isolation_level="read_committed") as consumer:
        consumer.assign([place])
        consumer.seek(place, begin)
        while position < end and time.monotonic() - moved_s < STILL_S:
            for record in consumer.poll(timeout_ms=POLL_MS, max_records=RECORDS_AT_ONCE).get(place, []):
                if record.offset < end and record.key is not None:
                    damaged += not _folded(found, record.timestamp, record.key, record.value)
            if (now := consumer.position(place)) > position:
                position, moved_s = now, time.monotonic()
            tell(f"reads the records of group {found.group}: {max(0, end - position)} left")
    if position < end:
        return f"the broker sent nothing for {STILL_S:.0f} s, and {end - position} records are not read"
    return f"{damaged} records are damaged" if damaged else ""


def _folded(found: History, timestamp_ms: int, key: bytes, value: bytes | None) -> bool:
    try:
        found.read(timestamp_ms, key, value)
    except _rota.RecordError:
        return False
    return True
