"""The certificate of `--http` and `--control`: that of the listeners, read again when they read it again."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from rota import _rota
from rota.security import ClientAuth, Tls, is_pem

HANDSHAKE_SECONDS = 10.0
"""From the connection to the end of its handshake."""

TLS_RECORD = b"\x16"
"""The first byte of a client that speaks TLS."""


class Files(NamedTuple):
    """Where certificate, key and CAs of clients are: PEM, each a path or the text."""

    chain: str
    key: str
    client_ca: str | None
    client_auth: ClientAuth

    @staticmethod
    def of(tls: Tls | None, settings: Mapping[str, str]) -> Files | None:
        """Those of a server, from its argument `tls` or its settings with Kafka's names; None if it has none."""
        if tls is not None:
            return Files(tls.cert, tls.key, tls.client_ca, tls.client_auth)
        store = settings.get("ssl.keystore.location", "")
        chain, key = (settings.get(f"ssl.keystore.{name}", "") or store for name in ("certificate.chain", "key"))
        if not chain or not key:
            return None
        ca = settings.get("ssl.truststore.location", "") or settings.get("ssl.truststore.certificates", "") or None
        named = settings.get("ssl.client.auth", "none").lower()
        client_auth: ClientAuth = "required" if named == "required" else "requested" if named == "requested" else "none"
        return Files(chain, key, ca, client_auth)

    @property
    def asks_clients(self) -> bool:
        """Whether clients are asked for certificates."""
        return self.client_ca is not None and self.client_auth != "none"

    def context(self) -> ssl.SSLContext:
        """The configuration of new connections. Raises ValueError for a wrong file."""
        _rota.check_tls(self.chain, self.key, self.client_ca, self.client_auth)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            with contextlib.ExitStack() as texts:
                # Encrypted keys were refused above; without a password a terminal would be asked for it.
                context.load_cert_chain(_path(self.chain, texts), _path(self.key, texts), "")
                if self.asks_clients and self.client_ca is not None:
                    context.load_verify_locations(_path(self.client_ca, texts))
                    # A client without one may have a token, and gets an answer that says so.
                    context.verify_mode = ssl.CERT_OPTIONAL
        except OSError as error:
            raise ValueError(f"OpenSSL refuses the certificate of the HTTP listener: {error.strerror}") from None
        return context


def _path(source: str, texts: contextlib.ExitStack) -> str:
    """The path of a file, which for a text exists until the end, for this user only: OpenSSL reads files."""
    if not is_pem(source):
        return source
    path = Path(texts.enter_context(tempfile.TemporaryDirectory(prefix="rota-")), "pem")
    path.write_text(source, encoding="ascii")
    return os.fspath(path)


class Certificate:
    """The certificate of an HTTP listener while it runs. Raises ValueError for a wrong file."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._context = files.context()
        self._reads: Callable[[], int] = lambda: 0
        self._found: Callable[[], Files | None] = lambda: files
        self._seen = 0
        self._lock = threading.Lock()
        self.error: str | None = None
        """Why the files could not be read again, though the listeners could."""

    @property
    def asks_clients(self) -> bool:
        """Whether clients are asked for certificates."""
        return self._files.asks_clients

    def follow(self, reads: Callable[[], int], found: Callable[[], Files | None]) -> None:
        """Read the files again whenever `reads` has counted another time: how often the listeners have. `found` tells
        which files they are then."""
        self._reads, self._found = reads, found

    def context(self) -> ssl.SSLContext:
        """The configuration of a new connection."""
        reads = self._reads()
        with self._lock:
            if reads != self._seen:
                self._seen = reads
                try:
                    self._context, self.error = (self._found() or self._files).context(), None
                except ValueError as error:
                    self.error = f"the certificate from before is still used for HTTP: {error}"
            return self._context
