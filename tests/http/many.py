"""A stand-in for a server with very many groups, made of the module's own frozen classes: for the page."""

from __future__ import annotations

from typing import cast

import rota
from rota import _rota

MEMBERS = 100
SESSION_MS = 45_000
LATER_MS = 100_000


class Many:
    """Groups of 100 members; each member owns one partition. Every hundredth group waits for a member."""

    def __init__(self, groups: int) -> None:
        self.ids = [f"group-{at:05}" for at in range(groups)]
        self.asked = 0

    def as_server(self) -> _rota.Server:
        """To be shown in place of a server."""
        return cast("_rota.Server", self)

    def groups(self) -> list[str]:
        return self.ids

    def loading(self) -> list[int]:
        return []

    def load(self) -> tuple[int, int]:
        return (len(self.ids) * MEMBERS, 0)

    def _explained(self, group_id: str) -> rota.Explanation:
        waits = group_id.endswith("00")
        now_ms = LATER_MS + self.asked * 1_000
        state = "PreparingRebalance" if waits else "Stable"
        waiting = [rota.coordinator.Wait("Rejoin", member_id(0), now_ms + 14_000)] if waits else []
        ended = None if waits else 900
        rebalance = rota.coordinator.Rebalance(
            "MemberLeft", member_id(7), "", 3, None if waits else 4, 500, 0, ended, ended
        )
        return rota.Explanation(group_id, state, 4, 500, now_ms, waiting, [rebalance] * 32)

    def summaries(self, group_ids: list[str], _waits_max: int) -> list[_rota.Summary]:
        self.asked += 1
        slack = [0, 0, 0, 1, 3, 5, 10, 20, 30, 31]
        explained = map(self._explained, group_ids)
        return [
            _rota.Summary(one.group_id, "consumer", "range", MEMBERS, 0, 0, 0, slack, len(one.waiting), one)
            for one in explained
        ]

    def held_by(self, _group_id: str) -> tuple[list[tuple[int, str, str, int, int, list[tuple[str, int]]]], int]:
        return [], 0

    def inspect_group(
        self, group_id: str
    ) -> tuple[rota.Explanation, rota.coordinator.Projection, list[tuple[str, str]]] | None:
        if group_id not in self.ids:
            return None
        explained = self._explained(group_id)
        subscription = rota.protocol.encode_subscription(rota.protocol.Subscription(["t"]))
        members = [
            rota.coordinator.ProjectedMember(
                member_id(at),
                None,
                SESSION_MS,
                SESSION_MS,
                [("range", subscription)],
                rota.protocol.encode_assignment(rota.protocol.Assignment([("t", [at])])),
                False,
                False,
                False,
                False,
                explained.now_ms + 1_000 + at * 440,
            )
            for at in range(MEMBERS)
        ]
        projection = rota.coordinator.Projection(
            group_id,
            explained.state,
            500,
            4,
            "consumer",
            "range",
            member_id(0),
            members,
            [],
            [],
            [],
            None,
            True,
            ["t"],
            [],
        )
        return explained, projection, [(f"client-{at}", "/10.0.0.1") for at in range(MEMBERS)]

    def log_ends(self, partitions: list[tuple[str, int]]) -> list[int | None]:
        return [self.asked * 10 + at for at in range(len(partitions))]


def member_id(at: int) -> str:
    """A member id in Kafka's form."""
    return f"client-{at}-{at:08x}-0000-4000-8000-000000000000"
