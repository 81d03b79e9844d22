"""The cluster as an operator finds it in the engine. Whether a node lives shows only over time: its beat changes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.log import OFFSETS_TOPIC

if TYPE_CHECKING:
    from rota import _rota

LOOK_AGAIN_S = 0.1
UNKNOWN = "-"
STATE_TOPIC = "__transaction_state"
LEFT = "left"
SERVING = "serving"
FULL = 0.8
"""The part of its quota at which a member of the engine is called full."""


class Node(NamedTuple):
    """A server that was started at least once."""

    node_id: int
    addresses: list[tuple[str, str, int]]
    """(listener, host, port)."""
    version: str
    state: str
    """serving, leaving or left."""
    is_drained: bool
    started_ms: int
    """When its process began, in milliseconds since the Unix epoch by its own clock; 0: it did not say."""
    beat: tuple[str, int] | None
    """Its process and the number of its last beat."""


class Partition(NamedTuple):
    """A partition of `__consumer_offsets` or `__transaction_state`."""

    partition: int
    owner: int | None
    """Which node owns it, or did last."""
    epoch: int
    is_held: bool
    """Whether the owner's process has not released it."""
    planned: int | None
    pin: int | None
    """Where an operator has placed it."""
    unserved: tuple[int, int, str] | None
    """If its planned node says that it does not serve it: (node, since when in milliseconds since the Unix epoch by its
    own clock, what it does instead)."""


class Image(NamedTuple):
    """The small keys at one revision."""

    history: str
    format: int
    revision: int
    cluster_id: str | None
    ttl_ms: int
    nodes: dict[int, Node]
    partitions: list[Partition]
    topics: dict[str, list[int] | None]
    """The leader of each partition, by topic; None: a later version of rota wrote it."""
    transactions: list[Partition]
    """The partitions of `__transaction_state`."""

    def held(self, node_id: int) -> int:
        """How many partitions of both topics the node holds."""
        return sum(row.is_held and row.owner == node_id for row in (*self.partitions, *self.transactions))

    def owned(self) -> Counter[int]:
        """How many partitions each node holds."""
        return Counter(row.owner for row in self.partitions if row.is_held and row.owner is not None)

    def led(self, node_id: int) -> list[str]:
        """The topics with partitions whose messages are with a node."""
        return sorted(name for name, leaders in self.topics.items() if node_id in (leaders or ()))

    def unserved(self) -> list[tuple[Partition, str]]:
        """Partitions that their planned nodes do not serve, as these say, each with its topic."""
        both = ((self.partitions, OFFSETS_TOPIC), (self.transactions, STATE_TOPIC))
        return [(row, topic) for rows, topic in both for row in rows if row.unserved is not None]

    def moving(self) -> list[Partition]:
        """Partitions of `__consumer_offsets` that their planned node does not hold."""
        return moving(self.partitions)


def unserved_line(row: Partition, topic: str) -> str:
    """A partition that is not served, for operators."""
    node_id, since_ms, reason = row.unserved or (0, 0, "")
    return f"partition {row.partition} of {topic} is not served since {moment(since_ms)}: node {node_id} {reason}"


def moment(wall_ms: int) -> str:
    """`2026-01-31T13:30:20Z`; a hyphen for 0."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if wall_ms else UNKNOWN


def moving(rows: list[Partition]) -> list[Partition]:
    """Partitions that their planned node does not hold."""
    return [row for row in rows if not row.is_held or row.owner != row.planned]


class Member(NamedTuple):
    """A member of the engine: of etcd, or a host of PostgreSQL."""

    address: str
    trouble: str | None
    """Why it does not answer."""
    member_id: int = 0
    version: str = ""
    leads: bool = False
    file_bytes: int = 0
    live_bytes: int = 0
    quota_bytes: int = 0
    errors: tuple[str, ...] = ()

    @property
    def used(self) -> float:
        """The part of the quota that its file takes."""
        return self.file_bytes / self.quota_bytes if self.quota_bytes else 0.0


def image(operator: _rota.EngineOperator) -> Image:
    """The cluster now. Raises rota.EngineError."""
    return of_look(operator.look())


def of_look(look: dict[str, Any]) -> Image:
    """What the compiled half shows, with names."""
    cluster_id, _, ttl_ms = look["settings"] or (None, 0, 0)
    nodes = {row[0]: Node(*row) for row in look["nodes"]}
    partitions = [Partition(number, *row) for number, row in enumerate(look["partitions"])]
    transactions = [Partition(number, *row) for number, row in enumerate(look["transaction_partitions"])]
    return Image(
        look["history"],
        look["format"],
        look["revision"],
        cluster_id,
        ttl_ms,
        nodes,
        partitions,
        look["topics"],
        transactions,
    )


def members(operator: _rota.EngineOperator) -> list[Member]:
    """The members of the engine that the URL names, with the first trouble of each."""
    found = []
    for address, trouble, status in operator.members():
        if status is None:
            found.append(Member(address, trouble))
        else:
            member_id, version, leads, file_bytes, live_bytes, quota_bytes, errors = status
            found.append(
                Member(address, None, member_id, version, leads, file_bytes, live_bytes, quota_bytes, tuple(errors))
            )
    return found


def observed(
    operator: _rota.EngineOperator, tell: Callable[[str], object], only: int | None = None
) -> tuple[Image, dict[int, bool]]:
    """The cluster, and which nodes live: those whose beat changes within a TTL. Waits for `only` one node, or for all.

    A node that is forgotten meanwhile is not there, and one that joins is. Raises rota.EngineError.
    """
    first = last = image(operator)
    deadline = time.monotonic() + first.ttl_ms / 1000
    while True:
        alive = {node_id: _has_beaten(first, last, node_id) for node_id in last.nodes if only in (None, node_id)}
        waits_for = [node_id for node_id, lives in alive.items() if not lives and last.nodes[node_id].state != LEFT]
        left = deadline - time.monotonic()
        if not waits_for or left <= 0:
            break
        nodes = ", ".join(map(str, waits_for))
        tell(f"waits for a beat of node {nodes}, at most {first.ttl_ms / 1000:g} s")
        time.sleep(min(LOOK_AGAIN_S, left))
        last = image(operator)
    return last, alive


def _has_beaten(first: Image, last: Image, node_id: int) -> bool:
    before, beat = first.nodes.get(node_id), last.nodes[node_id].beat
    return beat is not None and (before is None or beat != before.beat)


def troubles(
    found: Image, alive: dict[int, bool], kind: str, answered: list[Member], alarms: list[tuple[int, str]]
) -> list[str]:
    """What an operator has to look at, the worst first; empty: nothing."""
    lines = []
    by_id = {member.member_id: member.address for member in answered if member.trouble is None}
    for member_id, alarm in alarms:
        what = {"NOSPACE": "commits wait: run `rota cluster mend`", "CORRUPT": "members differ: replace this member"}
        lines.append(f"{kind} {by_id.get(member_id, f'member {member_id:x}')} raised {alarm}: {what.get(alarm, '')}")
    if found.cluster_id is None:
        lines.append("no server has begun this cluster; if an import was interrupted, run `rota cluster import` again")
    for rows, what_they_are in ((found.partitions, "partitions"), (found.transactions, "partitions of transactions")):
        unowned = sum(not (row.is_held and alive.get(row.owner or 0)) for row in rows)
        if unowned:
            lines.append(f"{unowned} of {len(rows)} {what_they_are} have no owner that lives")
    for row, topic in found.unserved():
        lines.append(unserved_line(row, topic))
    for node_id, lives in alive.items():
        node = found.nodes.get(node_id)
        if not lives and node is not None and node.state != LEFT:
            lines.append(f"node {node_id} is silent: start it, or `rota cluster forget {node_id}`")
    for member in answered:
        if member.trouble is not None:
            lines.append(f"{kind} {member.address} does not answer: {member.trouble}")
        elif member.used >= FULL:
            lines.append(f"{kind} {member.address} uses {member.used:.0%} of its quota: run `rota cluster mend`")
    return lines
