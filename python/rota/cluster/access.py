"""How a command may use an engine, and a server the other ones: from options to what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.cluster import EngineAccess, PeerAccess
from rota.exits import complain, reason_of

if TYPE_CHECKING:
    from rota.config.sources import Resolved

ACCESS = ("engine_ca", "engine_cert", "engine_key", "engine_user", "engine_password_file")
"""The options beside --engine, by their names in a file."""

PEER_ACCESS = ("peer_ca", "peer_cert", "peer_key", "peer_user", "peer_password_file")
"""The options with which a server asks the other ones of its cluster."""

ATTEMPT_MS = 2_000
"""How long one member of the engine is asked before the next one."""

ENCRYPTED = "etcds://"
URLS = "etcd://HOST:PORT,.../PREFIX (etcds:// with TLS) or postgres://HOST:PORT,.../DATABASE"
SCHEMES = ("etcd", "etcds", "postgres", "postgresql")
POSTGRES = ("postgres://", "postgresql://")
"""Encrypted if there are CAs."""
# The option that each one needs, and what that is.
NEEDED = {
    "engine_cert": ("engine_ca", "the CAs of the engine's certificates"),
    "engine_key": ("engine_cert", "the certificate of the key"),
    "engine_user": ("engine_password_file", "a file with the password"),
    "engine_password_file": ("engine_user", "the user whose password it is"),
}
PEER_NEEDED = {
    "peer_key": ("peer_cert", "the certificate of the key"),
    "peer_user": ("peer_password_file", "a file with the password"),
    "peer_password_file": ("peer_user", "the user whose password it is"),
}


def check_needed(told: Resolved, table: dict[str, tuple[str, str]]) -> None:
    """Raises ValueError if an option lacks the one that it needs."""
    for name, (needed, what) in table.items():
        if told[name] is not None and told[needed] is None:
            flag = "--" + needed.replace("_", "-")
            raise ValueError(f"{told.called(name)} needs {flag}: give {what}, too")


def peer_access_of(told: Resolved) -> PeerAccess | None:
    """With what a server asks the other ones; None without options. Raises ValueError if one lacks another."""
    check_needed(told, PEER_NEEDED)
    given = {name.removeprefix("peer_"): told[name] for name in PEER_ACCESS if told[name] is not None}
    return PeerAccess(**given) if given else None


def access_of(told: Resolved) -> EngineAccess:
    """What the options allow. Raises ValueError if one of them is wrong or lacks another one."""
    url = told["engine"]
    check_scheme(told.called("engine"), url)
    check_needed(told, NEEDED)
    if url.startswith(ENCRYPTED) and told["engine_ca"] is None:
        raise ValueError(f"{told.called('engine')} is etcds://...: give --engine-ca, the CAs of the members of etcd")
    if told["engine_ca"] is not None and not url.startswith((ENCRYPTED, *POSTGRES)):
        raise ValueError(f"{told.called('engine_ca')} is for TLS: write {told.called('engine')} as etcds://...")
    if has_password(url) and told.options["engine"].source.startswith("flag"):
        complain("other users can read the password in --engine: give --engine-user and --engine-password-file")
    access = EngineAccess(**{name.removeprefix("engine_"): told[name] for name in ACCESS})
    try:
        access.arguments()
    except OSError as error:
        raise ValueError(f"{told.called('engine_password_file')} is {reason_of(error)}") from None
    except ValueError as error:
        raise ValueError(f"{told.called('engine_password_file')}: {error}") from None
    return access


def check_scheme(called: str, url: str) -> None:
    """Raises ValueError if the URL of an engine is of another kind. The rest of it may have a password."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        given = url if "@" not in url else "..."
        raise ValueError(f"{called} is `{given}`, which has no scheme: give {URLS}")
    if scheme not in SCHEMES:
        raise ValueError(f"{called} has the scheme `{scheme}`: give {URLS}")


def has_password(url: str) -> bool:
    """Whether a URL of an engine has one."""
    # Several members with IPv6 addresses are no URL for `urlsplit`.
    user, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    return bool(at) and ":" in user
