"""Time that a test moves by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Protocol
from weakref import WeakSet

from rota.arguments import texts

__all__ = ["VirtualClock"]

#: A thousand years, to which no deadline can be added that a 64-bit number of milliseconds does not hold.
LATEST_MS = 1_000 * 366 * 24 * 3_600_000


#: Time moves in steps of at most this length: Ctrl-C ends a long way between two of them.
STEP_MS = 6 * 3_600_000


class Timed(Protocol):
    """What a virtual clock drives: anything whose coordinator does not read a clock of its own."""

    def _advance(self, ms: int, expire: list[str]) -> None: ...

    def _member_ids(self) -> set[str]: ...


class VirtualClock:
    """The time of one or several servers, in milliseconds since the clock was made. It moves only when told to.

    >>> clock = rota.VirtualClock()
    >>> with rota.Server(clock=clock) as server:
    ...     clock.advance(45_000)

    Sessions, rebalance timeouts, initial delays and `connections.max.reauth.ms` of the servers that were given this
    clock follow it; sockets, and the clients behind them, keep their own time.
    """

    def __init__(self) -> None:
        self._now_ms = 0
        self._epoch_wall_ms = time.time_ns() // 1_000_000
        self._servers: WeakSet[Timed] = WeakSet()
        # Reentrant: a signal handler may call `advance` while this thread is in it.
        self._moving = threading.RLock()

    def __repr__(self) -> str:
        return f"VirtualClock(now_ms={self._now_ms})"

    @property
    def now_ms(self) -> int:
        """Milliseconds that this clock has been advanced by since it was made."""
        return self._now_ms

    def advance(self, ms: int, expire: Iterable[str] = ()) -> None:
        """Move time forward by `ms` milliseconds; every deadline that falls due on the way fires in order.

        Deadlines that lie ahead fire only here. One that is due already fires by itself: an initial delay of 0 needs no
        `advance`.

        A member whose client is connected keeps its session, however far time moves: its next heartbeat counts as
        due now. Rebalance timeouts do pass. `expire` names member ids whose sessions are not kept: each expires if it
        ends within these `ms`, counted from the member's last request. `Server.expire` ends one at once.

        Raises ValueError if `ms` is negative, because time does not go back, or leads beyond `LATEST_MS`, or if
        `expire` has an id that is no member of any group of this clock's servers, and TypeError if `ms` is not a
        whole number or `expire` is not member ids. The clock stays where it is then.

        Calls of several threads move time one after the other. Raises what a server raises that cannot go on, such as
        rota.ServerError; the clock moves all the same if it has another server, which then has moved.
        """
        if not isinstance(ms, int):
            raise TypeError(f"ms is {ms!r}: give a whole number of milliseconds")
        if ms < 0:
            raise ValueError(f"ms is {ms}: time does not go back, give 0 or more")
        lapsing = texts(expire, "expire", "give a list of member ids")
        with self._moving:
            self._move(ms, lapsing)

    def _move(self, ms: int, lapsing: list[str]) -> None:
        if self._now_ms + ms > LATEST_MS:
            raise ValueError(f"ms is {ms}: the clock ends {LATEST_MS} ms after it was made")
        servers = list(self._servers)
        if lapsing:
            known = set[str]().union(*(server._member_ids() for server in servers))
            for member in lapsing:
                if member not in known:
                    raise ValueError(f"expire has {member!r} in it: no group of this clock's servers has that member")
        self._step(servers, min(STEP_MS, ms), lapsing)
        while (ms := ms - STEP_MS) > 0:
            self._step(servers, min(STEP_MS, ms), lapsing)

    def _step(self, servers: Sequence[Timed], ms: int, lapsing: list[str]) -> None:
        """Move the servers, then the clock. After an error the other servers follow, so that all are at one time."""
        failure: BaseException | None = None
        has_moved = False
        for server in servers:
            try:
                server._advance(ms, lapsing)
            except KeyboardInterrupt as error:
                # It comes when the server has moved.
                failure, has_moved = error, True
            except Exception as error:
                # Another thread may have stopped the server meanwhile: then this clock has released it.
                if server in self._servers and failure is None:
                    failure = error
            else:
                has_moved = True
        if has_moved or failure is None:
            self._now_ms += ms
        if failure is not None:
            raise failure

    @property
    def _wall_ms(self) -> int:
        """The time in milliseconds since 1970. Servers that begin with this clock later begin at a later time."""
        return self._epoch_wall_ms + self._now_ms

    def _drive(self, server: Timed) -> None:
        self._servers.add(server)

    def _release(self, server: Timed) -> None:
        self._servers.discard(server)
