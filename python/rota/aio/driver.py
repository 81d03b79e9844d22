"""Runs a `rota.Member` over TCP: connections, timers and notices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rota.aio.connection import Answered, Connection
from rota.client_properties import ClientSecurity
from rota.member import Disconnect, Effect, Failed, Member, MemberError, Node, Notice, Send

AUTHENTICATION = "Authentication"
"""The kind of the error that is raised for a connection that is refused."""


class Driver:
    """Executes the effects of a member. `on_notice` gets the notices for the application, in order.

    `answer_here` may answer a request in place of a broker: it returns the fields of an answer, or None.
    """

    def __init__(
        self,
        member: Member,
        bootstrap: list[tuple[str, int]],
        client_id: str,
        on_notice: Callable[[Notice], None],
        answer_here: Callable[[Send], dict[str, Any] | None] = lambda _: None,
        security: ClientSecurity | None = None,
    ) -> None:
        self.member = member
        self.last_loss = ""
        self._addresses = list(bootstrap)
        self._client_id = client_id
        self._on_notice = on_notice
        self._answer_here = answer_here
        self._security = security
        self._connections: dict[Node | None, Connection] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        """Monotonic time in milliseconds."""
        return int(self._loop.time() * 1_000)

    def take(self, effects: list[Effect]) -> None:
        """Execute effects and schedule the next call of the member. Without an effect after `close`."""
        if self._is_closed:
            return
        for effect in effects:
            if isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Disconnect):
                self._drop(effect.node)
            else:
                self._on_notice(effect)
        self._set_timer()

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = self.member.next_deadline()
        self._timer = None
        if deadline_ms is not None:
            # A millisecond late rather than a millisecond early: early would be for nothing.
            self._timer = self._loop.call_at((deadline_ms + 1) / 1_000, self._advance)

    def _advance(self) -> None:
        self.take(self.member.advance(self.now_ms()))

    def _send(self, send: Send) -> None:
        here = self._answer_here(send)
        if here is not None:
            self._loop.call_soon(self._answered, Answered(send.request, send.api, here), None, None)
            return
        connection = self._connections.get(send.node)
        if connection is None:
            connection = self._connections[send.node] = self._connect(send.node)
        connection.send(send.request, send.api, send.fields)

    def _connect(self, node: Node | None) -> Connection:
        address = self._addresses[0] if node is None else (node[1], node[2])

        def answered(answer: Answered) -> None:
            self._answered(answer, node, connection)

        def lost(why: str, is_refused: bool) -> None:
            self.last_loss = why
            if is_refused and not self._is_closed:
                self._on_notice(Failed(MemberError(AUTHENTICATION, None, why)))
            self._lost(node, connection)

        connection = Connection(address, self._client_id, answered, lost, self._security)
        return connection

    def _answered(self, answer: Answered, node: Node | None, connection: Connection | None) -> None:
        try:
            effects = self.member.answered(self.now_ms(), answer.request, answer.api, answer.fields)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            # Well formed, but it cannot be meant.
            self.last_loss = f"{answer.api}: {error}"
            if connection is not None:
                connection.close()
                self._lost(node, connection)
            return
        if answer.api == "Metadata" and connection is not None:
            self._learn(answer)
        self.take(effects)

    def _learn(self, answer: Answered) -> None:
        known = set(self._addresses)
        told = [(broker["host"], broker["port"]) for broker in answer.fields["brokers"]]
        self._addresses += [address for address in told if address not in known]

    def _lost(self, node: Node | None, connection: Connection) -> None:
        if self._connections.get(node) is not connection:
            return
        self._drop(node)
        self.take(self.member.disconnected(self.now_ms(), node))

    def _drop(self, node: Node | None) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()
        if node is None:
            # The next one is another's turn.
            self._addresses.append(self._addresses.pop(0))
