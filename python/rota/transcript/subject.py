"""What a transcript can drive: a coordinator, a model of one, a server, a broker.

A subject takes requests and moments and gives back effects as plain data, so that the runner and the vectors know
nothing of the thing behind it. Member ids are whatever the subject mints; the runner gives them names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Request:
    """One request: the API's name as in `JoinGroup`, and its fields by the protocol's names in snake case."""

    api: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """The answer to `ticket`. `fields` by api:

    - JoinGroup: error, generation, protocol_type, protocol_name, leader, skip_assignment, member_id,
      members [(member_id, instance_id, metadata)]
    - SyncGroup: error, protocol_type, protocol_name, assignment
    - Heartbeat: error
    - LeaveGroup: error, members [(member_id, instance_id, error)]
    - OffsetCommit: topics [(topic, [(partition, error)])]
    - OffsetFetch: error, topics [(topic, [(partition, offset, leader_epoch, metadata, error)])]
    - DescribeGroup: error, error_message, state, protocol_type, protocol_name,
      members [(member_id, instance_id, client_id, client_host, metadata, assignment)]
    - ListGroups: error, groups [(group_id, protocol_type, state)]
    - DeleteGroup: error
    - OffsetDelete: error, topics [(topic, [(partition, error)])]
    - ConsumerGroupHeartbeat: error, error_message, member_id, member_epoch, heartbeat_interval_ms,
      assignment None or [(topic, [partition])]
    - ConsumerGroupDescribe: error, error_message, state, epoch, target_epoch, assignor, members [{member_id,
      instance_id, rack_id, epoch, names, pattern, assigned [(topic, [partition])], target [(topic, [partition])]}]

    Errors are the protocol's names, such as `UNKNOWN_MEMBER_ID`; bytes are bytes.
    """

    ticket: int
    api: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Append:
    """A batch handed to the log. Each record is a dict with `kind`:

    - `offset`: group_id, topic, partition, and value None or {offset, leader_epoch, metadata,
      commit_timestamp_ms, expire_timestamp_ms}
    - `group`: group_id, and value None or {protocol_type, generation, protocol_name, leader,
      members [{member_id, instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
      subscription, assignment}]}
    """

    append_id: int
    records: list[dict[str, Any]]


Effect = Answer | Append


@dataclass(frozen=True)
class Wait:
    """One thing that a group waits for: `what` as in `Pending`, the member id if there is one, and until when."""

    what: str
    member_id: str
    until_ms: int


@dataclass(frozen=True)
class Explanation:
    """What `why` would print: state, since when, what is missing, the cause and member of the last rebalance."""

    state: str
    generation: int
    since_ms: int
    waiting: list[Wait] = field(default_factory=list)
    last_rebalance: tuple[str, str] | None = None


class Subject(Protocol):
    """Driven by one runner, in virtual time. `shows` says which effects it can show beside answers."""

    #: of "log" (appends are shown and their end is up to the runner) and "explain"
    shows: frozenset[str]

    def replay(self, record: dict[str, Any]) -> None: ...

    def loaded(self, now_ms: int) -> list[Effect]: ...

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]: ...

    def advance(self, now_ms: int) -> list[Effect]: ...

    def next_deadline(self) -> int | None: ...

    def appended(self, append_id: int, error: str | None, now_ms: int) -> list[Effect]: ...

    def topics_deleted(self, topics: list[str], now_ms: int) -> list[Effect]: ...

    def unload(self, now_ms: int) -> list[Effect]: ...

    def explain(self, group_id: str) -> Explanation | None: ...

    def check_invariants(self) -> None: ...


@runtime_checkable
class ConsumerSubject(Subject, Protocol):
    """A subject with groups of the newer protocol, and a cluster around them."""

    def topics_changed(self, topics: list[tuple[str, int]], now_ms: int) -> list[Effect]: ...

    def group_settings(self, group_id: str, settings: dict[str, int], now_ms: int) -> None: ...

    def resolve_patterns(self, group_id: str, now_ms: int) -> list[Effect]: ...
