"""A request of the control listener becomes an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import rota
from rota.control import openapi
from rota.control.subject import Controlled
from rota.control.table import BY_PATH, GET, PREFIX, Control, RefusedError
from rota.control.values import UnfitError, expected, fitting
from rota.http import routes
from rota.http.routes import Answer, as_json

OPENAPI = "/openapi.json"

REMEDY = re.compile(r"(?:: give|: expected|; the nearest one is|; there are \d+,) (.+)$")
"""What an error of the server says to give instead."""


class Asked(NamedTuple):
    """A request."""

    method: str
    target: str
    body: bytes


def answer(controlled: Controlled, shown: routes.Subject, asked: Asked) -> Answer:
    """The answer to a request of a client that is admitted; never raises for one that is wrong."""
    path = routes.path_of(asked.target)
    is_reading = asked.method in (GET, "HEAD")
    if is_reading and path == OPENAPI:
        return Answer(HTTPStatus.OK, routes.JSON, openapi.text())
    if is_reading and not path.startswith(PREFIX):
        return routes.answer(shown, asked.target)
    if path == OPENAPI or routes.is_known(path):
        return routes.read_only(asked.method, path)
    control = BY_PATH.get(path)
    if control is None:
        return failed(
            HTTPStatus.NOT_FOUND, "NoSuchPath", f"there is nothing at {path[:200]}; {OPENAPI} lists the paths"
        )
    if asked.method not in _allowed(control).split(", "):
        return _wrong_method(control, asked.method)
    return _carry_out(controlled, control, asked)


def failed(status: HTTPStatus, name: str, message: str, **more: object) -> Answer:
    """An error."""
    return as_json({"error": name, "message": message, **more}, status)


def _allowed(control: Control) -> str:
    return routes.READING if control.method == GET else control.method


def _wrong_method(control: Control, method: str) -> Answer:
    fields = ", ".join(param.name for param in control.params)
    if control.method == GET:
        remedy = f"give {fields} in the query" if fields else "it has no fields"
    else:
        remedy = f"send a JSON object with {fields}" if fields else "it needs no body"
    message = f"{control.path} takes {control.method}, not {method}: {remedy}"
    return routes.wrong_method(_allowed(control), message)


def _carry_out(controlled: Controlled, control: Control, asked: Asked) -> Answer:
    given: dict[str, Any] = {}
    try:
        given = _given(control, asked)
        values = fitting(control.params, given)
        if control.waits or control.method == GET:
            result = control.run(controlled, **values)
        else:
            with controlled.lock:
                result = control.run(controlled, **values)
    except UnfitError as error:
        return bad_value(str(error), error.field, error.expected)
    except rota.NotFoundError as error:
        return failed(HTTPStatus.NOT_FOUND, f"NoSuch{error.what.capitalize()}", str(error))
    except TimeoutError as error:
        return failed(HTTPStatus.GATEWAY_TIMEOUT, "NotStable", str(error))
    except rota.ServerError as error:
        return failed(HTTPStatus.SERVICE_UNAVAILABLE, "ServerError", str(error))
    except (RefusedError, rota.RotaError, OSError) as error:
        return failed(HTTPStatus.CONFLICT, "Refused", str(error))
    except (ValueError, TypeError) as error:
        return _bad_value_of(control, given, str(error))
    return as_json({} if result is None else result)


def bad_value(message: str, field: str | None, expected: str) -> Answer:
    """A value that cannot be; `field` is null if it is not about one of them."""
    return failed(HTTPStatus.BAD_REQUEST, "BadValue", message, field=field, expected=expected)


def _bad_value_of(control: Control, given: Mapping[str, Any], message: str) -> Answer:
    """The answer to a value that the server refuses, by its message."""
    field = _blamed(message, given)
    remedy = REMEDY.search(message)
    schemas = {param.name: param.schema for param in control.params}
    otherwise = expected(schemas[field]) if field in schemas else message
    return bad_value(message, field, otherwise if remedy is None else remedy[1])


def _given(control: Control, asked: Asked) -> dict[str, Any]:
    """The fields of a request: of the query of a GET, of the JSON object that a POST carries."""
    if control.method == GET:
        try:
            return dict(parse_qsl(urlsplit(asked.target).query, True, True, errors="strict", max_num_fields=10))
        except ValueError as error:
            raise UnfitError("query", asked.target[-100:], f"NAME=VALUE pairs ({error})") from None
    try:
        found = json.loads(asked.body) if asked.body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnfitError("body", asked.body[:80].decode(errors="replace"), f"a JSON object ({error})") from None
    if not isinstance(found, dict):
        raise UnfitError("body", found, "a JSON object")
    return found


def _blamed(message: str, given: Mapping[str, Any]) -> str | None:
    """Which field an error of the server is about: it begins with the field's name, or has its value in it."""
    first = message.split()[0]
    if first in given:
        return first
    return next((name for name, value in given.items() if f"`{value}`" in message), None)
