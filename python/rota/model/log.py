"""Handing records to the log (docs/protocol.md §10.3, §14)."""

from __future__ import annotations

from collections.abc import Mapping

from rota.model.answers import Append, CommitAnswer, OffsetDeleteAnswer
from rota.model.records import GroupRecord, GroupValue, MemberValue, OffsetRecord, Record, is_tombstone, key_of
from rota.model.state import Group, InFlight, Member, Promise, State, What, arm, emit
from rota.model.values import replace

GROUP_ERRORS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT": "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
    "KAFKA_STORAGE_ERROR": "NOT_COORDINATOR",
    "MESSAGE_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "RECORD_LIST_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "INVALID_FETCH_SIZE": "UNKNOWN_SERVER_ERROR",
}
OFFSET_ERRORS = GROUP_ERRORS | {"NETWORK_EXCEPTION": "COORDINATOR_LOAD_IN_PROGRESS"}


def group_error(error: str) -> str:
    """The answer to a request that waits for a group record (docs/protocol.md §6.6)."""
    return GROUP_ERRORS.get(error, error)


def offset_error(error: str) -> str:
    """The answer to a request that waits for an offset record (docs/protocol.md §6.6)."""
    return OFFSET_ERRORS.get(error, error)


def append(s: State, group_id: str, records: tuple[Record, ...], what: What) -> State:
    """Append records that a request waits for, at most `offsets.commit.timeout.ms` (docs/protocol.md §10.3)."""
    s = _hand_over(write_again(s, records), group_id, records, what)
    return arm(s, "Append", "", str(s.append_ids - 1), s.config.offsets_commit_timeout_ms)


def append_unwatched(s: State, records: tuple[Record, ...], what: What | None = None) -> State:
    """Append records that no request waits for, without a deadline (docs/protocol.md §10.3)."""
    return _hand_over(write_again(s, records), "", records, what) if records else s


def write_again(s: State, following: tuple[Record, ...]) -> State:
    """Before an append of `following`: the kept records, by key. A record stays behind while an append in flight has
    its key, and if `following` deletes it (docs/protocol.md §10.3).
    """
    spoken_of = {key_of(record) for flying in s.appends for record in flying.records}
    spoken_of |= {key_of(record) for record in following if is_tombstone(record)}
    ready = sorted((record for record in s.unwritten if key_of(record) not in spoken_of), key=key_of)
    return _hand_over(s, "", tuple(ready), None) if ready else s


def keep_unwritten(s: State, records: tuple[Record, ...]) -> State:
    """Failed records that no request waited for are kept, the newest of each key (docs/protocol.md §10.3)."""
    return replace(forget_unwritten(s, records), unwritten=(*forget_unwritten(s, records).unwritten, *records))


def keep_hidden(s: State, records: tuple[Record, ...]) -> State:
    """Tombstones whose append failed may be in the log. What memory has under their keys is kept to be written, unless
    something is kept under the key already (docs/protocol.md §10.3).
    """
    kept = {key_of(record) for record in s.unwritten}
    hidden = (_hidden(s, record) for record in records if is_tombstone(record) and key_of(record) not in kept)
    return replace(s, unwritten=(*s.unwritten, *(record for record in hidden if record)))


def _hidden(s: State, record: Record) -> Record | None:
    group = s.groups.get(record.group_id)
    if not isinstance(record, OffsetRecord):
        return group_record(group) if group and group.durable and group.state == "Empty" else None
    value = group.offsets.get((record.topic, record.partition)) if group else None
    return replace(record, value=value) if value else None


def forget_unwritten(s: State, records: tuple[Record, ...]) -> State:
    """Kept records with one of these keys are out of date (docs/protocol.md §10.3)."""
    keys = {key_of(record) for record in records}
    return replace(s, unwritten=tuple(record for record in s.unwritten if key_of(record) not in keys))


def _hand_over(s: State, group_id: str, records: tuple[Record, ...], what: What | None) -> State:
    flying = InFlight(s.append_ids, group_id, records, what)
    s = replace(s, appends=(*s.appends, flying), append_ids=s.append_ids + 1)
    return emit(s, Append(flying.append_id, records))


def keep_promise(s: State, flying: InFlight, what: Promise, error: str | None) -> State:
    """Answer the requester of an append at its end, if it has no answer yet. A failure is answered on every
    partition of a commit, also on one that was refused before (docs/protocol.md §10.3), else at the top (§12).
    """
    answer = what.answer
    if answer is None or flying.late:
        return s
    if error is None:
        return emit(s, answer)
    told = offset_error(error)
    if isinstance(answer, CommitAnswer):
        return emit(s, replace(answer, partitions=tuple(replace(each, error=told) for each in answer.partitions)))
    if isinstance(answer, OffsetDeleteAnswer):
        return emit(s, OffsetDeleteAnswer(answer.ticket, told))
    return emit(s, replace(answer, error=told))


def group_record(group: Group, assignments: Mapping[str, bytes] | None = None) -> GroupRecord:
    """The group as one record, with the assignments in memory or with those of a plan (docs/protocol.md §14)."""
    return GroupRecord(
        group.group_id,
        GroupValue(
            group.protocol_type or "",
            group.generation,
            group.protocol_name,
            group.leader,
            group.state_timestamp_ms,
            tuple(_stored(member, group.protocol_name, assignments) for member in group.members),
        ),
    )


def _stored(member: Member, protocol_name: str | None, assignments: Mapping[str, bytes] | None) -> MemberValue:
    return MemberValue(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        dict(member.protocols).get(protocol_name or "", b""),
        member.assignment if assignments is None else assignments[member.member_id],
    )
