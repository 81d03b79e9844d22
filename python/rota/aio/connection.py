"""One connection to a broker: frames out, answers in, in order."""

from __future__ import annotations

import asyncio
import re
import ssl
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rota._rota import RotaError
from rota.client_properties import ClientSecurity, PropertyError
from rota.codec import Fields, MalformedError, apis, read_answer, write_request
from rota.sasl import AuthenticationError, authentication

FRAME_BYTES_MAX = 100 * 1024 * 1024
# An alert, with which a TLS listener answers plaintext, read as the length of a frame.
TLS_ALERT = 0x1503
# Not used though the table has them: from these versions on topics have ids, which a member does not know.
BEFORE_IDS = {"OffsetCommit": 9, "OffsetFetch": 9, "Metadata": 12}
# From this version on a heartbeat has a pattern.
PATTERN_VERSION = 1
UNSUPPORTED_VERSION = 35
# What the settings have to be changed for, here or at the broker.
REFUSALS = (AuthenticationError, PropertyError, ssl.SSLCertVerificationError)
# The TLS alerts with which a broker refuses a client, and what to do if that has no certificate. In TLS 1.2 a missing
# certificate is a failure of the handshake, as is that both have no cipher in common.
REFUSING_ALERTS = {
    re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|DECRYPT_ERROR)"): (
        ": give the client's certificate, ssl.keystore.location"
    ),
    re.compile("ALERT_HANDSHAKE_FAILURE"): ": if the broker wants a client's certificate, give ssl.keystore.location",
    re.compile("ALERT_(PROTOCOL_VERSION|INSUFFICIENT_SECURITY)"): "",
}


class BrokerError(RotaError):
    """The broker sent an invalid answer, or supports no usable version of a required API."""


@dataclass(frozen=True)
class Answered:
    """An answer with the id of its request, its API and its fields."""

    request: int
    api: str
    fields: Fields


def read_bootstrap(bootstrap: str) -> list[tuple[str, int]]:
    """Parse `HOST:PORT,HOST:PORT` into pairs. A `ValueError` names the invalid part."""
    if not isinstance(bootstrap, str):
        raise TypeError(f"the brokers are {bootstrap!r}: give HOST:PORT, several with commas between, as one str")
    found = []
    for part in (part.strip() for part in bootstrap.split(",")):
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise ValueError(f"{part!r} is no address of a broker: give HOST:PORT, several with commas between")
        found.append((host.strip("[]"), int(port)))
    return found


class Connection:
    """One connection to a broker. It sends requests, reports answers and reports its loss once: why, and whether the
    broker or its certificate is refused or this client is, as it would be again.

    TLS and SASL come first if `security` has them, then ApiVersions: every request goes out in the newest version that
    both know.
    """

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        on_answer: Callable[[Answered], None],
        on_lost: Callable[[str, bool], None],
        security: ClientSecurity | None = None,
    ) -> None:
        self.address = address
        self._security = security
        self._client_id = client_id
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._waiting: deque[tuple[int, str, Mapping[str, Any]]] = deque()
        self._sent: deque[tuple[int, int, str, int]] = deque()
        self._versions: dict[str, int] = {}
        self._correlation_id = 0
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    def send(self, request: int, api: str, fields: Mapping[str, Any]) -> None:
        """Send a request when the connection is established."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._waiting.append((request, api, fields))
        self._flush()

    def close(self) -> None:
        """Close the connection without reporting a loss."""
        if self._task is not None:
            self._task.cancel()
        if self._writer is None:
            return
        if self._security is not None and self._security.has_tls:
            # A close would wait for the broker's part of it, and the event loop may end before.
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def _run(self) -> None:
        try:
            context = None if self._security is None else self._security.context()
            reader, self._writer = await self._open(context)
            await self._authenticate(reader)
            await self._agree(reader)
            self._flush()
            while True:
                self._take(await self._frame(reader))
        except (OSError, EOFError, MalformedError, BrokerError, AuthenticationError, PropertyError) as error:
            reason = (error.reason if isinstance(error, ssl.SSLError) else None) or ""
            hint = next((hint for alert, hint in REFUSING_ALERTS.items() if alert.search(reason)), None)
            has_none = self._security is not None and self._security.certificate is None
            self._lose(f"{error}{hint if hint and has_none else ''}", hint is not None or isinstance(error, REFUSALS))
        except Exception as error:
            self._lose_unexpectedly(error)

    async def _open(self, context: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(*self.address, ssl=context)
        except ssl.SSLCertVerificationError:
            # It is a ValueError, too.
            raise
        except (ValueError, OverflowError) as error:
            # No name of a host, or no port: a broker may say that its coordinator is anywhere.
            raise BrokerError(f"this is no address: {error}") from error

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        if length >> 16 == TLS_ALERT:
            raise BrokerError("the broker wants TLS: give security with security.protocol=SSL")
        if not 4 <= length <= FRAME_BYTES_MAX:
            raise MalformedError(f"a frame of {length} bytes: 4 to {FRAME_BYTES_MAX} are possible")
        return await reader.readexactly(length)

    async def _authenticate(self, reader: asyncio.StreamReader) -> None:
        if self._security is None or self._security.login is None:
            return
        assert self._writer is not None
        frames = authentication(self._security.login, self._client_id)
        frame = next(frames)
        while True:
            self._writer.write(struct.pack(">i", len(frame)) + frame)
            try:
                frame = frames.send(await self._frame(reader))
            except StopIteration:
                return

    async def _agree(self, reader: asyncio.StreamReader) -> None:
        assert self._writer is not None
        api = apis()["ApiVersions"]
        # Version 0 is understood by every broker, and is enough.
        frame = write_request(api, 0, 0, self._client_id, {})
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        correlation_id, fields = read_answer(api, 0, await self._frame(reader))
        if correlation_id != 0 or fields["error_code"]:
            raise BrokerError(f"ApiVersions was answered with id {correlation_id}, error {fields['error_code']}")
        offered = {one["api_key"]: (one["min_version"], one["max_version"]) for one in fields["api_keys"]}
        for name, known in apis().items():
            first, last = offered.get(known.key, (0, -1))
            newest = min(last, known.last, BEFORE_IDS.get(name, known.last))
            if newest >= max(first, known.first):
                self._versions[name] = newest

    def _flush(self) -> None:
        if self._writer is None or not self._versions or self._writer.is_closing():
            return
        while self._waiting:
            request, name, fields = self._waiting.popleft()
            if name == "ConsumerGroupHeartbeat" and (lack := self._lacks(fields)) is not None:
                self._refuse(request, name, lack)
                continue
            if name not in self._versions:
                self.close()
                self._lose(f"the broker has no version of {name} that is known here", is_refused=False)
                return
            self._correlation_id += 1
            version = self._versions[name]
            self._sent.append((self._correlation_id, request, name, version))
            try:
                frame = write_request(apis()[name], version, self._correlation_id, self._client_id, fields)
            except Exception as error:
                self.close()
                self._lose_unexpectedly(error)
                return
            self._writer.write(struct.pack(">i", len(frame)) + frame)

    def _lacks(self, heartbeat: Mapping[str, Any]) -> str | None:
        """Why the broker cannot understand a heartbeat of the newer protocol; None if it can."""
        version = self._versions.get("ConsumerGroupHeartbeat")
        if version is None:
            return "it has no ConsumerGroupHeartbeat"
        if version < PATTERN_VERSION and heartbeat["subscribed_topic_regex"]:
            return f"its ConsumerGroupHeartbeat v{version} has no patterns"
        return None

    def _refuse(self, request: int, name: str, lack: str) -> None:
        """Answer a heartbeat in the broker's place."""
        fields = {
            "error_code": UNSUPPORTED_VERSION,
            "error_message": lack,
            "member_epoch": 0,
            "heartbeat_interval_ms": 0,
            "assignment": None,
        }
        asyncio.get_running_loop().call_soon(self._on_answer, Answered(request, name, fields))

    def _lose(self, why: str, is_refused: bool) -> None:
        if self._writer is not None:
            self._writer.close()
        self._on_lost(f"{self.address[0]}:{self.address[1]}: {why}", is_refused)

    def _lose_unexpectedly(self, error: Exception) -> None:
        """Lose the connection for an error of this program, which the event loop's handler gets, too."""
        message = f"the connection to {self.address[0]}:{self.address[1]} failed"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
        self._lose(f"{type(error).__name__}: {error}", is_refused=False)

    def _take(self, frame: bytes) -> None:
        if not self._sent:
            raise MalformedError("an answer without a request")
        expected, request, name, version = self._sent.popleft()
        correlation_id, fields = read_answer(apis()[name], version, frame)
        if correlation_id != expected:
            raise MalformedError(f"an answer with id {correlation_id}, {expected} was expected")
        self._on_answer(Answered(request, name, fields))
