"""Metrics, read by Prometheus' own parser: they count what the test did, no more and no less."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

import rota

from .asking import GROUP, SETTINGS, ask, commit, consumer, settle, stuck

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs/metrics.md").read_text()
ALERTS, DASHBOARD = ROOT / "docs/monitoring/alerts.yml", ROOT / "docs/monitoring/grafana.json"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(server: rota.Server, query: str = "") -> Samples:
    """Every sample by its name and labels."""
    status, headers, body = ask(server, f"/metrics{query}")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(body.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """One sample; 0 if it is not there."""
    return samples.get((name, frozenset(labels.items())), 0)


def completed(explained: rota.Explanation) -> int:
    """The rebalances that came to their end."""
    return sum(rebalance.settled_ms is not None for rebalance in explained.rebalances)


@pytest.mark.clients
@pytest.mark.parametrize("nodes", [1, 3])
def test_rebalances_phases_and_expiries_are_those_that_clients_brought_about(nodes: int) -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, nodes=nodes, clock=clock, http=":0") as server:
        server.create_topic("t", partitions=3)
        with stuck(server, clock):
            during = scrape(server)
            begun = {rebalance.cause for rebalance in server.explain(GROUP).rebalances}
        after = scrape(server)
        explained = server.explain(GROUP)
    assert begun >= {"MemberJoined", "MemberLeft"}
    assert value(during, "rota_rebalances_total", cause="MemberLeft") == 1
    assert value(during, "rota_groups", protocol="classic", state="PreparingRebalance") == 1
    assert value(during, "rota_groups", protocol="classic", state="Stable") == 0
    assert value(during, "rota_members") == 2
    assert value(during, "rota_waiting_requests") == 1
    assert value(during, "rota_session_slack_ratio_bucket", le="0.3") == 0
    assert value(during, "rota_session_slack_ratio_bucket", le="0.4") == 1, "14 s of 45 s are left"
    by_cause: dict[str, int] = {}
    for rebalance in explained.rebalances:
        by_cause[rebalance.cause] = by_cause.get(rebalance.cause, 0) + 1
    for cause, count in by_cause.items():
        assert value(after, "rota_rebalances_total", cause=cause) >= count
    joined = sum(rebalance.joined_ms is not None for rebalance in explained.rebalances)
    assert value(during, "rota_join_phase_seconds_count") < value(after, "rota_join_phase_seconds_count")
    assert value(after, "rota_join_phase_seconds_count") >= joined
    assert value(after, "rota_join_phase_seconds_sum") >= 31, "the virtual seconds that the phase took"
    assert value(after, "rota_join_seconds_bucket", le="+Inf") == value(after, "rota_join_seconds_count")
    assert value(after, "rota_expiries_total", timer="Session") == 0


@pytest.mark.clients
def test_a_rebalance_is_counted_as_completed_once_it_is_and_one_that_goes_on_is_not() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, clock=clock, http=":0") as server:
        server.create_topic("t", partitions=3)
        before = scrape(server)
        with stuck(server, clock):
            during = scrape(server)
            told = server.explain(GROUP)
        after = scrape(server)
        at_last = server.explain(GROUP)
    assert told.rebalances[-1].settled_ms is None, "a member left, and another has not joined again"
    assert value(before, "rota_sync_phase_seconds_count") == 0
    assert value(during, "rota_sync_phase_seconds_count") == completed(told) > 0
    assert value(after, "rota_sync_phase_seconds_count") == completed(at_last) > completed(told)


@pytest.mark.clients
def test_commits_lag_refusals_and_expiries_are_counted_one_by_one() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, clock=clock, http=":0") as server:
        server.create_topic("t", partitions=2)
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        for _ in range(7):
            producer.produce("t", b"x", partition=0)
        producer.flush(60)
        ana = consumer(server, "ana")
        settle(server, ana)
        before = scrape(server)
        ana.commit(offsets=[TopicPartition("t", 0, 3), TopicPartition("t", 1, 0)], asynchronous=False)
        server.inject_error("OffsetCommit", "INVALID_COMMIT_OFFSET_SIZE", times=1)
        with pytest.raises(KafkaException):
            ana.commit(offsets=[TopicPartition("t", 0, 4)], asynchronous=False)
        committed = scrape(server)
        with server.pause(ana.memberid(), GROUP):
            clock.advance(45_000, expire=[ana.memberid()])
            expired = scrape(server)
        settle(server, ana)
        ana.close()
    assert value(before, "rota_commits_total") == 0
    assert value(committed, "rota_commits_total") == 2
    refusal = {"api": "OffsetCommit", "error": "INVALID_COMMIT_OFFSET_SIZE"}
    assert (value(before, "rota_refusals_total", **refusal), value(committed, "rota_refusals_total", **refusal)) == (
        0,
        1,
    )
    assert value(committed, "rota_group_lag_messages", group=GROUP, topic="t") == 4
    assert value(committed, "rota_append_seconds_count") == value(before, "rota_append_seconds_count") + 1
    assert value(committed, "rota_expiries_total", timer="Session") == 0
    assert value(expired, "rota_expiries_total", timer="Session") == 1
    assert value(expired, "rota_rebalances_total", cause="SessionExpired") == 1
    assert value(expired, "rota_groups", protocol="classic", state="Empty") == 1
    assert value(committed, "rota_connections") >= 1


def test_names_choose_metrics_by_family_or_sample() -> None:
    with rota.Server(settings=SETTINGS, http=":0") as server:
        everything = {name for name, _ in scrape(server)}
        chosen = scrape(
            server, "?name[]=rota_commits_total&name%5B%5D=rota_join_seconds&name[]=rota_group_lag_omitted_series"
        )
        assert {name for name, _ in chosen} == {
            "rota_commits_total",
            *(f"rota_join_seconds_{part}" for part in ("bucket", "count", "sum")),
            "rota_group_lag_omitted_series",
        }
        for name in everything:
            assert name in {sample for sample, _ in scrape(server, f"?name[]={name}")}
        assert scrape(server, "?name[]=no_such_metric") == {}


def test_a_data_directory_has_metrics_of_its_own(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data", http=":0") as server:
        server.create_topic("t")
        samples = scrape(server)
        health = server.health()
    assert health is not None
    assert value(samples, "rota_fsync_seconds_count") == health.syncs > 0
    assert value(samples, "rota_fsync_seconds_bucket", le="+Inf") == health.syncs
    assert value(samples, "rota_fsync_seconds_sum") == health.sync_seconds > 0
    assert value(samples, "rota_log_stopped") == 0


def test_hostile_names_are_labels_and_nothing_else() -> None:
    hostile = 'a"} 1\nrota_panics_total 99\n{b="\\'
    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t")
        commit(server, hostile, TopicPartition("t", 0, 0))
        samples = scrape(server)
    assert value(samples, "rota_group_lag_messages", group=hostile, topic="t") == 0
    assert ("rota_group_lag_messages", frozenset({("group", hostile), ("topic", "t")})) in samples
    assert value(samples, "rota_panics_total") == 0


def test_every_metric_is_documented_and_no_rule_or_panel_asks_for_another(tmp_path: Path) -> None:
    with (
        rota.Server(data=tmp_path / "data", http=":0") as server,
        rota.Server(engine=rota.MemoryEngine(), node_id=1, http=":0") as shared,
    ):
        pages = [ask(each, "/metrics")[2].decode() for each in (server, shared)]
    families = [family for page in pages for family in text_string_to_metric_families(page)]
    told = {re.sub(r"_(total|g?count|g?sum)$", "", family.name) for family in families}
    # An engine in memory has no quota; tests/commands/test_cluster.py looks at that of an etcd.
    told.add("rota_engine_bytes")
    documented = set(re.findall(r"^\| `(rota_\w+?)(?:_total)?`", DOCS, re.MULTILINE))
    assert told == documented
    for path in (ALERTS, DASHBOARD):
        asked = {
            re.sub(r"_(total|bucket|count|sum)$", "", name) for name in re.findall(r"\brota_\w+", path.read_text())
        }
        assert asked, path
        assert asked <= told, path


def labels_of(metric: str) -> set[str]:
    """Those that the page has for it, and those that Prometheus and histograms add."""
    [cell] = re.findall(rf"^\| `{metric}(?:_total)?` \| [^|]* \|([^|]*)\|", DOCS, re.MULTILINE)
    return {*re.findall(r"`(\w+)`", cell), "instance", "job", "le"}


def test_no_rule_or_panel_asks_for_a_label_that_its_metric_has_not() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += re.findall(r"^ +expr: (.*)$", ALERTS.read_text(), re.MULTILINE)
    assert len(queries) > 20
    for query in queries:
        metrics = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in re.findall(r"\brota_\w+", query)}
        known = set.intersection(*map(labels_of, metrics)) if metrics else {"job"}
        grouped = ",".join(re.findall(r"by \(([^)]*)\)", query)).replace(" ", "").split(",")
        asked = {*re.findall(r"(\w+) *(?:=~|!~|!=|=)\s*\"", query), *filter(None, grouped)}
        assert asked <= known, query


def test_panels_have_an_id_each_and_do_not_lie_on_each_other() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(place["x"] + place["w"] for place in places) <= 24, "Grafana's width"
    for panel in panels:
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0, panel["title"]
