"""Time that a test moves by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

__all__ = ["VirtualClock"]


class Timed(Protocol):
    """What a virtual clock drives: anything whose coordinator does not read a clock of its own."""

    def _advance(self, ms: int, expire: list[str]) -> None: ...


class VirtualClock:
    """The time of one or several servers, in milliseconds since the clock was made. It moves only when told to.

    >>> clock = rota.VirtualClock()
    >>> with rota.Server(clock=clock) as server:
    ...     clock.advance(45_000)

    Sessions, rebalance timeouts and initial delays of the servers that were given this clock follow it; sockets,
    and the clients behind them, keep their own time.
    """

    def __init__(self) -> None:
        self._now_ms = 0
        self._servers: WeakSet[Timed] = WeakSet()

    def __repr__(self) -> str:
        return f"VirtualClock(now_ms={self._now_ms})"

    @property
    def now_ms(self) -> int:
        """Milliseconds that this clock has been advanced by since it was made."""
        return self._now_ms

    def advance(self, ms: int, expire: Iterable[str] = ()) -> None:
        """Move time forward by `ms` milliseconds; every deadline that falls due on the way fires in order.

        Deadlines fire only here: `advance(0)` fires those that are due already, such as an initial delay of 0.

        A member whose client is connected keeps its session, however far time moves: its next heartbeat counts as
        due now. `expire` names the member ids that are to lapse all the same.

        Raises ValueError if `ms` is negative: time does not go back.
        """
        if ms < 0:
            raise ValueError(f"ms is {ms}: time does not go back, give 0 or more")
        if isinstance(expire, str):
            raise TypeError(f"expire is the string {expire!r}: give a list of member ids")
        lapsing = list(expire)
        self._now_ms += ms
        for server in list(self._servers):
            server._advance(ms, lapsing)

    def _drive(self, server: Timed) -> None:
        self._servers.add(server)

    def _release(self, server: Timed) -> None:
        self._servers.discard(server)
