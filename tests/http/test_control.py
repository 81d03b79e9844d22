"""`--control`: every control over HTTP, what it refuses, and the OpenAPI document that says so."""

from __future__ import annotations

import base64
import http.client
import json
import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import jsonschema
import pytest
from confluent_kafka import Consumer, TopicPartition

import rota
from rota import control
from rota.control import openapi
from rota.control.table import BY_NAME, GET, TABLE
from rota.http.client import HttpError, Peer, fetch
from rota.http.listener import Listener

WITHIN_S = 60
GROUP = "shipping"
TOKEN = "let me in"  # noqa: S105 - not a secret
SETTINGS = {"group.initial.rebalance.delay.ms": 0}
DOCUMENT = openapi.document()
OFFSETS_WANTED = "a list of objects with topic, partition, offset"
HEADERS_WANTED = "a list of lists of objects with name, value, or null"


class Asking:
    """Asks a control listener, and holds every request and answer against the OpenAPI document."""

    def __init__(self, listener: Listener, server: rota.Server, token: str | None = None) -> None:
        self.address = listener.address
        self.server = server
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.asked: set[str] = set()

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=WITHIN_S)
        with closing(connection):
            connection.request(method, path, body, self.headers | headers)
            answer = connection.getresponse()
            return answer.status, answer.msg, answer.read()

    def __call__(self, name: str, status: int = 200, **fields: Any) -> Any:
        """The answer of a control."""
        row = BY_NAME[name]
        operation = DOCUMENT["paths"][row.path][row.method.lower()]
        if row.method == GET:
            query = "&".join(f"{key}={value}" for key, value in fields.items())
            told, _, body = self.raw(GET, f"{row.path}?{query}")
        else:
            if status == 200 and fields:
                check(fields, operation["requestBody"]["content"]["application/json"]["schema"])
            told, _, body = self.raw("POST", row.path, json.dumps(fields).encode())
        value = json.loads(body)
        assert told == status, value
        check(value, operation["responses"][str(status)]["content"]["application/json"]["schema"])
        self.asked.add(name)
        return value


def check(value: Any, schema: Any) -> None:
    """Valid by a schema of the document."""
    jsonschema.validate(value, {**schema, "components": DOCUMENT["components"]}, jsonschema.Draft202012Validator)


@pytest.fixture
def ask() -> Iterator[Asking]:
    """A server of two nodes on a virtual clock."""
    with rota.Server(settings=SETTINGS, nodes=2, clock=rota.VirtualClock()) as server:
        listener = control.serve(server)
        yield Asking(listener, server)
        listener.close()


@pytest.fixture
def member(ask: Asking) -> Iterator[str]:
    """The only member of `shipping`, a client of the server."""
    ask("create_topic", topic="orders", partitions=2)
    settings = {"bootstrap.servers": ask.server.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    with closing(Consumer({**settings, "heartbeat.interval.ms": 100, "enable.auto.commit": False})) as consumer:
        consumer.subscribe(["orders"])
        ask("wait_until_stable", group=GROUP, members=1)
        while not consumer.assignment():
            consumer.poll(0.02)
        consumer.commit(offsets=[TopicPartition("orders", 1, 7)], asynchronous=False)
        yield str(consumer.memberid())
        ask("reset")


def test_the_document_has_what_openapi_requires() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert {row.path for row in TABLE} <= DOCUMENT["paths"].keys()
    for operation in operations:
        assert operation["summary"].endswith(".")
        assert "200" in operation["responses"]
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_document_is_served(ask: Asking) -> None:
    status, headers, body = ask.raw(GET, "/openapi.json")
    assert (status, headers["Content-Type"], json.loads(body)) == (200, "application/json", DOCUMENT)


def test_the_clock_is_shown_and_moved(ask: Asking) -> None:
    assert ask("clock") == {"is_virtual": True, "now_ms": 0}
    assert ask("advance", ms=1_500) == {"is_virtual": True, "now_ms": 1_500}


def test_a_machines_clock_is_not_moved() -> None:
    with rota.Server() as server, closing(control.serve(server)) as listener:
        ask = Asking(listener, server)
        assert ask("clock") == {"is_virtual": False, "now_ms": None}
        assert ask("advance", 409, ms=1)["message"].endswith("start it with --virtual-clock")


def test_messages_go_in_and_come_out_as_text_and_as_bytes(ask: Asking) -> None:
    ask("create_topic", topic="orders", partitions=1)
    assert ask("add_partitions", topic="orders", count=2) == {"partitions": 3}
    assert ask("produce", topic="orders", values=["ä", None], keys=["k", None], partition=2) == {"offsets": [0, 1]}
    found = ask("messages", topic="orders")["messages"]
    assert [(row["partition"], row["offset"], row["key"], row["value"]) for row in found] == [
        (2, 0, "k", "ä"),
        (2, 1, None, None),
    ]
    bytes_ = base64.b64encode(b"\xff\x00").decode()
    assert ask("produce", topic="orders", values=[bytes_], encoding="base64") == {"offsets": [0]}
    assert ask("messages", topic="orders", encoding="base64")["messages"][0]["value"] == bytes_
    assert ask("messages", 409, topic="orders")["message"].endswith("ask with encoding=base64")
    assert ask("produce", 400, topic="orders", values=["?"], encoding="base64")["field"] == "values"


def test_messages_have_headers(ask: Asking) -> None:
    ask("create_topic", topic="orders")
    traced = [{"name": "trace-id", "value": "7"}, {"name": "trace-id", "value": None}]
    ask("produce", topic="orders", values=["one", "two"], headers=[traced, []])
    assert [row["headers"] for row in ask("messages", topic="orders")["messages"]] == [traced, []]
    as_bytes = [{"name": "raw", "value": base64.b64encode(b"\xff").decode()}]
    ask("produce", topic="orders", values=[""], headers=[as_bytes], encoding="base64")
    assert ask("messages", topic="orders", encoding="base64")["messages"][2]["headers"] == as_bytes
    assert ask("messages", 409, topic="orders")["message"].endswith("ask with encoding=base64")
    assert ask("produce", 400, topic="orders", values=["three"], headers=[])["field"] == "headers"


def test_topics_are_listed_and_deleted(ask: Asking) -> None:
    ask("create_topic", topic="orders", partitions=3)
    ask("create_topic", topic="bills")
    orders, bills = {"topic": "orders", "partitions": 3}, {"topic": "bills", "partitions": 1}
    assert ask("topics")["topics"] == [bills, orders]
    ask("delete_topic", topic="orders")
    assert ask("topics")["topics"] == [bills]
    assert ask("delete_topic", 404, topic="orders")["error"] == "NoSuchTopic"


def test_offsets_are_committed_for_a_group_without_members(ask: Asking) -> None:
    ask("create_topic", topic="orders", partitions=2)
    offsets = [{"topic": "orders", "partition": 0, "offset": 7}, {"topic": "orders", "partition": 1, "offset": 0}]
    ask("commit", group="billing", offsets=offsets)
    assert ask("committed", group="billing") == {"offsets": offsets}
    twice = ask("commit", 400, group="billing", offsets=[offsets[0], offsets[0]])
    assert (twice["field"], twice["expected"]) == ("offsets", "one offset for each partition")
    missing = [{"topic": "order", "partition": 0, "offset": 7}]
    assert ask("commit", 404, group="billing", offsets=missing)["error"] == "NoSuchTopic"


def test_offsets_of_a_group_with_members_are_its_members(ask: Asking, member: str) -> None:
    assert member
    offsets = [{"topic": "orders", "partition": 0, "offset": 7}]
    assert ask("commit", 409, group=GROUP, offsets=offsets)["error"] == "Refused"


def test_a_group_is_looked_at(ask: Asking, member: str) -> None:
    assert ask("groups") == {"groups": [GROUP]}
    assert ask("members", group=GROUP) == {"members": [{"member_id": member, "instance_id": None}]}
    assert ask("committed", group=GROUP) == {"offsets": [{"topic": "orders", "partition": 1, "offset": 7}]}
    partition = ask.server.partition_of(GROUP)
    assert ask("partition_of", group=GROUP) == {"partition": partition, "node": ask.server.owner(partition)}
    assert json.loads(ask.raw(GET, f"/groups/{GROUP}")[2])["state"] == "Stable"


def test_a_group_rebalances_and_a_member_expires(ask: Asking, member: str) -> None:
    before = ask("wait_until_stable", group=GROUP, members=1)
    assert (before["group"], before["state"]) == (GROUP, "Stable")
    ask("rebalance", group=GROUP)
    assert "a test asked for it" in json.loads(ask.raw(GET, f"/groups/{GROUP}")[2])["why"]["sentence"]
    ask("reset")
    ask("expire", member=member)
    assert ask("wait_until_stable", group=GROUP, members=0)["state"] == "Empty"


def test_controls_that_last_have_an_id_until_they_are_ended(ask: Asking, member: str) -> None:
    paused = ask("pause", member=member)
    injected = ask("inject_error", api="Heartbeat", error="NOT_COORDINATOR", times=3, group="other")
    assert (paused["group"], paused["member_id"]) == (GROUP, member)
    assert ask("active")["controls"] == [
        {"id": paused["id"], "control": "pause", "count": None, "left": None},
        {"id": injected["id"], "control": "inject_error", "count": 0, "left": 3},
    ]
    ask("end", id=paused["id"])
    assert [row["id"] for row in ask("active")["controls"]] == [injected["id"]]
    assert "the ids are: " in ask("end", 404, id=paused["id"])["message"]
    ask("reset")
    assert ask("active") == {"controls": []}


def test_the_log_is_held_failed_and_delayed(ask: Asking, member: str) -> None:
    del member
    ask("hold_appends")
    assert ask("release_appends") == {"released": 0}
    ask("fail_appends", error="NOT_ENOUGH_REPLICAS", times=2)
    ask("lose_append_answers", error="NOT_ENOUGH_REPLICAS")
    ask("delay_appends", ms=10)
    ask("delay_appends", ms=0)
    ask("duplicate_appends", times=2)
    ask("fence_appends")


def test_partitions_move_between_nodes(ask: Asking) -> None:
    assert [row["node"] for row in ask("nodes")["nodes"]] == [1, 2]
    place = ask("partition_of", group=GROUP)
    ask("hold_loads")
    ask("move_partition", partition=place["partition"], node=3 - place["node"])
    assert ask("release_loads") == {"released": 1}
    assert ask("partition_of", group=GROUP)["node"] == 3 - place["node"]


def test_a_partition_moves_whose_log_is_slow_to_open(ask: Asking) -> None:
    place = ask("partition_of", group=GROUP)
    ask("hold_opens")
    ask("move_partition", partition=place["partition"], node=3 - place["node"])
    assert ask("release_opens") == {"released": 1}
    assert ask("partition_of", group=GROUP)["node"] == 3 - place["node"]


def test_the_network_is_disturbed(ask: Asking) -> None:
    late = ask("delay_answers", ms=1, api="Heartbeat", node=1)
    lost = ask("drop_answers", api="OffsetCommit", times=2)
    assert ask("active")["controls"] == [
        {"id": late["id"], "control": "delay_answers", "count": 0, "left": None},
        {"id": lost["id"], "control": "drop_answers", "count": 0, "left": 2},
    ]
    assert ask("drop_connections", node=2) == {"dropped": 0}
    ask("stop_node", node=2)
    assert [row["is_up"] for row in ask("nodes")["nodes"]] == [True, False]
    ask("start_node", node=2)
    assert [row["is_up"] for row in ask("nodes")["nodes"]] == [True, True]


def test_a_wait_in_vain_says_why(ask: Asking) -> None:
    refused = ask("wait_until_stable", 504, group="shopping", timeout_ms=0)
    assert refused["error"] == "NotStable"
    assert "there is no such group" in refused["message"]


def test_other_controls_go_on_while_one_waits(ask: Asking) -> None:
    waiting = threading.Thread(target=ask, args=("wait_until_stable", 504), kwargs={"group": "g", "timeout_ms": 3_000})
    waiting.start()
    assert ask("advance", ms=1)["now_ms"] == 1
    assert waiting.is_alive()
    waiting.join()


@pytest.mark.parametrize(
    ("name", "fields", "error", "message"),
    [
        ("rebalance", {"group": "shopping"}, "NoSuchGroup", "there is no group `shopping`"),
        ("members", {"group": "shopping"}, "NoSuchGroup", "there is no group `shopping`"),
        ("expire", {"member": "m-1"}, "NoSuchMember", "no group has a member `m-1`"),
        ("messages", {"topic": "order"}, "NoSuchTopic", "there is no topic `order`"),
        ("move_partition", {"partition": 50, "node": 1}, "NoSuchPartition", "has no partition 50: give 0 to 49"),
        ("move_partition", {"partition": 0, "node": 3}, "NoSuchNode", "there is no node 3: give 1 to 2"),
    ],
)
def test_what_does_not_exist_is_not_found(
    ask: Asking, name: str, fields: dict[str, Any], error: str, message: str
) -> None:
    refused = ask(name, 404, **fields)
    assert refused["error"] == error
    assert message in refused["message"]


@pytest.mark.parametrize(
    ("name", "fields", "field", "expected"),
    [
        ("advance", {}, "ms", "a whole number from 0 to 9007199254740992"),
        ("advance", {"ms": "1"}, "ms", "a whole number from 0 to 9007199254740992"),
        ("advance", {"ms": True}, "ms", "a whole number from 0 to 9007199254740992"),
        ("advance", {"ms": -1}, "ms", "a whole number from 0 to 9007199254740992"),
        ("advance", {"ms": 1, "expire": "m"}, "expire", "a list of strings"),
        ("advance", {"ms": 1, "expire": [1]}, "expire", "a list of strings"),
        ("advance", {"ms": 1, "expire": ["m"]}, "expire", None),
        ("advance", {"ms": 1, "millis": 1}, "millis", "only ms, expire"),
        ("reset", {"all": True}, "all", "no fields"),
        ("expire", {"member": ""}, "member", "a non-empty string"),
        ("expire", {"member": "m", "group": 7}, "group", "a non-empty string, or null"),
        ("wait_until_stable", {"group": "g", "members": -1}, "members", "a whole number from 0 to 2147483647, or null"),
        ("inject_error", {"api": "Heartbeats", "error": "NOT_COORDINATOR"}, "api", None),
        ("inject_error", {"api": "Heartbeat", "error": "NOT_COORDINATER"}, "error", None),
        ("messages", {"topic": "orders", "encoding": "latin-1"}, "encoding", '"utf-8" or "base64"'),
        ("messages", {}, "topic", "a non-empty string"),
        ("commit", {"group": "g"}, "offsets", OFFSETS_WANTED),
        ("commit", {"group": "g", "offsets": [{"topic": "t"}]}, "offsets", OFFSETS_WANTED),
        ("commit", {"group": "g", "offsets": {"t": 1}}, "offsets", OFFSETS_WANTED),
        ("produce", {"topic": "t", "values": [], "headers": [{"a": "b"}]}, "headers", HEADERS_WANTED),
    ],
)
def test_a_bad_value_is_named_with_what_was_expected(
    ask: Asking, name: str, fields: dict[str, Any], field: str, expected: str | None
) -> None:
    refused = ask(name, 400, **fields)
    assert (refused["error"], refused["field"]) == ("BadValue", field)
    assert refused["expected"] == expected or (expected is None and refused["expected"])
    is_missing = refused["message"].startswith(f"{field} is missing: give {expected}")
    assert is_missing == (field in {param.name for param in BY_NAME[name].params} - set(fields)), refused
    assert "None" not in refused["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b"\xff", b'"x"', b"[" * 100_000], ids=range(6))
def test_a_body_that_is_no_object_is_a_bad_value(ask: Asking, body: bytes) -> None:
    status, _, told = ask.raw("POST", "/control/reset", body)
    assert (status, json.loads(told)["error"], json.loads(told)["field"]) == (400, "BadValue", "body")


def test_a_body_may_be_left_out_where_nothing_is_required(ask: Asking) -> None:
    assert ask.raw("POST", "/control/reset")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "error"),
    [
        ("GET", "/control/nothing", {}, 404, "NoSuchPath"),
        ("POST", "/nothing", {}, 404, "NoSuchPath"),
        ("GET", "/control/reset", {}, 405, "WrongMethod"),
        ("POST", "/control/clock", {}, 405, "WrongMethod"),
        ("DELETE", "/control/reset", {}, 405, "WrongMethod"),
        ("PATCH", "/control/nothing", {}, 404, "NoSuchPath"),
        ("DELETE", "/control/reset", {"Host": "evil.test"}, 421, "WrongHost"),
        ("POST", "/control/reset", {"Transfer-Encoding": "chunked"}, 411, "LengthRequired"),
        ("POST", "/control/reset", {"Content-Length": "x"}, 411, "LengthRequired"),
        ("POST", "/control/reset", {"Content-Length": "99999999999"}, 413, "TooLarge"),
        ("POST", "/control/reset", {"Content-Length": "0" * 20 + "9" * 13}, 413, "TooLarge"),
        ("POST", "/control/reset", {"Content-Length": "9" * 5_000}, 413, "TooLarge"),
        ("POST", "/control/expire", {"Content-Length": "0" * 5_000}, 400, "BadValue"),
        ("POST", "/control/reset", {"Content-Length": "4", "Transfer-Encoding": "chunked"}, 411, "LengthRequired"),
        ("POST", "/control/reset", {"Origin": "http://evil.test"}, 403, "CrossOrigin"),
        ("POST", "/control/reset", {"Origin": "http://["}, 403, "CrossOrigin"),
        ("GET", "x://[", {}, 400, "BadTarget"),
        ("POST", "x://[", {}, 404, "NoSuchPath"),
        ("POST", "/control/reset", {"Host": "evil.test"}, 421, "WrongHost"),
        ("GET", "/control/clock", {"Host": "evil.test"}, 421, "WrongHost"),
    ],
)
def test_a_request_that_cannot_be_is_refused_by_name(
    ask: Asking, method: str, path: str, headers: dict[str, str], status: int, error: str
) -> None:
    told, _, body = ask.raw(method, path, None, **headers)
    assert (told, json.loads(body)["error"]) == (status, error)


@pytest.mark.parametrize(
    ("method", "path", "allowed", "message"),
    [
        ("GET", "/control/expire", "POST", "takes POST, not GET: send a JSON object with member, group"),
        ("GET", "/control/reset", "POST", "takes POST, not GET: it needs no body"),
        ("POST", "/control/clock", "GET, HEAD", "takes GET, not POST: it has no fields"),
        ("POST", "/control/messages", "GET, HEAD", "takes GET, not POST: give topic, encoding in the query"),
        ("DELETE", "/control/expire", "POST", "takes POST, not DELETE: send a JSON object with member, group"),
        ("PUT", "/groups", "GET, HEAD", "takes GET, not PUT: nothing can be changed here"),
        ("POST", "/openapi.json", "GET, HEAD", "takes GET, not POST: nothing can be changed here"),
    ],
)
def test_a_wrong_method_is_told_the_right_one(ask: Asking, method: str, path: str, allowed: str, message: str) -> None:
    status, headers, body = ask.raw(method, path)
    assert (status, headers["Allow"], headers["Content-Type"]) == (405, allowed, "application/json")
    assert json.loads(body) == {"error": "WrongMethod", "message": f"{path} {message}"}


def test_head_has_the_status_of_get_and_no_body(ask: Asking) -> None:
    assert [ask.raw("HEAD", f"/control/{name}")[::2] for name in ("clock", "reset")] == [(200, b""), (405, b"")]
    assert ask.raw("HEAD", "/openapi.json")[::2] == (200, b"")


def test_a_post_without_a_body_needs_no_length(ask: Asking) -> None:
    host, _, port = ask.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WITHIN_S) as client:
        client.sendall(b"POST /control/reset HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert client.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


def test_a_token_is_required_of_every_request() -> None:
    with rota.Server() as server, closing(control.serve(server, token=TOKEN)) as listener:
        for headers in ({}, {"Authorization": "Bearer let me"}, {"Authorization": "Basic let me in"}):
            asking = Asking(listener, server)
            for method, path in ((GET, "/control/clock"), ("POST", "/control/reset"), (GET, "/groups")):
                status, _, body = asking.raw(method, path, None, **headers)
                assert (status, json.loads(body)["error"]) == (401, "Unauthorized")
            status, _, body = asking.raw("DELETE", "/control/reset", None, **headers)
            assert (status, json.loads(body)["error"]) == (401, "Unauthorized")
        assert Asking(listener, server, TOKEN)("clock")["now_ms"] is None


@pytest.mark.parametrize(("token", "says"), [(None, "requires a token"), ("another", "refuses the token")])
def test_the_python_client_says_how_to_give_a_token(token: str | None, says: str) -> None:
    with (
        rota.Server() as server,
        closing(control.serve(server, token=TOKEN)) as listener,
        pytest.raises(control.ControlError) as refused,
    ):
        control.Client(listener.address, token).clock()
    assert (refused.value.name, refused.value.status) == ("Unauthorized", 401)
    remedy = "give Client(address, token=...) the one of `rota serve --control-token`"
    assert str(refused.value) == f"the server {says}: {remedy}"


def test_the_python_client_tells_a_server_that_hangs_from_one_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        address = f"127.0.0.1:{hanging.getsockname()[1]}"
        with pytest.raises(control.ControlError) as refused:
            control.Client(address, timeout=0.05).clock()
    assert refused.value.name == "TimedOut"
    assert str(refused.value).startswith(f"{address} did not answer clock within 0.05 s: the server hangs")


def test_the_python_client_refuses_a_token_that_no_header_can_have_without_telling_it() -> None:
    for token in ("s3cret\n", "s\u20accret"):
        with pytest.raises(ValueError, match=r"^the token has characters that are not printable ASCII") as refused:
            control.Client("127.0.0.1:1", token)
        assert "cret" not in str(refused.value)


def test_the_python_client_says_when_another_program_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        client = control.Client(f"127.0.0.1:{other.getsockname()[1]}")

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(
            control.ControlError, match=r"does not answer in JSON: is that the --control of a rota"
        ) as told:
            client.clock()
        answering.join()
    assert told.value.name == "NotRota"


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", "ServerDown"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 20\r\n\r\n{}", "ServerDown"),
        (b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{}", "ServerDown"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "NotRota"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n" + b"[" * 100_000, "NotRota"),
    ],
    ids=["short", "short refusal", "short chunk", "deep", "deep refusal"],
)
def test_an_answer_that_is_cut_short_or_too_deep_is_an_error_of_both_clients(sent: bytes, name: str) -> None:
    def answer(other: socket.socket) -> None:
        connection, _ = other.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(sent)

    for ask in (lambda address: control.Client(address).clock(), lambda address: fetch(Peer(address), "/groups")):
        with socket.create_server(("127.0.0.1", 0)) as other:
            answering = threading.Thread(target=answer, args=(other,))
            answering.start()
            with pytest.raises((control.ControlError, HttpError)) as told:
                ask(f"127.0.0.1:{other.getsockname()[1]}")
            answering.join()
        assert isinstance(told.value, control.ControlError | HttpError)
        assert told.value.name == name


@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"])
def test_an_answer_that_ends_in_silence_is_late(status: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.http.client.WITHIN_SECONDS", 0.1)

    def answer(other: socket.socket, is_over: threading.Event) -> None:
        connection, _ = other.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 20\r\n\r\n{}")
            is_over.wait(WITHIN_S)

    for ask in (
        lambda address: control.Client(address, timeout=0.1).clock(),
        lambda address: fetch(Peer(address), "/groups"),
    ):
        is_over = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as other:
            answering = threading.Thread(target=answer, args=(other, is_over))
            answering.start()
            with pytest.raises((control.ControlError, HttpError)) as told:
                ask(f"127.0.0.1:{other.getsockname()[1]}")
            is_over.set()
            answering.join()
        assert isinstance(told.value, control.ControlError | HttpError)
        assert told.value.name == "TimedOut"


def test_the_python_client_sends_no_more_than_the_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.control.client.BODY_BYTES_MAX", 20)
    with pytest.raises(
        control.ControlError, match=r"^the fields of expire have 22 bytes as JSON: give 20 at most$"
    ) as refused:
        control.Client("127.0.0.1:1").expire(member="member-1")
    assert refused.value.name == "TooLarge"


def test_other_machines_reach_it_only_with_a_token() -> None:
    with rota.Server() as server:
        with pytest.raises(ValueError, match="can be reached from other machines: give a control token"):
            control.serve(server, "0.0.0.0:0")
        control.serve(server, "0.0.0.0:0", TOKEN).close()
        with pytest.raises(ValueError, match="the control token has to be printable ASCII"):
            control.serve(server, "127.0.0.1:0", "a\n")
        with pytest.raises(ValueError, match="the control address is `9645`"):
            control.serve(server, "9645")


def test_a_stopped_server_says_so(ask: Asking) -> None:
    ask.server.stop()
    assert ask("rebalance", 503, group="g")["error"] == "ServerError"


def test_an_error_of_a_control_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(control.ControlError("BadValue", "ms is 'soon'", 400, "ms")))
    assert (error.name, str(error), error.status, error.field) == ("BadValue", "ms is 'soon'", 400, "ms")


def test_the_python_client_has_every_control_as_a_method(ask: Asking, member: str) -> None:
    client = control.Client(ask.address)
    assert {row.name for row in TABLE} <= set(dir(client))
    assert client.members(group=GROUP)["members"][0]["member_id"] == member
    assert client.advance(ms=5)["now_ms"] == 5
    with pytest.raises(control.ControlError, match="there is no group `shopping`") as refused:
        client.rebalance(group="shopping")
    assert (refused.value.name, refused.value.status, refused.value.field) == ("NoSuchGroup", 404, None)
    with pytest.raises(control.ControlError) as refused:
        client.advance(ms="soon")
    assert (refused.value.name, refused.value.field) == ("BadValue", "ms")
    with pytest.raises(AttributeError, match="there is no control 'advanse'; the nearest one is advance"):
        client.advanse(ms=1)
    with pytest.raises(AttributeError, match="there is no control 'explain'; there are clock, advance"):
        client.explain(group=GROUP)
    with pytest.raises(TypeError, match=r"fields are given by name, expire\(member=..., group=...\)"):
        client.expire(member)
    with pytest.raises(ValueError, match=r"the control address is 'ftp://.*': leave out the scheme"):
        control.Client(f"ftp://{ask.address}")
    assert control.Client(f"http://{ask.address}/").clock()["is_virtual"]


def test_the_python_client_says_that_nothing_answers(ask: Asking) -> None:
    spare = control.serve(ask.server)
    spare.close()
    with pytest.raises(control.ControlError, match=r"is `rota serve --control .*` running") as refused:
        control.Client(spare.address).clock()
    assert refused.value.name == "ServerDown"
