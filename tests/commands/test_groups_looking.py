"""`list`, `describe` and `watch`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from .groups_scene import WITHIN_S, Scene, rota_groups


def test_a_list_has_type_protocol_and_state(scene: Scene) -> None:
    scene.commit(scene.topic(1), {0: 1})
    ended = scene.run("list", "--regex", f"^{scene.group}$", "--json")
    # A group that only had a simple commit has no protocol type.
    assert ended.json == [{"group": scene.group, "state": "Empty", "type": ended.json[0]["type"], "protocol_type": ""}]
    assert ended.json[0]["type"].lower() == "classic"


def test_a_list_needs_no_arguments_where_the_environment_names_the_broker(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.commit(scene.topic(1), {0: 1})
    monkeypatch.setenv("ROTA_BOOTSTRAP_SERVER", scene.bootstrap)
    for arguments in [("list",), ("--list",), ("list", "--state"), ("--list", "--type")]:
        ended = rota_groups(*arguments)
        assert (ended.code, ended.err) == (0, ""), arguments
        assert scene.group in ended.out


def test_a_list_is_narrowed_by_state_type_and_regex(scene: Scene) -> None:
    topic = scene.topic(1)
    scene.commit(topic, {0: 1})
    live, scene.group = scene.group + "-live", scene.group
    scene.group, empty = live, scene.group
    scene.member(topic)

    def names(*options: str) -> list[str]:
        found = scene.run("list", "--regex", empty, *options, "--json").json
        return [line["group"] for line in found]

    assert names() == [empty, live]
    assert names("--state", "stable") == [live]
    assert names("--state", "EMPTY,stable", "--type", "classic") == [empty, live]
    assert names("--type", "consumer") == []


def test_lag_is_told_in_messages_and_in_seconds(scene: Scene) -> None:
    topic = scene.topic(4, 3)
    scene.commit(topic, {0: 1, 1: 3})
    [group] = scene.run("describe", scene.group, "--json").json
    told = [
        [row[name] for name in ("partition", "offset", "log_end_offset", "lag", "lag_s")] for row in group["offsets"]
    ]
    assert told == [[0, 1, 4, 3, 20.0], [1, 3, 3, 0, 0.0]]
    assert (group["lag"], group["lag_s"], group["state"]) == (3, 20.0, "Empty")
    assert group["offsets"][0]["waiting_s"] > 3_500
    text = scene.run("describe", scene.group).out
    assert text.splitlines()[1].split()[:7] == [scene.group, topic, "0", "1", "4", "3", "20.0"]


def test_members_without_partitions_are_listed_behind_the_partitions(scene: Scene) -> None:
    topic = scene.topic(1)
    scene.pair(topic)
    owner, idle = (line.split() for line in scene.run("describe", scene.group).out.splitlines()[1:])
    assert owner[1:3] == [topic, "0"]
    assert idle[:7] == [scene.group, *["-"] * 6]
    assert {owner[-1], idle[-1]} == {"ana", "ben"}
    verbose = [line.split() for line in scene.run("describe", scene.group, "--verbose").out.splitlines()]
    assert verbose[2][:10] == idle


def test_seconds_that_cannot_be_known_are_said_to_be_unknown(scene: Scene) -> None:
    topic = scene.topic(1)
    scene.commit(topic, {0: 5})
    [group] = scene.run("describe", scene.group, "--json").json
    [row] = group["offsets"]
    assert (row["lag"], row["lag_s"], row["waiting_s"]) == (-4, None, None)
    assert row["seconds_unknown"] == "the committed offset is beyond the end of the log"
    assert scene.run("describe", scene.group).out.splitlines()[1].split()[6] == "unknown"


def test_members_are_told_with_what_they_hold(scene: Scene) -> None:
    topic = scene.topic(1, 1)
    scene.member(topic, client_id="ana", group_instance_id="pod-1")
    [group] = scene.run("describe", scene.group, "--members", "--json").json
    [member] = group["members"]
    assert (member["client_id"], member["instance_id"], member["subscription"]) == ("ana", "pod-1", [topic])
    assert member["assignment"] == [{"topic": topic, "partition": index} for index in (0, 1)]
    text = scene.run("describe", scene.group, "--members", "--verbose").out
    assert f"{topic}(0,1)" in text
    assert scene.run("describe", scene.group, "--state").out.splitlines()[1].split()[1:] == [
        "classic",
        "range",
        "Stable",
        "1",
    ]


def test_partitions_without_an_offset_are_there_if_they_are_assigned(scene: Scene) -> None:
    topic = scene.topic(2)
    scene.member(topic, client_id="ana")
    [group] = scene.run("describe", scene.group, "--json").json
    [row] = group["offsets"]
    assert (row["offset"], row["lag"], row["log_end_offset"], row["seconds_unknown"]) == (
        None,
        None,
        2,
        "nothing is committed",
    )
    assert row["member_id"].startswith("ana-")


def test_a_group_that_is_not_there_is_named_with_the_nearest_that_is(scene: Scene) -> None:
    scene.commit(scene.topic(1), {0: 1})
    ended = scene.run("describe", scene.group + "x")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == f"rota: there is no group `{scene.group}x`: did you mean `{scene.group}`?\n"


def test_a_watch_says_how_the_lag_changes_and_that_a_group_is_gone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = scene.topic(5)
    scene.commit(topic, {0: 1})
    steps: Iterator[Callable[[], object]] = iter(
        [lambda: scene.commit(topic, {0: 4}), lambda: scene.run("delete", scene.group)]
    )
    monkeypatch.setattr("rota.groups.watching.pause", lambda _: next(steps)())
    ended = scene.run("watch", scene.group, "--count", "3", "--json")
    looks = [json.loads(line)["groups"][0] for line in ended.out.splitlines()]
    assert [(look["state"], look["lag"], look["lag_change"]) for look in looks] == [
        ("Empty", 4, None),
        ("Empty", 1, -3),
        ("gone", None, None),
    ]


def test_names_cannot_command_the_terminal(scene: Scene) -> None:
    scene.group += "\x1b[2J\n"
    scene.commit(scene.topic(1), {0: 1})
    ended = scene.run("describe", scene.group)
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "\\x1b[2J\\n" in ended.out


def test_kafkas_own_way_to_call_is_understood(scene: Scene) -> None:
    scene.commit(scene.topic(1), {0: 1})
    at = ("--bootstrap-server", scene.bootstrap)
    from .groups_scene import rota_groups

    assert rota_groups(*at, "--describe", "--group", scene.group).out == scene.run("describe", scene.group).out
    assert scene.group in rota_groups(*at, "--list", "--state").out
    assert rota_groups(*at, "--list", "--describe").code == 2


def test_open_transactions_with_offsets_of_the_group_are_listed_below_them(scene: Scene) -> None:
    topic = scene.topic(1)
    scene.commit(topic, {0: 1})
    name = f"pay-{scene.group}"
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": name})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    worker = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": scene.group})
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 5)], worker.consumer_group_metadata(), WITHIN_S)
    worker.close()
    text = scene.run("describe", scene.group).out
    assert re.search(rf"\nTransaction {name} with offsets in __consumer_offsets-\d+, .* is aborted in [\d.]+ s", text)
    [told] = scene.run("describe", scene.group, "--json").json[0]["transactions"]
    assert (told["transactional_id"], told["state"]) == (name, "Ongoing")
    assert told["open_for_s"] + told["aborted_in_s"] == pytest.approx(60, abs=1)
    producer.abort_transaction(WITHIN_S)
    assert name not in scene.run("describe", scene.group).out
    [without_offsets] = scene.run("describe", scene.group, "--members", "--json").json
    assert without_offsets["transactions"] is None
