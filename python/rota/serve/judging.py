"""Whether `rota serve` would start, without starting it: no socket, no directory, no engine."""

from __future__ import annotations

from typing import Any

from rota.http.listener import Listener, opening
from rota.serve.start import Start, refusals
from rota.server import KEYS_URL, Server

AUTHORIZER = "authorizer.class.name"
NO_CLASS = "nothing is to be opened"
"""What no authorizer is called. The authorizer is what a server checks last before it opens its sockets."""
ELSEWHERE = ("listeners", "advertised.listeners", "inter.broker.listener.name", KEYS_URL)
"""Settings about other addresses. They are texts, which a server has as they are given."""


class Rehearsal(Server):
    """A server that opens no listener for HTTP."""

    @staticmethod
    def _opened(*given: Any) -> Listener | None:
        address, files, tokens, is_open = given
        opening(address, files=files, tokens=tokens, is_open=is_open)
        return None


def judge(start: Start) -> dict[str, str]:
    """End the command as `rota serve` would if it refused to start.

    Returns every setting by its Kafka name, as the server would run with it.
    """
    arguments = start.arguments()
    with refusals(start.told.blame):
        try:
            Rehearsal(**arguments | {"settings": arguments["settings"] | {AUTHORIZER: NO_CLASS}})
        except ValueError as error:
            if NO_CLASS not in str(error):
                raise
    settings = effective(start)
    start.control()
    return settings


def effective(start: Start) -> dict[str, str]:
    """Every setting by its Kafka name, as the server would run with it.

    A server on a free port of this machine says it, without other addresses, directories and engine; so what is judged
    here is the authorizer.
    """
    told, access = start.told, start.access
    settings = {name: value for name, value in told.written().items() if name not in ELSEWHERE}
    kept: dict[str, Any] = {name: access[name] for name in ("users", "sasl", "jwks_ca", "acls") if name in access}
    # Of the addresses that were judged already.
    kept["allow_plaintext_passwords"] = True
    kept["allow_unsecured_tokens"] = "OAUTHBEARER" in (access.get("sasl") or ())
    with refusals(told.blame), Server(settings=settings, tls=start.tls, **kept) as server:
        found = server.settings()
    return found | {name: value for name, value in told.written().items() if name in ELSEWHERE}
