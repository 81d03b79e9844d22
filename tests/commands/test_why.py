"""`rota why`, as it is typed, at a server with a stuck group."""

from __future__ import annotations

import json
import re
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import resources
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import rota
from rota import control
from rota.cli import app
from rota.pytest_plugin import told_of
from tests.docs.wrong_use import joined
from tests.http.asking import GROUP, SETTINGS, busy, shown, stuck

WIDE = {"COLUMNS": "400"}


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["why", *arguments])


@pytest.mark.clients
def test_a_stuck_group_is_explained_in_words_and_as_json() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, clock=clock, http=":0") as server:
        assert server.http_address is not None
        server.create_topic("t", partitions=3)
        with stuck(server, clock) as (left, missing):
            told = call(GROUP, "--http", server.http_address)
            as_json = call(GROUP, "--http", server.http_address, "--json")
            unknown = call("order", "--http", server.http_address)
            unknown_json = call("order", "--http", server.http_address, "--json")
    assert told.exit_code == 0
    first, *rest = told.stdout.splitlines()
    who, gone = missing[: len("consumer-3-12345678")], left[: len("consumer-7-12345678")]
    assert first == (
        f"{GROUP}: PreparingRebalance for 31.0 s: waiting for {who}… to rejoin, whose session ends in 14.0 s; "
        f"it began because {gone}… left"
    )
    assert rest[:3] == [
        "",
        "held up by",
        f"  {missing} at /127.0.0.1: silent for 31.0 s, expires in 14.0 s unless it is heard",
    ]
    assert rest[3:5] == ["", "rebalances, the latest first"]
    assert rest[5].endswith(f"not over: {gone}… left")
    assert as_json.exit_code == 0
    assert json.loads(as_json.stdout)["why"]["sentence"] in first
    assert (unknown.exit_code, unknown.stdout) == (3, "")
    asked = f"{server.http_address} was asked"
    assert unknown.stderr == f"rota: there is no group `order`; the nearest is `orders`; {asked}\n"
    assert (unknown_json.exit_code, json.loads(unknown_json.stdout)["error"]) == (3, "NoSuchGroup")


@pytest.mark.clients
def test_a_member_that_is_busy_is_told_from_one_that_is_silent_wherever_a_group_is_explained() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, clock=clock, http=":0") as server:
        assert server.http_address is not None
        server.create_topic("t", partitions=3)
        with busy(server, clock) as (_, missing):
            who = f"{missing[: len('consumer-3-12345678')]}…"
            stall = (
                f"{who} heartbeats but has not rejoined: its application is probably busy and not polling; "
                "it is removed in 253.0 s (rebalance timeout)"
            )
            assert f"PreparingRebalance for 47.0 s: {stall}; " in str(server.explain(GROUP))
            text = call(GROUP, "--http", server.http_address).stdout
            assert f"{GROUP}: PreparingRebalance for 47.0 s: {stall}; " in text
            beats = rf"^  {missing} at /127\.0\.0\.1: heartbeats, the last one \d+\.\d s ago, but does not poll$"
            assert re.search(beats, text, re.MULTILINE), text
            [row] = shown(server, "/groups", "groups")["groups"]
            assert stall in row["why"]
            drawn = CliRunner().invoke(
                app, ["top", "--http", server.http_address, "--count", "1"], env={"COLUMNS": "400"}
            )
            assert stall in drawn.stdout
            reported = told_of(server)
            assert [line for line in reported if stall in line and line.startswith(f"group {GROUP}: ")], reported
            described = shown(server, f"/groups/{GROUP}", "group")
            assert described["why"]["stalls"] == [stall]
            assert stall in described["why"]["sentence"]
            # The page shows this field and the row's.
            page = resources.files("rota.http").joinpath("page.js").read_text()
            assert '$("why").textContent = group.why.sentence' in page
            assert re.search(r"write\(row\.why, group\.why\b", page)
            assert described["waiting"][0]["heartbeats"]


@pytest.mark.clients
def test_a_removal_by_an_administrator_during_the_stall_is_in_the_history_with_its_reason() -> None:
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, clock=clock, http=":0") as server:
        assert server.http_address is not None
        server.create_topic("t", partitions=3)
        with busy(server, clock) as (_, missing):
            words = ["groups", "remove-member", GROUP, "--member", missing, "--reason", "stuck since noon"]
            removed = CliRunner().invoke(app, [*words, "--bootstrap-server", server.bootstrap_servers])
            assert removed.exit_code == 0, removed.output
            [departure] = [gone for one in server.explain(GROUP).rebalances for gone in one.departures]
            assert (departure.member_id, departure.how) == (missing, "Left")
            assert "stuck since noon" in departure.reason
            text = call(GROUP, "--http", server.http_address).stdout
            assert f"{missing[: len('consumer-3-12345678')]}… left or was removed (" in text
            assert "stuck since noon" in text


def test_after_a_restart_a_group_is_as_it_is_for_an_unknown_time(tmp_path: Path) -> None:
    with rota.Server(settings=SETTINGS, data=tmp_path / "data") as server:
        joined(server)
        assert "or longer" not in str(server.explain("readers"))
    with rota.Server(settings=SETTINGS, data=tmp_path / "data") as server:
        told = str(server.explain("readers"))
    assert re.fullmatch(r"Stable for \d+\.\d s or longer, generation 1; it was loaded from the log, .*", told), told


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{spare.getsockname()[1]}"
    told = call("orders", "--http", address)
    assert told.exit_code == 5
    assert told.stderr == (
        f"rota: nothing answers at {address}: Connection refused; start a server with `rota serve --http {address}`, "
        "or ask the broker: `rota why orders --bootstrap-server HOST:PORT`\n"
    )
    assert json.loads(call("orders", "--http", address, "--json").stdout)["error"] == "ServerDown"


def test_a_server_that_hangs_is_told_from_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.http.client.WITHIN_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        address = f"127.0.0.1:{hanging.getsockname()[1]}"
        told = call("orders", "--http", address)
        as_json = call("orders", "--http", address, "--json")
    assert told.exit_code == 5
    assert told.stderr == (
        f"rota: {address} did not answer within 0.05 s: the server hangs or is overloaded, "
        "or a firewall drops the packets\n"
    )
    assert json.loads(as_json.stdout)["error"] == "TimedOut"


OPTIONS = "--http-token or --control-token, or set ROTA_HTTP_TOKEN or ROTA_CONTROL_TOKEN"


@pytest.mark.parametrize("words", [["why", "orders"], ["top", "--count", "1"]])
def test_the_token_of_a_control_address_can_be_given(words: list[str]) -> None:
    with rota.Server(settings=SETTINGS) as server, closing(control.serve(server, token="of-a-test")) as listener:  # noqa: S106
        words += ["--http", listener.address]

        def ended(*more: str, **variables: str) -> Result:
            return CliRunner().invoke(app, [*words, *more], env=variables)

        without, wrong = ended(), ended("--control-token", "other")
        given, in_variable = ended("--control-token", "of-a-test"), ended(ROTA_CONTROL_TOKEN="of-a-test")  # noqa: S106
    says = f"rota: {listener.address} requires a token: give {OPTIONS}\n"
    assert (without.exit_code, without.stderr) == (2, says)
    says = f"rota: {listener.address} refuses the token: give the one that `rota serve` was started with\n"
    assert (wrong.exit_code, wrong.stderr) == (2, says)
    # The group does not exist: the server answers.
    assert given.exit_code == in_variable.exit_code == (3 if "why" in words else 0), given.output


@pytest.mark.parametrize("words", [["why", "orders"], ["top", "--count", "1"]])
def test_a_token_on_the_command_line_counts_more_than_one_of_the_environment(words: list[str]) -> None:
    with rota.Server(settings=SETTINGS) as server, closing(control.serve(server, token="of-a-test")) as listener:  # noqa: S106
        words += ["--http", listener.address, "--http-token", "of-a-test"]
        ended = CliRunner().invoke(app, words, env={"ROTA_CONTROL_TOKEN": "other"})
    assert ended.exit_code == (3 if "why" in words else 0), ended.output


HALF = b'{"group_id": "orders", "why": {"sentence": "s"}, "members": [], "waiting": [1], "rebalances": []}'
ROWS = b'{"groups": [{"group_id": "orders"}], "next": null}'


@pytest.mark.parametrize("words", [["why", "orders"], ["top", "--count", "1"], ["top", "--json", "--count", "1"]])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((200, body) for body in (b"<html>", b"{}", b"[]", b"null", b"7", HALF, ROWS, b'{"groups": 1, "next": null}')),
        *((404, body) for body in (b"<html>", b"[]")),
        *((500, body) for body in (b'{"a": 1}', b'{"error": "x"}', b'{"error": 5, "message": "m"}')),
    ],
)
def test_something_else_that_answers_is_named(status: int, body: bytes, words: list[str]) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.handle_request).start()
        told = CliRunner().invoke(app, [*words, "--http", f"127.0.0.1:{other.server_port}"])
    assert told.exit_code == 1
    if "--json" in words:
        assert json.loads(told.stdout) == {"error": "NotRota", "message": told.stderr[6:-1]}
    else:
        assert told.stdout == ""
    assert told.stderr.startswith("rota: http://127.0.0.1:")
    assert told.stderr.endswith("is that a rota server's --http?\n")


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        ("why nosuch --from data", 3, "NoSuchGroup"),
        ("why nosuch --from .", 3, "NoJournal"),
        ("why nosuch --from missing", 2, "Misused"),
        ("why nosuch --bootstrap-server 127.0.0.1:1", 5, "ServerDown"),
        ("why nosuch --bootstrap-server 127.0.0.1:1 --command-config missing", 2, "Misused"),
        ("why nosuch --http 127.0.0.1:1", 5, "ServerDown"),
        ("why nosuch --http 9644", 2, "Misused"),
        ("why nosuch --http https://127.0.0.1:1 --command-config missing", 2, "Misused"),
        ("why nosuch --from data --at yesterday", 2, "Misused"),
        ("why nosuch --at 2026-01-31", 2, "Misused"),
        ("why nosuch --watch 3", 2, "Misused"),
        ("why nosuch --watch -1", 2, "Misused"),
        ("why nosuch --from data --http 127.0.0.1:1", 2, "Misused"),
        ("why", 2, "Misused"),
        ("why nosuch --nothing", 2, "Misused"),
        ("top --http 9644", 2, "Misused"),
        ("top --count 0", 2, "Misused"),
        ("top --http 127.0.0.1:1", 5, "ServerDown"),
    ],
)
def test_an_error_has_a_name_on_stdout_whatever_is_asked(
    words: str, code: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with rota.Server(data="data", journal=True):
        pass
    told = CliRunner().invoke(app, [*words.split(), "--json"])
    assert told.exit_code == code
    assert json.loads(told.stdout) == {"error": name, "message": told.stderr.removeprefix("rota: ").rstrip("\n")}


@pytest.mark.parametrize("address", ["9644", "localhost", "127.0.0.1:0"])
def test_an_address_that_is_none_is_a_wrong_call(address: str) -> None:
    told = call("orders", "--http", address)
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith(f"rota: --http is `{address}`: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--bootstrap-server 127.0.0.1:1 --http 127.0.0.1:2", "--bootstrap-server asks a broker: leave out --http"),
        ("--bootstrap-server 127.0.0.1:1 --http-token x", "--bootstrap-server asks a broker: leave out --http-token"),
        ("--bootstrap-server 127.0.0.1:1 --at 2026-01-31", "--bootstrap-server asks a broker: leave out --at"),
        ("--from . --http 127.0.0.1:2", "--from reads logs: leave out --http"),
        ("--from . --watch 3", "--watch needs --bootstrap-server: it is about asking a broker"),
        ("--watch 3", "--watch needs --bootstrap-server: it is about asking a broker"),
        ("--http 127.0.0.1:1 --history 3", "--history needs --bootstrap-server: it is about asking a broker"),
    ],
)
def test_an_option_without_effect_is_refused(words: str, says: str) -> None:
    told = call("orders", *words.split())
    assert (told.exit_code, told.stdout, told.stderr) == (2, "", f"rota: {says}\n")
