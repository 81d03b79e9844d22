"""`rota.Server` names an argument that it cannot take, with its value and what to give instead."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.aio import GroupMember
from rota.server_arguments import KINDS

ELSEWHERE = {"nodes", "trace", "tls", "tokens", "durability", "reads"}


def refusal(**given: Any) -> str:
    """Why a server does not start."""
    with pytest.raises((TypeError, ValueError)) as said:
        rota.Server(**given)
    return str(said.value)


def test_each_argument_has_a_type() -> None:
    assert inspect.signature(rota.Server).parameters.keys() == KINDS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", inspect.signature(rota.Server).parameters)
@pytest.mark.parametrize("value", [3.5, b"x", object()], ids=["a float", "bytes", "an object"])
def test_a_wrong_type_is_named(name: str, value: object) -> None:
    assert refusal(**{name: value}).startswith(f"{name} is {value!r}")


@pytest.mark.parametrize(("name", "value"), [("http", 9000), ("sasl", 3), ("acls", "ALLOW User:ana"), ("take_over", 1)])
def test_an_error_says_what_to_give(name: str, value: object) -> None:
    assert refusal(**{name: value}).startswith(f"{name} is {value!r}: give ")


def test_an_empty_path_is_no_directory() -> None:
    assert refusal(data="") == "data is '': give the path of a directory, or None"


@pytest.mark.parametrize(("name", "shown"), [("user", "'secret'"), ("password", "***"), ("token", "'secret'")])
def test_a_login_for_a_listener_without_sasl_is_refused(name: str, shown: str) -> None:
    given: dict[str, Any] = {name: "secret"}
    wanted = f"{name} is {shown}, and clients of listener PLAINTEXT do not authenticate"
    with rota.Server() as server, pytest.raises(ValueError, match=re.escape(wanted)):
        server.client_config("librdkafka", **given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"settings": {1: 2}}, "settings has 1 in it: give a mapping of Kafka names to values"),
        ({"users": {1: "a"}}, "users has 1 in it: give names of users as str"),
        ({"users": {"ana": b"secret"}}, "users has a password for 'ana' that is no str: give a str"),
        ({"acls": [1]}, "acls has 1 in it: give a list of lines"),
        ({"sasl": [1], "users": {"ana": "secret"}}, "sasl has 1 in it: give a list of mechanisms"),
        ({"journal": ""}, "journal is '': give True, or the path of a directory"),
        ({"http_token": "secret"}, "http_token is given, and there is no HTTP address: give `http`, too"),
        (
            {"http_token": [1], "http": ":0"},
            "http_token has a value in it that is no str: give a token, or a list of tokens",
        ),
        ({"ttl_ms": 600}, "ttl_ms is 600, and there is no engine: give `engine`, too"),
    ],
)
def test_a_value_within_an_argument_and_an_argument_without_effect_are_named(given: dict[str, Any], says: str) -> None:
    assert refusal(**given) == says


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        (
            {"listen": "SSL://127.0.0.1:0"},
            {
                "In Python --listen is the argument `listen` of rota.Server.",
                "In Python --tls-cert is the argument `tls` of rota.Server.",
            },
        ),
        ({"http": "https://127.0.0.1:0"}, {"In Python --tls-cert is the argument `tls` of rota.Server."}),
        ({"nodes": 0}, set()),
    ],
)
def test_options_that_an_error_names_are_arguments_in_a_note(given: dict[str, Any], notes: set[str]) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        rota.Server(**given)
    assert set(getattr(refused.value, "__notes__", ())) == notes


# What a type checker would not let through.
five: Any = 5
one_name: Any = "sticky"
nothing: Any = None


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: rota.Authority().issue(five), "hosts has 5 in it: give names or addresses as str"),
        (lambda: rota.Authority().issue(name=five), "name is 5: give a str"),
        (lambda: rota.assign.BuiltIn(five), "name is 5: give a str"),
        (lambda: rota.VirtualClock().advance(1, expire=five), "expire is 5: give a list of member ids"),
        (lambda: GroupMember("a:1", five, ["t"]), "group_id is 5: give a str"),
        (lambda: GroupMember("a:1", "g", ["t"], seed=-1), "seed is -1: give 0 to 18446744073709551615"),
        (
            lambda: GroupMember("a:1", "g", ["t"], session_timeout_ms=-1),
            "session_timeout_ms is -1: give 1 to 2147483647",
        ),
        (
            lambda: GroupMember("a:1", "g", ["t"], auto_commit_interval_ms="x"),
            "auto_commit_interval_ms is 'x': give a whole number",
        ),
        (lambda: GroupMember("a:1", "g", ["t"], group_protocol=5), "group_protocol is 5: give classic or consumer"),
        (lambda: GroupMember("a:1", "g", ["t"], close_timeout_ms=-1), "close_timeout_ms is -1: give 0 to 2147483647"),
        (
            lambda: GroupMember("a:1", "g", ["t"], assignor=one_name),
            "assignor is 'sticky': give an object with `name`, `cooperative`, `assign` and `on_assignment`, such as"
            " rota.assign.BuiltIn",
        ),
    ],
)
def test_what_is_made_without_a_server_names_its_arguments(ask: Callable[[], object], says: str) -> None:
    with pytest.raises((TypeError, ValueError, rota.assign.InputError)) as said:
        ask()
    assert str(said.value) == says


def test_a_server_that_runs_names_the_arguments_of_its_methods() -> None:
    with rota.Server(users={"ana": "secret"}, acls=[]) as server:
        asked: list[tuple[Callable[[], object], str]] = [
            (lambda: server.produce("t", five), "values is 5: give a list of them"),
            (lambda: server.produce("t", ["a"], keys=five), "keys is 5: give a list of them"),
            (lambda: server.wait_until_stable("g", timeout=nothing), "timeout is None: give seconds, 0 or more"),
            (lambda: server.set_acls([five]), "acls has 5 in it: give a list of lines"),
            (lambda: server.set_users({"ana": five}), "users has a password for 'ana' that is no str: give a str"),
            (lambda: server.client_config("librdkafka", user=five), "user is 5: give a str"),
            (lambda: server.client_config("librdkafka", password=five), "password is ***: give a str"),
            (
                lambda: server.client_config("librdkafka", client=five),
                "client is 5: give a rota.Certificate, such as one of Authority.issue",
            ),
        ]
        for ask, says in asked:
            with pytest.raises(TypeError) as said:
                ask()
            assert str(said.value) == says
