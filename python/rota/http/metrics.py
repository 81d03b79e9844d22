"""Metrics in the Prometheus text format (docs/metrics.md), from the counts of the server. Keeps no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

import rota
from rota import _rota
from rota.cluster import Cluster
from rota.http.cluster_views import cluster_of
from rota.server import Health

__all__ = ["CONTENT_TYPE_LATEST", "families", "text"]

LAG_SERIES_MAX = 10_000
"""Series of lag; beyond the limit, those farthest behind are reported, and the number left out."""

OF_GROUPS = ("rota_group", "rota_members", "rota_session_slack_ratio")
"""How the names of metrics begin for which a server looks at all of its groups."""

#: Metric, key in `_rota.Server.metrics`, label, help.
COUNTERS = (
    ("rota_rebalances", "rebalances", "cause", "Rebalances of classic groups that began, by cause."),
    (
        "rota_consumer_group_rebalances",
        "consumer_rebalances",
        "cause",
        "Rebalances of consumer groups, each a new group epoch, by cause.",
    ),
    ("rota_expiries", "expiries", "timer", "Deadlines that passed, by timer: Session is a member that was silent."),
)

#: Metric, key in `_rota.Server.metrics`, help.
DURATIONS = (
    ("rota_join_phase_seconds", "join_phases", "From the beginning of a rebalance to the end of its join phase."),
    ("rota_sync_phase_seconds", "sync_phases", "From the end of a join phase until the group was Stable or Empty."),
    (
        "rota_reconciliation_seconds",
        "reconciliations",
        "From a new epoch of a consumer group until the group was Stable or Empty.",
    ),
    ("rota_join_seconds", "joins", "From a JoinGroup to its answer."),
    ("rota_sync_seconds", "syncs", "From a SyncGroup to its answer."),
    ("rota_append_seconds", "appends", "From an append to __consumer_offsets to its end."),
)


def text(server: _rota.Server, health: Health | None, names: Iterable[str] | None = None) -> bytes:
    """All metrics, or those that have one of these names, in the text format."""
    wanted = None if names is None else frozenset(names)
    told = [family for family in families(server, health, wanted) if wanted is None or wanted & _names(family)]

    class Once:
        def collect(self) -> Iterable[Metric]:
            return told

    return bytes(generate_latest(cast("Any", Once())))


def _names(family: Metric) -> set[str]:
    return {family.name, *(sample.name for sample in family.samples)}


def families(server: _rota.Server, health: Health | None, wanted: frozenset[str] | None = None) -> Iterator[Metric]:
    """Every metric with its samples. Groups are only looked at if one of the names wanted can be theirs."""
    metrics = server.metrics()
    yield _labelled(
        GaugeMetricFamily("rota_build_info", "The version that runs.", labels=["version"]), {rota.__version__: 1}
    )
    if wanted is None or any(name.startswith(OF_GROUPS) for name in wanted):
        yield from _groups(server)
    yield from _counted(metrics)
    yield from _transactions(server)
    connections, waiting = server.load()
    yield GaugeMetricFamily("rota_connections", "Kafka connections that are open.", value=connections)
    yield GaugeMetricFamily("rota_waiting_requests", "Group requests that wait for their answer.", value=waiting)
    yield GaugeMetricFamily(
        "rota_loading_partitions",
        "Partitions of __consumer_offsets that are being loaded.",
        value=len(server.loading()),
    )
    yield CounterMetricFamily("rota_panics", "Requests that made the server panic: bugs.", value=server.panics)
    if health is not None and server.report() is not None:
        yield from _disk(health, metrics)
    cluster, counts = cluster_of(server), server.cluster_counts()
    if cluster is not None and counts is not None:
        yield from _cluster(cluster, counts)


def _labelled(family: Any, values: dict[str, int]) -> Metric:
    for label, value in values.items():
        family.add_metric([label], value)
    labelled: Metric = family
    return labelled


def _groups(server: _rota.Server) -> Iterator[Metric]:
    states, members, slack, lags = server.group_totals()
    groups = GaugeMetricFamily("rota_groups", "Groups, by protocol and state.", labels=["protocol", "state"])
    for labels, count in states.items():
        groups.add_metric(labels, count)
    yield groups
    yield GaugeMetricFamily("rota_members", "Members of all groups.", value=members)
    buckets, below = [], 0
    for part, count in enumerate(slack, start=1):
        below += count
        buckets.append(("+Inf" if part == len(slack) else str(part / len(slack)), below))
    yield GaugeHistogramMetricFamily(
        "rota_session_slack_ratio",
        "Members whose session runs, by the part of it that is left.",
        buckets=buckets,
        # As if everybody were in the middle of his part: only the parts are counted.
        gsum_value=sum(count * (part + 0.5) / len(slack) for part, count in enumerate(slack)),
    )
    lag = GaugeMetricFamily(
        "rota_group_lag_messages",
        "Messages after the committed offsets, by group and topic.",
        labels=["group", "topic"],
    )
    told = sorted(lags, key=lambda row: -row[2])[:LAG_SERIES_MAX]
    for group, topic, messages in told:
        lag.add_metric([group, topic], messages)
    yield lag
    yield GaugeMetricFamily(
        "rota_group_lag_omitted_series",
        "Series of rota_group_lag_messages that are left out.",
        value=len(lags) - len(told),
    )


def _counted(metrics: dict[str, Any]) -> Iterator[Metric]:
    for name, key, label, explained in COUNTERS:
        yield _labelled(CounterMetricFamily(name, explained, labels=[label]), metrics[key])
    refusals = CounterMetricFamily(
        "rota_refusals", "Errors that coordinators answered, by API and error.", labels=["api", "error"]
    )
    for (api, error), count in metrics["refusals"].items():
        refusals.add_metric([api, error], count)
    yield refusals
    yield CounterMetricFamily("rota_commits", "Offsets of partitions that were committed.", value=metrics["commits"])
    yield CounterMetricFamily(
        "rota_failed_appends", "Appends to __consumer_offsets that failed.", value=metrics["failed_appends"]
    )
    for row in DURATIONS:
        yield _timed(metrics, *row)


def _transactions(server: _rota.Server) -> Iterator[Metric]:
    states, oldest_open_ms = server.transaction_totals()
    yield _labelled(GaugeMetricFamily("rota_transactions", "Transactional ids, by state.", labels=["state"]), states)
    yield GaugeMetricFamily(
        "rota_oldest_open_transaction_seconds",
        "Age of the oldest transaction whose end is not visible everywhere; 0 without one.",
        value=oldest_open_ms / 1_000,
    )


def _timed(metrics: dict[str, Any], name: str, key: str, explained: str) -> Metric:
    counts, seconds = metrics[key]
    return HistogramMetricFamily(name, explained, buckets=_cumulated(metrics["bounds"], counts), sum_value=seconds)


def _cumulated(bounds: list[float], counts: list[int]) -> list[tuple[str, int]]:
    """Buckets as Prometheus has them: each counts all that are not longer than its bound."""
    buckets, below = [], 0
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        below += count
        buckets.append((bound, below))
    return buckets


def _disk(health: Health, metrics: dict[str, Any]) -> Iterator[Metric]:
    yield _timed(metrics, "rota_fsync_seconds", "fsyncs", "Syncs of the write-ahead file.")
    yield CounterMetricFamily("rota_compactions", "Compactions that were finished.", value=health.compactions)
    yield GaugeMetricFamily(
        "rota_log_stopped", "1 if the log accepts nothing any more.", value=int(health.stopped is not None)
    )
    yield GaugeMetricFamily(
        "rota_log_failing",
        "1 if the log takes no writes now, as on a full disk.",
        value=int(health.failing is not None),
    )
    yield GaugeMetricFamily(
        "rota_refused_partitions", "Partitions that are refused or damaged.", value=len(health.refused)
    )


def _cluster(cluster: Cluster, counts: dict[str, Any]) -> Iterator[Metric]:
    alive = sum(node.is_alive for node in cluster.nodes)
    nodes = {"alive": alive, "silent": len(cluster.nodes) - alive}
    yield _labelled(GaugeMetricFamily("rota_cluster_nodes", "Servers of the cluster.", labels=["state"]), nodes)
    yield GaugeMetricFamily("rota_cluster_ready", "1 if this server answers for groups.", value=int(cluster.is_ready))
    own = cluster.node_id
    owned = [(at, row) for at, row in enumerate(cluster.partitions) if row.is_held and row.owner == own]
    yield GaugeMetricFamily(
        "rota_cluster_owned_partitions", "Partitions of __consumer_offsets that this server owns.", value=len(owned)
    )
    yield GaugeMetricFamily(
        "rota_cluster_moving_partitions",
        "Partitions of __consumer_offsets that their planned server does not own.",
        value=sum(row.moving_ms is not None for row in cluster.partitions),
    )
    yield GaugeMetricFamily(
        "rota_cluster_peer_errors",
        "Servers that this one cannot ask about transactions until an operator changes something.",
        value=len(cluster.peer_errors),
    )
    epochs = GaugeMetricFamily(
        "rota_cluster_epoch", "Epoch of each partition that this server owns.", labels=["partition"]
    )
    yield _labelled(epochs, {str(at): row.epoch for at, row in owned})
    handovers = CounterMetricFamily(
        "rota_cluster_handovers", "Partitions that this server took, gave up and lost.", labels=["kind"]
    )
    yield _labelled(handovers, dict.fromkeys(("taken", "given_up", "lost"), 0) | counts["handovers"])
    snapshots = CounterMetricFamily("rota_cluster_snapshots", "Snapshots of partitions that this server has written.")
    snapshots.add_metric([], counts["snapshots"])
    yield snapshots
    yield _timed(counts, "rota_engine_append_seconds", "appends", "Calls that append to the engine.")
    outcomes = CounterMetricFamily(
        "rota_engine_appends", "Attempts to append to a partition in the engine, by outcome.", labels=["outcome"]
    )
    yield _labelled(outcomes, dict.fromkeys(("answered", "unknown", "no_space"), 0) | counts["outcomes"])
    if cluster.space is not None:
        file_bytes, live_bytes, quota_bytes = cluster.space
        space = GaugeMetricFamily("rota_engine_bytes", "Space of the fullest member of the engine.", labels=["kind"])
        # etcd before 3.6 does not say its quota.
        quota = {"quota": quota_bytes} if quota_bytes else {}
        yield _labelled(space, {"file": file_bytes, "live": live_bytes} | quota)
