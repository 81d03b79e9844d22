"""OffsetCommit (docs/protocol.md §10) and OffsetFetch (§11)."""

from __future__ import annotations

from rota.model.answers import NONE, CommitAnswer, CommittedPartition, FetchAnswer, FetchedOffset
from rota.model.consumer.admin import commit_error, fetch_error
from rota.model.log import append, append_unwatched
from rota.model.members import identity_error
from rota.model.records import OffsetRecord, OffsetValue
from rota.model.refusals import refusal
from rota.model.requests import OffsetCommit, OffsetFetch, Submit
from rota.model.state import (
    Group,
    Promise,
    State,
    arm_session,
    change,
    emit,
    find,
    put,
    wait_for_append,
)
from rota.model.values import replace


def offset_commit(s: State, ticket: int, request: OffsetCommit) -> State:
    """Check, refresh the session, and append what is not too long (docs/protocol.md §10.1, §10.2)."""
    group_id = request.group_id or ""
    group = s.groups.get(group_id)
    of_consumers = s.consumers.get(group_id)
    error = commit_error(of_consumers, request, s.topics) if of_consumers else _commit_error(group, request)
    if error != NONE:
        return emit(s, refusal(ticket, request, error))
    member = find(group, request.member_id) if group else None
    if group and member and request.generation >= 0:
        s = arm_session(s, group_id, member.member_id)
    results, records = [], []
    for topic, partition, offset, leader_epoch, metadata in request.offsets:
        text, topic_id = metadata or "", dict(request.topic_ids).get(topic, 0)
        too_long = len(text.encode("utf-16-le", "surrogatepass")) // 2 > s.config.offset_metadata_max_bytes
        outcome = "OFFSET_METADATA_TOO_LARGE" if too_long else NONE
        results.append(CommittedPartition(topic, partition, outcome, topic_id))
        if not too_long:
            value = _stored(request, offset, leader_epoch, text, topic_id, s.wall_ms)
            records.append(OffsetRecord(group_id, topic, partition, value))
    if not records:
        return emit(s, CommitAnswer(ticket, tuple(results)))
    return append(s, group_id, tuple(records), Promise(CommitAnswer(ticket, tuple(results))))


def _stored(request: OffsetCommit, offset: int, epoch: int, metadata: str, topic_id: int, wall_ms: int) -> OffsetValue:
    """A record with an expire timestamp has no place for epoch and topic id (docs/protocol.md §10.2, §14)."""
    keep_ms = request.retention_time_ms
    if keep_ms is None or keep_ms == -1:
        return OffsetValue(offset, epoch, metadata, wall_ms, None, topic_id)
    return OffsetValue(offset, -1, metadata, wall_ms, min(wall_ms + keep_ms, 2**63 - 1), 0)


def _commit_error(group: Group | None, request: OffsetCommit) -> str:
    """docs/protocol.md §10.1."""
    outside = request.generation < 0
    if group is None:
        late_version = request.version >= 9
        return NONE if outside else "GROUP_ID_NOT_FOUND" if late_version else "ILLEGAL_GENERATION"
    if group.state == "Empty" and outside:
        return NONE
    error = identity_error(group, request.member_id, request.instance_id)
    if error != NONE:
        return error
    if request.generation != group.generation:
        return "ILLEGAL_GENERATION"
    return "REBALANCE_IN_PROGRESS" if group.state == "CompletingRebalance" else NONE


def fold_offset(s: State, record: OffsetRecord) -> State:
    """The first durable offset of a missing group makes it, a tombstone does not (docs/protocol.md §10.1, §15.1)."""
    if record.value is None and record.group_id not in s.groups:
        return s
    group = s.groups.get(record.group_id) or Group(record.group_id, s.now_ms, s.wall_ms)
    place = (record.topic, record.partition)
    offsets = {other: value for other, value in group.offsets.items() if other != place}
    if record.value is not None:
        offsets[place] = record.value
    return put(s, replace(group, offsets=offsets, durable=group.durable or record.value is not None))


def offset_fetch(s: State, event: Submit, request: OffsetFetch) -> State:
    """A stable fetch waits for the commits and deletions of its group that are in flight (docs/protocol.md §11.3)."""
    group_id = request.group_id or ""
    error = fetch_error(s.consumers.get(group_id), request)
    if error != NONE:
        return emit(s, refusal(event.ticket, request, error))
    changing = [
        flying
        for flying in s.appends
        if isinstance(flying.what, Promise)
        and flying.what.answer
        and any(record.group_id == group_id for record in flying.records)
    ]
    if not request.require_stable or not changing:
        return emit(s, fetched(s, event.ticket, request))
    return wait_for_append(s, event, changing[-1].append_id)


def fetched(s: State, ticket: int, request: OffsetFetch) -> FetchAnswer:
    """Durable commits only, for every reader (docs/protocol.md §11.2)."""
    group_id, ids = request.group_id or "", dict(request.topic_ids)
    group = s.groups.get(group_id)
    offsets = group.offsets if group else {}
    places = sorted(offsets) if request.partitions is None else request.partitions
    shown = tuple(_fetched(place, offsets.get(place), ids.get(place[0], 0)) for place in places)
    return FetchAnswer(ticket, NONE, group_id, shown)


def _fetched(place: tuple[str, int], value: OffsetValue | None, topic_id: int) -> FetchedOffset:
    """An offset of another topic that had the name is not shown (docs/protocol.md §11.1)."""
    if value is None or (topic_id and value.topic_id and topic_id != value.topic_id):
        return FetchedOffset(*place)
    return FetchedOffset(*place, value.offset, value.leader_epoch, value.metadata, NONE, value.topic_id)


def topics_deleted(s: State, topics: tuple[str, ...]) -> State:
    """The offsets of deleted topics go at once, in every state, and those on their way to the log with them
    (docs/protocol.md §13.3).
    """
    gone = {
        (record.group_id, record.topic, record.partition)
        for flying in s.appends
        for record in flying.records
        if isinstance(record, OffsetRecord) and record.value and record.topic in topics
    }
    for group_id, group in s.groups.items():
        gone |= {(group_id, topic, partition) for topic, partition in group.offsets if topic in topics}
        kept = {place: value for place, value in group.offsets.items() if place[0] not in topics}
        s = change(s, group_id, offsets=kept)
    return append_unwatched(s, tuple(OffsetRecord(*place, None) for place in sorted(gone)))
