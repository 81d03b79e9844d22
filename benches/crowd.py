"""Stable groups of a hundred members, for measurements from Python."""

from __future__ import annotations

import numpy as np

import rota

GROUP_MEMBERS = 100


class Crowd:
    """The members of one coordinator, and their handles and generations as arrays."""

    def __init__(self, members: int) -> None:
        self.coordinator = rota.coordinator.Coordinator({"group.initial.rebalance.delay.ms": 0})
        self.coordinator.loaded(0)
        self.tickets = 0
        self.members: list[tuple[str, str]] = []
        for group in range(members // GROUP_MEMBERS):
            self.settle(f"group-{group}")
        handles = [self.coordinator.member_handles(group, [member]) for group, member in self.members]
        self.handles = np.concatenate(handles)
        assert len(self.handles) == members
        self.generations = np.ones(len(self.members), dtype=np.int32)

    def submit(self, request: rota.protocol.Request) -> list[rota.coordinator.Effect]:
        """A request; the log completes its appends at once."""
        self.tickets += 1
        effects = self.coordinator.submit(0, self.tickets, request, entropy=self.tickets << 64)
        return effects + self.keep(effects)

    def keep(self, effects: list[rota.coordinator.Effect]) -> list[rota.coordinator.Effect]:
        """What follows when its appends are durable."""
        appends = [effect.append_id for effect in effects if isinstance(effect, rota.coordinator.Append)]
        return [effect for number in appends for effect in self.coordinator.appended(number, number, 0)]

    def join(self, group: str, members: int) -> list[rota.protocol.JoinAnswer]:
        """All of a group, until each has heard its generation."""
        for _ in range(members):
            self.submit(rota.protocol.JoinGroup(group, protocols=[("range", b"")], version=3))
        # The first deadline finds that others have joined meanwhile, and gives them as much time again: none.
        effects = self.coordinator.advance(0)
        effects += self.coordinator.advance(0)
        return [effect for effect in effects if isinstance(effect, rota.protocol.JoinAnswer)]

    def settle(self, group: str) -> None:
        """A group on its way to Stable."""
        for answer in self.join(group, GROUP_MEMBERS):
            self.submit(rota.protocol.SyncGroup(group, answer.member_id, answer.generation, version=3))
            self.members.append((group, answer.member_id))
