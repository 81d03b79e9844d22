"""DeleteGroups (docs/protocol.md §12.3) and OffsetDelete (§12.4)."""

from __future__ import annotations

from rota.model.answers import NONE, DeleteAnswer, DeletedPartition, OffsetDeleteAnswer
from rota.model.consumer.admin import delete_consumers
from rota.model.consumer.data import subscribed_names
from rota.model.log import append, keep_hidden
from rota.model.rebalance import remove_group
from rota.model.records import GroupRecord, OffsetRecord, Record
from rota.model.requests import DeleteGroup, OffsetDelete
from rota.model.state import Group, InFlight, Promise, State, change, emit


def delete_group(s: State, ticket: int, request: DeleteGroup) -> State:
    """Only an Empty group can be deleted, at generation 0 too (docs/protocol.md §12.3)."""
    group_id = request.group_id or ""
    group = s.groups.get(group_id)
    if group_id in s.consumers:
        return delete_consumers(s, ticket, group_id, tombstones_of(s, group or _unseen(s, group_id))[:-1])
    if group is None or group.state != "Empty":
        return emit(s, DeleteAnswer(ticket, "NON_EMPTY_GROUP" if group else "GROUP_ID_NOT_FOUND", group_id))
    s = append(s, group_id, tombstones_of(s, group), Promise(DeleteAnswer(ticket, NONE, group_id)))
    return change(s, group_id, deleting=s.append_ids - 1)


def tombstones_of(s: State, group: Group) -> tuple[Record, ...]:
    """One for every offset that could bring the group back, then one for the group (docs/protocol.md §12.3)."""
    offsets = tuple(
        OffsetRecord(group.group_id, topic, partition, None) for topic, partition in sorted(_places(s, group))
    )
    return (*offsets, GroupRecord(group.group_id, None))


def _unseen(s: State, group_id: str) -> Group:
    """A consumer group without stored offsets."""
    return Group(group_id, s.now_ms, s.wall_ms)


def _places(s: State, group: Group) -> set[tuple[str, int]]:
    """What has an offset, in memory, on its way, or in the log because its tombstone was not stored (docs/protocol.md
    §12.3).
    """
    records = [record for flying in s.appends for record in flying.records]
    return set(group.offsets) | {
        (record.topic, record.partition)
        for record in (*records, *s.unwritten)
        if isinstance(record, OffsetRecord) and record.group_id == group.group_id
    }


def deletion_failed(s: State, flying: InFlight) -> State:
    """The groups stay as they are (docs/protocol.md §12.3); one whose creation failed meanwhile is gone (§4.10).
    The log may have the deletion nonetheless (§10.3).
    """
    for group_id in {record.group_id for record in flying.records}:
        group = s.groups.get(group_id)
        if group and group.deleting == flying.append_id:
            s = change(s, group_id, deleting=None) if group.durable else remove_group(s, group_id)
    return s if flying.what is None else keep_hidden(s, flying.records)


def offset_delete(s: State, ticket: int, request: OffsetDelete) -> State:
    """docs/protocol.md §12.4."""
    group_id = request.group_id or ""
    group = s.groups.get(group_id) or (_unseen(s, group_id) if group_id in s.consumers else None)
    if group is None:
        return emit(s, OffsetDeleteAnswer(ticket, "GROUP_ID_NOT_FOUND"))
    if group.state != "Empty" and group.protocol_type != "consumer":
        return emit(s, OffsetDeleteAnswer(ticket, "NON_EMPTY_GROUP"))
    results = tuple(
        DeletedPartition(topic, partition, "GROUP_SUBSCRIBED_TO_TOPIC" if is_read(s, group, topic) else NONE)
        for topic, partition in request.partitions
    )
    there = _places(s, group)
    wanted = {(result.topic, result.partition) for result in results if result.error == NONE}
    tombstones = tuple(OffsetRecord(group_id, topic, partition, None) for topic, partition in sorted(wanted & there))
    if not tombstones:
        return emit(s, OffsetDeleteAnswer(ticket, NONE, results))
    return append(s, group_id, tombstones, Promise(OffsetDeleteAnswer(ticket, NONE, results)))


def is_read(s: State, group: Group, topic: str) -> bool:
    """The same of a group of either protocol (docs/consumer-protocol.md §12)."""
    return is_consumed(group, topic) or topic in subscribed_names(s.consumers.get(group.group_id))


def is_consumed(group: Group, topic: str) -> bool:
    """Whether a member of a consumer group subscribes to the topic, or may (docs/protocol.md §12.4, §13.2)."""
    return group.protocol_type == "consumer" and (group.subscribed_topics is None or topic in group.subscribed_topics)
