"""What a test has asked of a server, as long as it lasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self

from rota import _rota

__all__ = ["Fault", "Injection", "Outage", "Pause"]


class Injection:
    """An error that requests are answered with, as `Server.inject_error` gives it."""

    def __init__(self, inner: _rota.Server, injection: int) -> None:
        self._inner = inner
        self._injection = injection

    def __repr__(self) -> str:
        return f"Injection(count={self.count}, left={self.left})"

    @property
    def count(self) -> int:
        """How many requests have been answered with it."""
        return self._inner.injection(self._injection)[0]

    @property
    def left(self) -> int:
        """How many requests are still to be answered with it."""
        return self._inner.injection(self._injection)[1]

    def cancel(self) -> None:
        """Answer no more requests with it."""
        self._inner.cancel_injection(self._injection)


class Control(ABC):
    """What lasts until `end`, or until the end of its `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    @abstractmethod
    def end(self) -> None:
        """End it. Does nothing the second time, or if the server has stopped."""


class Pause(Control):
    """A member that its server does not listen to, as `Server.pause` gives it; at the end of a `with` block it does.

    group      the member's group.
    member_id  its member id.
    """

    def __init__(self, inner: _rota.Server, group: str, member_id: str, pause: int) -> None:
        self._inner = inner
        self.group = group
        self.member_id = member_id
        self._pause = pause

    def __repr__(self) -> str:
        return f"Pause(group={self.group!r}, member_id={self.member_id!r})"

    def end(self) -> None:
        """`resume`."""
        self.resume()

    def resume(self) -> None:
        """End this pause. Does nothing the second time, or if the server has stopped.

        With the last pause of a member the server listens to it again, and handles what it has sent meanwhile.
        """
        with suppress(_rota.ServerError):
            self._inner.resume(self._pause)


class Fault(Control):
    """A fault of the network, as `Server.delay_answers` and `Server.drop_answers` give it. A `with` block ends it."""

    def __init__(self, inner: _rota.Server, fault: int) -> None:
        self._inner = inner
        self._fault = fault

    def __repr__(self) -> str:
        return f"Fault(count={self.count}, left={self.left})"

    @property
    def count(self) -> int:
        """How many requests it has affected."""
        return self._inner.fault(self._fault)[0]

    @property
    def left(self) -> int | None:
        """How many requests it is still to affect; None if that is not limited."""
        return self._inner.fault(self._fault)[1]

    def end(self) -> None:
        """End it; answers that it delays are sent now. Does nothing the second time, or if the server has stopped."""
        with suppress(_rota.ServerError):
            self._inner.end_fault(self._fault)


class Outage(Control):
    """A node that is down, as `Server.stop_node` gives it; at the end of a `with` block it is started again.

    node  its id.
    """

    def __init__(self, inner: _rota.Server, node: int) -> None:
        self._inner = inner
        self.node = node

    def __repr__(self) -> str:
        return f"Outage(node={self.node})"

    def end(self) -> None:
        """Start the node again. Does nothing the second time, or if the server has stopped."""
        with suppress(_rota.ServerError):
            self._inner.start_node(self.node)
