"""Groups over HTTP: what is shown is what real clients did, and it follows the published schema."""

from __future__ import annotations

import jsonschema
import pytest
from confluent_kafka import Producer, TopicPartition

import rota
from rota import _rota

from .asking import GROUP, SCHEMA, SETTINGS, ask, commit, consumer, leave, settle, shown, stuck

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_stuck_group_is_explained_as_a_person_would(nodes: int) -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, nodes=nodes, clock=clock, http=":0") as server:
        server.create_topic("t", partitions=3)
        with stuck(server, clock) as (left, missing):
            group = shown(server, f"/groups/{GROUP}", "group")
            (listed,) = shown(server, "/groups", "groups")["groups"]
    short = {name: name[: len("consumer-N-12345678")] + "…" for name in (left, missing)}
    assert group["why"]["sentence"] == (
        f"PreparingRebalance for 31.0 s: waiting for {short[missing]} to rejoin, whose session ends in 14.0 s; "
        f"it began because {short[left]} left"
    )
    assert listed["why"] == group["why"]["sentence"].replace(
        ", whose session ends in 14.0 s", " (until 14.0 s from now)"
    )
    assert [wait["member_id"] for wait in group["waiting"]] == [missing]
    assert (group["state"], group["in_state_ms"], group["parked"]) == (
        "PreparingRebalance",
        31_000,
        {"JoinGroup": 1, "SyncGroup": 0},
    )
    assert [timer["name"] for timer in group["timers"]] == ["Join"]
    by_id = {member["member_id"]: member for member in group["members"]}
    assert (by_id[missing]["heard_ago_ms"], by_id[missing]["expires_in_ms"]) == (31_000, 14_000)
    (waiting,) = [member for member in group["members"] if member["parked"] == "JoinGroup"]
    assert (waiting["client_id"], waiting["client_host"], waiting["expires_in_ms"]) == (
        "consumer-1",
        "/127.0.0.1",
        None,
    )
    latest = group["rebalances"][-1]
    assert (latest["cause"], latest["member_id"], latest["settled_after_ms"]) == ("MemberLeft", left, None)
    assert listed["slack"] == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0], "14 s of 45 s are left"


def test_offsets_lag_and_owners_are_what_the_clients_did() -> None:
    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t", partitions=2)
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        for _ in range(5):
            producer.produce("t", b"x", partition=0)
        producer.flush(60)
        ana, ben = consumer(server, "ana"), consumer(server, "ben")
        settle(server, ana, ben)
        owner = {place.partition: one for one in (ana, ben) for place in one.assignment()}
        owner[0].commit(offsets=[TopicPartition("t", 0, 2, metadata="two of five")], asynchronous=False)
        group = shown(server, f"/groups/{GROUP}", "group")
        ids = {partition: one.memberid() for partition, one in owner.items()}
        leave(server, ana, ben)
        emptied = shown(server, f"/groups/{GROUP}", "group")
    first, second = group["partitions"]
    assert (first["offset"], first["log_end"], first["lag"]) == (2, 5, 3)
    assert first["metadata"].startswith("two of five")  # the client sends the zero at the end of its string, too
    assert (second["offset"], second["log_end"], second["lag"]) == (None, 0, None)
    assert [first["owners"], second["owners"]] == [[ids[0]], [ids[1]]]
    assert group["lag"] == 3
    assert {member["member_id"]: member["assignment"] for member in group["members"]} == {
        ids[partition]: {"t": [partition]} for partition in (0, 1)
    }
    assert {tuple(member["subscription"]["topics"]) for member in group["members"]} == {("t",)}
    assert (emptied["state"], emptied["members"], emptied["lag"]) == ("Empty", [], 3)
    assert [row["owners"] for row in emptied["partitions"]] == [[]]


def test_groups_come_page_by_page_in_order() -> None:
    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t")
        names = ["a", "b/c", "d e", "é"]
        for name in names:
            commit(server, name, TopicPartition("t", 0, 1))
        whole = shown(server, "/groups", "groups")
        assert ([group["group_id"] for group in whole["groups"]], whole["total"], whole["next"]) == (names, 4, None)
        seen, page = [], shown(server, "/groups?limit=3", "groups")
        assert (page["total"], page["next"]) == (4, "d e")
        seen += page["groups"]
        seen += shown(server, "/groups?limit=3&after=d%20e", "groups")["groups"]
        assert [group["group_id"] for group in seen] == names
        for path in ("b%2Fc", "d%20e", "%C3%A9", "b/c"):
            assert shown(server, f"/groups/{path}", "group")["group_id"] in names


def test_a_group_that_is_not_there_is_named_with_the_nearest_that_is() -> None:
    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t")
        commit(server, GROUP, TopicPartition("t", 0, 1))
        told = shown(server, "/groups/order", "error", 404)
    assert told == {
        "error": "NoSuchGroup",
        "message": "there is no group `order`; the nearest is `orders`",
        "nearest": "orders",
    }


def test_the_schema_is_served_and_has_the_words_of_the_vocabulary() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    with rota.Server(http=":0") as server:
        status, headers, body = ask(server, "/schema")
    assert (status, headers["Content-Type"]) == (200, "application/schema+json")
    assert body.decode().startswith('{\n "$schema"')
    words = _rota.vocabulary()
    parts = SCHEMA["$defs"]
    more = [state for state in words["consumer_states"] if state not in words["states"]]
    assert parts["state"]["enum"] == [*words["states"], *more]
    assert parts["rebalance"]["properties"]["cause"]["enum"] == words["causes"]
    assert parts["wait"]["properties"]["what"]["enum"] == words["waits"]
