"""`rota groups` on groups of the newer protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.conform.consumer import ConsumerWire

from .groups_scene import rota_groups

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    # No session ends during a test.
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
}
GROUP = "g"


class Scene:
    """Two members of a group, m1 before m2, that send single heartbeats."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.bootstrap = bootstrap
        self.wire = ConsumerWire((host, int(port)), "")
        self.wire.topics_changed([("foo", 6)], 0)

    def beat(self, member_id: str, epoch: int) -> int:
        """Returns the member's epoch."""
        joins = {"rebalance_timeout_ms": 3_600_000, "subscribed_topic_names": ["foo"], "topic_partitions": []}
        stays = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
        named = {"group_id": GROUP, "member_id": member_id, "member_epoch": epoch, "instance_id": None}
        others = {"rack_id": None, "subscribed_topic_regex": None, "server_assignor": None}
        told = self.wire.ask("ConsumerGroupHeartbeat", 1, named | others | (stays if epoch else joins))
        assert told["error_code"] == 0
        return int(told["member_epoch"])

    def run(self, *arguments: str) -> Any:
        ended = rota_groups(*arguments, "--bootstrap-server", self.bootstrap)
        assert (ended.code, ended.err) == (0, "")
        return ended


@pytest.fixture
def scene() -> Iterator[Scene]:
    with rota.Server(settings=SETTINGS) as server:
        scene = Scene(server.bootstrap_servers)
        assert scene.beat("m1", 0) == 2
        assert scene.beat("m2", 0) == 3
        assert scene.beat("m1", 2) == 2
        yield scene
        scene.wire.close()


def places(found: list[dict[str, Any]]) -> list[int]:
    assert {one["topic"] for one in found} <= {"foo"}
    return [one["partition"] for one in found]


def test_members_have_their_epoch_their_target_and_what_they_still_have_to_give_up(scene: Scene) -> None:
    [group] = scene.run("describe", GROUP, "--members", "--json").json
    assert (group["type"], group["state"], group["protocol"]) == ("consumer", "Reconciling", "uniform")
    assert (group["epoch"], group["target_epoch"]) == (3, 3)
    told = [
        (one["member_id"], one["epoch"], *(places(one[name]) for name in ("assignment", "target", "revoking")))
        for one in group["members"]
    ]
    assert told == [
        ("m1", 2, [0, 1, 2, 3, 4, 5], [0, 1, 2], [3, 4, 5]),
        ("m2", 3, [], [3, 4, 5], []),
    ]


def test_tables_have_epochs(scene: Scene) -> None:
    header, m1, m2 = scene.run("describe", GROUP, "--members", "--verbose").out.splitlines()
    assert header.split()[-4:] == ["SUBSCRIPTION", "EPOCH", "TARGET-ASSIGNMENT", "TO-REVOKE"]
    assert m1.split()[-4:] == ["foo", "2", "foo(0,1,2)", "foo(3,4,5)"]
    assert m2.split()[-4:] == ["foo", "3", "foo(3,4,5)", "-"]
    header, m1, _ = scene.run("describe", GROUP, "--members").out.splitlines()
    assert header.split()[-2:] == ["#PARTITIONS", "EPOCH"]
    assert m1.split()[-2:] == ["6", "2"]
    header, state = scene.run("describe", GROUP, "--state").out.splitlines()
    assert header.split()[-3:] == ["#MEMBERS", "EPOCH", "TARGET-EPOCH"]
    assert state.split() == [GROUP, "consumer", "uniform", "Reconciling", "2", "3", "3"]


def test_a_group_is_the_same_after_a_restart(tmp_path: Path) -> None:
    shown = []
    data = tmp_path / "data"
    with rota.Server(settings=SETTINGS, data=data) as server:
        scene = Scene(server.bootstrap_servers)
        assert [scene.beat("m1", 0), scene.beat("m2", 0), scene.beat("m1", 2)] == [2, 3, 2]
        shown.append(described(scene))
        scene.wire.close()
    with rota.Server(settings=SETTINGS, data=data) as server:
        scene = Scene(server.bootstrap_servers)
        shown.append(described(scene))
        assert server.explain(GROUP).state == "Reconciling"
        assert scene.beat("m1", 2) == 2, "the member goes on with its epoch"
        scene.wire.close()
    assert shown[0]["state"] == "Reconciling"
    assert [(one["member_id"], one["epoch"]) for one in shown[0]["members"]] == [("m1", 2), ("m2", 3)]
    assert shown[0] == shown[1]


def described(scene: Scene) -> dict[str, Any]:
    """A group without what names a server."""
    [group] = scene.run("describe", GROUP, "--members", "--json").json
    told: dict[str, Any] = {name: value for name, value in group.items() if name != "coordinator"}
    return told


def test_a_list_has_the_type_and_the_state(scene: Scene) -> None:
    [line] = scene.run("list", "--type", "consumer", "--json").json
    assert {name: line[name].lower() for name in ("group", "type", "state")} == {
        "group": GROUP,
        "type": "consumer",
        "state": "reconciling",
    }


def test_a_group_with_members_is_not_deleted_and_its_members_can_be_removed(scene: Scene) -> None:
    assert rota_groups("delete", GROUP, "--bootstrap-server", scene.bootstrap).code == 4
    scene.run("remove-member", GROUP, "--member", "m2")
    [group] = scene.run("describe", GROUP, "--members", "--json").json
    assert [one["member_id"] for one in group["members"]] == ["m1"]
    assert group["epoch"] == 4
