"""The HTTP side of a server: the standard library's, with limits and headers that keep a browser from harm."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import rota
from rota.addresses import joined
from rota.exits import complain
from rota.http import routes
from rota.http.admission import CONTROL, HTTP, Admission, Shown, check_token
from rota.http.reading import IDLE_SECONDS, Requests
from rota.http.tls import HANDSHAKE_SECONDS, TLS_RECORD, Certificate, Files

CONNECTIONS_MAX = 64
"""Connections that are served at a time; more are refused."""

ACCEPT_PAUSE_SECONDS = 0.05
"""How long to wait where no connection can be accepted, because the process has as many files as it may have."""

HEADERS = {
    "Cache-Control": "no-store",
    # Nothing but our own files, whatever the name of a group looks like.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: Serving
    rfile: Requests

    def setup(self) -> None:
        """See `socketserver.StreamRequestHandler`."""
        super().setup()
        self.rfile.close()
        self.rfile = Requests(self.connection)

    def handle_one_request(self) -> None:
        """See `BaseHTTPRequestHandler`."""
        self.rfile.begin()
        super().handle_one_request()

    def parse_request(self) -> bool:
        """See `BaseHTTPRequestHandler`."""
        is_request = super().parse_request()
        self.rfile.end_head()
        return is_request

    def do_GET(self) -> None:
        if "Transfer-Encoding" in self.headers or self.headers.get_all("Content-Length", ["0"]) != ["0"]:
            # A body is not read, and is no request.
            self.close_connection = True
        self._answer(self._shown() if self._is_for_us() else self.misdirected())

    def do_HEAD(self) -> None:
        self.do_GET()

    def _shown(self) -> routes.Answer:
        subject = self.server.subject
        if self._is_admitted():
            return routes.answer(subject, self.path)
        # It keeps no place that others need.
        self.close_connection = True
        return routes.answer_to_stranger(subject, self.path) or self.unauthorized()

    def answer_to_other(self) -> routes.Answer:
        """The answer to a method without a `do_METHOD`."""
        return routes.answer_to_other(self.command, self.path) if self._is_admitted() else self.unauthorized()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer in JSON what the standard library refuses: an unknown method, or a request that is not HTTP."""
        del explain
        # What is left of the request is not read.
        self.close_connection = True
        # A first line that cannot be read says no version, and HTTP/0.9 has no status.
        self.request_version = self.protocol_version
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._answer(self.answer_to_other() if self._is_for_us() else self.misdirected())
            return
        status = HTTPStatus(code)
        self._answer(routes.as_json({"error": "BadRequest", "message": message or status.phrase}, status))

    def _is_for_us(self) -> bool:
        """Who listens on this machine only is asked by names of this machine only: a page from elsewhere that has its
        own name resolve to 127.0.0.1 learns nothing."""
        return not self.server.is_local or _is_local(self.headers.get("Host", "localhost"))

    def _is_admitted(self) -> bool:
        """Whether the client has what `--http` or `--control` asks for: a token, or a certificate."""
        certificate = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        return self.server.admission.admits(self.headers.get("Authorization", ""), has_certificate=bool(certificate))

    def unauthorized(self) -> routes.Answer:
        """The answer to a client that is not admitted, whose connection is closed."""
        self.close_connection = True
        admission = self.server.admission
        refused = routes.as_json({"error": "Unauthorized", "message": admission.remedy()}, HTTPStatus.UNAUTHORIZED)
        scheme = "Basic" if admission.takes_passwords and admission.tokens else "Bearer"
        return refused._replace(headers=(("WWW-Authenticate", f'{scheme} realm="rota"'),))

    @staticmethod
    def misdirected() -> routes.Answer:
        """The answer to a request that names another host."""
        return MISDIRECTED

    def _answer(self, answer: routes.Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in (*HEADERS.items(), *answer.headers):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        """What `Server:` says."""
        return f"rota/{rota.__version__}"

    def log_message(self, *_: object) -> None:
        """Requests are not logged: probes and scrapes would be all there is."""


MISDIRECTED = routes.as_json(
    {"error": "WrongHost", "message": "this server listens on this machine only: ask for localhost or an address"},
    HTTPStatus.MISDIRECTED_REQUEST,
)


def _prepared(status: HTTPStatus, error: str, message: str) -> bytes:
    """An answer that is sent without looking at the request."""
    body = routes.as_json({"error": error, "message": message}).body
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {routes.JSON}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


PLAIN_HTTP = _prepared(HTTPStatus.BAD_REQUEST, "NeedsTls", "this address has TLS: ask for https://")
"""The answer to a client that speaks HTTP without TLS."""

BUSY = _prepared(
    HTTPStatus.SERVICE_UNAVAILABLE, "Busy", f"{CONNECTIONS_MAX} connections are open: close one, or try again"
)
"""The answer to one connection too many."""


def _is_local(host: str) -> bool:
    """Whether a Host header is an address, or `localhost`."""
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Place(NamedTuple):
    """Where to listen."""

    family: socket.AddressFamily
    host: str
    """An address: a name was looked up."""
    port: int

    @staticmethod
    def of(host: str, port: int) -> Place:
        """Look a host up. Raises OSError for an unknown one."""
        family, _, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return Place(family, str(found[0]), int(found[1]))

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback


class Serving(ThreadingHTTPServer):
    """The socket and its threads."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self, place: Place, handler: type[Handler], admission: Admission, certificate: Certificate | None
    ) -> None:
        self.admission, self.certificate = admission, certificate
        self.address_family, self.is_local = place.family, place.is_local
        self.subject = routes.Subject()
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._open: set[socket.socket] = set()
        super().__init__((place.host, place.port), handler)

    def server_bind(self) -> None:
        """As any TCP server: a name for the host is not looked up."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def verify_request(self, _request: Any, _address: Any) -> bool:
        """Whether there is room for one more connection."""
        if self._places.acquire(blocking=False):
            return True
        if self.certificate is None:
            with suppress(OSError):
                _request.settimeout(0)
                _request.sendall(BUSY)
        return False

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        try:
            return super().get_request()
        except OSError:
            threading.Event().wait(ACCEPT_PAUSE_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin its thread."""
        try:
            super().process_request(request, client_address)
        except RuntimeError as error:
            # The system has no thread left. What is open goes on.
            self._places.release()
            self.shutdown_request(request)
            complain(f"an HTTP connection is closed: {error}")

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """A thread of its own for each connection, and its place back when it ends."""
        try:
            secured = request if self.certificate is None else self._secured(request, self.certificate)
            if secured is None:
                self.shutdown_request(request)
                return
            self._open.add(secured)
            try:
                if self.certificate is not None:
                    secured.settimeout(HANDSHAKE_SECONDS)
                    secured.do_handshake()
                super().process_request_thread(secured, client_address)
            except OSError:
                # A handshake that failed, or took too long.
                self.shutdown_request(secured)
            finally:
                self._open.discard(secured)
        finally:
            self._places.release()

    def _secured(self, request: socket.socket, certificate: Certificate) -> ssl.SSLSocket | None:
        """The connection with TLS, before its handshake; None for a client that speaks something else."""
        request.settimeout(HANDSHAKE_SECONDS)
        try:
            first = request.recv(1, socket.MSG_PEEK)
            if first == TLS_RECORD:
                return certificate.context().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            if first:
                # What was sent is read, since a connection that is closed before loses its answer.
                request.recv(65_536)
                request.sendall(PLAIN_HTTP)
        except OSError:
            pass
        return None

    def end_connections(self) -> None:
        """Close what is open: a browser that keeps its connection would go on asking."""
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, _request: Any, _address: Any) -> None:
        """A client that went away in the midst is no news; anything else is a bug, and is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(_request, _address)


class Listener:
    """Answers HTTP at an address until it is closed."""

    def __init__(
        self,
        place: Place,
        handler: type[Handler] = Handler,
        admission: Admission = Admission(),  # noqa: B008 - it cannot change
        certificate: Certificate | None = None,
    ) -> None:
        self._serving, self._process_id = Serving(place, handler, admission, certificate), os.getpid()
        self._thread = threading.Thread(target=self._serving.serve_forever, args=(0.1,), name="rota-http", daemon=True)
        self._thread.start()

    @property
    def subject(self) -> routes.Subject:
        """What it shows."""
        return self._serving.subject

    @property
    def is_local(self) -> bool:
        """Whether it listens on a loopback address."""
        return self._serving.is_local

    @property
    def certificate(self) -> Certificate | None:
        """Its certificate; None without TLS."""
        return self._serving.certificate

    @property
    def sends_secrets(self) -> bool:
        """Whether other machines send it tokens without encryption."""
        return not self.is_local and self.certificate is None and not self._serving.admission.is_open

    @property
    def address(self) -> str:
        """HOST:PORT on which it listens; with TLS https://HOST:PORT."""
        host, port = self._serving.server_name, self._serving.server_port
        address = joined(host, port)
        return address if self.certificate is None else f"{HTTPS}{address}"

    def close(self) -> None:
        """Listen no more, and close what is open. A second call does nothing, and so does one in a forked process."""
        if os.getpid() != self._process_id:
            return
        self._serving.shutdown()
        self._serving.server_close()
        self._serving.end_connections()
        self._thread.join()

    def close_soon(self) -> None:
        """Close on a thread of its own. Of any thread, also of the one that accepts connections."""
        if not self._thread.is_alive():
            return
        # At the end of the interpreter there are no new threads, and its own ends.
        with suppress(RuntimeError):
            threading.Thread(target=self.close, name="rota-http-close", daemon=True).start()


class ListenError(OSError):
    """An address that cannot be listened on; its text is for people, without the number."""

    def __str__(self) -> str:
        return str(self.strerror)


HTTPS = "https://"

BINDING = {
    errno.EADDRINUSE: "give another port, or 0 for a free one, or stop the program that has it",
    errno.EACCES: "give a port above 1023, or 0 for a free one",
    errno.EADDRNOTAVAIL: "give an address of this machine",
    socket.EAI_NONAME: "give an address of this machine",
}
"""What to do about an address that cannot be listened on, by the error of the system or of the resolver."""

REMEDIES = {
    HTTP: "an HTTP token (--http-token), or let everyone read it (--allow-anonymous-http)",
    CONTROL: "a control token, or listen on 127.0.0.1",
}
"""What to do about an address that others reach, by what is served there."""


class Opening(NamedTuple):
    """A listener that is not open yet: its address, its certificate and its tokens can be used."""

    text: str
    """The address as it was given."""
    what: Shown
    place: Place
    admission: Admission
    certificate: Certificate | None

    def open(self, handler: type[Handler] = Handler) -> Listener:
        """Listen. Raises OSError if that fails."""
        try:
            return Listener(self.place, handler, self.admission, self.certificate)
        except OSError as error:
            raise _failed(self.text, self.what, error) from None


def _failed(text: str, what: Shown, error: OSError) -> ListenError:
    """The error about an address that cannot be listened on."""
    reason, remedy = error.strerror or str(error), BINDING.get(error.errno or 0)
    return ListenError(error.errno, f"cannot serve {what} on {text}: {reason}" + (f"; {remedy}" if remedy else ""))


def opening(
    text: str,
    what: Shown = HTTP,
    *,
    files: Files | None = None,
    tokens: str | Sequence[str] = (),
    is_open: bool = False,
) -> Opening:
    """What `listen` would open, with the same arguments and errors."""
    tokens = (tokens,) if isinstance(tokens, str) else tuple(tokens)
    has_tls = text.startswith(HTTPS)
    host, colon, port = text.removeprefix(HTTPS).removeprefix("http://").rpartition(":")
    if not colon or routes.whole(port, 65_535) is None:
        raise ValueError(f"the {what} address is `{text}`: give HOST:PORT or :PORT, such as 127.0.0.1:9644")
    for token in tokens:
        check_token(token, what)
    if has_tls and files is None:
        raise ValueError(f"the {what} address is `{text}`, which needs a certificate: give --tls-cert")
    certificate = Certificate(files) if has_tls and files is not None else None
    takes_certificates = certificate is not None and certificate.asks_clients
    admission = Admission(tokens, takes_certificates, takes_passwords=what == HTTP)
    bare = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    try:
        place = Place.of(bare, int(port))
    except OSError as error:
        raise _failed(text, what, error) from None
    if admission.is_open and not is_open and not place.is_local:
        raise ValueError(f"{text} can be reached from other machines: give {REMEDIES[what]}")
    return Opening(text, what, place, admission, certificate)


def listen(
    text: str,
    handler: type[Handler] = Handler,
    what: Shown = HTTP,
    *,
    files: Files | None = None,
    tokens: str | Sequence[str] = (),
    is_open: bool = False,
) -> Listener:
    """A listener on HOST:PORT, or on :PORT of this machine only; on https://HOST:PORT with TLS.

    what     what is served there.
    files    the certificate for https://; with CAs of clients, their certificates are enough instead of a token.
    tokens   each of them is enough. Without one, and without CAs of clients, everyone is admitted.
    is_open  whether everyone may be admitted on an address that other machines reach.

    Raises ValueError if that is no address, needs a certificate or lets in everyone; OSError if it cannot be listened
    on.
    """
    return opening(text, what, files=files, tokens=tokens, is_open=is_open).open(handler)
