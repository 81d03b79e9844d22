"""The arguments of `rota.Server`, checked before anything is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from rota import _rota
from rota._rota import RotaError
from rota.addresses import check_reachable
from rota.arguments import texts, whole
from rota.clock import VirtualClock
from rota.cluster import EngineAccess, PeerAccess

if TYPE_CHECKING:
    from rota.security import Access, Tls
    from rota.tokens import TokenIssuer

    Setting = str | int | bool

Given = ParamSpec("Given")

LISTEN = "127.0.0.1:0"

_PATH = (str, os.PathLike)
_FLAG = ((bool,), "give True or False")
_LIMIT = ((int, type(None)), "give a whole number, or None")
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "listen": ((str,), "give HOST:PORT"),
    "advertise": ((str, type(None)), "give HOST:PORT, or None"),
    "settings": ((Mapping, type(None)), "give a mapping of Kafka names to values"),
    "clock": ((VirtualClock, type(None)), "give a rota.VirtualClock"),
    "data": ((*_PATH, type(None)), "give the path of a directory, or None"),
    "take_over": _FLAG,
    "journal": ((bool, *_PATH), "give True, or the path of a directory"),
    "journal_retention_bytes": _LIMIT,
    "journal_retention_ms": _LIMIT,
    "http": ((str, type(None)), "give HOST:PORT, :PORT or https://HOST:PORT, or None"),
    "http_token": ((str, Sequence), "give a token, or a list of tokens"),
    "allow_anonymous_http": _FLAG,
    "sasl": ((str, Sequence, type(None)), "give a mechanism, or a list of mechanisms"),
    "users": ((Mapping, *_PATH, type(None)), "give passwords by user name, or the path of a users file"),
    "allow_plaintext_passwords": _FLAG,
    "acls": ((Iterable, os.PathLike, type(None)), "give a list of lines, or a pathlib.Path"),
    "allow_unsecured_tokens": _FLAG,
    "jwks_ca": ((*_PATH, type(None)), "give the path of a PEM file, or None"),
    "engine": ((_rota.MemoryEngine, str, type(None)), "give a rota.MemoryEngine, or the URL of an engine"),
    "node_id": ((int, type(None)), "give a whole number, or None"),
    "ttl_ms": ((int,), "give a whole number"),
    "engine_access": ((EngineAccess, type(None)), "give a rota.EngineAccess"),
    "peer_access": ((PeerAccess, type(None)), "give a rota.PeerAccess"),
}
"""The types of the arguments, and what an error says to give instead.

`trace`, `tls`, `tokens`, `durability` and `reads` are checked where they are used.
"""


ARGUMENTS_OF = {"tls": "tls", "peer": "peer_access", "engine": "engine_access", "set": "settings"}
"""Arguments that stand for several options of `rota serve`, by the first word of those."""


def naming_arguments(made: Callable[Given, None]) -> Callable[Given, None]:
    """Let errors that name options of `rota serve` also name the arguments of `rota.Server`, in a note: commands print
    none."""

    @wraps(made)
    def noting(*values: Given.args, **named: Given.kwargs) -> None:
        try:
            made(*values, **named)
        except (RotaError, ValueError, OSError) as error:
            for option in dict.fromkeys(re.findall(r"--[a-z][a-z-]*[a-z]", str(error))):
                name = option.removeprefix("--").replace("-", "_")
                argument = name if name in KINDS else ARGUMENTS_OF.get(name.partition("_")[0])
                if argument is not None:
                    error.add_note(f"In Python {option} is the argument `{argument}` of rota.Server.")
            raise

    return noting


def check_types(given: Mapping[str, Any]) -> None:
    """Raise TypeError for the first argument of a wrong type, with its name and value. Raise ValueError for an address
    to advertise that no client reaches."""
    # The server says how many nodes there can be.
    whole(given["nodes"], "nodes", 1, wanted="give 1 to 1000")
    for name, (kinds, wanted) in KINDS.items():
        value = given[name]
        # No text of `bytes` is meant for any of them, though `bytes` is a sequence.
        if not isinstance(value, kinds) or isinstance(value, bytes | bytearray):
            raise TypeError(f"{name} is {value!r}: {wanted}")
    if given["http_token"] and given["http"] is None:
        raise ValueError("http_token is given, and there is no HTTP address: give `http`, too")
    if not isinstance(given["http_token"], str) and not all(isinstance(token, str) for token in given["http_token"]):
        raise TypeError("http_token has a value in it that is no str: give a token, or a list of tokens")
    advertise = given["advertise"]
    try:
        check_reachable(advertise or "")
    except ValueError as error:
        raise ValueError(f"advertise is {advertise!r}: {error}") from None


def settings_as_texts(settings: Mapping[str, Setting] | None, listen: str) -> dict[str, str]:
    """Return the settings as texts. Raises TypeError for a name that is none."""
    texts(settings or (), "settings", "give a mapping of Kafka names to values")
    written = {name: _written(value) for name, value in (settings or {}).items()}
    if written.get("listeners") and listen != LISTEN:
        raise ValueError(f"listen is {listen!r}, and there is the setting `listeners`: give one of them")
    return written


def _written(value: Setting) -> str:
    """A setting as Kafka's own files write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def addresses_in(settings: Mapping[str, str]) -> list[str]:
    """HOST:PORT of every listener in these settings, for a throw-away certificate. The server checks them."""
    listed = ",".join(settings.get(name, "") for name in ("listeners", "advertised.listeners"))
    return [found for listener in listed.split(",") if (found := listener.partition("://")[2].strip())]


def data_arguments(
    data: str | os.PathLike[str] | None, durability: str, take_over: bool
) -> tuple[Path, bool, bool] | None:
    """What the compiled server gets of the data directory."""
    if durability not in ("fsync", "os"):
        raise ValueError(f'durability is {durability!r}: give "fsync" or "os"')
    if data is None:
        return None
    # pathlib takes an empty path for the working directory.
    if not os.fspath(data):
        raise ValueError(f"data is {data!r}: give the path of a directory, or None")
    return Path(data), durability == "fsync", take_over


def journal_arguments(
    journal: bool | str | os.PathLike[str], has_data: bool, *retention: int | None
) -> tuple[Path | None, int | None, int | None] | None:
    """What the compiled server gets of the journal: its directory (None for the data directory), and its limits."""
    for limit in retention:
        if limit is not None and not 0 < limit < 1 << 62:
            raise ValueError(f"a journal's retention is {limit}: give more than 0, or None")
    if journal is True and not has_data:
        raise ValueError("journal is True, and there is no data directory to write it in: give data, or a path")
    if journal is False:
        return None
    # pathlib takes an empty path for the working directory.
    if journal is not True and not os.fspath(journal):
        raise ValueError(f"journal is {journal!r}: give True, or the path of a directory")
    size_bytes, age_ms = retention
    return (None if journal is True else Path(journal), size_bytes, age_ms)


def acl_lines(acls: Iterable[str] | os.PathLike[str] | None) -> list[str] | None:
    """The lines of ACLs, or of a file of them."""
    if isinstance(acls, os.PathLike):
        return Path(acls).read_text("utf-8").splitlines()
    if isinstance(acls, str):
        raise TypeError(f"acls is {acls!r}: give a list of lines, or a pathlib.Path")
    return None if acls is None else texts(acls, "acls", "give a list of lines")


def access(
    tls: bool | Tls | None,
    sasl: str | Sequence[str] | None,
    users: Mapping[str, str] | str | os.PathLike[str] | None,
    tokens: tuple[TokenIssuer | None, str | os.PathLike[str] | None, bool],
    *addresses: str | None,
) -> Access:
    """Who may connect. Imported by those who want it, too."""
    from rota.security import Access, tls_of

    if tokens[0] is not None:
        from rota.tokens import TokenIssuer

        if not isinstance(tokens[0], TokenIssuer):
            raise TypeError(f"tokens is {tokens[0]!r}: give a rota.TokenIssuer")
    return Access(tls_of(tls, *addresses), sasl, users, *tokens)
