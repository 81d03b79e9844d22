"""`rota why --bootstrap-server`: a group of a broker that only answers the Kafka protocol."""

from __future__ import annotations

import json
import re
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import Consumer, Producer
from kafka import TopicPartition
from typer.testing import CliRunner, Result

import rota
from rota import _rota
from rota.audit.logs import parts_of, records_of
from rota.cli import app
from rota.groups.cluster import Committed, Described, Member
from rota.groups.transactions import OpenTransaction
from rota.why.broker import asking, explaining
from rota.why.broker.history import Change, History
from rota.why.broker.movement import Look, Movement, Surroundings, places
from tests.clients.eventually import eventually

KAFKA = Path(__file__).parent.parent / "log" / "kafka-4.4.0.tar.xz"
A, B = "consumer-a-1f0c8a2e-6a51-4f0e-9a1c-2d7b00000001", "consumer-b-5c0d3b11-6a51-4f0e-9a1c-2d7b00000002"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["why", *arguments])


def member(member_id: str, *partitions: int, target: tuple[int, ...] | None = None, epoch: int | None = None) -> Member:
    held = [("t", index) for index in partitions]
    wanted = None if target is None else [("t", index) for index in target]
    return Member(member_id, None, member_id, "/10.0.0.7", ["t"], held, epoch, wanted)


def look(at_s: float, described: Described, committed: list[int], ends: list[int]) -> Look:
    offsets = {("t", index): Committed(offset) for index, offset in enumerate(committed)}
    return Look(at_s, described, offsets, {("t", index): end for index, end in enumerate(ends)})


def classic(state: str, *members: Member) -> Described:
    return Described("orders", state, "classic", "consumer", "", list(members))


def test_a_partition_is_named_by_how_its_offset_moves_beside_its_end() -> None:
    stable = classic("Stable", member(A, 0, 1, 2, 3, 4, 5))
    looks = [look(0, stable, [5, 5, 5, 5, 5], [5, 9, 20, 20, 9]), look(5, stable, [5, 5, 9, 9, 4], [5, 12, 40, 21, 9])]
    found = {place.partition: (place.movement, place.lag, place.lag_change) for place in places(looks, {})}
    assert found == {
        0: (Movement.CURRENT, 0, 0),
        1: (Movement.STILL, 7, 3),
        2: (Movement.BEHIND, 31, 16),
        3: (Movement.MOVES, 12, -3),
        4: (Movement.BACK, 5, 1),
        5: (Movement.NONE, None, 0),
    }
    once = looks[:1]
    assert {place.movement for place in places(once, {})} == {Movement.CURRENT, Movement.LAGS, Movement.NONE}
    assert explaining.text(explaining.report(once, History("orders", is_whole=False), 3_600, ""))[0] == "orders: Stable"
    told = explaining.report(looks, History("orders", is_whole=False), 3_600, "")
    lines = explaining.text(told)
    assert lines[0] == (
        "orders: Stable; 1 partition goes back (5 messages behind); 1 partition stands still (7 messages behind); "
        "1 partition falls behind (31 messages behind)"
    )
    assert f"  t-1 stands still at offset 5: 7 behind, +3 in 5.0 s; {A} at /10.0.0.7 has it" in lines


def test_a_member_that_commits_while_an_eager_group_rebalances_has_not_rejoined() -> None:
    preparing = classic("PreparingRebalance", member(A), member(B))
    looks = [look(0, preparing, [5, 5], [50, 50]), look(5, preparing, [9, 5], [50, 50])]
    history = History("orders", is_whole=False)
    history.owners, history.protocol = {("t", 0): A, ("t", 1): B}, "range"
    told = explaining.report(looks, history, 3_600, "")
    assert told.alive == [A]
    first = explaining.text(told)[0]
    assert first.startswith("orders: PreparingRebalance for at least 5.0 s; consumer-a-1f0c8a2e… still commits, so it")
    assert any("which members have not rejoined" in one for one in told.unknown)
    history.protocol = "cooperative-sticky"
    assert explaining.report(looks, history, 3_600, "").alive == []


def test_a_consumer_group_waits_for_whom_its_description_names() -> None:
    members = [member("m1", 0, 1, target=(0,), epoch=6), member("m2", target=(1,), epoch=7), member("m3", 2, epoch=6)]
    described = Described("orders", "Reconciling", "consumer", "consumer", "uniform", members, 7, 7)
    history = History("orders", is_whole=False)
    told = explaining.report([look(0, described, [], [])], history, 3_600, "")
    assert [(wait.what, wait.members) for wait in told.waits] == [
        ("Revoke", ["m1"]),
        ("Reconcile", ["m3"]),
        ("Release", ["m2"]),
    ]
    lines = explaining.text(told)
    assert lines[0].startswith("orders: Reconciling, epoch 7: waiting for m1 to give up partitions, for m3 to take ")
    assert "  m1 at /10.0.0.7: has to give up t 1, is at epoch 6" in lines
    assert "  m2 at /10.0.0.7: is to get t 1" in lines
    late = Described("orders", "Assigning", "consumer", "consumer", "uniform", [member("m1", 0, epoch=6)], 7, 6)
    waits = explaining.report([look(0, late, [], [])], history, 3_600, "").waits
    assert [wait.what for wait in waits] == ["Target"]


def test_the_records_of_a_broker_tell_who_came_and_went(tmp_path: Path) -> None:
    with tarfile.open(KAFKA) as archive:
        archive.extractall(tmp_path, filter="data")
    records = [record for part in parts_of([tmp_path / "log"]) for record in records_of(part)]
    groups = {key[4 : 4 + int.from_bytes(key[2:4])].decode() for _, _, _, key, _ in records}
    found: dict[str, list[Change]] = {}
    for group in groups:
        history = History(group, is_whole=True)
        for _, at_ms, _, key, value in records:
            history.read(at_ms, key, value)
        found[group] = history.changes
    changes = [change for of_group in found.values() for change in of_group]
    assert sum(len(change.joined) for change in changes) > 5
    assert any(change.left for change in changes)
    for of_group in found.values():
        numbers = [change.number for change in of_group]
        assert numbers == sorted(numbers)
        alive: set[str] = set()
        for change in of_group:
            assert alive.isdisjoint(change.joined)
            assert alive >= set(change.left)
            alive = (alive | set(change.joined)) - set(change.left)
            assert change.members == len(alive)


def test_members_that_earlier_records_may_know_are_not_told_to_have_joined() -> None:
    value = _rota.GroupValue("consumer", 4, "range", A, 0, [_rota.MemberValue(A)])
    record = _rota.GroupRecord("orders", value)
    told = []
    for is_whole in (True, False):
        history = History("orders", is_whole=is_whole)
        history.read(7, record.key_bytes(), record.value_bytes())
        told += history.changes
    assert told == [Change(7, 4, 1, [A], [], []), Change(7, 4, 1, [], [], [], is_known=False)]
    with pytest.raises(rota.RecordError):
        History("orders", is_whole=True).read(7, b"\0", b"")


def test_the_records_of_a_group_are_where_its_coordinator_is() -> None:
    with rota.Server() as server:
        for group in ("orders", "x" * 40, "grüße 😀", "polygenelubricants", "a-b"):
            assert _rota.partition_for(group, 50) == server.partition_of(group)
    assert _rota.partition_for("polygenelubricants", 50) == 0  # Its hash is the one without a positive counterpart.


def _has_two(consumer: Consumer) -> bool:
    return len(consumer.assignment()) == 2


@contextmanager
def consumers(server: rota.Server, group: str, **settings: Any) -> Iterator[list[Consumer]]:
    """Two that share the partitions of `t`; the first one has committed."""
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    for index in range(4):
        producer.produce("t", b"x", partition=index)
    assert producer.flush(30) == 0
    own = {"bootstrap.servers": server.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    found = [Consumer({**own, **settings, "enable.auto.commit": False, "log_level": 0}) for _ in range(2)]
    try:
        for one in found:
            one.subscribe(["t"])
        eventually(lambda: [one.poll(0.05) for one in found] and all(map(_has_two, found)), 60, "two partitions each")
        places = found[0].assignment()
        for at in places:
            at.offset = 0
        found[0].commit(offsets=places, asynchronous=False)
        yield found
    finally:
        for one in found:
            one.close()


@pytest.mark.clients
@pytest.mark.parametrize("settings", [{}, {"group.protocol": "consumer"}], ids=["classic", "consumer"])
def test_a_group_of_a_broker_is_explained_in_words_and_as_json(settings: dict[str, Any]) -> None:
    with rota.Server(settings={"group.initial.rebalance.delay.ms": 0}) as server:
        server.create_topic("t", partitions=4)
        with consumers(server, "orders", **settings) as found:
            where = ("--bootstrap-server", server.bootstrap_servers)
            text = call("orders", *where, "--watch", "0.2")
            told = json.loads(call("orders", *where, "--watch", "0", "--json").stdout)
            ids = {one.memberid() for one in found}
            unknown = call("order", *where, "--watch", "0")
    assert text.exit_code == 0, text.output
    still = r"2 partitions stand still \(2 messages behind\)\n"
    assert re.match(rf"orders: Stable, (generation|epoch) \d+ for \d+\.\d s; {still}", text.stdout)
    assert re.search(r"changes, the latest first\n.* joined\n", text.stdout)
    assert told["state"] == "Stable"
    assert {place["member_id"] for place in told["partitions"]} <= ids
    assert [place["movement"] for place in told["partitions"]].count("is behind") == 2
    assert (unknown.exit_code, unknown.stderr) == (3, "rota: there is no group `order`: did you mean `orders`?\n")


def test_records_that_do_not_come_are_told_as_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "STILL_S", 0.01)
    reader = MagicMock(**{"poll.return_value": {}, "position.return_value": 4})
    cluster = MagicMock(**{"partitions.return_value": {asking.OFFSETS_TOPIC: [0]}})
    at = (asking.OFFSETS_TOPIC, 0)
    cluster.ends.return_value, cluster.at_time.return_value = {at: 9}, {at: 4}
    cluster.offsets.return_value = {}
    cluster.consumer.return_value.__enter__.return_value = reader
    history, unreadable = asking.history(cluster, "orders", 0, lambda _: None)
    assert history.changes == []
    assert unreadable == "the broker sent nothing for 0 s, and 5 records are not read"


def test_the_records_beyond_an_open_transaction_are_not_waited_for_and_it_is_named() -> None:
    at = TopicPartition(asking.OFFSETS_TOPIC, 0)
    cluster = MagicMock(**{"partitions.return_value": {asking.OFFSETS_TOPIC: [0]}})
    cluster.ends.return_value, cluster.at_time.return_value = {tuple(at): 9}, {tuple(at): 4}
    cluster.offsets.return_value = {at: MagicMock(offset=4)}
    pay = MagicMock(topic_partitions=[at], transaction_timeout_ms=1, **{"state.value": "PrepareAbort"})
    pay.transaction_start_time_ms = time.time() * 1_000
    for found, says in (
        (
            {"pay-7": pay},
            r"transaction pay-7 has been open for \d\.\d s and is being ended; 5 records can be read only",
        ),
        ({}, "a transaction is open among them; 5 records can be read only .*; `kafka-python admin -b HOST:PORT trans"),
    ):
        cluster.transactions.return_value = found
        _, unreadable = asking.history(cluster, "orders", 0, lambda _: None)
        assert re.match(says, unreadable), unreadable
    cluster.consumer.assert_not_called()


def test_the_first_change_says_what_is_known_of_it() -> None:
    made = _rota.GroupRecord("orders", _rota.GroupValue("consumer", 0, None, None, 0, []))
    joined = _rota.GroupRecord("orders", _rota.GroupValue("consumer", 4, "range", A, 0, [_rota.MemberValue(A)]))
    same = _rota.GroupRecord("orders", _rota.GroupValue("consumer", 5, "range", A, 0, [_rota.MemberValue(A)]))
    told = []
    for records in ([made, joined], [joined, same]):
        history = History("orders", is_whole=False)
        for record in records:
            history.read(7, record.key_bytes(), record.value_bytes())
        lines = explaining.text(explaining.report([look(0, classic("Stable"), [], [])], history, 3_600, ""))
        told.append([line.rpartition(": ")[2] for line in lines if " UTC, generation" in line])
    assert told == [
        ["consumer-a-1f0c8a2e… joined", "the group was created"],
        ["the same members", "earlier records are not read"],
    ]


def test_members_that_get_no_messages_are_named_with_the_reason() -> None:
    ana = Member("Qm0cC3vXRdaJpLzq5x1u3A", None, "ana", "/10.0.0.7", ["t"], [("t", 0)])
    ben = Member("kT6nUeTwTSyQy0b6L0a9Cg", None, "ben", "/10.0.0.8", ["ordres"], [])
    cleo = Member("aT6nUeTwTSyQy0b6L0a9Cg", None, "cleo", "/10.0.0.9", ["t"], [])
    held = OpenTransaction("pay-7", "Ongoing", 0, 41.0, 19.0)
    around = Surroundings(["ordres"], {("t", 0): held, ("t", 1): None})
    looked = [look(0, classic("Stable", ana, ben, cleo), [1], [2])]
    lines = explaining.text(explaining.report(looked, History("orders", is_whole=False), 3_600, "", around))
    begin = lines.index("members that get no messages") + 1
    back = "from readers of committed ones"
    assert lines[begin : begin + 4] == [
        "  ben (kT6nUe…) subscribes to ordres, which does not exist, or an ACL hides it",
        "  cleo (aT6nUe…) has no partition: 3 members share 1 partition",
        "  transaction pay-7, which has been open for 41.0 s and is aborted in 19.0 s at the latest, holds back "
        f"messages of t-0 {back}",
        f"  an open transaction holds back messages of t-1 {back}",
    ]
    moving = Described("orders", "PreparingRebalance", "classic", "consumer", "", [ben])
    told = explaining.report([look(0, moving, [], [])], History("orders", is_whole=False), 3_600, "")
    assert told.hints == [], "while a group rebalances its members have no partitions"


def test_the_topics_and_transactions_around_a_group_are_asked_for() -> None:
    ana = Member(A, None, "ana", "/10.0.0.7", ["t", "ordres"], [("t", 0)])
    seen = look(0, classic("Stable", ana), [4, 2, 9], [6, 6, 9])
    cluster = MagicMock(**{"partitions.return_value": {"t": [0, 1, 2]}, "transactions.return_value": {}})
    cluster.offsets.return_value = {
        TopicPartition("t", 0): MagicMock(offset=4),
        TopicPartition("t", 1): MagicMock(offset=6),
    }
    assert asking.surroundings(cluster, seen) == Surroundings(["ordres"], {("t", 0): None})


@pytest.mark.parametrize("more", [("--from", "data"), ("--at", "2026-01-31T13:30:20")])
def test_a_broker_is_asked_about_now_only(more: tuple[str, str]) -> None:
    ended = call("orders", "--bootstrap-server", "127.0.0.1:1", *more)
    assert (ended.exit_code, ended.stderr) == (2, f"rota: --bootstrap-server asks a broker: leave out {more[0]}\n")
