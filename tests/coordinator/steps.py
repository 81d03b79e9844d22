"""A coordinator with one group in it, for tests that begin there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import rota

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1_000}
PLAN = b"the plan"


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer of these topics."""
    return rota.protocol.encode_subscription(rota.protocol.Subscription(topics))


T = TypeVar("T")


def only(effects: Sequence[rota.coordinator.Effect], kind: type[T]) -> T:
    """The one effect of this class."""
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


@dataclass
class Driver:
    """A coordinator whose log makes everything durable at once, and a clock that the test moves."""

    coordinator: rota.coordinator.Coordinator
    now_ms: int = 0
    tickets: int = 0

    def __post_init__(self) -> None:
        self.log: list[rota.protocol.Record] = []

    def submit(self, request: rota.protocol.Request) -> list[rota.protocol.Answer]:
        """The answers that this request brought about, once the log has done its part."""
        self.tickets += 1
        return self.settle(self.coordinator.submit(self.now_ms, self.tickets, request, entropy=self.tickets << 64))

    def advance(self, ms: int) -> list[rota.protocol.Answer]:
        """The answers that time brought about."""
        self.now_ms += ms
        return self.settle(self.coordinator.advance(self.now_ms))

    def settle(self, effects: list[rota.coordinator.Effect]) -> list[rota.protocol.Answer]:
        """Make every append durable, and what follows from it, until only answers are left."""
        answers: list[rota.protocol.Answer] = []
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, rota.coordinator.Append):
                offset = len(self.log)
                self.log.extend(effect.records)
                effects += self.coordinator.appended(effect.append_id, offset, self.now_ms)
            else:
                answers.append(effect)
        return answers

    def join(self, group_id: str = "g", client_id: str = "client", *topics: str) -> str:
        """A member id for a consumer that asked for one and joined with it; the join may still be parked."""
        protocols = [("range", subscription(*(topics or ("t",))))]
        asked = self.submit(rota.protocol.JoinGroup(group_id, client_id=client_id, protocols=protocols))
        match asked[-1]:
            case rota.protocol.JoinAnswer(error=rota.protocol.ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id):
                self.answers = self.submit(
                    rota.protocol.JoinGroup(group_id, member_id, client_id=client_id, protocols=protocols)
                )
                return member_id
        raise AssertionError(asked)


def active(**settings: str | int) -> Driver:
    """A coordinator that has loaded an empty log."""
    driver = Driver(rota.coordinator.Coordinator({**SETTINGS, **settings}))
    assert driver.coordinator.loaded(0) == []
    return driver


def stable(driver: Driver | None = None) -> tuple[Driver, str]:
    """A Stable group `g` of one member, which is its leader."""
    driver = driver or active()
    member_id = driver.join()
    answers = driver.advance(0)
    joined = only([*driver.answers, *answers], rota.protocol.JoinAnswer)
    assert joined.error == rota.protocol.ErrorCode.NONE
    synced = driver.submit(rota.protocol.SyncGroup("g", member_id, joined.generation, [(member_id, PLAN)]))
    assert only(synced, rota.protocol.SyncAnswer).assignment == PLAN
    return driver, member_id
