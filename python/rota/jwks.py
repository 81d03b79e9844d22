"""Keeps a server's keys of tokens as they are at `sasl.oauthbearer.jwks.endpoint.url`."""

from __future__ import annotations

import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import IO, Any

from rota import _rota

TIMEOUT_S = 10.0
"""How long a server of keys may be silent."""
BYTES_MAX = 1024 * 1024
EARLY_INTERVAL_S = 10.0
"""Minimum time between fetches that tokens with unknown keys cause: anyone can send such tokens."""
LOCAL = ("127.0.0.1", "localhost", "::1")


class FetchError(Exception):
    """The keys cannot be fetched; the message says why."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to addresses with TLS, or of this machine from this machine."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not _is_safe(newurl, is_local=_is_local(req.full_url)):
            raise FetchError(f"it redirects to `{newurl}`, which has no TLS: give the URL of the keys themselves")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_local(url: str) -> bool:
    return urllib.parse.urlsplit(url).hostname in LOCAL


def _is_safe(url: str, *, is_local: bool) -> bool:
    scheme = urllib.parse.urlsplit(url).scheme
    return scheme == "https" or (scheme == "http" and is_local and _is_local(url))


def fetched(url: str, ca: str | None = None) -> str:
    """The text at a URL.

    ca  a PEM file with the CAs of its server (default: those of the system).

    Raises FetchError.
    """
    if not _is_safe(url, is_local=True):
        raise FetchError("it has no TLS: use https://")
    try:
        context = ssl.create_default_context(cafile=ca)
        # No proxies for this machine, and no other schemes.
        handlers: list[urllib.request.BaseHandler] = [_Redirects(), urllib.request.HTTPSHandler(context=context)]
        if _is_local(url):
            handlers.append(urllib.request.ProxyHandler({}))
        with urllib.request.build_opener(*handlers).open(url, timeout=TIMEOUT_S) as answer:
            data = answer.read(BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise FetchError(f"it answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise FetchError(f"{error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise FetchError(str(error) or type(error).__name__) from None
    if len(data) > BYTES_MAX:
        raise FetchError("it has more than 1 MiB")
    try:
        return str(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise FetchError("it is not UTF-8 text") from None


class KeyFetcher:
    """The thread that fetches the keys of a server. It ends with the server.

    ca  a PEM file with the CAs of the URL's server (default: those of the system).
    """

    def __init__(self, server: _rota.Server, url: str, periods_ms: tuple[int, int, int], ca: str | None = None) -> None:
        self._server, self._url, self._ca = server, url, ca
        self._refresh_ms, self._backoff_ms, self._backoff_max_ms = periods_ms
        self._failures = 0
        self.fetch()
        self._thread = threading.Thread(target=self._run, name="rota-jwks", daemon=True)
        self._thread.start()

    def fetch(self) -> None:
        """Fetch the keys. A failure shows in the server's health, and what it had stays in use."""
        try:
            text = fetched(self._url, self._ca)
        except FetchError as error:
            self._failures += 1
            self._server.take_keys(None, str(error))
        else:
            self._failures = 0
            self._server.take_keys(text)

    def _pause_ms(self) -> int:
        """Until the next fetch, if no token needs one before."""
        if not self._failures:
            return self._refresh_ms
        # A large exponent is a large number.
        return min(self._backoff_ms << min(self._failures - 1, 32), self._backoff_max_ms)

    def _run(self) -> None:
        early_at = time.monotonic()
        while True:
            due = time.monotonic() + self._pause_ms() / 1_000
            while (left := due - time.monotonic()) > 0:
                is_wanted = self._server.wait_for_key_demand(max(1, min(int(left * 1_000), 3_600_000)))
                if is_wanted is None:
                    return
                if is_wanted:
                    # With the next fetch, if the last early one was just now.
                    due = min(due, max(early_at, time.monotonic()))
            early_at = time.monotonic() + EARLY_INTERVAL_S
            self.fetch()

    def join(self) -> None:
        """Wait for the end of the thread, which follows that of the server."""
        # At most one fetch is under way.
        self._thread.join(TIMEOUT_S)
