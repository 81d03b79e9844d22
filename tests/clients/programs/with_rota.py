"""rota's own `rota.aio.GroupMember`, driven over standard input and output. It joins and commits; it reads nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from rota import MemberError
from rota.aio import Change, GroupMember

from .lines import FailedError, Offsets, Ownership, Request, callback, event, serve

LOOP = asyncio.new_event_loop()


@dataclass(frozen=True)
class Owned:
    """A partition with the attributes that other clients give theirs."""

    topic: str
    partition: int


def explain(thrown: Exception) -> FailedError:
    if isinstance(thrown, MemberError):
        code = thrown.error if thrown.error is not None else -1
        return FailedError(thrown.kind, code, thrown.kind != "RebalanceInProgress", str(thrown))
    return FailedError(type(thrown).__name__, -1, True, str(thrown))


def settings(request: Request) -> dict[str, Any]:
    """The settings of the request's protocol. The broker decides those of the newer one."""
    if request["group_protocol"] == "consumer":
        return {"group_protocol": "consumer"}
    return {
        "strategies": [request["assignor"]],
        "session_timeout_ms": request["session_timeout_ms"],
        "heartbeat_interval_ms": request["heartbeat_interval_ms"],
        "metadata_max_age_ms": request["metadata_max_age_ms"],
    }


class Member:
    def __init__(self, request: Request) -> None:
        self._ownership = Ownership()
        self._poll_s = request["poll_ms"] / 1000
        self._member = GroupMember(
            request["bootstrap"],
            request["group"],
            request["topics"] if request["pattern"] is None else None,
            pattern=request["pattern"],
            client_id=request["client_id"],
            instance_id=request["instance_id"],
            **settings(request),
        )
        LOOP.run_until_complete(self._member.start())
        self._changes: asyncio.Task[None] = LOOP.create_task(self._follow())

    async def _follow(self) -> None:
        async for change in self._member.assignments():
            self._tell(change)

    def _tell(self, change: Change) -> None:
        callback(change.kind, [Owned(*partition) for partition in change.partitions])
        self._ownership.tell([Owned(*partition) for partition in change.all])

    def turn(self) -> None:
        done, _ = LOOP.run_until_complete(asyncio.wait([self._changes], timeout=self._poll_s))
        for task in done:
            task.result()
            event("error", name="Closed", code=-1, fatal=True, text="the member was closed")

    def commit(self, offsets: Offsets | None) -> Offsets:
        LOOP.run_until_complete(self._member.commit({(topic, index): offset for topic, index, offset in offsets or []}))
        return offsets or []

    def close(self) -> None:
        LOOP.run_until_complete(self._member.close())


if __name__ == "__main__":
    serve(Member, {}, explain)
