"""Waiting until a group is stable, without a client and without polling the group."""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from rota import _rota
from rota.arguments import seconds, text
from rota.why.words import counted

if TYPE_CHECKING:
    from rota.clock import VirtualClock
    from rota.server import Server

__all__ = ["StableWait", "needs_time"]

SLICE_MS = 100
"""The longest wait for one notification: what is not a change of a group, such as a signal, is seen after it."""

SILENT_SECONDS = 3.0
"""On a virtual clock, how long a client that is gone has to come back before the wait gives up."""

READY_SECONDS = 0.01
"""The time between two looks at a cluster."""

NEVER_MS = 2**64 - 1

#: Waits that only time ends, with what ends them.
FOR_TIME = {"InitialDelay": "its initial delay", "Target": "its assignment interval"}

NOT_POLLED = "; kafka-python and Java join only while they are polled: in Python pass poll=lambda: consumer.poll(50)"

Look: TypeAlias = tuple[_rota.Explanation, _rota.Projection | _rota.ConsumerView, list[tuple[str, str]]]


class StableWait:
    """One wait for a group. `look` raises TimeoutError once it is over in vain."""

    def __init__(
        self, server: _rota.Server, clock: VirtualClock | None, group: str, members: int | None, timeout: float
    ) -> None:
        text(group, "group")
        if members is not None:
            members = _count(members)
        seconds(timeout, "timeout")
        self._server = server
        self._is_virtual = clock is not None
        self._group = group
        self._members = members
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._seen = server.wait_for_change(0, 0)
        self._stuck_since: tuple[str, float] | None = None
        self._hint = ""

    def look(self) -> _rota.Explanation | None:
        """What the group is doing once it is as it should be; None until then."""
        look = self._server.inspect_group(self._group)
        if look is not None and self._is_reached(look):
            return look[0]
        if self._is_virtual and look is not None:
            self._refuse_to_wait_for_the_clock(look[0])
        if time.monotonic() >= self._deadline:
            raise TimeoutError(f"{self._wanted()} within {self._timeout:g} s: {self._reason(look)}")
        return None

    def pause(self) -> None:
        """Wait for the next change of a group, but not for long."""
        left_ms = min((self._deadline - time.monotonic()) * 1_000, SLICE_MS)
        self._seen = self._server.wait_for_change(self._seen, max(int(left_ms), 1))

    def until_reached(self, poll: Callable[[], object] | None) -> _rota.Explanation:
        """Wait; `poll` is called again and again meanwhile."""
        self._hint = NOT_POLLED if poll is None else ""
        while (reached := self.look()) is None:
            if poll is None:
                self.pause()
            else:
                poll()
        return reached

    async def until_reached_async(self) -> _rota.Explanation:
        """Wait while the event loop goes on."""
        while (reached := self.look()) is None:
            await asyncio.to_thread(self.pause)
        return reached

    def _is_reached(self, look: Look) -> bool:
        explanation, projection, _ = look
        if self._members == 0:
            return explanation.state == "Empty"
        return explanation.state == "Stable" and self._members in (None, len(projection.members))

    def _refuse_to_wait_for_the_clock(self, explanation: _rota.Explanation) -> None:
        """Nothing but `advance` ends an initial delay, or the wait for a member whose client does not come back."""
        silent = self._server.silent_members(self._group) if explanation.waiting else []
        ahead = [wait for wait in explanation.waiting if wait.until_ms > explanation.now_ms]
        stuck = [wait for wait in ahead if wait.what in FOR_TIME or wait.member_id in silent]
        if not stuck:
            self._stuck_since = None
            return
        reason = needs_time(explanation, stuck)
        who = ",".join(wait.member_id for wait in stuck)
        now = time.monotonic()
        if self._stuck_since is None or self._stuck_since[0] != who:
            self._stuck_since = who, now
        if stuck[0].what in FOR_TIME or now - self._stuck_since[1] >= SILENT_SECONDS:
            raise TimeoutError(f"{self._wanted()}, because its clock stands still: {reason}")

    def _wanted(self) -> str:
        members = "" if not self._members else f" with {counted(self._members, 'member')}"
        state = "Empty" if self._members == 0 else "Stable"
        return f"group `{self._group}` did not become {state}{members}"

    def _reason(self, look: Look | None) -> str:
        if look is None:
            groups = self._server.groups()
            known = ", ".join(f"`{group}`" for group in groups[:5]) if groups else "none"
            more = ", ..." if len(groups) > 5 else ""
            return f"there is no such group; the groups are: {known}{more}{self._hint}"
        explanation, projection, _ = look
        reason = f"it has {counted(len(projection.members), 'member')}; {explanation}"
        if self._is_virtual and explanation.waiting:
            reason += f"; {needs_time(explanation, explanation.waiting)}"
        return reason


def until_ready(server: Server, timeout: float) -> None:
    """Wait until a server answers for groups. Raises TimeoutError with the reason why it does not."""
    deadline = time.monotonic() + seconds(timeout, "timeout")
    while (cluster := server.cluster()) is not None and not cluster.is_ready:
        server.check_running()
        if time.monotonic() >= deadline:
            reason = cluster.reason or f"it is {cluster.standing}"
            raise TimeoutError(f"the server did not join its cluster within {timeout:g} s: {reason}")
        time.sleep(READY_SECONDS)


def needs_time(explanation: _rota.Explanation, waiting: tuple[_rota.Wait, ...] | list[_rota.Wait]) -> str:
    """What the group waits for, when that ends on a virtual clock, and how to get there."""
    if any(wait.what == "Append" for wait in waiting):
        return "the group waits for its log: call release_appends() if appends are held, or advance the clock"
    left_ms = max((wait.until_ms - explanation.now_ms for wait in waiting if wait.until_ms != NEVER_MS), default=0)
    if waiting[0].what in FOR_TIME:
        what = f"{FOR_TIME[waiting[0].what]}, which ends"
    elif len(waiting) == 1:
        what = f"{waiting[0].member_id}, whose session or rebalance timeout ends"
    else:
        ids = ", ".join(wait.member_id for wait in waiting[:3]) + (", ..." if len(waiting) > 3 else "")
        what = f"{len(waiting)} members ({ids}), whose sessions or rebalance timeouts end"
    return f"the group waits for {what} in {left_ms:,} ms: call clock.advance({left_ms:_})"


def _count(members: int) -> int:
    try:
        number = operator.index(members)
    except TypeError:
        raise TypeError(f"members is {members!r}: give how many members the group should have") from None
    if number < 0:
        raise ValueError(f"members is {number}: give how many members the group should have, 0 or more")
    return number
