"""The cleaner: offsets and groups that were kept long enough (docs/protocol.md §13)."""

from __future__ import annotations

from rota.model.consumer.admin import end_idle
from rota.model.deletion import is_read, tombstones_of
from rota.model.log import append_unwatched
from rota.model.records import OffsetRecord, OffsetValue, Record, key_of
from rota.model.state import Group, Promise, State, arm, change


def arm_cleaner(s: State) -> State:
    """docs/protocol.md §13.1."""
    return arm(s, "Cleaner", "", "", s.config.offsets_retention_check_interval_ms)


def clean(s: State) -> State:
    """One run, in one step however large it is: tombstones for what has expired (docs/protocol.md §13.1, §13.3)."""
    tombstones: list[Record] = []
    ending = []
    spoken_of = {key_of(record) for flying in s.appends for record in flying.records}
    for group_id, group in sorted(s.groups.items()):
        gone = [
            record
            for record in (OffsetRecord(group_id, *place, None) for place in sorted(group.offsets))
            if key_of(record) not in spoken_of
            and has_expired(s, group, record.topic, group.offsets[record.topic, record.partition])
        ]
        in_flight = any(record.group_id == group_id for flying in s.appends for record in flying.records)
        if group_id not in s.consumers and group.state == "Empty" and len(gone) == len(group.offsets) and not in_flight:
            tombstones += tombstones_of(s, group)
            ending.append(group_id)
        else:
            tombstones += gone
    s = end_idle(s)
    s = append_unwatched(s, tuple(tombstones), Promise(None))
    for group_id in ending:
        s = change(s, group_id, deleting=s.append_ids - 1)
    return arm_cleaner(s)


def has_expired(s: State, group: Group, topic: str, value: OffsetValue) -> bool:
    """docs/protocol.md §13.1."""
    if group.deleting is not None or is_read(s, group, topic):
        return False
    since_ms = value.commit_timestamp_ms
    # Those of a consumer group expire as without a type (docs/consumer-protocol.md §12), also while its first batch is
    # in flight, behind an Empty classic group.
    has_type = group.protocol_type is not None and group.group_id not in s.consumers
    if has_type and group.state == "Empty":
        since_ms = since_ms if group.state_timestamp_ms == -1 else group.state_timestamp_ms
    elif has_type and not (group.protocol_type == "consumer" and group.state == "Stable"):
        return False
    if value.expire_timestamp_ms is not None:
        return s.wall_ms >= value.expire_timestamp_ms
    return s.wall_ms - since_ms >= s.config.offsets_retention_minutes * 60_000
