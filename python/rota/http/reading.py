"""What a client sends: the head of each request within a size and a time, whatever is in it."""

from __future__ import annotations

import io
import time
from http.client import HTTPException
from socket import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IDLE_SECONDS = 30.0
"""How long a connection may send nothing, and how long an answer may take."""

HEAD_SECONDS = 10.0
"""How long the head of a request may take after its first byte."""

HEADERS_BYTES_MAX = 64 << 10
"""Bytes of all headers of a request. Its first line has a limit of its own, which is as high."""


class Incoming(io.RawIOBase):
    """The bytes of a connection."""

    def __init__(self, connection: socket) -> None:
        super().__init__()
        self._connection = connection
        self._ends: float | None = None
        self.in_head = False
        """Whether what comes is the head of a request, which has to be here in time."""

    def begin(self) -> None:
        """What comes next is a head."""
        self.in_head, self._ends = True, None

    def readable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """See `io.RawIOBase`. Raises TimeoutError."""
        left = IDLE_SECONDS
        if self.in_head and self._ends is not None:
            left = min(left, self._ends - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"the head of a request takes longer than {HEAD_SECONDS:g} s")
        self._connection.settimeout(left)
        try:
            count = self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(IDLE_SECONDS)
        if self.in_head and self._ends is None:
            self._ends = time.monotonic() + HEAD_SECONDS
        return count


class Requests(io.BufferedReader):
    """The requests of a connection, as `http.server` reads them: the head by lines, and the body of a known length."""

    def __init__(self, connection: socket) -> None:
        self._incoming = Incoming(connection)
        super().__init__(self._incoming)
        self._lines_bytes = 0

    def begin(self) -> None:
        """What comes next is the first line of a request."""
        self._incoming.begin()
        self._lines_bytes = -1

    def end_head(self) -> None:
        """What comes next is a body, if anything."""
        self._incoming.in_head = False

    def readline(self, size: int | None = -1, /) -> bytes:
        """See `io.IOBase`. Raises HTTPException when the headers are too large, TimeoutError when they are too slow."""
        line = super().readline(size)
        is_first = self._lines_bytes < 0
        self._lines_bytes = 0 if is_first else self._lines_bytes + len(line)
        if self._lines_bytes > HEADERS_BYTES_MAX:
            raise HTTPException(f"more than {HEADERS_BYTES_MAX} bytes")
        return line
