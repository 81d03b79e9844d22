"""Who came and went, from the records of a group in `__consumer_offsets`.

Sources: the records of Kafka 4.4 (docs/protocol.md §14, docs/consumer-protocol.md §12). Nothing is asked here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rota import _rota

Partition = tuple[str, int]
"""Topic and index."""


class Change(NamedTuple):
    """A new generation of a classic group, or a new epoch of a consumer group."""

    at_ms: int
    """Timestamp of the record, milliseconds since the Unix epoch, by the broker's clock."""
    number: int
    """The generation or the group epoch."""
    members: int | None
    """How many members the group has since then; None: earlier records say."""
    joined: list[str]
    """Members that are new, by member id."""
    left: list[str]
    """Members that are gone. A record does not tell why."""
    changed: list[str]
    """Members of a consumer group that are new or changed their subscription: earlier records say."""
    is_known: bool = True
    """Whether it is known who came and went; False: earlier records say."""


class History:
    """Folds the records of one group, in log order."""

    def __init__(self, group: str, *, is_whole: bool) -> None:
        """`is_whole`: no record of the group lies before the first one that is read."""
        self.group = group
        self.changes: list[Change] = []
        self.owners: dict[Partition, str] = {}
        """Member ids by partition, as the last stored generation of a classic group has it."""
        self.protocol: str | None = None
        """The assignor of the last stored generation of a classic group."""
        self.clients: dict[str, str] = {}
        """Client ids by member id, of the members of a consumer group, also of those that are gone."""
        self.committed_ms: dict[Partition, int] = {}
        """Time of the last commit of each partition."""
        self._members: set[str] = set()
        self._is_whole = is_whole
        self._joined: list[str] = []
        self._left: list[str] = []
        self._changed: list[str] = []

    def read(self, timestamp_ms: int, key: bytes, value: bytes | None) -> None:
        """Fold one record. Records of other groups are ignored. Raises RecordError for malformed bytes."""
        record = _rota.decode_record(key, value)
        match record:
            case _rota.OffsetRecord(group_id=self.group):
                at = (record.topic, record.partition)
                if record.value is None:
                    self.committed_ms.pop(at, None)
                else:
                    self.committed_ms[at] = record.value.commit_timestamp_ms
            case _rota.GroupRecord(group_id=self.group) if record.value is not None:
                self._generation(timestamp_ms, record.value)
            case _rota.UnknownRecord():
                decoded = _rota.consumer_record(key, value)
                if decoded is not None and decoded[0] == self.group:
                    self._consumer(timestamp_ms, *decoded[1:])

    def _generation(self, timestamp_ms: int, value: _rota.GroupValue) -> None:
        now = {member.member_id for member in value.members}
        # Generation 0 is that of a group without a past.
        is_known = self._is_whole or bool(self.changes) or value.generation == 0
        joined = sorted(now - self._members) if is_known else []
        left = sorted(self._members - now)
        if not self.changes or joined or left or value.generation != self.changes[-1].number:
            self.changes.append(Change(timestamp_ms, value.generation, len(now), joined, left, [], is_known))
        self._members, self.protocol = now, value.protocol_name
        self.owners = {
            (topic, index): member.member_id
            for member in value.members
            for topic, indexes in _assigned(member.assignment)
            for index in indexes
        }

    def _consumer(self, timestamp_ms: int, kind: str, name: str | None, value: Any) -> None:
        if kind == "member" and name is not None:
            if value is not None:
                self.clients[name] = value["client_id"]
            if value is None:
                self._members.discard(name)
                self._left.append(name)
            elif name not in self._members:
                self._members.add(name)
                (self._joined if self._is_whole else self._changed).append(name)
        elif kind == "epoch" and value is not None:
            count = len(self._members) if self._is_whole else None
            told = (self._joined, self._left, self._changed)
            self.changes.append(Change(timestamp_ms, value["epoch"], count, *told))
            self._joined, self._left, self._changed = [], [], []


def _assigned(assignment: bytes) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The partitions of an assignment; none if it is not a consumer's."""
    try:
        return _rota.decode_assignment(assignment).partitions
    except _rota.EmbeddedError:
        return ()
