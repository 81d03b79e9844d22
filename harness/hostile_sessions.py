"""What hostile clients do to a server, each as a generator: when it first yields, the attack stands; every further
step is one more round of it; closing it closes its connections. What it yields is how much of the attack was there so
far, in its `Session.unit`, and it has seen that much itself. Each asserts that what it is answered is right, at the
latest when it is closed. `SESSIONS` names them all.

Tests bound the memory that each takes; `benches/hostile.py` measures how long other clients wait meanwhile.
"""

from __future__ import annotations

import array
import fcntl
import itertools
import random
import resource
import select
import socket
import termios
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from .raw import (
    DESCRIBE_GROUPS,
    GROUP_MAX_SIZE_REACHED,
    JOIN_GROUP,
    MEMBER_ID_REQUIRED,
    METADATA,
    NONE,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    UNKNOWN_MEMBER_ID,
    Connection,
    blob,
    frame,
    heartbeat,
    i16,
    i32,
    i64,
    join,
    string,
)

Address = tuple[str, int]
Attack = Generator[int, None, None]
KIB, MIB = 1024, 1024 * 1024

IDLE_CONNECTIONS = 5_000
SLOW_CONNECTIONS = 400
DEAF_CONNECTIONS = 20
# So long nothing more of theirs is taken.
DEAF_AFTER_S = 0.3
PIPELINED_REQUESTS = 10_000
BIG_FRAMES, BIG_FRAME_BYTES, BIG_FRAME_SENT_BYTES = 20, 100_000_000, 2 * MIB
# Answers to a heartbeat without a member, a commit of one offset of `t`, and a fetch of it where nothing is committed.
REFUSED = i32(7) + i16(UNKNOWN_MEMBER_ID)
COMMITTED = i32(7) + i32(1) + string("t") + i32(1) + i32(0) + i16(NONE)
NO_OFFSET = i32(7) + i32(1) + string("t") + i32(1) + i32(0) + i64(-1) + string("") + i16(NONE)
MEMBERS = 10_000
FLOOD = 10_000
PENDING_IDS_MAX = 100_000


def allow_files(count: int) -> None:
    """Lets this process have so many files open, and a server that it starts afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


@contextmanager
def many(address: Address, count: int) -> Iterator[list[Connection]]:
    """So many connections."""
    allow_files(count + 500)
    with ExitStack() as stack:
        yield [stack.enter_context(Connection(address, timeout=60)) for _ in range(count)]


def ask_all(connection: Connection, asked: Sequence[tuple[bytes, int, bytes]]) -> None:
    """Sends requests 500 at a time. With each: where its answer says what, from the correlation id on."""
    for start in range(0, len(asked), 500):
        batch = asked[start : start + 500]
        connection.send(b"".join(request for request, _, _ in batch))
        for _, at, expected in batch:
            answer = connection.receive()
            assert answer[at:][: len(expected)] == expected, answer


def make_topic(connection: Connection) -> None:
    """Topic `t`, made by asking for it."""
    connection.ask(frame(METADATA, 0, i32(1) + string("t")))


def idle(address: Address) -> Attack:
    """Connections that say nothing, until the end: then each is answered."""
    with many(address, IDLE_CONNECTIONS) as connections:
        try:
            while True:
                yield len(connections)
        finally:
            for connection in connections:
                connection.send(heartbeat("g", "m", 0))
            assert all(connection.receive() == REFUSED for connection in connections)


def slowloris(address: Address) -> Attack:
    """A byte at a time of a request, over all connections; then of the next one."""
    request = heartbeat("g" * 1_000, "m", 0)
    with many(address, SLOW_CONNECTIONS) as connections:
        sent = 0
        try:
            for rounds in itertools.count(1):
                for connection in connections:
                    connection.send(request[sent : sent + 1])
                sent += 1
                if sent == len(request):
                    assert all(connection.receive() == REFUSED for connection in connections)
                    sent = 0
                yield rounds * len(connections)
        finally:
            for connection in connections:
                connection.send(request[sent:])
            assert all(connection.receive() == REFUSED for connection in connections)


def unread(connection: Connection) -> int:
    """Bytes that have come and were not read."""
    count = array.array("i", [0])
    fcntl.ioctl(connection.socket, termios.FIONREAD, count)
    return count[0]


def deaf(address: Address) -> Attack:
    """Clients that ask without end and never read an answer, until the server takes nothing more from them. At the end
    the first answers are read, and are right."""
    flood = heartbeat("g", "m", 0) * 2_000
    with many(address, DEAF_CONNECTIONS) as connections:
        for connection in connections:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
            connection.socket.setblocking(False)
        unsent = {connection.socket: memoryview(flood) for connection in connections}
        sent = 0
        try:
            while True:
                # A busy machine may let the server rest for as long: it has answered each of them before it is deaf.
                while (writable := select.select([], unsent, [], DEAF_AFTER_S)[1]) or not all(map(unread, connections)):
                    for client in writable:
                        count = client.send(unsent[client])
                        # A request that was sent in part goes on where it ended.
                        unsent[client] = unsent[client][count:] or memoryview(flood)
                        sent += count
                yield sent
        finally:
            for connection in connections:
                connection.socket.settimeout(60)
                assert all(connection.receive() == REFUSED for _ in range(100))


def pipelined(address: Address) -> Attack:
    """Ten thousand requests at once, read only when all are sent."""
    with many(address, 4) as connections:
        requests = heartbeat("g", "m", 0) * PIPELINED_REQUESTS
        for connection in connections:
            connection.socket.setblocking(False)
        for rounds in itertools.count(1):
            unsent = {connection: memoryview(requests) for connection in connections}
            unanswered = dict.fromkeys(connections, blob(REFUSED) * PIPELINED_REQUESTS)
            while unsent or unanswered:
                for connection in list(unsent):
                    with suppress(BlockingIOError):
                        unsent[connection] = unsent[connection][connection.socket.send(unsent[connection]) :]
                    if not unsent[connection]:
                        del unsent[connection]
                for connection in list(unanswered):
                    with suppress(BlockingIOError):
                        answers = connection.socket.recv(MIB)
                        assert answers
                        assert unanswered[connection].startswith(answers)
                        unanswered[connection] = unanswered[connection][len(answers) :]
                    if not unanswered[connection]:
                        del unanswered[connection]
            yield rounds * len(connections) * PIPELINED_REQUESTS


def big_frames(address: Address) -> Attack:
    """Requests that announce 100 MB and send 2 MiB; and one above the limit."""
    chunk = bytes(64 * KIB)
    with many(address, BIG_FRAMES) as connections:
        for connection in connections:
            connection.send(i32(BIG_FRAME_BYTES) + b"\0\x0b\0\0")
        sent = 0
        try:
            for rounds in itertools.count(1):
                if sent < BIG_FRAME_SENT_BYTES:
                    for connection in connections:
                        connection.send(chunk)
                    sent += len(chunk)
                with Connection(address) as above:
                    above.send(i32(104_857_601))
                    assert above.ends()
                yield rounds
        finally:
            # They are still waited for.
            assert all(connection.is_silent(0.001) for connection in connections)


def big_group(address: Address) -> Attack:
    """Ten thousand members of one group, each of whose clients has gone after its join. All of them wait for the first
    one, which does not join again."""
    allow_files(MEMBERS + 2_000)
    with Connection(address) as first:
        ask_all(first, [(join("big"), 4, i16(NONE))])
        for number in itertools.count():
            if number * 500 < MEMBERS:
                for _ in range(500):
                    with Connection(address) as member:
                        member.send(join("big"))
            yield min((number + 1) * 500, MEMBERS)


def pending_ids(address: Address) -> Attack:
    """Member ids that are asked for and never used (JoinGroup v4), beyond what a group hands out."""
    body = string("pending") + i32(30_000) + i32(60_000) + string("") + string("consumer")
    request = frame(JOIN_GROUP, 4, body + i32(1) + string("range") + blob(b"metadata"))
    with Connection(address) as connection:
        for rounds in itertools.count(1):
            error = MEMBER_ID_REQUIRED if rounds * FLOOD <= PENDING_IDS_MAX else GROUP_MAX_SIZE_REACHED
            ask_all(connection, [(request, 8, i16(error))] * FLOOD)
            yield rounds * FLOOD


def _names(seed: int, prefix: str) -> Iterator[str]:
    numbers = random.Random(seed)
    while True:
        yield f"{prefix}-{numbers.randbytes(8).hex()}"


def joins_of_random_groups(address: Address) -> Attack:
    """Each join makes a group with a member, whose session lasts for 30 s."""
    names = _names(1, "joined")
    with Connection(address) as connection:
        for rounds in itertools.count(1):
            ask_all(connection, [(join(next(names)), 4, i16(NONE)) for _ in range(FLOOD)])
            yield rounds * FLOOD


def commits_of_random_groups(address: Address) -> Attack:
    """Each commit makes a group with an offset, which is kept for `offsets.retention.minutes`."""
    names = _names(2, "committed")
    topics = i32(1) + string("t") + i32(1) + i32(0) + i64(5) + string("")
    with Connection(address) as connection:
        make_topic(connection)
        for rounds in itertools.count(1):
            asked = [string(next(names)) + i32(-1) + string("") + i64(-1) + topics for _ in range(FLOOD)]
            ask_all(connection, [(frame(OFFSET_COMMIT, 2, body), 0, COMMITTED) for body in asked])
            yield rounds * FLOOD


def commits_of_one_offset(address: Address) -> Attack:
    """The same offset again and again: the log behind it is not to keep them all."""
    topics = i32(1) + string("t") + i32(1) + i32(0) + i64(5) + string("x" * 1_000)
    request = frame(OFFSET_COMMIT, 2, string("again") + i32(-1) + string("") + i64(-1) + topics)
    with Connection(address) as connection:
        make_topic(connection)
        for rounds in itertools.count(1):
            ask_all(connection, [(request, 0, COMMITTED)] * FLOOD)
            yield rounds * FLOOD


def questions_about_random_groups(address: Address) -> Attack:
    """Descriptions, committed offsets and heartbeats of groups and members that do not exist."""
    names = _names(3, "nobody")
    with Connection(address) as connection:
        for rounds in itertools.count(1):
            asked = []
            for group in itertools.islice(names, FLOOD // 4):
                dead = i32(1) + i16(NONE) + string(group) + string("Dead") + string("") * 2 + i32(0)
                asked.append((frame(DESCRIBE_GROUPS, 0, i32(1) + string(group)), 4, dead))
                fetch = string(group) + i32(1) + string("t") + i32(1) + i32(0)
                asked.append((frame(OFFSET_FETCH, 1, fetch), 0, NO_OFFSET))
                asked.append((heartbeat(group, "m", 0), 0, REFUSED))
                asked.append((heartbeat("nobody", group, 0), 0, REFUSED))
            ask_all(connection, asked)
            yield rounds * len(asked)


@dataclass(frozen=True)
class Session:
    """`attack`, in which unit it says how much there was of it, for how many rounds a test lets it go on, and how
    many bytes the server may take for it by then."""

    attack: Callable[[Address], Attack]
    unit: str
    rounds: int
    bytes_max: int


ANSWERED = "requests answered"
SESSIONS = {
    session.attack.__name__: session
    for session in (
        Session(idle, "connections", 1, IDLE_CONNECTIONS * 8 * KIB),
        Session(slowloris, "bytes sent", 20, SLOW_CONNECTIONS * 8 * KIB + 8 * MIB),
        Session(deaf, "bytes sent", 1, DEAF_CONNECTIONS * 2 * (256 + 64 + 16) * KIB + 8 * MIB),
        Session(pipelined, ANSWERED, 2, 4 * 2 * (256 + 64 + 16) * KIB + 16 * MIB),
        Session(big_frames, "frames refused", 32, BIG_FRAMES * 2 * (BIG_FRAME_SENT_BYTES + 64 * KIB) + 8 * MIB),
        Session(big_group, "joins sent", 20, MEMBERS * 8 * KIB + 16 * MIB),
        Session(pending_ids, ANSWERED, 1, FLOOD * 2 * KIB + 8 * MIB),
        Session(joins_of_random_groups, ANSWERED, 1, FLOOD * 4 * KIB + 8 * MIB),
        Session(commits_of_random_groups, ANSWERED, 1, FLOOD * 4 * KIB + 8 * MIB),
        Session(commits_of_one_offset, ANSWERED, 4, 24 * MIB),
        Session(questions_about_random_groups, ANSWERED, 2, 8 * MIB),
    )
}
