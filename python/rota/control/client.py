"""The controls of a server in another process, as methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from rota.control.table import BY_NAME, GET, TABLE

# A proxy that the environment names is not on the way to a server of a test.
_OPENER = build_opener(ProxyHandler({}))


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


class Client:
    """Controls the server whose `--control` listens at HOST:PORT. Each control is a method; fields are given by name:

    >>> control = rota.control.Client("127.0.0.1:9645")
    >>> control.expire(member="shop-1", group="orders")
    >>> control.committed(group="orders")["offsets"]

    `/openapi.json` of the server lists them, and so does `dir()` of a client. Raises ControlError.
    """

    def __init__(self, address: str, token: str | None = None, timeout: float = 120.0) -> None:
        self._address = address
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *BY_NAME})

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name not in BY_NAME:
            raise AttributeError(f"there is no control {name!r}; there are {', '.join(row.name for row in TABLE)}")
        return partial(self.call, name)

    def call(self, name: str, /, **fields: Any) -> dict[str, Any]:
        """One control by its name."""
        control = BY_NAME[name]
        where = f"http://{self._address}{control.path}"
        if control.method == GET:
            given = {name: value for name, value in fields.items() if value is not None}
            request = Request(f"{where}?{urlencode(given)}", headers=self._headers)
        else:
            body = json.dumps(fields).encode()
            request = Request(where, body, self._headers, method=control.method)
        try:
            with _OPENER.open(request, timeout=self._timeout) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except HTTPError as error:
            with error:
                raise _refused(error, where) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            message = f"nothing answers at {where}: {reason}; is `rota serve --control {self._address}` running?"
            raise ControlError("ServerDown", message) from None


def _refused(error: HTTPError, where: str) -> ControlError:
    try:
        told = json.loads(error.read())
        return ControlError(told["error"], told["message"], error.code, told.get("field"))
    except (ValueError, KeyError, TypeError):
        message = f"{where} answers {error.code}: is that the --control of a rota server?"
        return ControlError("NotRota", message, error.code)
