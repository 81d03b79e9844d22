"""What hostile clients do to a server, each as a generator: when it first yields, the attack stands; every further
step is one more round of it; closing it closes its connections. `SESSIONS` names them all.

Tests bound the memory that each takes; `benches/hostile.py` measures how long other clients wait meanwhile.
"""

from __future__ import annotations

import itertools
import random
import resource
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from .raw import (
    DESCRIBE_GROUPS,
    JOIN_GROUP,
    MEMBER_ID_REQUIRED,
    METADATA,
    NONE,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Connection,
    Reader,
    blob,
    frame,
    heartbeat,
    i32,
    i64,
    join,
    string,
)

Address = tuple[str, int]
KIB, MIB = 1024, 1024 * 1024

IDLE_CONNECTIONS = 5_000
SLOW_CONNECTIONS = 400
DEAF_CONNECTIONS = 20
PIPELINED_REQUESTS = 10_000
HEARTBEAT_ANSWER_BYTES = 10
BIG_FRAMES, BIG_FRAME_BYTES, BIG_FRAME_SENT_BYTES = 20, 100_000_000, 2 * MIB
MEMBERS = 10_000
FLOOD = 10_000


def allow_files(count: int) -> None:
    """Lets this process have so many files open, the server's ends of its connections included."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


@contextmanager
def many(address: Address, count: int) -> Iterator[list[Connection]]:
    """So many connections."""
    allow_files(2 * count + 500)
    with ExitStack() as stack:
        yield [stack.enter_context(Connection(address, timeout=60)) for _ in range(count)]


def ask_all(connection: Connection, requests: list[bytes], error_at: int | None = None, error: int = NONE) -> None:
    """Sends requests 500 at a time; each answer has `error` at its byte `error_at`."""
    for start in range(0, len(requests), 500):
        batch = requests[start : start + 500]
        connection.send(b"".join(batch))
        for _ in batch:
            answer = connection.receive()
            assert error_at is None or Reader(answer[error_at:]).i16() == error


def make_topic(connection: Connection) -> None:
    """Topic `t`, made by asking for it."""
    connection.ask(frame(METADATA, 0, i32(1) + string("t")))


def idle(address: Address) -> Generator[None, None, None]:
    """Connections that say nothing."""
    with many(address, IDLE_CONNECTIONS):
        while True:
            yield


def slowloris(address: Address) -> Generator[None, None, None]:
    """A byte at a time of a request, over all connections; then of the next one."""
    with many(address, SLOW_CONNECTIONS) as connections:
        for byte in itertools.cycle(heartbeat("g" * 1_000, "m", 0)):
            for connection in connections:
                connection.send(bytes([byte]))
            yield


def deaf(address: Address) -> Generator[None, None, None]:
    """Clients that ask without end and never read an answer, until the server takes nothing more from them."""
    flood = heartbeat("g", "m", 0) * 2_000
    with many(address, DEAF_CONNECTIONS) as connections:
        for connection in connections:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
            connection.socket.setblocking(False)
        while True:
            for connection in connections:
                with suppress(BlockingIOError):
                    while connection.socket.send(flood):
                        pass
            yield


def pipelined(address: Address) -> Generator[None, None, None]:
    """Ten thousand requests at once, read only when all are sent."""
    with many(address, 4) as connections:
        requests = heartbeat("g", "m", 0) * PIPELINED_REQUESTS
        while True:
            for connection in connections:
                connection.socket.setblocking(False)
            unsent = {connection: memoryview(requests) for connection in connections}
            unread = dict.fromkeys(connections, HEARTBEAT_ANSWER_BYTES * PIPELINED_REQUESTS)
            while unsent or unread:
                for connection in list(unsent):
                    with suppress(BlockingIOError):
                        unsent[connection] = unsent[connection][connection.socket.send(unsent[connection]) :]
                    if not unsent[connection]:
                        del unsent[connection]
                for connection in list(unread):
                    with suppress(BlockingIOError):
                        unread[connection] -= len(connection.socket.recv(MIB))
                    if unread[connection] == 0:
                        del unread[connection]
            yield


def big_frames(address: Address) -> Generator[None, None, None]:
    """Requests of 100 MB that are announced, of which 2 MiB come; and one above the limit."""
    chunk = bytes(64 * KIB)
    with many(address, BIG_FRAMES) as connections:
        for connection in connections:
            connection.send(i32(BIG_FRAME_BYTES) + b"\0\x0b\0\0")
        sent = 0
        while True:
            if sent < BIG_FRAME_SENT_BYTES:
                for connection in connections:
                    connection.send(chunk)
                sent += len(chunk)
            with Connection(address) as above:
                above.send(i32(104_857_601))
                assert above.ends()
            yield


def big_group(address: Address) -> Generator[None, None, None]:
    """Ten thousand members of one group, each of whose clients has gone after its join. All of them wait for the first
    one, which does not join again."""
    allow_files(MEMBERS + 2_000)
    with Connection(address) as first:
        ask_all(first, [join("big")])
        for number in itertools.count():
            if number * 500 < MEMBERS:
                for _ in range(500):
                    with Connection(address) as member:
                        member.send(join("big"))
            yield


def pending_ids(address: Address) -> Generator[None, None, None]:
    """Member ids that are asked for and never used (JoinGroup v4)."""
    body = string("pending") + i32(30_000) + i32(60_000) + string("") + string("consumer")
    request = frame(JOIN_GROUP, 4, body + i32(1) + string("range") + blob(b"metadata"))
    with Connection(address) as connection:
        while True:
            ask_all(connection, [request] * FLOOD, 8, MEMBER_ID_REQUIRED)
            yield


def _names(seed: int, prefix: str) -> Iterator[str]:
    numbers = random.Random(seed)
    while True:
        yield f"{prefix}-{numbers.randbytes(8).hex()}"


def joins_of_random_groups(address: Address) -> Generator[None, None, None]:
    """Each join makes a group with a member, whose session lasts for 30 s."""
    names = _names(1, "joined")
    with Connection(address) as connection:
        while True:
            ask_all(connection, [join(next(names)) for _ in range(FLOOD)], 4)
            yield


def commits_of_random_groups(address: Address) -> Generator[None, None, None]:
    """Each commit makes a group with an offset, which is kept for `offsets.retention.minutes`."""
    names = _names(2, "committed")
    topics = i32(1) + string("t") + i32(1) + i32(0) + i64(5) + string("")
    with Connection(address) as connection:
        make_topic(connection)
        while True:
            asked = [string(next(names)) + i32(-1) + string("") + i64(-1) + topics for _ in range(FLOOD)]
            ask_all(connection, [frame(OFFSET_COMMIT, 2, body) for body in asked], -2)
            yield


def commits_of_one_offset(address: Address) -> Generator[None, None, None]:
    """The same offset again and again: the log behind it is not to keep them all."""
    topics = i32(1) + string("t") + i32(1) + i32(0) + i64(5) + string("x" * 1_000)
    request = frame(OFFSET_COMMIT, 2, string("again") + i32(-1) + string("") + i64(-1) + topics)
    with Connection(address) as connection:
        make_topic(connection)
        while True:
            ask_all(connection, [request] * FLOOD, -2)
            yield


def questions_about_random_groups(address: Address) -> Generator[None, None, None]:
    """Descriptions, committed offsets and heartbeats of groups and members that do not exist."""
    names = _names(3, "nobody")
    with Connection(address) as connection:
        while True:
            requests = []
            for group in itertools.islice(names, FLOOD // 4):
                requests.append(frame(DESCRIBE_GROUPS, 0, i32(1) + string(group)))
                requests.append(frame(OFFSET_FETCH, 1, string(group) + i32(1) + string("t") + i32(1) + i32(0)))
                requests.append(heartbeat(group, "m", 0))
                requests.append(heartbeat("nobody", group, 0))
            ask_all(connection, requests)
            yield


@dataclass(frozen=True)
class Session:
    """`attack`, for how many rounds a test lets it go on, and how many bytes the server may take for it by then."""

    attack: Callable[[Address], Generator[None, None, None]]
    rounds: int
    bytes_max: int


SESSIONS = {
    session.attack.__name__: session
    for session in (
        Session(idle, 1, IDLE_CONNECTIONS * 8 * KIB),
        Session(slowloris, 20, SLOW_CONNECTIONS * 8 * KIB + 8 * MIB),
        Session(deaf, 20, DEAF_CONNECTIONS * 2 * (256 + 64 + 16) * KIB + 8 * MIB),
        Session(pipelined, 2, 4 * 2 * (256 + 64 + 16) * KIB + 16 * MIB),
        Session(big_frames, 32, BIG_FRAMES * 2 * (BIG_FRAME_SENT_BYTES + 64 * KIB) + 8 * MIB),
        Session(big_group, 20, MEMBERS * 8 * KIB + 16 * MIB),
        Session(pending_ids, 1, FLOOD * 2 * KIB + 8 * MIB),
        Session(joins_of_random_groups, 1, FLOOD * 4 * KIB + 8 * MIB),
        Session(commits_of_random_groups, 1, FLOOD * 4 * KIB + 8 * MIB),
        Session(commits_of_one_offset, 4, 24 * MIB),
        Session(questions_about_random_groups, 2, 8 * MIB),
    )
}
