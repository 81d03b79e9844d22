"""What is asked of a broker: looks at a group for some time, and the records of the group."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rota import _rota
from rota.groups.reading import read_spans
from rota.why import words
from rota.why.broker.history import History, Partition
from rota.why.broker.movement import Look, Surroundings

if TYPE_CHECKING:
    from rota.groups.cluster import Cluster

OFFSETS_TOPIC = "__consumer_offsets"
LOOK_EVERY_S = 1.0
FETCH_BYTES_MAX = 1 << 20
STILL_S = 10.0
"""How long the records may bring nothing before the rest of them counts as unreadable."""

LIST_TRANSACTIONS = "kafka-python admin -b HOST:PORT transactions list"

Tell = Callable[[str], None]
Pause = Callable[[float], None]


def look(cluster: Cluster, group: str) -> Look:
    """The group now. Raises GroupsError, also if it does not exist."""
    [described] = cluster.describe([group])
    committed = cluster.committed(group)
    assigned = {at for member in described.members or [] for at in member.partitions}
    ends = cluster.ends(sorted(committed.keys() | assigned))
    return Look(time.monotonic(), described, committed, ends)


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
        at = (OFFSETS_TOPIC, _rota.partition_for(group, len(partitions)))
        end = cluster.ends([at])[at]
        if end == 0:
            return History(group, is_whole=False), f"{OFFSETS_TOPIC} is empty here: this broker does not show them"
        begin = cluster.at_time([at], since_ms)[at]
        begin = end if begin < 0 else begin
        stable = min([end, *stable_ends(cluster, [at]).values()])
        found = History(group, is_whole=begin == 0)
        # Beyond an open transaction a reader of committed records would wait for its end.
        return found, _read(cluster, found, at, begin, stable, tell) or _open(cluster, group, end - stable)
    except GroupsError as error:
        return History(group, is_whole=False), str(error)


def stable_ends(cluster: Cluster, places: Sequence[Partition]) -> dict[Partition, int]:
    """Of each partition, the offset before which no transaction is open. Raises GroupsError."""
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec
    from kafka.protocol.consumer import IsolationLevel

    asked = {TopicPartition(*place): OffsetSpec.LATEST for place in places}
    found = cluster.offsets(asked, IsolationLevel.READ_COMMITTED)
    return {(at.topic, at.partition): one.offset for at, one in found.items()}


def _open(cluster: Cluster, group: str, left: int) -> str:
    """Why the last records are not read."""
    from rota.groups.transactions import open_transactions

    if left <= 0:
        return ""
    rest = f"{words.counted(left, 'record')} can be read only when it has ended"
    found = open_transactions(cluster, [group]).get(group, [])
    if not found:
        return f"a transaction is open among them; {rest}; `{LIST_TRANSACTIONS}` shows it"
    return f"transaction {words.printable(found[0].transactional_id)} {found[0].fate}; {rest}"


def surroundings(cluster: Cluster, last: Look) -> Surroundings:
    """The topics and open transactions around a group. Raises GroupsError."""
    from rota.groups.transactions import open_in

    topics = {topic for member in last.described.members or [] for topic in member.topics}
    absent = topics - cluster.partitions(topics).keys() if topics else set()
    behind = [at for at, one in last.committed.items() if at in last.ends and one.offset < last.ends[at]]
    stable = stable_ends(cluster, behind) if behind else {}
    held = {at: stable[at] for at in behind if last.committed[at].offset >= stable.get(at, last.ends[at])}
    by_place = open_in(cluster, list(held))
    return Surroundings(sorted(absent), {at: by_place[at][0] if by_place[at] else None for at in held})


def _read(cluster: Cluster, found: History, at: tuple[str, int], begin: int, end: int, tell: Tell) -> str:
    from kafka import TopicPartition

    place, position, damaged = TopicPartition(*at), begin, 0

    def take(_: Any, records: list[Any], following: int) -> None:
        nonlocal position, damaged
        position = following
        damaged += sum(not _folded(found, one.timestamp, one.key, one.value) for one in records)

    def told(read: int) -> None:
        tell(f"reads the records of group {found.group}: {words.counted(max(0, end - begin - read), 'record')} left")

    if begin >= end:
        return ""
    with cluster.consumer(FETCH_BYTES_MAX, isolation_level="read_committed") as consumer:
        read_spans(consumer, {place: range(begin, end)}, take, STILL_S, told)
    if position < end:
        return f"the broker sent nothing for {STILL_S:.0f} s, and {end - position} records are not read"
    return f"{damaged} records are damaged" if damaged else ""


def _folded(found: History, timestamp_ms: int, key: bytes, value: bytes | None) -> bool:
    try:
        found.read(timestamp_ms, key, value)
    except _rota.RecordError:
        return False
    return True
