"""The control listener: the HTTP side of `rota.http`, with a token and with POST."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from rota.control.answering import Asked, answer, failed
from rota.control.subject import Controlled
from rota.control.table import BODY_BYTES_MAX
from rota.http.admission import CONTROL
from rota.http.listener import Handler, Listener, Opening, opening
from rota.http.routes import Answer, whole
from rota.server import Server

__all__ = ["Controlled", "serve", "serve_on"]


class ControlHandler(Handler, BaseHTTPRequestHandler):
    """One connection."""

    controlled: Controlled

    def _shown(self) -> Answer:
        return self._answered(b"")

    def do_POST(self) -> None:
        length = self._body_length()
        if isinstance(length, Answer):
            # What is left of the request is not read.
            self.close_connection = True
            self._answer(length)
            return
        self._answer(self._answered(self.rfile.read(length)))

    def answer_to_other(self) -> Answer:
        """See `Handler`."""
        return self._answered(b"")

    def _answered(self, body: bytes) -> Answer:
        if not self._is_admitted():
            return self.unauthorized()
        return answer(self.controlled, self.server.subject, Asked(self.command, self.path, body))

    def _body_length(self) -> int | Answer:
        """The bytes of a POST's body, or why it is refused before that is read."""
        if not self._is_for_us():
            return self.misdirected()
        origin = self.headers.get("Origin")
        if origin is not None and not _is_page_of(origin, self.headers.get("Host")):
            return failed(HTTPStatus.FORBIDDEN, "CrossOrigin", "pages of another origin control nothing here")
        if not self._is_admitted():
            return self.unauthorized()
        # Without both headers there is no body: RFC 9112, section 6.3.
        text, *others = self.headers.get_all("Content-Length", ["0"])
        if "Transfer-Encoding" in self.headers or others or not (text.isascii() and text.isdigit()):
            return failed(HTTPStatus.LENGTH_REQUIRED, "LengthRequired", "send one Content-Length, and no chunked body")
        length = whole(text, BODY_BYTES_MAX)
        if length is None:
            message = f"the body has {text.lstrip('0')[:20]} bytes: send {BODY_BYTES_MAX} at most"
            return failed(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "TooLarge", message)
        return length


def _is_page_of(origin: str, host: str | None) -> bool:
    """Whether a page of this origin was sent by this host."""
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def serve(server: Server, address: str = "127.0.0.1:0", token: str | None = None) -> Listener:
    """Let programs in any language control a server over HTTP (docs/any-language.md).

    address  HOST:PORT, or :PORT of this machine only; port 0 picks a free one. https://HOST:PORT has TLS, with the
             certificate of the server's listeners. `address` of the result has it.
    token    what requests have to carry as `Authorization: Bearer TOKEN`. Unless HOST is a loopback address, it is
             required, or https:// on a server that asks clients for certificates.

    It listens until `close()` of the result, which does not stop the server. Raises ValueError for an address that is
    none, or that needs a token or a certificate; OSError if it cannot be listened on.
    """
    tokens = () if token is None else (token,)
    return serve_on(server, opening(address, CONTROL, files=server._tls_files, tokens=tokens))


def serve_on(server: Server, shown: Opening) -> Listener:
    """The same on an address that was checked before there was a server. Raises OSError if it cannot be listened on."""
    listener = shown.open(type("ControlHandler", (ControlHandler,), {"controlled": Controlled(server)}))
    server._show_on(listener)
    return listener
