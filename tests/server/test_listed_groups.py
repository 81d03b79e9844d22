"""What ListGroups and DescribeGroups say of a group that was loaded from the log and has changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from harness.peer import host_port
from rota.conform.consumer import ConsumerWire

GROUP, TOPIC, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED = "g", "t", 69, 79
SETTINGS = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}


class Groups:
    """A client that looks at groups."""

    def __init__(self, server: rota.Server) -> None:
        self.wire = ConsumerWire(host_port(server.bootstrap_servers), "")

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        request = {"group_id": GROUP, "member_id": member_id, "member_epoch": epoch, "instance_id": None}
        others = {"rack_id": None, "subscribed_topic_regex": None, "server_assignor": None}
        stays = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
        answer = self.wire.ask("ConsumerGroupHeartbeat", 1, request | others | stays | fields)
        assert answer["error_code"] == 0
        return answer

    def delete(self) -> None:
        answer = self.wire.ask("DeleteGroups", 2, {"groups_names": [GROUP]})
        assert [result["error_code"] for result in answer["results"]] == [0]

    def listed(self, *, states: list[str] | None = None, types: list[str] | None = None) -> list[tuple[str, str]]:
        answer = self.wire.ask("ListGroups", 5, {"states_filter": states or [], "types_filter": types or []})
        assert answer["error_code"] == 0
        assert all(group["group_id"] == GROUP for group in answer["groups"])
        return [(group["group_type"], group["state"]) for group in answer["groups"]]

    def join_classic(self) -> None:
        fields = {"group_id": GROUP, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
        protocols = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
        asked = fields | protocols | {"group_instance_id": None}
        joined = self.wire.ask("JoinGroup", 5, asked | {"member_id": ""})
        assert joined["error_code"] == MEMBER_ID_REQUIRED
        assert self.wire.ask("JoinGroup", 5, asked | {"member_id": joined["member_id"]})["error_code"] == 0


def restarted(server: rota.Server, data: Path) -> rota.Server:
    server.stop()
    return rota.Server(settings=SETTINGS, data=data)


def moved(server: rota.Server, _: Path) -> rota.Server:
    partition = server.partition_of(GROUP)
    server.move_partition(partition, server.owner(partition))
    return server


@pytest.fixture(params=[restarted, moved])
def loaded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Groups]:
    """A consumer group without members, on a coordinator that has loaded it."""
    load: Callable[[rota.Server, Path], rota.Server] = request.param
    server = rota.Server(settings=SETTINGS, data=tmp_path)
    try:
        server.create_topic(TOPIC, partitions=2)
        before = Groups(server)
        before.beat("m", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=[TOPIC], topic_partitions=[])
        before.wire.close()
        server = load(server, tmp_path)
        groups = Groups(server)
        assert groups.listed() == [("consumer", "Stable")]
        groups.beat("m", -1)
        yield groups
        groups.wire.close()
    finally:
        server.stop()


def test_a_group_that_was_loaded_is_listed_in_the_state_that_it_has_now(loaded: Groups) -> None:
    assert loaded.listed() == loaded.listed(states=["Empty"]) == [("consumer", "Empty")]
    assert loaded.listed(states=["Stable", "Reconciling", "Assigning"]) == []


def test_a_group_that_was_loaded_and_deleted_is_not_listed(loaded: Groups) -> None:
    loaded.delete()
    assert loaded.listed() == loaded.listed(types=["consumer"]) == loaded.listed(states=["Empty", "Stable"]) == []
    described = loaded.wire.ask("DescribeGroups", 6, {"groups": [GROUP], "include_authorized_operations": False})
    (group,) = described["groups"]
    assert (group["error_code"], group["error_message"]) == (GROUP_ID_NOT_FOUND, "Group g not found.")


def test_a_group_that_was_loaded_and_is_a_classic_one_by_now_is_listed_as_that(loaded: Groups) -> None:
    loaded.delete()
    loaded.join_classic()
    assert loaded.listed(types=["consumer"]) == []
    assert [kind for kind, _ in loaded.listed()] == ["classic"]
    assert loaded.listed(types=["classic"]) == loaded.listed()
