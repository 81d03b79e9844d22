"""What the client library takes of Kafka's properties files: `--command-config`, `--command-property`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rota.client_properties import (
    STORE_TYPES,
    TOKEN_URL,
    PropertyError,
    check_protocol,
    check_store,
    credentials,
    read_pairs,
    token_file,
)
from rota.groups.errors import misused, nearest

# Java's names of what the library names otherwise. The stores must be PEM: the library reads no Java keystores.
RENAMED = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "default.api.timeout.ms": "request_timeout_ms",
}
FILES = {"ssl.truststore.location", "ssl.keystore.location", "ssl.key.location"}
# Said in Java's files, and of no consequence here.
WITHOUT_EFFECT = {"ssl.protocol", "ssl.enabled.protocols", "key.deserializer", "value.deserializer", "group.id"}
WITHOUT_EFFECT |= {"metric.reporters"}
WITHOUT_EFFECT |= {"sasl.login.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"}
NUMBERS = {"receive_buffer_bytes", "send_buffer_bytes"}
"""Settings of the library that take a number, and have the default None."""
OBJECTS = {"api_version", "sasl_oauth_token_provider", "ssl_context"}
"""Settings of the library that take an object, and have the default None."""
BOOLEANS = {"true": True, "false": False}


def read_config(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """A properties file as settings of the client library, whose settings and defaults are `known`."""
    settings: dict[str, Any] = {}
    with _misused():
        for where, name, value in read_pairs(path):
            settings |= setting(where, name, value, known)
    return settings


@contextlib.contextmanager
def _misused() -> Iterator[None]:
    """The errors of properties as those of `rota groups`."""
    try:
        yield
    except PropertyError as error:
        raise misused(str(error)) from None


def setting(where: str, name: str, value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """One property, by Java's name or the library's own, as settings of the library."""
    if name == TOKEN_URL:
        from rota.tokens import Bearer

        with _misused():
            return {"sasl_oauth_token_provider": Bearer.of_file(token_file(where, value)).kafka_python()}
    if name == "sasl.jaas.config":
        if "OAuthBearerLoginModule" in value:
            return {}
        with _misused():
            user, password = credentials(where, value)
        return {"sasl_plain_username": user, "sasl_plain_password": password}
    if name == "ssl.endpoint.identification.algorithm":
        return {"ssl_check_hostname": bool(value)}
    with _misused():
        check_protocol(where, name.replace("_", "."), value)
        check_store(where, name, value)
    if name in FILES:
        _check_file(where, name, value)
    if name in WITHOUT_EFFECT or name in STORE_TYPES:
        return {}
    key = RENAMED.get(name, name.replace(".", "_"))
    if key in known and not _is_text(key, known[key]):
        raise misused(f"{where}: {name} is no text for the client library: leave it out")
    if key not in known:
        texts = [one.replace("_", ".") for one, default in known.items() if _is_text(one, default)]
        hint = nearest(name, [*RENAMED, "sasl.jaas.config", *texts])
        raise misused(f"{where}: the client library has no setting `{name}`{hint}")
    default = 0 if key in NUMBERS else known[key]
    return {key: _typed(where, name, default, value)}


def _is_text(key: str, default: Any) -> bool:
    """Whether a text can be the value of a setting of the library: not of one that takes an object of Python."""
    return key not in OBJECTS and not callable(default) and not isinstance(default, list | tuple | dict)


def _check_file(where: str, name: str, value: str) -> None:
    """Refuse a file that cannot be read: the client library would say that the broker does not answer."""
    try:
        Path(value).open("rb").close()
    except OSError as error:
        raise misused(f"{where}: {name} is `{value}`: {error.strerror}") from None


def _typed(where: str, name: str, default: Any, value: str) -> Any:
    if isinstance(default, bool):
        if value.lower() not in BOOLEANS:
            raise misused(f"{where}: {name} is `{value}`: give true or false")
        return BOOLEANS[value.lower()]
    if isinstance(default, int):
        if not re.fullmatch(r"-?[0-9]+", value):
            raise misused(f"{where}: {name} is `{value}`: give a whole number")
        return int(value)
    return value
