"""Faults of a log of groups: each changes the records of one group, and an audit has to find them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from rota import _rota

KIND = struct.Struct(">h")
EPOCH = struct.Struct(">i")
# Kinds of records of the newer consumer protocol: an epoch, the epoch of a target, a target, what a member holds.
NEWER = range(3, 9)
GROUP_EPOCH, TARGET_EPOCH, TARGET, CURRENT = 3, 6, 7, 8
# Behind the version there is an epoch, or the length of a list, plus one. Behind two epochs and the state of a member
# there is such a list, too.
VALUE_AT = KIND.size
STATE_AT = VALUE_AT + 2 * EPOCH.size
ASSIGNED_AT = STATE_AT + 1
EMPTY_LIST, NO_TAGS = b"\x01", b"\x00"
TWIN = b"twin"


class Stored(NamedTuple):
    """One record of `__consumer_offsets`."""

    at_ms: int
    key: bytes
    value: bytes | None

    @property
    def record(self) -> _rota.Record:
        """Decoded."""
        return _rota.decode_record(self.key, self.value)


Records = list[Stored]
Fault = Callable[[Records, str], Records | None]
"""The records with the fault, or None if the group has no place for it."""


def group_of(stored: Stored) -> str | None:
    """The group that a record is about."""
    record = stored.record
    if not isinstance(record, _rota.UnknownRecord):
        return record.group_id
    (kind,) = KIND.unpack_from(stored.key)
    return _string(stored.key, KIND.size)[0] if kind in NEWER else None


def _string(key: bytes, at: int) -> tuple[str, int]:
    """A string of a key, and where it ends."""
    (length,) = KIND.unpack_from(key, at)
    end = at + KIND.size + length
    return key[at + KIND.size : end].decode(), end


def _newer(records: Records, group: str, kind: int) -> list[tuple[int, bytes]]:
    """Places and values of a consumer group's records of one kind, without tombstones."""
    found = []
    for at, stored in enumerate(records):
        if KIND.unpack_from(stored.key) == (kind,) and stored.value is not None and group_of(stored) == group:
            found.append((at, stored.value))
    return found


def _is_followed(records: Records, group: str, at: int) -> bool:
    """Whether a target's epoch follows in the same batch."""
    rest = (KIND.unpack_from(stored.key)[0] for stored in records[at + 1 :] if group_of(stored) == group)
    return next((kind for kind in rest if kind != TARGET), None) == TARGET_EPOCH


def _twin(stored: Stored) -> Stored:
    """The same of another member."""
    _, end = _string(stored.key, KIND.size)
    return stored._replace(key=stored.key[:end] + KIND.pack(len(TWIN)) + TWIN)


def _insert(records: Records, at: int, stored: Stored) -> Records:
    return [*records[: at + 1], stored, *records[at + 1 :]]


def _later(value: bytes, by: int) -> bytes:
    """The value with another epoch."""
    (epoch,) = EPOCH.unpack_from(value, VALUE_AT)
    return value[:VALUE_AT] + EPOCH.pack(epoch + by) + value[VALUE_AT + EPOCH.size :]


def held_by_two(records: Records, group: str) -> Records | None:
    """A member of the newer protocol has what another one has."""
    for at, value in _newer(records, group, CURRENT):
        if value[ASSIGNED_AT] > 1:
            return _insert(records, at, _twin(records[at]))
    return None


def _older_again(records: Records, group: str, kind: int) -> Records | None:
    """A record of this kind is followed by one of an older epoch."""
    for at, value in _newer(records, group, kind):
        if EPOCH.unpack_from(value, VALUE_AT)[0] > 1:
            return _insert(records, at, records[at]._replace(value=_later(value, -1)))
    return None


def epoch_back(records: Records, group: str) -> Records | None:
    """An older group epoch comes again."""
    return _older_again(records, group, GROUP_EPOCH)


def epoch_ahead(records: Records, group: str) -> Records | None:
    """The target is of a later epoch than the group."""
    for at, value in _newer(records, group, TARGET_EPOCH):
        return [*records[:at], records[at]._replace(value=_later(value, 1)), *records[at + 1 :]]
    return None


def member_epoch_back(records: Records, group: str) -> Records | None:
    """An older epoch of a member comes again."""
    return _older_again(records, group, CURRENT)


def granted_too_early(records: Records, group: str) -> Records | None:
    """A member gets a partition of a topic while it has to give up another one."""
    for at, value in _newer(records, group, CURRENT):
        held = [b"\x02" + b"planted topic id" + b"\x02" + EPOCH.pack(index) + NO_TAGS for index in (0, 1)]
        early = value[:STATE_AT] + b"\x01" + b"".join(held) + NO_TAGS
        return _insert(records, at, records[at]._replace(value=early))
    return None


def target_of_two(records: Records, group: str) -> Records | None:
    """A member is to have what another one is to have."""
    for at, value in _newer(records, group, TARGET):
        if value[VALUE_AT] > 1 and _is_followed(records, group, at):
            return _insert(records, at, _twin(records[at]))
    return None


def target_incomplete(records: Records, group: str) -> Records | None:
    """Of two members that get a target, the first gets none."""
    targets = _newer(records, group, TARGET)
    for (at, value), (next_at, other) in itertools.pairwise(targets):
        is_pair = records[at].key != records[next_at].key and _is_followed(records, group, at)
        if is_pair and next_at == at + 1 and min(value[VALUE_AT], other[VALUE_AT]) > 1:
            nothing = value[:VALUE_AT] + EMPTY_LIST + NO_TAGS
            return [*records[:at], records[at]._replace(value=nothing), *records[at + 1 :]]
    return None


def _versions(records: Records, group: str, members_min: int = 1) -> list[tuple[int, _rota.GroupValue]]:
    """Places and values of a group's records with so many members."""
    found = []
    for at, stored in enumerate(records):
        record = stored.record
        value = record.value if isinstance(record, _rota.GroupRecord) and record.group_id == group else None
        if value is not None and len(value.members) >= members_min:
            found.append((at, value))
    return found


def _changed(value: Any, **changes: Any) -> Any:
    """A frozen class with other fields."""
    names = [name for name in dir(value) if not name.startswith("_") and not callable(getattr(value, name))]
    return type(value)(**{name: changes.get(name, getattr(value, name)) for name in names})


def _put(records: Records, at: int, group: str, value: _rota.GroupValue) -> Records:
    record = _rota.GroupRecord(group, value)
    stored = records[at]._replace(key=record.key_bytes(), value=record.value_bytes())
    return [*records[:at], stored, *records[at + 1 :]]


def _add(records: Records, group: str, *values: _rota.GroupValue) -> Records:
    at_ms = max(stored.at_ms for stored in records)
    made = [_rota.GroupRecord(group, value) for value in values]
    return [*records, *(Stored(at_ms + 1, record.key_bytes(), record.value_bytes()) for record in made)]


def _with_member(value: _rota.GroupValue, index: int, **changes: Any) -> Any:
    members = list(value.members)
    members[index] = _changed(members[index], **changes)
    return _changed(value, members=tuple(members))


def two_owners(records: Records, group: str) -> Records | None:
    """A member gets what another one has."""
    for at, value in _versions(records, group, 2):
        owner = next((index for index, member in enumerate(value.members) if _partitions(member)), None)
        if owner is not None:
            other = 0 if owner else 1
            return _put(records, at, group, _with_member(value, other, assignment=value.members[owner].assignment))
    return None


def _partitions(member: _rota.MemberValue) -> tuple[Any, ...]:
    try:
        return tuple(_rota.decode_assignment(member.assignment).partitions)
    except _rota.EmbeddedError:
        return ()


def not_subscribed(records: Records, group: str) -> Records | None:
    """A member gets a partition of a topic that it did not ask for."""
    for at, value in _versions(records, group):
        if value.protocol_type == "consumer" and _partitions(value.members[0]):
            elsewhere = _rota.encode_assignment(_rota.Assignment((("elsewhere", (0,)),)))
            return _put(records, at, group, _with_member(value, 0, assignment=elsewhere))
    return None


def leader_not_a_member(records: Records, group: str) -> Records | None:
    """The leader is not a member."""
    for at, value in _versions(records, group):
        return _put(records, at, group, _changed(value, leader="nobody"))
    return None


def no_protocol(records: Records, group: str) -> Records | None:
    """Members without a protocol."""
    for at, value in _versions(records, group):
        return _put(records, at, group, _changed(value, protocol_name=None))
    return None


def instance_twice(records: Records, group: str) -> Records | None:
    """Two members with one instance id."""
    for at, value in _versions(records, group, 2):
        twins = tuple(_changed(member, instance_id="twin") for member in value.members)
        return _put(records, at, group, _changed(value, members=twins))
    return None


def generation_back(records: Records, group: str) -> Records | None:
    """An older record comes again, behind the last one: if the group was deleted afterwards, still in its life."""
    versions = _versions(records, group, 0)
    if not versions or versions[-1][1].generation < 2:
        return None
    at, value = versions[-1]
    older = _rota.GroupRecord(group, _changed(value, generation=value.generation - 1))
    stored = records[at]._replace(key=older.key_bytes(), value=older.value_bytes())
    return [*records[: at + 1], stored, *records[at + 1 :]]


def generation_reused(records: Records, group: str) -> Records | None:
    """A generation gets another plan."""
    for at, value in _versions(records, group):
        again = _rota.GroupRecord(group, _with_member(value, 0, assignment=b"another plan"))
        stored = records[at]._replace(key=again.key_bytes(), value=again.value_bytes())
        return [*records[: at + 1], stored, *records[at + 1 :]]
    return None


def resurrected(records: Records, group: str) -> Records | None:
    """A dynamic member that was gone is back."""
    versions = _versions(records, group, 0)
    last = versions[-1][1] if versions else None
    if last is None:
        return None
    now = {member.member_id for member in last.members}
    for _, value in versions:
        gone = [member for member in value.members if member.instance_id is None and member.member_id not in now]
        if gone:
            return _add(records, group, _revived(value, last.generation + 1, (gone[0],)))
    return None


def _revived(value: _rota.GroupValue, generation: int, members: tuple[_rota.MemberValue, ...]) -> Any:
    return _changed(value, generation=generation, members=members, leader=members[0].member_id)


def replacement_lost(records: Records, group: str) -> Records | None:
    """A static member that was replaced is back, as if its replacement had not been stored."""
    seen: dict[str, tuple[str, _rota.MemberValue]] = {}
    for at, value in _versions(records, group):
        for member in value.members:
            if member.instance_id is None:
                continue
            before = seen.get(member.instance_id)
            if before is not None and before[0] != member.member_id:
                last = _rota.GroupRecord(group, _revived(value, value.generation, (before[1],)))
                lost = records[at]._replace(key=last.key_bytes(), value=last.value_bytes())
                return [*records[: at + 1], lost, *records[at + 1 :]]
            seen[member.instance_id] = (member.member_id, member)
    return None


def offset_went_back(records: Records, group: str) -> Records | None:
    """A commit is followed by a smaller one."""
    for at, stored in enumerate(records):
        record = stored.record
        if not isinstance(record, _rota.OffsetRecord) or record.group_id != group or record.value is None:
            continue
        if record.value.offset > 0:
            value = _changed(record.value, offset=record.value.offset - 1)
            smaller = _rota.OffsetRecord(group, record.topic, record.partition, value)
            late = stored._replace(key=smaller.key_bytes(), value=smaller.value_bytes())
            return [*records[: at + 1], late, *records[at + 1 :]]
    return None


def storm(records: Records, group: str) -> Records | None:
    """Generation upon generation."""
    versions = _versions(records, group, 0)
    if not versions:
        return None
    last = versions[-1][1]
    return _add(records, group, *(_changed(last, generation=last.generation + 1 + more) for more in range(12)))


# What an audit calls it, and how it is done.
FAULTS: dict[str, Fault] = {
    "replacement lost": replacement_lost,
    "generation reused": generation_reused,
    "two owners": two_owners,
    "instance twice": instance_twice,
    "resurrected": resurrected,
    "not subscribed": not_subscribed,
    "leader not a member": leader_not_a_member,
    "no protocol": no_protocol,
    "generation back": generation_back,
    "offset went back": offset_went_back,
    "storm": storm,
    "held by two": held_by_two,
    "epoch back": epoch_back,
    "epoch ahead": epoch_ahead,
    "member epoch back": member_epoch_back,
    "granted too early": granted_too_early,
    "target of two": target_of_two,
    "target incomplete": target_incomplete,
}
