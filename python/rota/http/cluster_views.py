"""The cluster of a server that shares its groups, over HTTP; and where a group is that this server does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.cluster import Cluster, ClusterPartition, described
from rota.why.words import seconds

if TYPE_CHECKING:
    from rota import _rota


def cluster_of(server: _rota.Server) -> Cluster | None:
    """The cluster as this server sees it; None: it is alone."""
    shown = server.cluster()
    return None if shown is None else described(shown)


def facts(cluster: Cluster) -> dict[str, Any]:
    """What `/healthz` and `/readyz` show of it."""
    owned = [row for row in cluster.partitions if row.coordinator == cluster.node_id]
    return {
        "engine": cluster.engine,
        "node_id": cluster.node_id,
        "standing": cluster.standing,
        "reason": cluster.reason,
        "warning": cluster.warning,
        "is_ready": cluster.is_ready,
        "alive_nodes": [node.node_id for node in cluster.nodes if node.is_alive],
        "owned_partitions": len(owned),
        "partitions_without_owner": [
            number for number, row in enumerate(cluster.partitions) if row.coordinator is None or not row.is_held
        ],
        "space": None if cluster.space is None else cluster.space._asdict(),
        "peer_errors": list(cluster.peer_errors),
    }


def elsewhere(cluster: Cluster, partition: int, group_id: str, *, is_loading: bool) -> tuple[str, int | None] | None:
    """The sentence about a group that this server does not have, and the node that has it; None: it is here."""
    if not cluster.is_ready:
        reason = cluster.reason or f"it is {cluster.standing}"
        return f"this server does not answer for groups at present: {reason}", None
    row = cluster.partitions[partition]
    is_here = row.is_held and row.owner == cluster.node_id
    if row.moving_ms is not None and not is_here:
        return f"`{group_id}` is on its way: {_moving(row)}, since {seconds(row.moving_ms)}", row.planned
    if is_here and is_loading:
        return f"`{group_id}` is being loaded: this server has become its coordinator", cluster.node_id
    if is_here:
        return None
    return f"`{group_id}` is not here: its coordinator is {_named(cluster, row.coordinator)}", row.coordinator


def _moving(row: ClusterPartition) -> str:
    if row.planned is None:
        return "its coordinator is gone, and no node lives that could be the next one"
    return f"its coordinator is moving to node {row.planned}"


def server_of(cluster: Cluster, node_id: int | None) -> str:
    """A server in a sentence; None: this one does not know which."""
    return "another server" if node_id is None else _named(cluster, node_id)


def _named(cluster: Cluster, node_id: int | None) -> str:
    at = next((node for node in cluster.nodes if node.node_id == node_id), None)
    if at is None or not at.addresses:
        return f"node {node_id}"
    _, host, port = at.addresses[0]
    return f"node {node_id}" + (f" at {host}:{port}" if host else f", port {port}")
