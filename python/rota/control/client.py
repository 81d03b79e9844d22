"""The controls of a server in another process, as methods."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPException, IncompleteRead
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request

from rota._rota import nearest
from rota.addresses import web_parsed
from rota.client_properties import ClientSecurity
from rota.control.table import BODY_BYTES_MAX, BY_NAME, GET
from rota.http.client import CUT_SHORT, REFUSED, exchange, is_timeout, opener_of, tls_failure, url_of

REMEDIES = {
    False: "the server requires a token: give Client(address, token=...) the one of `rota serve --control-token`",
    True: "the server refuses the token: give Client(address, token=...) the one of `rota serve --control-token`",
}
"""After status 401, by whether a token was sent."""


WRONG_PROGRAM = "is that the --control of a rota server?"


class ControlError(Exception):
    """A control that was refused, or a server that does not answer.

    name     stable, for programs: "NoSuchGroup", "BadValue", ...
    status   of the answer; None if there was none.
    field    of a "BadValue", which field it is, if it is about one.
    """

    def __init__(self, name: str, message: str, status: int | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.status = status
        self.field = field

    def __reduce__(self) -> tuple[type[ControlError], tuple[str, str, int | None, str | None]]:
        return type(self), (self.name, str(self), self.status, self.field)


class Client:
    """Controls the server whose `--control` listens at HOST:PORT, or with TLS at https://HOST:PORT.

    Each control is a method; fields are given by name:

    >>> control = rota.control.Client("127.0.0.1:9645")
    >>> control.expire(member="shop-1", group="orders")
    >>> control.committed(group="orders")["offsets"]

    `/openapi.json` of the server lists them, and so does `dir()` of a client. Raises ControlError.

    token     the one of `rota serve --control-token`.
    security  with https://: the server's CA, and a client certificate if it asks for one, as properties of a Kafka
              client by name (`ssl.truststore.location`), or the path of a file of them. Default: the system's CAs.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 120.0,
        *,
        security: ClientSecurity | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> None:
        try:
            self._address = web_parsed(address, 1)
        except ValueError as error:
            raise ValueError(f"the control address is {address!r}: {error}") from None
        self._opener = opener_of(None if security is None else ClientSecurity.read_any(security).https_context())
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable()):
                raise ValueError("the token has characters that are not printable ASCII, such as a newline")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *BY_NAME})

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name not in BY_NAME:
            raise _unknown(name)
        return partial(self._by_name, name)

    def _by_name(self, name: str, /, *values: Any, **fields: Any) -> dict[str, Any]:
        if values:
            wanted = ", ".join(f"{param.name}=..." for param in BY_NAME[name].params)
            raise TypeError(f"{name} is given {values[0]!r} without a name: fields are given by name, {name}({wanted})")
        return self.call(name, **fields)

    def call(self, name: str, /, **fields: Any) -> dict[str, Any]:
        """One control by its name."""
        if name not in BY_NAME:
            raise _unknown(name)
        control = BY_NAME[name]
        where = f"{url_of(self._address)}{control.path}"
        if control.method == GET:
            given = {name: value for name, value in fields.items() if value is not None}
            request = Request(f"{where}?{urlencode(given)}", headers=self._headers)
        else:
            body = json.dumps(fields).encode()
            if len(body) > BODY_BYTES_MAX:
                message = f"the fields of {name} have {len(body)} bytes as JSON: give {BODY_BYTES_MAX} at most"
                raise ControlError("TooLarge", message)
            request = Request(where, body, self._headers, method=control.method)
        try:
            status, told = exchange(self._opener, request, self._timeout)
        except (URLError, HTTPException, OSError) as error:
            raise self._unanswered(name, error) from None
        if status >= REFUSED:
            raise _refused(status, told, where, has_token="Authorization" in self._headers)
        try:
            found: dict[str, Any] = json.loads(told)
        except (ValueError, RecursionError):
            raise ControlError("NotRota", f"{where} does not answer in JSON: {WRONG_PROGRAM}") from None
        return found

    def _unanswered(self, name: str, error: Exception) -> ControlError:
        """Why a control has no answer, and what to do."""
        if is_timeout(error):
            message = f"{self._address} did not answer {name} within {self._timeout:g} s: the server hangs,"
            message += " or the call takes longer than the `timeout` of this Client"
            return ControlError("TimedOut", message)
        reason = error.reason if isinstance(error, URLError) else error
        failure = tls_failure(self._address, reason)
        if failure is not None:
            return ControlError("NotTrusted", failure)
        if isinstance(reason, IncompleteRead):
            return ControlError("ServerDown", f"{self._address} ended the connection {CUT_SHORT}")
        said = reason.strerror if isinstance(reason, OSError) and reason.strerror else reason
        message = f"nothing answers at {self._address}: {said}; is `rota serve --control {self._address}` running?"
        return ControlError("ServerDown", message)


def _unknown(name: str) -> AttributeError:
    near = nearest(name, list(BY_NAME))
    hint = f"there are {', '.join(BY_NAME)}" if near is None else f"the nearest one is {near}"
    return AttributeError(f"there is no control {name!r}; {hint}")


def _refused(status: int, body: bytes, where: str, *, has_token: bool) -> ControlError:
    try:
        told = json.loads(body)
        message = REMEDIES[has_token] if told["error"] == "Unauthorized" else told["message"]
        return ControlError(told["error"], message, status, told.get("field"))
    except (ValueError, KeyError, TypeError, RecursionError):
        message = f"{where} answers {status}: {WRONG_PROGRAM}"
        return ControlError("NotRota", message, status)
