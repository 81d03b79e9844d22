"""`Roster`: divide N shards among processes. It needs a broker but no topics."""

from __future__ import annotations

import struct
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from rota.aio.group import GroupMember
from rota.assign import cooperative_sticky, encode_plan, read_members
from rota.member import Partition, Plan, Send

SHARDS = "shards"
TOKEN = struct.Struct(">qq")


@dataclass(frozen=True)
class Shift:
    """The shards of this process, and how they have changed.

    `token` grows with every division of the shards: whatever a shard guards should remember the largest token that it
    has seen, and refuse smaller ones. A process that was cut off, and does not know yet that its shards went to others,
    is refused by that.
    """

    shards: list[int]
    gained: list[int]
    given_up: list[int]
    token: int


class _Tokens:
    """Assigns shards and issues tokens.

    A token is a base and the group's generation, which grows with every division for as long as the group lives. The
    base is what members remember; only when none does, in a new group, it is the leader's clock.
    """

    name = "rota-roster"
    cooperative = True

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.base = self.token = 0

    def plan(self, plan: Plan) -> Mapping[str, bytes]:
        metadata = {member.member_id: member.metadata for member in plan.members}
        members = read_members(metadata, {member.member_id: member.instance_id for member in plan.members})
        seen = [TOKEN.unpack(member.user_data) for member in members.values() if member.user_data]
        base = max((base for base, _ in seen), default=time.time_ns() // 1_000_000)
        # A group that was deleted under its members' feet begins again with generation 1.
        token = max([base + plan.generation, *(token + 1 for _, token in seen)])
        # The bytes are ours: the assignor's own would say something else in them.
        claims = {name: replace(member, user_data=None) for name, member in members.items()}
        shares = cooperative_sticky(claims, {SHARDS: self.shards})
        return encode_plan(shares, TOKEN.pack(token - plan.generation, token))

    def on_assignment(self, partitions: Sequence[Partition], generation: int, user_data: bytes | None) -> None:  # noqa: ARG002  what is said about shards is in the change
        if user_data is not None:
            self.base, self.token = TOKEN.unpack(user_data)

    def user_data(self) -> bytes | None:
        return TOKEN.pack(self.base, self.token) if self.token else None


class Roster:
    """N shards, divided among the processes that join. Each shard has at most one owner.

        async with Roster("127.0.0.1:9092", "crawlers", shards=64) as roster:
            async for shift in roster.shifts():
                print(shift.shards, shift.token)

    A shard moves only after the process that had it has asked for the next shift, has left, or was silent for its
    session timeout; in that last case it may still be running, which is what tokens are for. With `shards=1`, the
    process with shard 0 leads. All processes give the same number of shards: that of the group's leader counts.
    """

    def __init__(self, bootstrap_servers: str, group_id: str, shards: int, **settings: Any) -> None:
        if not isinstance(shards, int):
            raise TypeError(f"shards is {shards!r}: give a whole number")
        if not 1 <= shards <= 1 << 24:
            raise ValueError(f"shards is {shards}: give 1 to {1 << 24}")
        self._shards = shards
        self._tokens = _Tokens(shards)
        self._group = GroupMember(
            bootstrap_servers, group_id, [SHARDS], planner=self._tokens, answer_here=self._know_topics, **settings
        )

    @property
    def shards(self) -> list[int]:
        """Shards of this process; none from the beginning of the close on."""
        return sorted(index for _, index in self._group.partitions)

    @property
    def token(self) -> int:
        """Newest token, 0 before the first assignment."""
        return self._tokens.token

    @property
    def leads(self) -> bool:
        """Whether this process owns shard 0."""
        return 0 in self.shards

    @property
    def group(self) -> GroupMember:
        """The group member of this process."""
        return self._group

    async def __aenter__(self) -> Self:
        await self._group.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._group.close()

    async def shifts(self) -> AsyncGenerator[Shift, None]:
        """Iterate over the changes of the shards until the roster is closed. Raises `rota.member.MemberError`."""
        async with aclosing(self._group.assignments()) as changes:
            async for change in changes:
                moved = sorted(index for _, index in change.partitions)
                gained, given_up = (moved, []) if change.kind == "assigned" else ([], moved)
                yield Shift(sorted(index for _, index in change.all), gained, given_up, self._tokens.token)

    def _know_topics(self, send: Send) -> dict[str, Any] | None:
        """No broker knows how many shards there are."""
        if send.api != "Metadata":
            return None
        partitions = [{"partition_index": index, "replica_nodes": []} for index in range(self._shards)]
        return {"brokers": [], "topics": [{"error_code": 0, "name": SHARDS, "partitions": partitions}]}
