"""Groups of the consumer protocol over HTTP, in `rota why`, `rota top` and the metrics, with members of librdkafka."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

import rota
from rota.cli import app

from .asking import ask, shown, until

pytestmark = pytest.mark.clients

GROUP = "orders"
SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
REBALANCE_TIMEOUT_MS = 300_000
SECONDS = r"\d+\.\d s"


@pytest.fixture
def server() -> Iterator[rota.Server]:
    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t", partitions=4)
        yield server


class Members:
    """Consumers of the group. Those that are `busy` are not polled."""

    def __init__(self, server: rota.Server) -> None:
        self.server = server
        self.consumers: dict[str, Consumer] = {}
        self.busy: set[str] = set()

    def join(self, client_id: str, **settings: Any) -> str:
        """Returns the member id."""
        one = Consumer(
            {
                "bootstrap.servers": self.server.bootstrap_servers,
                "group.id": GROUP,
                "group.protocol": "consumer",
                "client.id": client_id,
                "max.poll.interval.ms": REBALANCE_TIMEOUT_MS,
                "enable.auto.commit": False,
                "log_level": 0,
                **settings,
            }
        )
        # Without a callback librdkafka gives partitions up although its application does not poll.
        one.subscribe(["t"], on_revoke=lambda *_: None)
        self.consumers[client_id] = one
        self.until(lambda: client_id in self.ids(), f"{client_id} in the group")
        return self.ids()[client_id]

    def poll(self) -> None:
        for client_id, one in self.consumers.items():
            if client_id not in self.busy:
                one.poll(0.02)

    def until(self, holds: Callable[[], object], what: str) -> None:
        def polled() -> object:
            self.poll()
            return holds()

        until(polled, what)

    def settle(self) -> None:
        self.until(lambda: self.group()["state"] == "Stable", "Stable")

    def group(self) -> Any:
        return shown(self.server, f"/groups/{GROUP}", "group")

    def ids(self) -> dict[str, str]:
        if GROUP not in self.server.groups():
            return {}
        return {one["client_id"]: one["member_id"] for one in self.group()["members"]}

    def waits(self) -> dict[str, str]:
        """What the group waits for, by member id."""
        self.poll()
        return {wait["member_id"]: wait["what"] for wait in self.group()["waiting"]}


@pytest.fixture
def members(server: rota.Server) -> Iterator[Members]:
    members = Members(server)
    try:
        yield members
    finally:
        for one in members.consumers.values():
            one.close()


def why(server: rota.Server) -> list[str]:
    told = CliRunner().invoke(app, ["why", GROUP, "--http", str(server.http_address)])
    assert told.exit_code == 0, told.output
    return told.stdout.splitlines()


def value(server: rota.Server, name: str, **labels: str) -> float:
    """A sample of the metrics."""
    text = ask(server, "/metrics")[2].decode()
    shown = "{" + ",".join(f'{key}="{label}"' for key, label in labels.items()) + "}" if labels else ""
    [line] = [line for line in text.splitlines() if line.startswith(f"{name}{shown} ")]
    return float(line.rpartition(" ")[2])


@contextmanager
def slow_revocation(members: Members) -> Iterator[tuple[str, str]]:
    """`ana` has all partitions and does not poll; `ben` joins. Gives their member ids."""
    ana = members.join("ana")
    members.settle()
    members.busy.add("ana")
    ben = members.join("ben")
    members.until(lambda: members.waits() == {ana: "Revoke", ben: "Release"}, "a slow revocation")
    members.until(lambda: all(one["heartbeats"] for one in members.group()["waiting"]), "heartbeats")
    yield ana, ben
    members.busy.clear()


def test_a_member_that_does_not_poll_is_named_with_what_it_has_to_give_up(
    server: rota.Server, members: Members
) -> None:
    with slow_revocation(members) as (ana, ben):
        group = members.group()
        first, *rest = why(server)
        sentence = str(server.explain(GROUP))
        (listed,) = shown(server, "/groups", "groups")["groups"]
        top = CliRunner().invoke(app, ["top", "--http", str(server.http_address)], env={"COLUMNS": "400"}).stdout
        assert value(server, "rota_groups", protocol="consumer", state="Reconciling") == 1
        assert value(server, "rota_groups", protocol="classic", state="Empty") == 0
        assert value(server, "rota_members") == 2
        assert value(server, "rota_consumer_group_rebalances_total", cause="MemberJoined") == 2

    def stall(ana: str, ben: str) -> str:
        return (
            rf"Reconciling for {SECONDS}, epoch 3: {re.escape(ana)} heartbeats but has not given up partitions: its "
            rf"application is probably busy and not polling; it is removed in {SECONDS} \(rebalance timeout\); waiting "
            rf"for other members to release partitions of {re.escape(ben)}; it began because {re.escape(ben)} joined"
        )

    # Only where the members of the group are known, their client ids are.
    for told in (sentence, listed["why"]):
        assert re.fullmatch(stall(ana, ben), told), told
    shorter = [f"{name} ({member_id[:6]}…)" for name, member_id in (("ana", ana), ("ben", ben))]
    for told in (first.removeprefix(f"{GROUP}: "), group["why"]["sentence"]):
        assert re.fullmatch(stall(*shorter), told), told
    assert "has not given up partitions" in top
    by_client = {one["client_id"]: one for one in group["members"]}
    kept, revoking = (by_client["ana"][name]["t"] for name in ("assignment", "revoking"))
    given_up = " and ".join(str(index) for index in revoking)
    assert sorted([*kept, *revoking]) == [0, 1, 2, 3]
    assert rest[:2] == ["", "held up by"]
    assert re.fullmatch(
        rf"  ana \({re.escape(ana)}\) at /127\.0\.0\.1, has to give up t {given_up}: heartbeats, the last one "
        rf"{SECONDS} ago, but does not poll",
        rest[2],
    )
    assert rest[3] == f"  ben ({ben}) at /127.0.0.1: waits for t {given_up}"
    assert rest[4:6] == ["", "rebalances, the latest first"]
    assert re.fullmatch(rf"  {SECONDS} ago, epoch 2 to 3, not over: {re.escape(shorter[1])} joined", rest[6])
    assert (group["type"], group["generation"], group["target_epoch"]) == ("consumer", 3, 3)
    assert (by_client["ana"]["epoch"], by_client["ben"]["epoch"]) == (2, 3)
    assert by_client["ben"]["target"] == {"t": revoking}
    assert (by_client["ana"]["rebalance_timeout_ms"], by_client["ben"]["session_timeout_ms"]) == (300_000, 45_000)
    assert 0 < by_client["ana"]["rebalance_ends_in_ms"] < REBALANCE_TIMEOUT_MS
    assert [timer["name"] for timer in group["timers"]] == ["ConsumerRebalance"]
    members.settle()
    assert value(server, "rota_reconciliation_seconds_count") == 2
    assert value(server, "rota_groups", protocol="consumer", state="Stable") == 1
    settled = str(server.explain(GROUP))
    assert re.fullmatch(rf"Stable for {SECONDS}, epoch 3; last rebalance: {re.escape(ben)} joined", settled), settled


def test_a_member_that_stands_still_is_waited_for_until_its_session_ends(server: rota.Server, members: Members) -> None:
    ana = members.join("ana")
    members.settle()
    with server.pause(ana):
        ben = members.join("ben")
        members.until(lambda: members.waits() == {ana: "Reconcile", ben: "Release"}, "a wait for ana")
        # The pause began before the target changed, so ana is silent since then.
        first, *rest = why(server)
        # The group goes on during the pause. librdkafka drops the answer to a request that took longer than 1 s, and
        # with it an assignment, so a group with a paused member need not become stable after the pause.
        server.expire(ana)
        members.until(lambda: ana not in server.members(GROUP), "the end of the session")
        members.settle()
        assert server.members(GROUP) == {ben: None}
    assert server.explain(GROUP).rebalances[2].cause == "SessionExpired"
    who, other = (re.escape(f"{name} ({member_id[:6]}…)") for name, member_id in (("ana", ana), ("ben", ben)))
    assert re.search(
        rf"epoch 3: waiting for {who} to take its new assignment, whose session ends in {SECONDS}, for "
        rf"other members to release partitions of {other}; it began because {other} joined",
        first,
    ), first
    assert re.fullmatch(
        rf"  ana \({re.escape(ana)}\) at /127\.0\.0\.1: silent for {SECONDS}, expires in {SECONDS} unless it is heard",
        rest[2],
    ), rest[2]


def test_a_static_member_that_is_away_is_named_until_it_is_back(server: rota.Server, members: Members) -> None:
    ana = members.join("ana", **{"group.instance.id": "seat-1"})
    members.join("ben")
    members.settle()
    epoch = members.group()["generation"]
    members.consumers.pop("ana").close()
    members.until(lambda: members.waits() == {ana: "Return"}, "a wait for the static member")
    sentence = str(server.explain(GROUP))
    assert re.match(
        rf"Reconciling for {SECONDS}, epoch {epoch}: waiting for static member {re.escape(ana)} to return", sentence
    )
    [away] = [one for one in members.group()["members"] if one["instance_id"] == "seat-1"]
    assert away["epoch"] == -2
    assert len(away["assignment"]["t"]) == 2
    members.join("ana", **{"group.instance.id": "seat-1"})
    members.settle()
    assert members.group()["generation"] == epoch, "its return is no rebalance"


def test_a_group_that_was_loaded_and_one_without_members_are_explained(server: rota.Server, members: Members) -> None:
    members.join("ana")
    members.settle()
    members.consumers["ana"].commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
    members.consumers.pop("ana").close()
    members.until(lambda: members.group()["state"] == "Empty", "Empty")
    group = members.group()
    assert re.fullmatch(rf"Empty for {SECONDS}, epoch 3; last rebalance: \S+ left", group["why"]["sentence"])
    assert [(row["topic"], row["partition"], row["lag"]) for row in group["partitions"]] == [("t", 0, 0)]
    assert server.groups() == [GROUP]
    assert json.loads(ask(server, "/groups")[2])["total"] == 1


def test_the_controls_reach_members_of_a_consumer_group(server: rota.Server, members: Members) -> None:
    ana = members.join("ana")
    members.settle()
    assert server.members(GROUP) == {ana: None}
    server.rebalance(GROUP)
    members.until(lambda: members.group()["generation"] == 3, "the next epoch")
    members.settle()
    server.expire(ana)
    members.until(lambda: members.group()["generation"] > 4, "ana, which has joined again")
    causes = [one.cause for one in server.explain(GROUP).rebalances]
    assert causes == ["MemberJoined", "Requested", "SessionExpired", "MemberJoined"]
