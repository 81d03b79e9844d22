"""Asks a rota server over HTTP. What goes wrong has a name, and one line that says what to do."""

from __future__ import annotations

import json
import ssl
from http.client import HTTPException, IncompleteRead
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from rota import exits
from rota.addresses import HTTPS

WITHIN_SECONDS = 10.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024
REFUSED = 300
"""From this status on an answer has no result."""
CUT_SHORT = "in the middle of its answer: it has ended, or something between cuts answers short; try again"
EXIT_CODES = {
    "NeedsTls": exits.MISUSED,
    "NoSuchGroup": exits.NOT_FOUND,
    "NotTrusted": exits.UNREACHABLE,
    "ServerDown": exits.UNREACHABLE,
    "TimedOut": exits.UNREACHABLE,
    "Unauthorized": exits.MISUSED,
}


class Peer(NamedTuple):
    """A server, and how it is asked."""

    address: str
    """HOST:PORT, or https://HOST:PORT."""
    token: str | None = None
    """The token of its `--http` or `--control`, if it has one."""
    context: ssl.SSLContext | None = None
    """The CAs and the client certificate of HTTPS; None: the system's CAs."""

    @property
    def base(self) -> str:
        """The URL before the path."""
        return url_of(self.address)


def url_of(address: str) -> str:
    """The URL of an address, without a path."""
    return address if address.startswith(HTTPS) else f"http://{address}"


def opener_of(context: ssl.SSLContext | None) -> OpenerDirector:
    """Opens URLs. Whatever proxy the environment names is not on the way to a coordinator."""
    return build_opener(ProxyHandler({}), HTTPSHandler(context=context))


def tls_failure(address: str, error: object) -> str | None:
    """Why TLS did not come about, and what to do; None if the error is another one."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".").partition(", ")[0] or "it cannot be verified"
        return (
            f"the certificate of {address} is refused: {reason}; give its CA (ssl.truststore.location), and a host "
            "that it names"
        )
    if not isinstance(error, ssl.SSLError):
        return None
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return f"{address} does not speak TLS: give the address without https://"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"the TLS connection to {address} failed: {reason}; check the client certificate (ssl.keystore.location)"


class HttpError(Exception):
    """The server could not be asked. `name` is stable, for programs."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name

    @property
    def exit_code(self) -> int:
        """Of a command that ends with it."""
        return EXIT_CODES.get(self.name, exits.FAILED)


def exchange(opener: OpenerDirector, request: Request, within_s: float) -> tuple[int, bytes]:
    """The status of an answer, whichever that is, and its body.

    Raises OSError and HTTPException, also for a body that ends early.
    """
    try:
        answer = opener.open(request, timeout=within_s)
    except HTTPError as error:
        answer = error
    with answer:
        body = answer.read(ANSWER_BYTES_MAX)
        # The library raises this itself only where it is asked for all of the body.
        if getattr(answer, "length", None):
            raise IncompleteRead(body, answer.length)
        return int(answer.status), body


def fetch(peer: Peer, path: str) -> Any:
    """The JSON at a path of a server.

    Raises HttpError: ServerDown, TimedOut, NotTrusted, NotRota, or what the server itself names (NoSuchGroup, ...).
    """
    where, token = f"{peer.base}{path}", peer.token
    if token is not None and not (token.isascii() and token.isprintable()):
        raise HttpError("Unauthorized", "the token has characters that are not printable ASCII")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        status, body = exchange(opener_of(peer.context), Request(where, headers=headers), WITHIN_SECONDS)
    except (URLError, HTTPException, OSError) as error:
        raise _unanswered(peer.address, error) from None
    told = _decoded(body, where)
    if status < REFUSED:
        return told
    if not _has(told, {"error": str, "message": str}):
        raise HttpError("NotRota", f"{where} answers {status}: is that a rota server's --http?")
    message = told["message"]
    if told["error"] == "Unauthorized":
        message = _unauthorized(peer)
    if told["error"] == "NeedsTls":
        message = f"{peer.address} has TLS: give https://{peer.address}"
    raise HttpError(told["error"], message)


GROUP = {"group_id": str, "members": list, "waiting": list, "rebalances": list, "why": dict}
ROW = {
    "group_id": str,
    "state": str,
    "why": str,
    "slack": list,
    "generation": int,
    "member_count": int,
    "waits": int,
    "in_state_ms": int,
}
"""What every answer about a group has, and every row of `/groups`."""


def group(peer: Peer, group_id: str) -> dict[str, Any]:
    """Everything about a group (`/groups/{id}`). Raises HttpError."""
    path = f"/groups/{quote(group_id, safe='')}"
    found = fetch(peer, path)
    if not (_has(found, GROUP) and _has(found["why"], {"sentence": str})):
        raise not_rota(peer, path)
    return dict(found)


def groups(peer: Peer) -> list[dict[str, Any]]:
    """All groups in a few figures, page by page. Raises HttpError."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = fetch(peer, f"/groups{after}")
        if not (_has(page, {"groups": list, "next": str | None}) and all(_has(row, ROW) for row in page["groups"])):
            raise not_rota(peer, "/groups")
        found += page["groups"]
        if page["next"] is None:
            return found
        after = f"?after={quote(page['next'], safe='')}"


def not_rota(peer: Peer, path: str) -> HttpError:
    """What answers is JSON, and nothing that a rota server says."""
    return HttpError("NotRota", f"{peer.base}{path} is no answer of rota: is that a rota server's --http?")


def _has(told: Any, fields: dict[str, Any]) -> bool:
    """Whether it is an object with these fields, each of its type."""
    return isinstance(told, dict) and all(
        name in told and isinstance(told[name], kind) for name, kind in fields.items()
    )


def _unauthorized(peer: Peer) -> str:
    """What to do where the server requires another token, or one at all."""
    if peer.token is None:
        variables = "--http-token or --control-token, or set ROTA_HTTP_TOKEN or ROTA_CONTROL_TOKEN"
        return f"{peer.address} requires a token: give {variables}"
    return f"{peer.address} refuses the token: give the one that `rota serve` was started with"


def is_timeout(error: Exception) -> bool:
    """Whether a request ended because no answer came in time; `urllib` hides that in some places."""
    return isinstance(getattr(error, "reason", error), TimeoutError)


def _unanswered(address: str, error: Exception) -> HttpError:
    """Why nothing came from an address, and what to do."""
    reason = error.reason if isinstance(error, URLError) else error
    failure = tls_failure(address, reason)
    if failure is not None:
        return HttpError("NotTrusted", failure)
    if is_timeout(error):
        return HttpError(
            "TimedOut",
            f"{address} did not answer within {WITHIN_SECONDS:g} s: the server hangs or is overloaded,"
            " or a firewall drops the packets",
        )
    if isinstance(reason, IncompleteRead):
        return HttpError("ServerDown", f"{address} ended the connection {CUT_SHORT}")
    if isinstance(reason, HTTPException | ConnectionResetError):
        return HttpError(
            "ServerDown",
            f"what listens at {address} does not answer HTTP: give the address of `rota serve --http`,"
            " or try again if that has all the connections that it takes",
        )
    said = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason) or type(reason).__name__
    return HttpError(
        "ServerDown", f"nothing answers at {address}: {said}; start a server with `rota serve --http {address}`"
    )


def _decoded(body: bytes, where: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise HttpError("NotRota", f"{where} does not answer in JSON: is that a rota server's --http?") from None
