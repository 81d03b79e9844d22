"""Connections of the kit: what was sent and what came is kept, every wait has an end, and a fault has a name."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.client_properties import ClientSecurity
from rota.codec import Api, Fields, MalformedError, apis, read_answer, write_request
from rota.sasl import AuthenticationError, authentication

Address = tuple[str, int]
FRAME_BYTES_MAX = 16 << 20
RECEIVED_BYTES = 65_536
#: how a TLS listener answers plaintext
TLS_ALERT = b"\x15\x03"
#: no wait is longer in one piece, so that an interrupted run ends
SLICE_S = 0.2


class WireError(Exception):
    """The broker did not do what every broker does with a request."""


class ClosedError(WireError):
    """It closed the connection, or does not take one."""


class SilentError(WireError):
    """It said nothing until the deadline."""


class GarbledError(WireError):
    """What it said is no answer to what was asked."""


@dataclass(frozen=True)
class Exchange:
    """One frame: whose connection, `sent` or `got`, the bytes behind the length, and what they mean."""

    connection: str
    direction: str
    frame: bytes
    meaning: str


@dataclass
class Limits:
    """Until when a row may wait, on the monotonic clock; `stopped` ends every wait now."""

    deadline: float
    answer_s: float
    stopped: threading.Event = field(default_factory=threading.Event)

    def left_s(self, until: float) -> float:
        """How long may be waited in one piece; raises SilentError once the row is out of time."""
        now = time.monotonic()
        if self.stopped.is_set():
            raise SilentError("the run was stopped")
        if now >= self.deadline:
            raise SilentError("the row is out of time")
        return max(0.0, min(until - now, self.deadline - now, SLICE_S))


Check = Callable[[str, Mapping[str, Any]], None]


class Connection:
    """One connection. Requests may be sent ahead; answers come in order.

    `check` is called with the name of the API and the fields before a request is sent.
    """

    def __init__(
        self,
        address: Address,
        client_id: str,
        limits: Limits,
        trail: deque[Exchange],
        check: Check = lambda _name, _values: None,
        security: ClientSecurity | None = None,
    ) -> None:
        self.client_id = client_id
        self.check = check
        self.limits = limits
        self.trail = trail
        try:
            self.socket = socket.create_connection(address, limits.answer_s)
        except OSError as error:
            raise ClosedError(f"no connection to {address[0]}:{address[1]}: {error.strerror or error}") from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.correlation_id = 0
        self.asked: deque[tuple[int, Api, int]] = deque()
        if security is not None:
            try:
                self._secure(security, address[0])
            except BaseException:
                self.socket.close()
                raise

    def _secure(self, security: ClientSecurity, host: str) -> None:
        """TLS and SASL, which the trail does not show: it would have passwords."""
        try:
            context = security.context()
            if context is not None:
                self.socket = context.wrap_socket(self.socket, server_hostname=host)
        except OSError as error:
            raise ClosedError(f"no TLS connection to {host}: {error.strerror or error}") from None
        if security.login is None:
            return
        frames = authentication(security.login, self.client_id)
        try:
            frame = next(frames)
            while True:
                self._send(struct.pack(">i", len(frame)) + frame)
                frame = frames.send(self.frame())
        except StopIteration:
            return
        except AuthenticationError as error:
            raise ClosedError(f"no authentication: {error}") from None

    def send(self, api: Api, version: int, values: Mapping[str, Any]) -> None:
        """Send a request; its answer is read by `poll` or `answer`."""
        self.check(api.name, values)
        self.correlation_id += 1
        frame = write_request(api, version, self.correlation_id, self.client_id, values)
        self.asked.append((self.correlation_id, api, version))
        self.send_frame(frame, f"{api.name} v{version} {dict(values)}")

    def send_frame(self, frame: bytes, meaning: str) -> None:
        """Send any bytes, with their length before them."""
        self.trail.append(Exchange(self.client_id, "sent", frame, meaning))
        self._send(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that are no frame."""
        self.trail.append(Exchange(self.client_id, "sent", data, "no frame"))
        self._send(data)

    def _send(self, data: bytes) -> None:
        try:
            self.socket.settimeout(self.limits.answer_s)
            self.socket.sendall(data)
        except OSError as error:
            raise ClosedError(f"the connection of {self.client_id} is closed: {error.strerror or error}") from None

    def receive(self) -> bytes | None:
        """Read what has come, once; a whole frame if there is one now."""
        try:
            data = self.socket.recv(RECEIVED_BYTES)
        except TimeoutError:
            raise
        except (BlockingIOError, ssl.SSLWantReadError):
            # TLS has messages of its own.
            return self._frame()
        except OSError as error:
            raise ClosedError(f"the connection of {self.client_id} broke: {error.strerror or error}") from None
        if not data:
            rest = f", {len(self.received)} bytes into an answer: {self.received[:64].hex()}" if self.received else ""
            raise ClosedError(f"the broker closed the connection of {self.client_id}{rest}")
        self.received += data
        return self._frame()

    def _frame(self) -> bytes | None:
        if len(self.received) < 4:
            return None
        (length,) = struct.unpack_from(">i", self.received)
        if not 4 <= length <= FRAME_BYTES_MAX:
            shown = bytes(self.received[:64])
            self.trail.append(Exchange(self.client_id, "got", shown, "no frame"))
            if shown.startswith(TLS_ALERT):
                raise GarbledError("the broker wants TLS: give --command-config FILE with security.protocol=SSL")
            raise GarbledError(f"no answer begins with a length of {length}: {shown[:16]!r}")
        if len(self.received) < 4 + length:
            return None
        frame = bytes(self.received[4 : 4 + length])
        del self.received[: 4 + length]
        return frame

    def read(self, frame: bytes) -> Fields:
        """The oldest request's answer; raises GarbledError if the frame is something else."""
        correlation_id, api, version = self.asked.popleft()
        try:
            found_id, fields = read_answer(api, version, frame)
        except (MalformedError, UnicodeDecodeError, struct.error) as error:
            self.trail.append(Exchange(self.client_id, "got", frame, f"not read: {error}"))
            raise GarbledError(f"the answer to {api.name} v{version} cannot be read: {error}") from None
        self.trail.append(Exchange(self.client_id, "got", frame, f"{api.name} v{version} {fields}"))
        if found_id != correlation_id:
            raise GarbledError(f"the answer to {api.name} has correlation id {found_id}, not {correlation_id}")
        return fields

    def frame(self, within_s: float | None = None) -> bytes:
        """Wait for a whole frame."""
        until = time.monotonic() + (self.limits.answer_s if within_s is None else within_s)
        found = self._frame()
        while found is None:
            left_s = self.limits.left_s(until)
            if left_s <= 0:
                raise SilentError(f"no answer to {self.client_id} within {within_s or self.limits.answer_s:g} s")
            self.socket.settimeout(left_s)
            with contextlib.suppress(TimeoutError):
                found = self.receive()
        return found

    def answer(self, within_s: float | None = None) -> Fields:
        """Wait for the oldest request's answer."""
        return self.read(self.frame(within_s))

    def ask(self, name: str, version: int, values: Mapping[str, Any], within_s: float | None = None) -> Fields:
        """Send and wait."""
        self.send(apis()[name], version, values)
        return self.answer(within_s)

    def close(self) -> None:
        """Hang up."""
        self.socket.close()
