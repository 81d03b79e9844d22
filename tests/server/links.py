"""TCP connections on loopback that can be slow, held back, lossy or cut, without rights of root.

netem is not in every kernel, and routes need namespaces. A link listens on a port and passes what comes on to another
one.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Self, TypeVar

from harness.brokers import free_port

CHUNK_BYTES = 64 << 10
SLOW_S = 0.15
"""How long a slow link keeps each piece."""
LINGER_S = 2.0
"""A connection to the other side ends so late: it may still work on what was held back."""

T = TypeVar("T")


class Mode(Enum):
    """What becomes of the bytes of one direction."""

    PASS = auto()
    SLOW = auto()
    HOLD = auto()
    """They arrive later."""
    DROP = auto()
    """They never do. Connections that lost some are closed when the mode changes."""


@dataclass
class Direction:
    """One direction of a link."""

    mode: Mode = Mode.PASS
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    passed: int = 0
    """Pieces that arrived."""
    held: int = 0
    """Pieces that are held back at present."""

    def set(self, mode: Mode) -> None:
        self.mode = mode
        self.changed.set()
        self.changed = asyncio.Event()

    async def takes(self) -> bool:
        """Waits as long as the mode says. Whether the piece arrives."""
        if self.mode is Mode.SLOW:
            await asyncio.sleep(SLOW_S)
        self.held += 1
        while self.mode is Mode.HOLD:
            await self.changed.wait()
        self.held -= 1
        return self.mode is not Mode.DROP


class Link:
    """From a server to a member of an engine."""

    def __init__(self, member: tuple[str, int]) -> None:
        self.port, self._member = free_port(), member
        self.there, self.back = Direction(), Direction()
        self._open: set[asyncio.StreamWriter] = set()
        self._lossy: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def close(self) -> None:
        self._server.close()
        self._abort(self._open)

    async def change(self, there: Mode, back: Mode) -> None:
        self.there.set(there)
        self.back.set(back)
        lossy, self._lossy = self._lossy, set()
        self._abort(lossy)

    async def reset(self) -> None:
        """Every connection ends."""
        self._abort(self._open)

    def _abort(self, writers: set[asyncio.StreamWriter]) -> None:
        for writer in list(writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            there_reader, there = await asyncio.open_connection(*self._member)
        except OSError:
            self._end(writer)
            return
        self._open.add(there)
        back = asyncio.ensure_future(self._pump(self.back, there_reader, writer, there))
        await self._pump(self.there, reader, there, writer)
        await asyncio.wait([back], timeout=LINGER_S)
        self._end(there)
        await back

    async def _pump(
        self, way: Direction, reader: asyncio.StreamReader, to: asyncio.StreamWriter, other: asyncio.StreamWriter
    ) -> None:
        """Passes on what comes, until the connection ends. The server hears of it at once, the member later."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                if not await way.takes():
                    self._lossy |= {to, other}
                    continue
                to.write(data)
                await to.drain()
                way.passed += 1
        except OSError:
            self._end(other)
        if way is self.back:
            self._end(to)

    def _end(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        self._open.discard(writer)
        self._lossy.discard(writer)


class Links:
    """All links, carried by a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._of: dict[str, list[Link]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _carry(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_over())

    async def _until_over(self) -> None:
        await self._over.wait()
        for link in itertools.chain.from_iterable(self._of.values()):
            await link.close()

    def add(self, server: str, member: tuple[str, int]) -> tuple[str, int]:
        """A link of a server to a member. Returns the address that the server uses."""
        link = Link(member)
        self._run(link.listen())
        self._of.setdefault(server, []).append(link)
        return "127.0.0.1", link.port

    def set(self, server: str, there: Mode = Mode.PASS, back: Mode = Mode.PASS) -> None:
        """What a server sends, and what is sent to it, on all its links."""
        for link in self._of[server]:
            self._run(link.change(there, back))

    def reset(self, server: str) -> None:
        """Every connection of a server ends."""
        for link in self._of[server]:
            self._run(link.reset())

    def held(self, server: str) -> int:
        """Pieces of a server that are held back at present."""
        return sum(link.there.held for link in self._of[server])

    def answered(self, server: str) -> int:
        """Pieces that have come back to a server."""
        return sum(link.back.passed for link in self._of[server])

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
