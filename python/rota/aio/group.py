"""`GroupMember`: a member of a consumer group over asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Literal, Self

from rota._rota import nearest
from rota.aio.connection import read_bootstrap
from rota.aio.driver import AUTHENTICATION, Driver
from rota.aio.planning import ByAssignor, Planner
from rota.arguments import whole, wire_text
from rota.assign import Assignor
from rota.assign.custom import check_assignor
from rota.client_properties import ClientSecurity
from rota.member import (
    Assign,
    Closed,
    Committed,
    Effect,
    Failed,
    Fetched,
    Lose,
    Member,
    MemberError,
    MemberSettings,
    Notice,
    Offset,
    Partition,
    Plan,
    Revoke,
    Send,
    checked,
)


@dataclass(frozen=True)
class Change:
    """A change of the partitions of a member.

    `assigned`: read these, too; `revoked`: stop reading, commit what you have; `lost`: they may be another's already.
    `partitions` are those concerned, `all` everything that is this member's now, `generation` the group's, or
    the member's epoch in the newer protocol.
    """

    kind: Literal["assigned", "revoked", "lost"]
    partitions: list[Partition]
    all: list[Partition]
    generation: int


class GroupMember:
    """A member of a group on any Kafka broker.

        async with GroupMember("127.0.0.1:9092", "readers", ["orders"]) as member:
            async for change in member.assignments():
                ...

    The group waits for the members that own partitions that move: a change has been dealt with when the loop asks for
    the next one. While the body of the loop takes longer than `max_poll_interval_ms`, the member is out of the group.
    Keyword settings are those of `rota.member.MemberSettings`; `assignor` divides the partitions by your own code.
    With `group_protocol="consumer"` the coordinator divides them (KIP-848).

    `security` has what TLS and SASL need: the properties of a Kafka client by Kafka's names, as
    `Server.client_config("java")` returns them, or the path of a file with them (docs/security.md). Wrong ones raise
    ValueError.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        topics: Sequence[str] | None = None,
        *,
        pattern: str | None = None,
        client_id: str = "rota",
        assignor: Assignor | None = None,
        close_timeout_ms: int = 30_000,
        planner: Planner | None = None,
        answer_here: Callable[[Send], dict[str, Any] | None] = lambda _: None,
        security: ClientSecurity | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        if (topics is None) == (pattern is None):
            raise ValueError("give topics or a pattern, one of them")
        if isinstance(topics, str):
            raise ValueError(f"topics is the string {topics!r}: give a list of names")
        for name in settings.keys() - {each.name for each in fields(MemberSettings)}:
            known = [each.name for each in fields(MemberSettings)]
            near = nearest(name, known)
            hint = f"there are {', '.join(known)}" if near is None else f"the nearest one is {near}"
            raise TypeError(f"there is no setting {name}; {hint}")
        settings.setdefault("seed", random.getrandbits(64))
        if assignor is not None:
            check_assignor(assignor, "assignor")
        self._planner = ByAssignor(assignor) if assignor is not None else planner
        if self._planner is not None:
            if settings.get("group_protocol") == "consumer":
                raise ValueError(
                    "group_protocol is `consumer`: the coordinator assigns; give `classic`, or no assignor"
                )
            settings["strategies"] = [(self._planner.name, self._planner.cooperative)]
        self._member = Member(group_id, MemberSettings(**settings))
        self._addresses = read_bootstrap(bootstrap_servers)
        self._security = ClientSecurity.given(security)
        self._topics, self._pattern = topics, pattern
        self._client_id = wire_text(client_id, "client_id")
        self._close_timeout_ms = whole(close_timeout_ms, "close_timeout_ms")
        self._answer_here = answer_here
        self._news: asyncio.Queue[Notice] = asyncio.Queue()
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._next_call = 0
        self._is_owed = False
        self._is_refused = False
        self._is_closing = False
        self._is_closed = False
        self._all: list[Partition] = []
        self._driver: Driver | None = None
        self._over: asyncio.Event = asyncio.Event()

    @property
    def member(self) -> Member:
        """The state machine, with state, generation, member id and coordinator."""
        return self._member

    @property
    def partitions(self) -> list[Partition]:
        """Partitions that this member holds; none from the beginning of `close` on."""
        return list(self._all)

    @property
    def last_loss(self) -> str:
        """Why the last lost connection was lost; empty if none was."""
        return self._driver.last_loss if self._driver is not None else ""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Subscribe; assignments arrive in `assignments`."""
        if self._driver is not None:
            raise RuntimeError("started already: a member is for one use")
        self._driver = Driver(
            self._member, self._addresses, self._client_id, self._hear, self._answer_here, self._security
        )
        self._tell_planner_data()
        if self._pattern is not None:
            self._do(self._member.subscribe_pattern, self._pattern)
        else:
            self._do(self._member.subscribe, list(self._topics or ()))

    async def assignments(self) -> AsyncGenerator[Change, None]:
        """Iterate over the changes of the assignment until the member is closed. Raises `MemberError`.

        After an error call it again: the member tries again. It raises an error of kind `Authentication` for each
        connection that a broker refuses, with the client's certificate or without, or whose broker this client refuses,
        while the application waits here.
        """
        while not (self._is_closed and self._news.empty()):
            self._settle()
            self._do(self._member.poll)
            try:
                notice = await self._news.get()
            finally:
                # Also of a task that is cancelled: the time until its next turn counts.
                self._do(self._member.busy)
            match notice:
                case Closed():
                    return
                case Failed(error):
                    if error.kind == AUTHENTICATION:
                        self._is_refused = False
                    raise error
                case _:
                    self._is_owed = notice.wants_done
                    change = self._change(notice)
                    if change is not None:
                        yield change

    async def commit(self, offsets: Mapping[Partition, int | Offset]) -> None:
        """Commit the next offsets to read. Raises `MemberError` with the reason if the commit fails."""
        if not isinstance(offsets, Mapping):
            raise TypeError(f"offsets is {offsets!r}: give a mapping from (topic, partition) to the next offset")
        told = {at: _offset(at, offsets[at]) for at in checked(offsets)}
        await self._call(self._member.commit, told)

    async def committed(self, partitions: Sequence[Partition]) -> dict[Partition, Offset | None]:
        """Fetch the committed offsets; None for a partition without one."""
        found: dict[Partition, Offset | None] = await self._call(self._member.fetch, checked(partitions))
        return found

    def position(self, partition: Partition, offset: int | Offset) -> None:
        """Set the position that automatic commits store (`auto_commit_interval_ms`)."""
        [at] = checked([partition])
        self._do(self._member.position, at, _offset(at, offset))

    def rejoin(self, reason: str) -> None:
        """Start a rebalance although nothing has changed. Raises ValueError in the newer protocol."""
        self._do(self._member.rejoin, reason)

    async def close(self) -> None:
        """Commit, give up all partitions and leave, within `close_timeout_ms`."""
        driver = self._driver
        if driver is None or self._is_closing:
            return
        # A member that closes reads no more: it is not asked whether it has stopped.
        self._is_closing = True
        self._all = []
        self._settle()
        for notice in [self._news.get_nowait() for _ in range(self._news.qsize())]:
            self._excuse(notice)
        # The other half is for what follows the last commit.
        self._do(self._member.close, self._close_timeout_ms // 2)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._close_timeout_ms / 1_000)
        finally:
            self._is_closed = True
            if not self._over.is_set():
                self._news.put_nowait(Closed())
            driver.close()
            for call in list(self._calls):
                self._end_call(call, None, _closed())

    def _started(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("not started: use `async with`, or call `start`")
        return self._driver

    def _do(self, verb: Callable[..., list[Effect]], *arguments: Any) -> None:
        driver = self._started()
        driver.take(verb(driver.now_ms(), *arguments))

    def _settle(self) -> None:
        """Report that the application has handled the last change."""
        if self._is_owed:
            self._is_owed = False
            self._do(self._member.done)

    def _excuse(self, notice: Notice) -> None:
        if notice.wants_done:
            asyncio.get_running_loop().call_soon(self._do, self._member.done)

    async def _call(self, verb: Callable[..., list[Effect]], what: Any) -> Any:
        driver = self._started()
        if self._is_closed:
            raise _closed()
        self._next_call += 1
        effects = verb(driver.now_ms(), self._next_call, what)
        # The effects may have the result already.
        future = self._calls[self._next_call] = asyncio.get_running_loop().create_future()
        driver.take(effects)
        return await future

    def _end_call(self, call: int, value: Any, error: MemberError | None) -> None:
        future = self._calls.pop(call, None)
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def _hear(self, notice: Notice) -> None:
        match notice:
            case Committed(commit, error):
                self._end_call(commit, None, error)
            case Fetched(fetch, offsets, error):
                self._end_call(fetch, offsets, error)
            case Plan():
                asyncio.get_running_loop().call_soon(self._plan, notice)
            case Closed():
                self._over.set()
                self._news.put_nowait(notice)
            case _ if self._is_closing:
                self._excuse(notice)
            case Failed(error) if error.kind == AUTHENTICATION:
                # The member connects again and again: one of its errors waits for the application, not all of them.
                if not self._is_refused:
                    self._is_refused = True
                    self._news.put_nowait(notice)
            case _:
                self._news.put_nowait(notice)

    def _plan(self, plan: Plan) -> None:
        assert self._planner is not None, "only a leader with a planner computes a plan"
        try:
            assignments = self._planner.plan(plan)
        except Exception as error:
            # The application's code failed: the group must get an answer.
            self._do(self._member.planned, plan.generation, None, f"{type(error).__name__}: {error}")
        else:
            self._do(self._member.planned, plan.generation, assignments)

    def _tell_planner_data(self) -> None:
        if self._planner is not None:
            self._do(self._member.user_data, self._planner.name, self._planner.user_data())

    def _change(self, notice: Notice) -> Change | None:
        """Convert a notice to a change; None if nothing changes."""
        generation = self._member.generation
        match notice:
            case Assign(generation, added, partitions, user_data):
                self._all = partitions
                if self._planner is not None:
                    self._planner.on_assignment(partitions, generation, user_data)
                    self._tell_planner_data()
                return Change("assigned", added, list(partitions), generation)
            case Revoke(partitions) | Lose(partitions):
                gone = set(partitions)
                self._all = [partition for partition in self._all if partition not in gone]
                kind: Literal["revoked", "lost"] = "revoked" if isinstance(notice, Revoke) else "lost"
                return Change(kind, partitions, list(self._all), generation) if partitions else None
            case _:
                return None


def _closed() -> MemberError:
    return MemberError("Closed", None, "the member was closed first")


def _offset(at: Partition, offset: Any) -> Offset:
    """The next offset to read of a partition."""
    if isinstance(offset, Offset):
        return offset
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise TypeError(f"the offset of {at!r} is {offset!r}: give a whole number, or a rota.member.Offset")
    return Offset(offset)
