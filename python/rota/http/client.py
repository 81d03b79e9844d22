"""Asks a rota server over HTTP. What goes wrong has a name, and one line that says what to do."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

from rota import exits

WITHIN_SECONDS = 10.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024
EXIT_CODES = {"NoSuchGroup": exits.NOT_FOUND, "ServerDown": exits.UNREACHABLE}

# Whatever proxy the environment names is not on the way to a coordinator.
_OPENER = build_opener(ProxyHandler({}))


class HttpError(Exception):
    """The server could not be asked. `name` is stable, for programs."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name

    @property
    def exit_code(self) -> int:
        """Of a command that ends with it."""
        return EXIT_CODES.get(self.name, exits.FAILED)


def fetch(address: str, path: str) -> Any:
    """The JSON at a path of the server at HOST:PORT.

    Raises HttpError: ServerDown, NotRota, or what the server itself names (NoSuchGroup, Starting, ...).
    """
    where = f"http://{address}{path}"
    try:
        with _OPENER.open(where, timeout=WITHIN_SECONDS) as answer:
            return _decoded(answer.read(ANSWER_BYTES_MAX), where)
    except HTTPError as error:
        with error:
            told = _decoded(error.read(ANSWER_BYTES_MAX), where)
        if not isinstance(told, dict) or "error" not in told:
            raise HttpError("NotRota", f"{where} answers {error.code}: is that a rota server's --http?") from None
        raise HttpError(str(told["error"]), str(told.get("message", ""))) from None
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error) or type(error).__name__
        message = f"nothing answers at {where}: {reason}; is it running, with --http {address}?"
        raise HttpError("ServerDown", message) from None


def group(address: str, group_id: str) -> Any:
    """Everything about a group (`/groups/{id}`). Raises HttpError."""
    return fetch(address, f"/groups/{quote(group_id, safe='')}")


def _decoded(body: bytes, where: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise HttpError("NotRota", f"{where} does not answer in JSON: is that a rota server's --http?") from None
