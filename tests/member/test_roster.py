"""`rota.aio.Roster`: shards of anything."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from rota.aio import Roster, Shift
from tests.journaled import journaled

QUICK: dict[str, Any] = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200, "retry_backoff_ms": 20}
SHARDS = 12


class Worker:
    """Works on its shards, and writes down with which tokens."""

    def __init__(self, roster: Roster, log: list[tuple[int, int, str]], name: str) -> None:
        self.roster, self.log, self.name = roster, log, name
        self.shifts: list[Shift] = []
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        async for shift in self.roster.shifts():
            self.shifts.append(shift)
            self.log += [(shard, shift.token, self.name) for shard in shift.gained]


async def divided(*workers: Worker) -> None:
    """Waits until they have everything, each as much as another."""

    def done() -> bool:
        shards = [worker.roster.shards for worker in workers]
        return sorted(itertools.chain(*shards)) == list(range(SHARDS)) and len({len(each) for each in shards}) == 1

    async with asyncio.timeout(30):
        while not done():
            await asyncio.sleep(0.02)


async def test_a_closed_roster_leads_no_more(bootstrap: str, group: str) -> None:
    async with Roster(bootstrap, group, 1, **QUICK) as roster:
        await anext(roster.shifts())
        assert roster.leads
    assert (roster.leads, roster.shards) == (False, [])


async def test_shards_move_and_every_new_owner_has_a_larger_token(bootstrap: str, group: str) -> None:
    log: list[tuple[int, int, str]] = []
    async with Roster(bootstrap, group, SHARDS, **QUICK) as first:
        one = Worker(first, log, "one")
        await divided(one)
        assert first.leads
        async with Roster(bootstrap, group, SHARDS, **QUICK) as second:
            other = Worker(second, log, "other")
            await divided(one, other)
            assert first.leads != second.leads
        await divided(one)
        await other.task
    tokens: dict[int, list[int]] = {}
    for shard, token, _ in log:
        tokens.setdefault(shard, []).append(token)
    assert all(seen == sorted(set(seen)) for seen in tokens.values()), tokens
    assert sum(len(seen) for seen in tokens.values()) == SHARDS + SHARDS // 2 + SHARDS // 2


async def test_a_group_that_everybody_left_goes_on_with_larger_tokens(bootstrap: str, group: str) -> None:
    newest = 0
    for _ in range(2):
        async with Roster(bootstrap, group, SHARDS, **QUICK) as roster:
            await divided(Worker(roster, [], "one"))
            assert roster.token > newest
            newest = roster.token


async def test_no_topic_comes_into_being(group: str, tmp_path: Path) -> None:
    said: list[dict[str, Any]] = []
    settings = {"group.initial.rebalance.delay.ms": 0}
    with journaled(tmp_path / "journal", settings=settings, trace=said.append) as server:
        async with Roster(server.bootstrap_servers, group, SHARDS, **QUICK) as roster:
            await divided(Worker(roster, [], "one"))
    assert said
    assert not [line for line in said if "Metadata" in str(line)]


@pytest.mark.parametrize("shards", [0, -1, 1 << 25])
def test_a_number_of_shards_that_makes_no_sense_is_refused(shards: int) -> None:
    with pytest.raises(ValueError, match="give 1 to 16777216"):
        Roster("a:1", "g", shards)
