"""What a rota server says about a group, in the words of the demo's view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CAUSES = {
    "MemberJoined": "{member} joined",
    "MetadataChanged": "{member} came back with another subscription",
    "LeaderRejoined": "{member}, the leader, joined again",
    "MemberLeft": "{member} left",
    "PendingLeft": "{member} left before it had joined",
    "SessionExpired": "{member} was silent for its session timeout",
    "NewMemberExpired": "{member} did not finish its first join",
    "SyncExpired": "members did not ask for their assignment in time",
    "AssignmentNotStored": "the assignment could not be stored",
    "StaticReplaced": "{member} was replaced by a new process",
    "OverCapacity": "the group has more members than it may",
    "RefusedOverCapacity": "{member} was refused: the group is full",
}
WAITS = {
    "InitialDelay": "other members to join (initial delay)",
    "Rejoin": "{member} to join again",
    "Pending": "{member} to come back with its new id",
    "LeaderSync": "the plan of {member}, the leader",
    "Sync": "{member} to ask for its assignment",
    "Append": "the log",
}


@dataclass(frozen=True)
class Rebalance:
    """One rebalance and its cause."""

    key: tuple[Any, ...]
    from_generation: int
    why: str


@dataclass(frozen=True)
class Doing:
    """What a group is doing."""

    state: str = "Empty"
    generation: int = 0
    waiting: tuple[str, ...] = ()
    rebalances: tuple[Rebalance, ...] = ()


def doing(explanation: Mapping[str, Any] | None) -> Doing | None:
    """Read an explanation as `rota.Server.explain` gives it; None for a group that does not exist."""
    if explanation is None:
        return None
    return Doing(
        explanation["state"],
        explanation["generation"],
        tuple(_said(WAITS, wait["what"], wait.get("member_id")) for wait in explanation["waiting"]),
        tuple(
            Rebalance(
                (each["began_ms"], each["cause"], each["member_id"]),
                each["from_generation"],
                _said(CAUSES, each["cause"], each["member_id"]) + (f" ({each['reason']})" if each["reason"] else ""),
            )
            for each in explanation["rebalances"]
        ),
    )


def _said(words: Mapping[str, str], what: str, member_id: str | None) -> str:
    return words.get(what, what).format(member=_short(member_id or "somebody"))


def _short(member_id: str) -> str:
    """A member id without its UUID: the client's own name for itself."""
    return member_id[:-37] if len(member_id) > 37 else member_id
