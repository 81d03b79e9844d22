"""A port of this machine that leads to a broker, and that can refuse connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Forwarding:
    """Forwards TCP connections from a free port of this machine. `close` ends the port and its connections."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.accepted = 0

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self._port}"

    def serve(self, target: tuple[str, int]) -> None:
        """Forward new connections to `target`, from now on or after `refuse`."""
        if self._listener.fileno() == -1:
            self._listener = socket.create_server(("127.0.0.1", self._port))
        self._start(self._accept, self._listener, target)

    def refuse(self) -> None:
        """Refuse new connections. Those that there are last."""
        _end(self._listener)

    def close(self) -> None:
        for one in [self._listener, *self._sockets]:
            _end(one)
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self, listener: socket.socket, target: tuple[str, int]) -> None:
        # `refuse` and `close` end the loop with an OSError.
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._sockets.append(client)
                self.accepted += 1
                server = socket.create_connection(target)
                self._sockets.append(server)
                for source, sink in ((client, server), (server, client)):
                    self._start(_copy, source, sink)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
