"""`rota.Server` names an argument that it cannot take, with its value and what to give instead."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import rota
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
