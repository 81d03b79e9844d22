"""The options of `rota serve` that a configuration file and the environment can have, too. One table.

Kafka's settings are not in it: the server has their names, ranges and defaults (`rota settings`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rota.arguments import INT32_MAX, INT64_MAX
from rota.cluster import TTL_MS, TTL_MS_MAX, TTL_MS_MIN
from rota.server import JOURNAL_RETENTION_BYTES, JOURNAL_RETENTION_MS

Value = str | int | bool | None


class UnfitError(ValueError):
    """A value that an option does not take; the message says what it takes."""


def text(value: Value) -> Value:
    """Anything that can be written."""
    if not isinstance(value, str) or not value:
        raise UnfitError("a text")
    return value


def address(value: Value) -> Value:
    """A text with an address, which is checked where it is used. In TOML a port alone would be a number."""
    if not isinstance(value, str) or not value:
        raise UnfitError("HOST:PORT in quotes")
    return value


def truth(value: Value) -> Value:
    """`true` or `false`."""
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise UnfitError("true or false")
    return found


def whole(low: int, high: int) -> Callable[[Value], Value]:
    """A whole number from the first to the second."""

    def check(value: Value) -> Value:
        try:
            found = int(str(value)) if not isinstance(value, bool) and str(value).isascii() else None
        except ValueError:
            found = None
        if found is None or not low <= found <= high:
            raise UnfitError(f"a whole number from {low} to {high}")
        return found

    return check


def one_of(*names: str) -> Callable[[Value], Value]:
    """One of these words."""

    def check(value: Value) -> Value:
        if value not in names:
            raise UnfitError(" or ".join(names))
        return value

    return check


class Option(NamedTuple):
    """One option. In a file it is called `name`, on the command line `--name` with hyphens, in the environment
    `ROTA_NAME`."""

    name: str
    default: Value
    fitting: Callable[[Value], Value]
    """Gives the value as the server takes it. Raises UnfitError."""
    is_secret: bool = False
    """Whether it is not shown."""

    @property
    def flag(self) -> str:
        """As it is called on the command line."""
        return "--" + self.name.replace("_", "-")


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("listen", "127.0.0.1:9092", address),
        Option("advertise", None, address),
        Option("nodes", 1, whole(1, 1_000)),
        Option("tls_cert", None, text),
        Option("tls_key", None, text),
        Option("tls_client_ca", None, text),
        Option("users", None, text),
        Option("sasl", None, text),
        Option("acls", None, text),
        Option("allow_plaintext_passwords", False, truth),
        Option("allow_unsecured_tokens", False, truth),
        Option("jwks_ca", None, text),
        Option("data", None, text),
        Option("durability", "fsync", one_of("fsync", "os")),
        Option("take_over", False, truth),
        Option("journal", False, truth),
        Option("journal_dir", None, text),
        Option("journal_retention_bytes", JOURNAL_RETENTION_BYTES, whole(1, INT64_MAX // 2)),
        Option("journal_retention_ms", JOURNAL_RETENTION_MS, whole(1, INT64_MAX // 2)),
        Option("engine", None, text, is_secret=True),
        Option("engine_ca", None, text),
        Option("engine_cert", None, text),
        Option("engine_key", None, text),
        Option("engine_user", None, text),
        Option("engine_password_file", None, text),
        Option("peer_ca", None, text),
        Option("peer_cert", None, text),
        Option("peer_key", None, text),
        Option("peer_user", None, text),
        Option("peer_password_file", None, text),
        Option("node_id", None, whole(0, INT32_MAX)),
        Option("ttl_ms", TTL_MS, whole(TTL_MS_MIN, TTL_MS_MAX)),
        Option("reads", "session", one_of("session", "fenced")),
        Option("http", None, address),
        Option("http_token", None, text, is_secret=True),
        Option("allow_anonymous_http", False, truth),
        Option("control", None, address),
        Option("control_token", None, text, is_secret=True),
        Option("virtual_clock", False, truth),
        Option("trace", False, truth),
        Option("log_format", None, one_of("text", "json")),
    )
}
