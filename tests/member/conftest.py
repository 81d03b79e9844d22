"""A broker, and the events of members while a test listens."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator

import pytest

import rota
from rota.aio import Change, GroupMember
from tests.journaled import journaled

# With the newer protocol the broker decides times. Another broker needs the same settings.
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.assignment.interval.ms": 0,
}
NAMES = itertools.count()
WITHIN_S = 30.0


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A rota server whose journal is audited; with ROTA_TEST_BROKER=HOST:PORT another broker, such as Apache Kafka."""
    other = os.environ.get("ROTA_TEST_BROKER")
    if other:
        yield other
        return
    with journaled(tmp_path_factory.mktemp("journal"), settings=SETTINGS) as server:
        yield server.bootstrap_servers


@pytest.fixture
def group() -> str:
    return f"member-{os.getpid()}-{next(NAMES)}"


class Listener:
    """An application that handles every effect at once, and records it."""

    def __init__(self, member: GroupMember) -> None:
        self.member = member
        self.changes: list[Change] = []
        self.error: Exception | None = None
        self._changed = asyncio.Condition()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        try:
            async for change in self.member.assignments():
                self.changes.append(change)
                await self._notify()
        except rota.MemberError as error:
            self.error = error
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a change after which the condition holds."""
        async with asyncio.timeout(WITHIN_S), self._changed:
            await self._changed.wait_for(condition)

    async def end(self) -> None:
        """Waits until nothing more will come."""
        async with asyncio.timeout(WITHIN_S):
            await self._task


async def settled(*listeners: Listener, partitions: int, evenly: bool = False) -> None:
    """Waits until they hold so many partitions together, each once, in one generation; on demand equally many."""

    def holds() -> bool:
        shares = {len(listener.member.partitions) for listener in listeners}
        held = [partition for listener in listeners for partition in listener.member.partitions]
        generations = {listener.member.member.generation for listener in listeners}
        states = {listener.member.member.state for listener in listeners}
        complete = len(held) == len(set(held)) == partitions
        return complete and len(generations) == 1 and states == {"Stable"} and (not evenly or len(shares) == 1)

    async with asyncio.timeout(WITHIN_S):
        while not holds():
            waits = [asyncio.ensure_future(listener.until(lambda: True)) for listener in listeners]
            # A change of any of them may be the last one; the state may also change without one.
            _, late = await asyncio.wait(waits, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            for wait in late:
                wait.cancel()
