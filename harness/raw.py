"""Kafka's bytes by hand: frames, primitive types and a connection that shows what really comes back."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Self

PRODUCE, FETCH, METADATA = 0, 1, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, API_VERSIONS, INIT_PRODUCER_ID = 15, 16, 18, 22
OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS, DELETE_GROUPS, INCREMENTAL_ALTER_CONFIGS = 23, 32, 42, 44
OFFSET_DELETE, DESCRIBE_CLUSTER, CONSUMER_GROUP_HEARTBEAT = 47, 60, 68
SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT = 76, 88

NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 0, 22, 25, 27
MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED = 79, 81

FLEXIBLE_FROM = {
    PRODUCE: 9,
    FETCH: 12,
    METADATA: 9,
    OFFSET_COMMIT: 8,
    OFFSET_FETCH: 6,
    FIND_COORDINATOR: 3,
    JOIN_GROUP: 6,
    HEARTBEAT: 4,
    LEAVE_GROUP: 4,
    SYNC_GROUP: 4,
    DESCRIBE_GROUPS: 5,
    LIST_GROUPS: 3,
    API_VERSIONS: 3,
    INIT_PRODUCER_ID: 2,
    OFFSET_FOR_LEADER_EPOCH: 4,
    DESCRIBE_CONFIGS: 4,
    INCREMENTAL_ALTER_CONFIGS: 1,
    DELETE_GROUPS: 2,
    DESCRIBE_CLUSTER: 0,
    CONSUMER_GROUP_HEARTBEAT: 0,
    SHARE_GROUP_HEARTBEAT: 0,
    STREAMS_GROUP_HEARTBEAT: 0,
}


def i8(value: int) -> bytes:
    return struct.pack(">b", value)


def i16(value: int) -> bytes:
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def string(value: str | None) -> bytes:
    """A string in the old layout."""
    if value is None:
        return i16(-1)
    encoded = value.encode()
    return i16(len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    """Bytes in the old layout."""
    return i32(len(value)) + value


def varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def compact(value: str | None) -> bytes:
    """A string in the compact layout."""
    if value is None:
        return varint(0)
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def frame(key: int, version: int, body: bytes = b"", *, correlation: int = 7, client_id: str | None = "raw") -> bytes:
    """A request with its length and header."""
    header = i16(key) + i16(version) + i32(correlation) + string(client_id)
    if version >= FLEXIBLE_FROM.get(key, 1_000):
        header += b"\0"
    return blob(header + body)


def heartbeat(group: str, member: str, generation: int, *, correlation: int = 7) -> bytes:
    """A Heartbeat v0."""
    return frame(HEARTBEAT, 0, string(group) + i32(generation) + string(member), correlation=correlation)


def join(
    group: str,
    member: str = "",
    *,
    session_ms: int = 30_000,
    protocol: str = "range",
    metadata: bytes = b"metadata",
) -> bytes:
    """A JoinGroup v1: no round for a member id, a rebalance timeout of 60 s."""
    body = string(group) + i32(session_ms) + i32(60_000) + string(member) + string("consumer")
    return frame(JOIN_GROUP, 1, body + i32(1) + string(protocol) + blob(metadata))


def sync(group: str, member: str, generation: int, plan: dict[str, bytes] | None = None) -> bytes:
    """A SyncGroup v0."""
    assignments = plan or {}
    body = string(group) + i32(generation) + string(member) + i32(len(assignments))
    for owner, assignment in assignments.items():
        body += string(owner) + blob(assignment)
    return frame(SYNC_GROUP, 0, body)


class Reader:
    """Takes primitive types off an answer."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        assert len(self.data) >= count, f"{count} bytes wanted, {len(self.data)} left"
        head, self.data = self.data[:count], self.data[count:]
        return head

    def i16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def i32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def i8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def compact(self) -> str | None:
        """A string in the compact layout."""
        length = self.varint() - 1
        return None if length < 0 else self.take(length).decode()

    def string(self) -> str | None:
        length = self.i16()
        return None if length < 0 else self.take(length).decode()

    def blob(self) -> bytes:
        return self.take(self.i32())


def member_of(answer: bytes) -> str:
    """The member id in a JoinGroup v1 answer."""
    reader = Reader(answer)
    reader.i32(), reader.i16(), reader.i32(), reader.string(), reader.string()
    return reader.string() or ""


class ClosedError(Exception):
    """The other side has closed the connection."""


class Connection:
    """A socket that speaks frames. Every wait has a deadline: `TimeoutError`."""

    def __init__(self, address: tuple[str, int], timeout: float = 10) -> None:
        self.socket = socket.create_connection(address, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """One answer: its correlation id and what follows. Raises ClosedError."""
        return self._take(int.from_bytes(self._take(4), "big"))

    def ask(self, request: bytes) -> Reader:
        """Sends a request whose correlation id is 7 and gives its answer, from behind that."""
        self.send(request)
        answer = Reader(self.receive())
        assert answer.i32() == 7
        return answer

    def is_silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long, not even the end."""
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        else:
            return False
        finally:
            self.socket.settimeout(before)

    def ends(self) -> bool:
        """Whether the other side closes without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _take(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionError as error:
                raise ClosedError from error
            if not more:
                raise ClosedError
            data += more
        return bytes(data)


class Member:
    """A member that has joined and synced on its own connection. `between` is called when it has sent its join."""

    def __init__(
        self,
        address: tuple[str, int],
        group: str,
        between: Callable[[], None] = lambda: None,
        *,
        metadata: bytes = b"metadata",
    ) -> None:
        self.connection = Connection(address)
        self.group = group
        self.connection.send(join(group, metadata=metadata))
        between()
        joined = Reader(self.connection.receive())
        assert (joined.i32(), joined.i16()) == (7, NONE)
        self.generation = joined.i32()
        joined.string(), joined.string()
        self.member_id = joined.string() or ""
        synced = self.connection.ask(sync(group, self.member_id, self.generation, {self.member_id: b"plan"}))
        assert (synced.i16(), synced.blob()) == (NONE, b"plan")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.connection.close()

    def heartbeat(self) -> int:
        """The error of one heartbeat."""
        return self.connection.ask(heartbeat(self.group, self.member_id, self.generation)).i16()
