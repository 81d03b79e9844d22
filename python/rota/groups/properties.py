"""Kafka's properties files, and what of them the client library takes: `--command-config`, `--command-property`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rota.exits import reason_of
from rota.groups.errors import misused, nearest

# Java's names of what the library names otherwise. The stores must be PEM: the library reads no Java keystores.
RENAMED = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "default.api.timeout.ms": "request_timeout_ms",
}
STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
# Said in Java's files, and of no consequence here.
WITHOUT_EFFECT = {"ssl.protocol", "ssl.enabled.protocols", "key.deserializer", "value.deserializer", "group.id"}
SEPARATOR = re.compile(r"(?<!\\)(?:\s*[=:]\s*|\s+)")
ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
JAAS = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
BOOLEANS = {"true": True, "false": False}


def pairs(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, name and value of each entry of a properties file, as Java's Properties reads it."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        entry = line.lstrip()
        if not entry or entry[0] in "#!":
            continue
        while re.search(r"(?<!\\)(?:\\\\)*\\$", entry):
            entry = entry[:-1] + next(lines, (0, ""))[1].lstrip()
        name, *rest = SEPARATOR.split(entry, maxsplit=1)
        yield number, _unescaped(name), _unescaped(rest[0] if rest else "")


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else ESCAPES.get(escaped, escaped)

    return ESCAPED.sub(plain, text)


def read_config(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """A properties file as settings of the client library, whose settings and defaults are `known`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise misused(f"--command-config {reason_of(error)}") from None
    settings: dict[str, Any] = {}
    for number, name, value in pairs(text):
        settings |= setting(f"{path}:{number}", name, value, known)
    return settings


def setting(where: str, name: str, value: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """One property, by Java's name or the library's own, as settings of the library."""
    if name == "sasl.jaas.config":
        return _credentials(where, value)
    if name == "ssl.endpoint.identification.algorithm":
        return {"ssl_check_hostname": bool(value)}
    if name in STORE_TYPES:
        if value.upper() != "PEM":
            raise misused(f"{where}: {name} is `{value}`: only PEM files can be read; keytool and openssl make one")
        return {}
    if name in WITHOUT_EFFECT:
        return {}
    key = RENAMED.get(name, name.replace(".", "_"))
    if key not in known:
        hint = nearest(name, [*RENAMED, "sasl.jaas.config", *(one.replace("_", ".") for one in known)])
        raise misused(f"{where}: the client library has no setting `{name}`{hint}")
    if name.endswith("store.location") and not value.lower().endswith((".pem", ".crt", ".cert", ".cer")):
        raise misused(f"{where}: `{value}` is no PEM file: the client library reads no Java keystores")
    return {key: _typed(where, name, known[key], value)}


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


def _credentials(where: str, value: str) -> dict[str, Any]:
    """Name and password of a JAAS line, `...PlainLoginModule required username="u" password="p";`."""
    found = {key: plain or quoted for key, quoted, plain in JAAS.findall(value)}
    if "username" not in found or "password" not in found:
        raise misused(f"{where}: sasl.jaas.config has no username and password")
    return {"sasl_plain_username": found["username"], "sasl_plain_password": found["password"]}
