"""Asks a rota server over HTTP. What goes wrong has a name, and one line that says what to do."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from rota import exits

WITHIN_SECONDS = 10.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024
EXIT_CODES = {
    "NoSuchGroup": exits.NOT_FOUND,
    "ServerDown": exits.UNREACHABLE,
    "TimedOut": exits.UNREACHABLE,
    "Unauthorized": exits.MISUSED,
}

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


def fetch(address: str, path: str, token: str | None = None) -> Any:
    """The JSON at a path of the server at HOST:PORT, with the token of its `--control` if that is asked.

    Raises HttpError: ServerDown, TimedOut, NotRota, or what the server itself names (NoSuchGroup, Starting, ...).
    """
    where = f"http://{address}{path}"
    if token is not None and not (token.isascii() and token.isprintable()):
        raise HttpError("Unauthorized", "the control token has characters that are not printable ASCII")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with _OPENER.open(Request(where, headers=headers), timeout=WITHIN_SECONDS) as answer:
            return _decoded(answer.read(ANSWER_BYTES_MAX), where)
    except HTTPError as error:
        with error:
            told = _decoded(error.read(ANSWER_BYTES_MAX), where)
        if not isinstance(told, dict) or "error" not in told:
            raise HttpError("NotRota", f"{where} answers {error.code}: is that a rota server's --http?") from None
        message = str(told.get("message", ""))
        if told["error"] == "Unauthorized":
            message = _unauthorized(address, token)
        raise HttpError(str(told["error"]), message) from None
    except (URLError, HTTPException, OSError) as error:
        raise _unanswered(address, error) from None


def group(address: str, group_id: str, token: str | None = None) -> Any:
    """Everything about a group (`/groups/{id}`). Raises HttpError."""
    return fetch(address, f"/groups/{quote(group_id, safe='')}", token)


def _unauthorized(address: str, token: str | None) -> str:
    """What to do where `--control` requires another token, or one at all."""
    if token is None:
        return f"{address} requires a token: give --control-token, or set ROTA_CONTROL_TOKEN"
    return f"{address} refuses the token: give the one that `rota serve --control` was started with"


def is_timeout(error: Exception) -> bool:
    """Whether a request ended because no answer came in time; `urllib` hides that in some places."""
    return isinstance(getattr(error, "reason", error), TimeoutError)


def _unanswered(address: str, error: Exception) -> HttpError:
    """Why nothing came from an address, and what to do."""
    reason = getattr(error, "reason", error)
    if is_timeout(error):
        return HttpError(
            "TimedOut",
            f"{address} did not answer within {WITHIN_SECONDS:g} s: the server hangs or is overloaded,"
            " or a firewall drops the packets",
        )
    if isinstance(reason, HTTPException | ConnectionResetError):
        return HttpError(
            "ServerDown", f"what listens at {address} does not answer HTTP: give the address of `rota serve --http`"
        )
    said = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason) or type(reason).__name__
    return HttpError(
        "ServerDown", f"nothing answers at {address}: {said}; start a server with `rota serve --http {address}`"
    )


def _decoded(body: bytes, where: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise HttpError("NotRota", f"{where} does not answer in JSON: is that a rota server's --http?") from None
