"""Several servers that share groups over an engine, as one of them sees them (docs/cluster.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Time after which a silent server's partitions are taken over, in milliseconds.
TTL_MS = 5_000
#: Shorter ones end with every hiccup of the engine, and longer ones leave groups without an answer for too long.
TTL_MS_MIN, TTL_MS_MAX = 500, 60_000


class ClusterNode(NamedTuple):
    """A server of the cluster."""

    node_id: int
    #: (listener, host, port).
    addresses: list[tuple[str, str, int]]
    version: str
    #: "serving", "leaving" or "left".
    state: str
    is_alive: bool
    is_drained: bool


class ClusterPartition(NamedTuple):
    """A partition of `__consumer_offsets`."""

    #: Which node owns it, or did last; None before the first owner.
    owner: int | None
    #: Number of the ownership.
    epoch: int
    is_held: bool
    #: Which node the plan names.
    planned: int | None
    #: Which node answers for its groups; None if none does.
    coordinator: int | None


class Cluster(NamedTuple):
    """The cluster as one server sees it."""

    engine: str
    #: What the server is: "joining", "member", "leaving", "left" or "stopped".
    standing: str
    #: Why it is not a member, or why the engine does not answer.
    reason: str | None
    #: Whether the server answers for groups.
    is_ready: bool
    cluster_id: str | None
    ttl_ms: int | None
    nodes: list[ClusterNode]
    partitions: list[ClusterPartition]
    #: Partitions whose content in the engine is damaged, with the damage.
    damaged: list[tuple[int, str]]


def described(shown: Mapping[str, Any]) -> Cluster:
    """The cluster in what the compiled half shows."""
    nodes = [ClusterNode(*node) for node in shown["nodes"]]
    partitions = [ClusterPartition(*partition) for partition in shown["partitions"]]
    return Cluster(**{**shown, "nodes": nodes, "partitions": partitions})


def arguments(engine: object, node_id: int | None, ttl_ms: int) -> tuple[Any, int, int] | None:
    """What the compiled half gets of the engine. Raises ValueError if something is missing or wrong."""
    if engine is None:
        if node_id is not None:
            raise ValueError(f"node_id is {node_id}, and there is no engine: give `engine`, too")
        return None
    if node_id is None:
        raise ValueError("an engine needs a node_id: give each server of the cluster a number of its own, from 0")
    if not 0 <= node_id < 2**31:
        raise ValueError(f"node_id is {node_id}: give a number from 0 to 2147483647")
    if not TTL_MS_MIN <= ttl_ms <= TTL_MS_MAX:
        raise ValueError(f"ttl_ms is {ttl_ms}: give {TTL_MS_MIN} to {TTL_MS_MAX}")
    return engine, node_id, ttl_ms
