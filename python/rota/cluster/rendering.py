"""The cluster as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rota.cluster.looking import LEFT, UNKNOWN, Image, Member, Node, Partition, moment, unserved_line
from rota.why.words import counted

ETCD = "etcd"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
ROLES = {ETCD: ("follower", "leader"), "postgresql": ("standby", "primary")}
"""What a member is that does not lead, and one that does."""
QUOTA_UNKNOWN = (
    "etcd before 3.6 does not say its quota, so nothing warns before it is full: add ?quota=BYTES to the URL"
)


def size(count: int) -> str:
    """`1.5 MiB`."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows below their heads, in columns."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    for row in [heads, *rows]:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def shown(value: object) -> str:
    """A value, or a hyphen."""
    return UNKNOWN if value is None else str(value)


def standing(node: Node, lives: bool) -> str:
    """What a node does: `serving`, `drained`, `leaving`, `left` or `silent`."""
    if not lives:
        return LEFT if node.state == LEFT else "silent"
    return "drained" if node.is_drained else node.state


def node_facts(found: Image, node: Node, lives: bool) -> dict[str, Any]:
    """A node as JSON."""
    return {
        "node_id": node.node_id,
        "standing": standing(node, lives),
        "is_alive": lives,
        "is_drained": node.is_drained,
        "state": node.state,
        "version": node.version,
        "started_at": None if not node.started_ms else moment(node.started_ms),
        "addresses": [{"listener": name, "host": host, "port": port} for name, host, port in node.addresses],
        "partitions": found.owned()[node.node_id],
        "leads_topics": found.led(node.node_id),
    }


def partition_facts(row: Partition) -> dict[str, Any]:
    """A partition as JSON."""
    unserved = None
    if row.unserved is not None:
        node_id, since_ms, reason = row.unserved
        unserved = {"node_id": node_id, "since": moment(since_ms), "reason": reason}
    return {
        "partition": row.partition,
        "owner": row.owner if row.is_held else None,
        "epoch": row.epoch,
        "planned": row.planned,
        "pin": row.pin,
        "unserved": unserved,
    }


def member_facts(member: Member) -> dict[str, Any]:
    """A member of the engine as JSON."""
    if member.trouble is not None:
        return {"address": member.address, "trouble": member.trouble}
    return {
        "address": member.address,
        "trouble": None,
        "member_id": f"{member.member_id:x}",
        "version": member.version,
        "leads": member.leads,
        "file_bytes": member.file_bytes,
        "live_bytes": member.live_bytes,
        "quota_bytes": member.quota_bytes,
        "errors": list(member.errors),
    }


def cluster_facts(engine: str, found: Image) -> dict[str, Any]:
    """What a cluster is, as JSON."""
    return {
        "engine": engine,
        "cluster_id": found.cluster_id,
        "history": found.history,
        "format": found.format,
        "ttl_ms": found.ttl_ms,
    }


def nodes(found: Image, alive: dict[int, bool]) -> Iterator[str]:
    """A table of the nodes."""
    owned = found.owned()
    rows = [
        [
            str(node.node_id),
            standing(node, alive[node.node_id]),
            moment(node.started_ms),
            node.version,
            str(owned[node.node_id]),
            ", ".join(f"{host or '*'}:{port}" for _, host, port in node.addresses),
        ]
        for node in found.nodes.values()
        if node.node_id in alive
    ]
    yield from table(["node", "is", "started", "version", "partitions", "addresses"], rows)


def partitions(rows: Sequence[Partition], contents: dict[int, tuple[int, int, int]] | None = None) -> Iterator[str]:
    """A table of partitions, with what each has in the engine if that was read."""
    heads, cells = ["partition", "owner", "epoch", "planned", "pin"], []
    for row in rows:
        owner = UNKNOWN if not row.is_held else shown(row.owner)
        line = [str(row.partition), owner, str(row.epoch), shown(row.planned), shown(row.pin)]
        if contents is not None:
            entries, entry_bytes, snapshot_bytes = contents[row.partition]
            line += [str(entries), size(entry_bytes), size(snapshot_bytes)]
        cells.append(line)
    yield from table([*heads, *(["entries", "their size", "snapshot"] if contents is not None else [])], cells)


def unserved(found: Image) -> Iterator[str]:
    """The partitions that are not served, each with its node and what that does instead."""
    for row, topic in found.unserved():
        yield unserved_line(row, topic)


def lacks_quota(kind: str, member: Member) -> bool:
    """Whether a member has a quota that it does not say: etcd says it from 3.6 on. PostgreSQL has none."""
    return kind == ETCD and member.trouble is None and not member.quota_bytes


def members(kind: str, found: Sequence[Member]) -> Iterator[str]:
    """A table of the members of the engine."""
    rows = []
    for member in found:
        if member.trouble is not None:
            rows.append([member.address, "silent", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN])
            continue
        role = ROLES[kind][member.leads]
        space = [size(member.file_bytes), size(member.live_bytes)]
        no_quota = "unknown" if lacks_quota(kind, member) else UNKNOWN
        space.append(size(member.quota_bytes) if member.quota_bytes else no_quota)
        rows.append([member.address, role, member.version, *space])
    yield from table([kind, "is", "version", "file", "in use", "quota"], rows)
    if any(lacks_quota(kind, member) for member in found):
        yield QUOTA_UNKNOWN


def summary(engine: str, kind: str, found: Image, alive: dict[int, bool], members: Sequence[Member]) -> Iterator[str]:
    """The cluster in four lines, and a fifth if the quota is not known."""
    living = sum(alive.values())
    held = sum(found.owned().values())
    answering = [member for member in members if member.trouble is None]
    fullest = max(answering, key=lambda member: (member.used, member.file_bytes), default=None)
    yield f"cluster     {shown(found.cluster_id)} on {engine}"
    yield f"nodes       {len(alive)}, {living} alive"
    yield f"partitions  {len(found.partitions)}, {held} owned, {len(found.moving())} moving"
    of = "" if fullest is None or not fullest.quota_bytes else f" of {size(fullest.quota_bytes)}"
    space = "" if fullest is None else f", {size(fullest.file_bytes)}{of} used"
    yield f"{kind:<11} {counted(len(members), 'member')}, {len(answering)} answer{space}"
    if any(lacks_quota(kind, member) for member in answering):
        yield QUOTA_UNKNOWN
