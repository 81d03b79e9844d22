"""What a differential run is made of: steps that can be kept, shortened, and played again.

In a step's request a member id `@7` stands for the id that the JoinGroup with ticket 7 was given, so that a run stays
meaningful when steps are left out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rota import model
from rota.model import transactions


@dataclass(frozen=True)
class Ask:
    """`actor` sends a request."""

    ticket: int
    actor: str
    request: model.Request


@dataclass(frozen=True)
class Pass:
    """Time passes, with a stop at each deadline on the way, or in one go."""

    span_ms: int
    stops: bool


@dataclass(frozen=True)
class End:
    """The append at `index` of those in flight (modulo their number) ends."""

    index: int
    error: str | None


@dataclass(frozen=True)
class Crash:
    """The coordinator is gone without a word; the first `kept` appends in flight are in the log. Loading begins."""

    kept: int


@dataclass(frozen=True)
class HandOver:
    """As a crash, but it is unloaded first, so that everybody is answered."""

    kept: int


@dataclass(frozen=True)
class Loaded:
    """Loading ends."""


@dataclass(frozen=True)
class LoadFails:
    """Loading ends, but the log could not be read."""


@dataclass(frozen=True)
class DeleteTopics:
    """Topics are gone."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class ChangeTopics:
    """The cluster has these topics now: (name, partitions). One that comes again after it was gone gets a new id."""

    topics: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Settings:
    """A consumer group gets its own settings: (Kafka's name, milliseconds)."""

    group_id: str
    settings: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AskTransaction:
    """A request to the coordinator of transactions."""

    ticket: int
    request: transactions.Request


@dataclass(frozen=True)
class Mark:
    """The marker at `index` of those that the owner sent (modulo their number) has this result."""

    index: int
    result: str


Step = (
    AskTransaction
    | Mark
    | Ask
    | Pass
    | End
    | Crash
    | HandOver
    | Loaded
    | LoadFails
    | DeleteTopics
    | ChangeTopics
    | Settings
)


def resolved(request: model.Request, minted: Mapping[int, str]) -> model.Request:
    """The request with real member ids; `@7` stays as it is if ticket 7 was given no id."""

    def real(member_id: str) -> str:
        return minted.get(int(member_id[1:]), member_id) if member_id.startswith("@") else member_id

    return with_ids(request, real)


def with_ids(request: model.Request, rename: Callable[[str], str]) -> model.Request:
    """The request with every member id in it renamed."""
    match request:
        case model.SyncGroup():
            assignments = tuple((rename(member_id), part) for member_id, part in request.assignments)
            return replace(request, member_id=rename(request.member_id), assignments=assignments)
        case model.LeaveGroup():
            return replace(request, members=tuple((rename(member_id), i) for member_id, i in request.members))
        case model.JoinGroup() | model.Heartbeat() | model.OffsetCommit() | model.ConsumerGroupHeartbeat():
            return replace(request, member_id=rename(request.member_id))
        case model.OffsetFetch() if request.member_id is not None:
            return replace(request, member_id=rename(request.member_id))
    return request
