"""Runs from the initial state: every action of the newer protocol happens in one of them, and those of `FALSE` show
that a common statement is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rota.specs.consumer.events import specification
from rota.specs.consumer.group import DRAFT, held
from rota.specs.logic import And, Not, State, Term

ACTIONS = specification().actions
LOG = "log takes a version"
ALONE = ["join: create the group", "join: new member", "input changes", "target computed", "settle"]
STATIC = ["join: create the group", "join: new static member", "input changes", "target computed", "settle"]
SECOND = ["join: new member", "input changes", "target computed", "settle"]
DURABLE = [LOG] * 5
QUIET = ["nothing changes", "target stays", "unchanged"]
MOVES = ["nothing changes", "target stays"]
CLASSIC = ["classic group begins", LOG, "classic rebalance"]
MIXED_STATIC = [*CLASSIC, "upgrade", "join: new static member", "input changes", "target computed", "settle"]
MIXED = [*CLASSIC, "upgrade", "join: new member", "input changes", "target computed", "settle"]

RUNS: dict[str, list[str]] = {
    "a member joins, is answered, and commits": [
        *ALONE,
        *DURABLE,
        "answer",
        "heartbeat",
        *QUIET,
        "commit",
        "refuse: commit",
    ],
    "an answer is lost": [
        *ALONE,
        "heartbeat",
        "input changes",
        "target computed",
        "settle",
        "heartbeat: previous epoch",
        *QUIET,
    ],
    "a member gives up what another one gets": [
        *ALONE,
        *SECOND,
        "heartbeat",
        *MOVES,
        "revoke",
        "heartbeat",
        *MOVES,
        "settle",
    ],
    "a member joins again": [*ALONE, "join: known member", *QUIET, "refuse: epoch"],
    "a topic is dropped": [*ALONE, "heartbeat", "pattern changes", "target stays", "cut"],
    "a topic that was given up is dropped": [
        *ALONE,
        "heartbeat",
        "pattern changes",
        "target stays",
        "cut, acknowledged",
    ],
    "topics change": [*ALONE, "metadata changes", "commit: older epoch"],
    "a member leaves, and the group is deleted": [*ALONE, "leave", "delete", "commit: no member"],
    "a member is removed": [*ALONE, "remove", "refuse: unknown"],
    "a static member returns": [*STATIC, "refuse: unreleased", "away", "join: returns", *MOVES, "settle"],
    "a static member is replaced": [*STATIC, "away", "join: replaces", *MOVES, "settle", "refuse: instance"],
    "a member becomes static": [*ALONE, "join: becomes static", *QUIET],
    "a write is refused": [*ALONE, LOG, "log refuses", "crash"],
    "a classic group is upgraded": [*MIXED, "classic join: known member", *MOVES, "settle", "sync"],
    "classic members come and go": [
        *CLASSIC,
        "upgrade",
        "classic join: new member",
        *MOVES,
        "settle",
        "join: changes over",
    ],
    "a static classic member is upgraded": [*CLASSIC, "upgrade", "join: replaces a classic member", *MOVES, "settle"],
    "a consumer becomes classic": [*ALONE, "classic join: becomes classic"],
    "a static consumer becomes classic": [*STATIC, "classic join: replaces"],
    "a static member joins by the classic protocol": ["join: create the group", "classic join: new static member"],
    "the last consumer leaves classic members": [*MIXED, "downgrade"],
    "the last consumer becomes classic, and is reconciled first": [
        *MIXED_STATIC,
        "classic join: replaces",
        "input changes",
        "target computed",
        "settle",
        "downgrade",
    ],
    "an empty classic group is upgraded": ["classic group begins", "upgrade: empty group"],
    "the last static consumer becomes classic": [
        *CLASSIC,
        "upgrade",
        "join: new static member",
        *MOVES,
        "settle",
        "downgrade: replacement",
        "classic sync",
    ],
}


def overlap(s: State) -> Term:
    """Two members may be using one partition: C2 does not hold."""
    return s.some("Member Member Partition", lambda m, n, p: And(m != n, s.told(m, p), s.told(n, p)))


def two_owners(s: State) -> Term:
    """Two members hold one partition: C1 does not hold."""
    d = s.draft(DRAFT, s.now)
    return s.some("Member Member Partition", lambda m, n, p: And(m != n, held(d, m, p), held(d, n, p)))


def is_classic(s: State) -> Term:
    """It is a classic group."""
    return s.kind(s.now) == s.Classic


def foreign_commit(s: State) -> Term:
    """An offset was stored for a partition that only another member holds."""
    d = s.draft(DRAFT, s.now)
    return s.some(
        "Member Partition",
        lambda m, p: And(s.committed(p), m != s.committer, held(d, m, p), Not(held(d, s.committer, p))),
    )


def sizes(events: list[str]) -> dict[str, int]:
    """One version for each write, and the first."""
    kept = {LOG, "log refuses"}
    writes = sum("Version" in ACTIONS[name].params.values() and name not in kept for name in events if name in ACTIONS)
    return {"Version": writes + 1, "Partition": 1, "Instance": 1, "Member": 3, "Epoch": 6}


class Vector(NamedTuple):
    """Events that show a statement to be wrong: where they end, and the bug that the statement forgets, if any."""

    events: list[str]
    ends: Callable[[State], Term]
    planted: str = ""


SERVED = [*ALONE, *DURABLE]
SETTLED = [*MOVES, "settle"]
FALSE: dict[str, Vector] = {
    "C2 holds whatever order requests arrive in": Vector(
        [*SERVED, "answer", *SECOND, "bug: late request", *SETTLED, "heartbeat", *SETTLED, *[LOG] * 6, "answer"],
        overlap,
        "late request",
    ),
    "C2 holds whichever answer a client acts on": Vector(
        [*SERVED, *SECOND, "join: known member", *SETTLED, "heartbeat", *SETTLED, *[LOG] * 6, "answer", "answer"],
        overlap,
        "late answers",
    ),
    "C1 holds across an upgrade, whatever the classic leader assigned": Vector(
        [*CLASSIC, "upgrade"], two_owners, "overlapping classic plan"
    ),
    "a downgrade by a static replacement may give members their targets": Vector(
        [*MIXED_STATIC, "downgrade: replacement", "classic sync", *[LOG] * 6, "answer"],
        overlap,
        "replacement gives targets",
    ),
    "a group becomes classic only when a consumer member goes": Vector([*CLASSIC, "upgrade", "downgrade"], is_classic),
    "a member commits only for what it holds": Vector([*ALONE, *SECOND, "commit"], foreign_commit),
}
