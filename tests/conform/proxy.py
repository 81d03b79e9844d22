"""A broker with a fault: a rota server behind a proxy that spoils what it says."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Bytes instead of an answer with its length; None closes the connection, and so does whatever is not a whole frame.
Spoil = Callable[[bytes], bytes | None]
HANG = b""


def whole(frame: bytes) -> bytes:
    """A frame with its length."""
    return struct.pack(">i", len(frame)) + frame


class Proxy:
    """Spoils the answers to one API, or all."""

    def __init__(self, upstream: tuple[str, int], spoil: Spoil, api_key: int | None) -> None:
        self.upstream = upstream
        self.spoil = spoil
        self.api_key = api_key
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.upstream)
                self.sockets += [client, server]
                asked: deque[int] = deque()
                threading.Thread(target=self._requests, args=(client, server, asked), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server, asked), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, asked: deque[int]) -> None:
        with contextlib.suppress(OSError):
            for frame in frames(client):
                asked.append(struct.unpack_from(">h", frame)[0] if len(frame) >= 2 else -1)
                server.sendall(whole(frame))
            server.shutdown(socket.SHUT_RDWR)

    def _answers(self, client: socket.socket, server: socket.socket, asked: deque[int]) -> None:
        with contextlib.suppress(OSError):
            for frame in frames(server):
                spoiled: bytes | None = whole(frame)
                if self.api_key in (None, asked.popleft()):
                    spoiled = self.spoil(frame)
                if spoiled is None:
                    break
                client.sendall(spoiled)
                if spoiled and len(spoiled) < len(frame) + 4:
                    break
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up on everybody."""
        for each in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def frames(source: socket.socket) -> Iterator[bytes]:
    """Whole frames, until the end."""
    with source.makefile("rb") as stream:
        while len(head := stream.read(4)) == 4:
            yield stream.read(max(0, struct.unpack(">i", head)[0]))


@contextmanager
def spoiled(upstream: tuple[str, int], spoil: Spoil, api_key: int | None = None) -> Iterator[tuple[str, int]]:
    """The address of a proxy."""
    proxy = Proxy(upstream, spoil, api_key)
    try:
        yield proxy.address
    finally:
        proxy.close()


@contextmanager
def saying(data: bytes) -> Iterator[tuple[str, int]]:
    """Something that is no broker: it answers anything with these bytes and closes; with b"" it sends nothing and
    waits."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                held.append(client)
                client.recv(65_536)
                if data:
                    client.sendall(data)
                    client.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()
    finally:
        for each in [listener, *held]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
