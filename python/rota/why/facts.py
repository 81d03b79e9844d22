"""What a sentence about a group is made of: plain values, as `/groups/{id}` has them and as a log can be read."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Wait(TypedDict):
    """One thing that a group waits for."""

    what: str
    """One of the vocabulary's `waits`."""
    member_id: str
    """For whom, or ""."""
    ends_in_ms: int | None
    """When the coordinator stops waiting for it; negative: it should have; None: not by itself."""
    heartbeats: NotRequired[bool]
    """Whether the member heartbeats while the group waits for it; `ends_in_ms` is then the end of the phase."""
    is_static: NotRequired[bool]
    """Whether it is a static member, which stays in the group when a join phase ends without it."""


class Departure(TypedDict):
    """A member that went while a rebalance was running."""

    member_id: str
    how: str
    """One of the vocabulary's `departures`."""
    reason: str
    """The reason that the request gave, or ""."""
    ago_ms: int


class Rebalance(TypedDict):
    """One rebalance of a group."""

    cause: str
    """One of the vocabulary's `causes`."""
    member_id: str
    """Whose event that was, or ""."""
    reason: str
    """What the client said about it, or ""."""
    from_generation: int
    to_generation: int | None
    began_ago_ms: int
    joined_after_ms: int | None
    """How long its join phase took; None while that goes on."""
    settled_after_ms: int | None
    """How long it took in all; None while it goes on, and if another one began before it was over."""
    departures: NotRequired[list[Departure]]
    """The members that went while it ran, the last ones, oldest first."""


class Member(TypedDict):
    """What is known of a member's session."""

    member_id: str
    client_id: NotRequired[str]
    session_timeout_ms: int
    heard_ago_ms: int | None
    """How long ago it was heard; None while its session stands still."""
    expires_in_ms: int | None
    """None while its session stands still."""


class Transaction(TypedDict):
    """An open transaction that holds offsets of a group back."""

    transactional_id: str | None
    """None if this server does not know the producer."""
    producer_id: int
    state: str | None
    """`Ongoing`, `PrepareCommit` or `PrepareAbort`; None if this server does not coordinate it."""
    open_for_ms: int | None
    aborted_in_ms: int | None
    """When its time is over; None if that does not matter any more."""
    partitions: dict[str, list[int]]
    """Those whose offsets it holds back, by topic."""
    coordinator: NotRequired[str | None]
    """The server that coordinates it, if that is not this one: `node 2 at h2:9092`, or `another server`."""


class Group(TypedDict):
    """What is known of a group."""

    state: str
    generation: int
    """The generation, or the group epoch of a consumer group."""
    in_state_ms: int
    waiting: list[Wait]
    waits: NotRequired[int]
    """How many waits there are, if `waiting` has only the first of them."""
    rebalances: list[Rebalance]
    """The last ones, oldest first."""
    members: NotRequired[list[Member]]
    protocol: NotRequired[str]
    """`classic`, the default, or `consumer`."""
    target_epoch: NotRequired[int | None]
    """The epoch of a consumer group's target assignment."""
    transactions: NotRequired[list[Transaction]]
    """The open transactions that hold its offsets back, by producer id."""
