"""Tokens of OAuth for tests: a throw-away issuer, and what clients send."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rota import _rota

__all__ = ["TokenIssuer"]

LIFETIME_S = 3_600
DEFAULT_USER = "client"
"""Whom the tokens of clients name that are not given a user."""


class TokenIssuer:
    """A throw-away issuer of tokens (JSON web tokens, ES256) for tests. Its keys exist in memory only.

    issuer    the claim `iss` of its tokens.
    audience  the claim `aud` of its tokens: a text or several.

    >>> issuer = rota.TokenIssuer()
    >>> server = rota.Server(sasl="OAUTHBEARER", tokens=issuer)
    >>> expired = issuer.token("ana", lifetime_s=-60)
    """

    def __init__(self, *, issuer: str | None = None, audience: str | list[str] | None = None) -> None:
        self._claims = {name: value for name, value in (("iss", issuer), ("aud", audience)) if value is not None}
        self._rotations = 0
        self._inner = _rota.TokenIssuer("key-0")
        self._former: list[str] = []
        self._files: list[Path] = []
        self._listeners: list[Callable[[str], None]] = []

    @property
    def jwks(self) -> str:
        """The public keys, a JSON web key set: what `sasl.oauthbearer.jwks.endpoint.url` must lead to."""
        return f'{{"keys": [{", ".join([self._inner.key, *self._former])}]}}\n'

    def write_jwks(self, path: str | os.PathLike[str]) -> str:
        """Write the public keys to a file, now and after every `rotate`. Return its `file:` URL.

        Raises ValueError if the path leads to a directory or a device.
        """
        # Here, because `import rota` does without it.
        from rota.exits import no_file

        file = Path(path).absolute()
        if wrong := no_file(file):
            raise ValueError(wrong)
        _replace(file, self.jwks)
        self._files.append(file)
        return file.as_uri()

    def token(
        self,
        user: str = DEFAULT_USER,
        *,
        lifetime_s: float = LIFETIME_S,
        claims: Mapping[str, Any] | None = None,
        now_s: float | None = None,
    ) -> str:
        """Return a token.

        user        the claim `sub`.
        lifetime_s  seconds until it expires; below 0: it has expired.
        claims      other claims, also in place of those that it would have; None leaves one out.
        now_s       the time at which it is issued, in seconds since 1970 (default: now).
        """
        now = time.time() if now_s is None else now_s
        expires = int(now + lifetime_s)
        all_claims: dict[str, Any] = {"sub": user, "iat": min(int(now), expires), "exp": expires}
        all_claims |= self._claims | dict(claims or {})
        return self._inner.sign(json.dumps({name: value for name, value in all_claims.items() if value is not None}))

    def rotate(self, *, keep_old: bool = False) -> None:
        """Sign with a new key from now on.

        keep_old  whether tokens of the keys before are still accepted.
        """
        self._former = [self._inner.key, *self._former] if keep_old else []
        self._rotations += 1
        self._inner.rotate(f"key-{self._rotations}")
        for file in self._files:
            _replace(file, self.jwks)
        for listener in self._listeners:
            listener(self.jwks)

    def on_rotation(self, listener: Callable[[str], None]) -> None:
        """Call this with the public keys after every `rotate`, as servers in memory want it."""
        self._listeners.append(listener)

    def __repr__(self) -> str:
        return "<rota.TokenIssuer>"


def _replace(file: Path, text: str) -> None:
    """Replace a file, so that no reader sees half of it. A link to it stays."""
    file = file.resolve()
    new = file.with_name(f".{file.name}.new")
    new.write_text(text, "utf-8")
    new.replace(file)


class Bearer(NamedTuple):
    """Where a client gets its tokens."""

    fetch: Callable[[], str]
    """Returns a token; called for every authentication."""
    file: Path | None = None
    """The file that it reads, for clients that read one by themselves."""

    def __repr__(self) -> str:
        return "Bearer(...)"

    @staticmethod
    def of_text(token: str) -> Bearer:
        """The same token again and again."""
        return Bearer(lambda: token)

    @staticmethod
    def of_file(path: Path) -> Bearer:
        """What is in a file, read for every authentication."""
        return Bearer(lambda: path.read_text("ascii").strip(), path)

    def librdkafka(self) -> Callable[[str], tuple[str, float]]:
        """A function for `oauth_cb` of confluent-kafka."""

        def oauth_cb(_config: str) -> tuple[str, float]:
            # librdkafka does not send a token that has expired, which is for the server to refuse.
            token = self.fetch()
            now = time.time()
            expires = expiry(token)
            return token, now + LIFETIME_S if expires is None or expires <= now else expires

        return oauth_cb

    def kafka_python(self) -> Any:
        """A token provider of kafka-python."""
        from kafka.net.sasl.oauth import AbstractTokenProvider

        fetch = self.fetch

        class Provider(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
            def token(self) -> str:
                return fetch()

        return Provider()

    def aiokafka(self) -> Any:
        """A token provider of aiokafka."""
        from aiokafka.abc import AbstractTokenProvider

        fetch = self.fetch

        class Provider(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
            async def token(self) -> str:
                return await asyncio.to_thread(fetch)

        return Provider()


def expiry(token: str) -> float | None:
    """When a token says that it expires, in seconds since 1970; None if it says nothing that can be read."""
    import base64

    try:
        claims = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None
