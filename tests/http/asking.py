"""How the tests here ask a server over HTTP, and get a group into a state that can be looked at."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import resources
from typing import Any

import jsonschema
from confluent_kafka import Consumer, TopicPartition

import rota
from tests.clients.eventually import eventually

WITHIN_S = 60
GROUP = "orders"
SETTINGS = {"group.initial.rebalance.delay.ms": 0}

SCHEMA = json.loads(resources.files("rota.http").joinpath("schema.json").read_bytes())


def ask(
    server: rota.Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Status, headers and body."""
    assert server.http_address is not None
    connection = http.client.HTTPConnection(server.http_address, timeout=WITHIN_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.msg, answer.read()
    finally:
        connection.close()


def shown(server: rota.Server, path: str, kind: str, status: int = 200) -> Any:
    """The JSON at a path, which has to be valid by the published schema."""
    told, _, body = ask(server, path)
    value = json.loads(body)
    assert told == status, value
    jsonschema.validate(value, {**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{kind}"}]}, jsonschema.Draft202012Validator)
    return value


def until(holds: Callable[[], object], what: str, detail: Callable[[], str] | None = None) -> None:
    """Look until it holds, within a deadline."""
    eventually(holds, WITHIN_S, what, detail)


def consumer(
    server: rota.Server,
    client_id: str,
    group: str = GROUP,
    on_revoke: Callable[[Consumer, list[TopicPartition]], None] | None = None,
    **settings: Any,
) -> Consumer:
    """A consumer of topic `t` that has not polled yet."""
    made = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": group,
            "client.id": client_id,
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "log_level": 0,
            **settings,
        }
    )
    if on_revoke is None:
        made.subscribe(["t"])
    else:
        made.subscribe(["t"], on_revoke=on_revoke)
    return made


def settle(server: rota.Server, *consumers: Consumer, group: str = GROUP) -> None:
    """Poll until the group is Stable with these members."""

    def is_settled() -> bool:
        for one in consumers:
            one.poll(0.02)
        if group not in server.groups() or server.explain(group).state != "Stable":
            return False
        if not all(one.assignment() for one in consumers):
            return False
        return len(server.members(group)) == len(consumers)

    def as_it_is() -> str:
        held = [f"{one.memberid()} has {one.assignment()}" for one in consumers]
        known = [f"{server.explain(group)}", f"{server.members(group)}"] if group in server.groups() else []
        return "\n".join([*held, *known])

    until(is_settled, f"Stable with {len(consumers)} members", as_it_is)


def leave(server: rota.Server, *consumers: Consumer, group: str = GROUP) -> None:
    """Close them one after the other: librdkafka may wait for ever when one closes that is just being assigned."""
    for number, one in enumerate(consumers, 1):
        one.close()
        if number < len(consumers):
            settle(server, *consumers[number:], group=group)


def commit(server: rota.Server, group: str, *offsets: TopicPartition) -> None:
    """Committed from outside the group, which is Empty."""
    one = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group, "log_level": 0})
    one.commit(offsets=list(offsets), asynchronous=False)
    one.close()


@contextmanager
def stuck(server: rota.Server, clock: rota.VirtualClock) -> Iterator[tuple[str, str]]:
    """A group that one member has left, that another does not rejoin, and that a third one waits in: for 31 s of a
    45 s session. Gives the ids of the one that left and of the one that is missing."""
    with held_up(server, clock, beats=False) as who:
        yield who


@contextmanager
def busy(server: rota.Server, clock: rota.VirtualClock) -> Iterator[tuple[str, str]]:
    """The same, but the member that does not rejoin heartbeats: its application does not poll, for 47 s of a rebalance
    timeout of 300 s."""
    with held_up(server, clock, beats=True) as who:
        yield who


@contextmanager
def held_up(
    server: rota.Server,
    clock: rota.VirtualClock,
    *,
    beats: bool,
    group: str = GROUP,
    clients: tuple[str, str, str] = ("consumer-7", "consumer-3", "consumer-1"),
) -> Iterator[tuple[str, str]]:
    """Of `clients` the first leaves, the second does not rejoin and the third waits. `beats`: the second heartbeats."""
    # librdkafka rejoins without its application, unless that wants to be asked before.
    asked = (None, lambda *_: None, None)
    seven, three, one = (
        consumer(server, client_id, group, on_revoke) for client_id, on_revoke in zip(clients, asked, strict=True)
    )
    settle(server, seven, three, one, group=group)
    left, missing = seven.memberid(), three.memberid()
    with nullcontext() if beats else server.pause(missing, group):
        seven.close()

        def waits_for_it() -> bool:
            one.poll(0.02)
            return [wait.member_id for wait in server.explain(group).waiting] == [missing]

        until(waits_for_it, f"a group that waits for {missing}")
        clock.advance(47_000 if beats else 31_000)
        yield left, missing
    settle(server, three, one, group=group)
    leave(server, three, one, group=group)
