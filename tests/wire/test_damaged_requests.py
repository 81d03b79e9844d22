"""Requests that are damaged on their way, between valid ones, against a whole server: no other client notices, no
handler panics, and memory stays where it was."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path

import rota
from harness.hostile_sessions import make_topic
from harness.raw import (
    DESCRIBE_GROUPS,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Connection,
    Member,
    blob,
    frame,
    heartbeat,
    i32,
    i64,
    join,
    string,
    sync,
)

from .bystander import a_healthy_client, resident_bytes

Address = tuple[str, int]

FRAMES = int(os.environ.get("ROTA_SERVER_FRAMES", "30000"))
SEED = int(os.environ.get("ROTA_SERVER_SEED", "11"))
CONNECTIONS = 8
LIFE_FRAMES = 250
BATCH_FRAMES = 10

LENGTHS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\xff\xff", b"\0\x98\x96\x80", b"\x80\x01")

# API, version, hexadecimal request from its header on: one of everything that is served.
SAMPLES = [
    bytes.fromhex(line.split()[2])
    for line in Path(__file__).with_name("requests.txt").read_text().splitlines()
    if not line.startswith("#")
]


def damaged(request: bytes, numbers: random.Random) -> bytes:
    """A request of the length that it announces, with one to three changes behind its key and version."""
    body = bytearray(request)
    for _ in range(numbers.randrange(1, 4)):
        at = numbers.randrange(4, max(5, len(body)))
        match numbers.randrange(5):
            case 0:
                body[at : at + 1] = numbers.randbytes(1)
            case 1:
                del body[at : at + numbers.randrange(1, 9)]
            case 2:
                length = numbers.choice(LENGTHS)
                body[at : at + len(length)] = length
            case 3:
                body[at:at] = body[at : at + numbers.randrange(1, 25)]
            case _:
                body[at:] = numbers.choice(SAMPLES)[at:]
    return bytes(body)


class Life:
    """A member of a group that others damage as well, and what it may say."""

    def __init__(self, address: Address, number: int, numbers: random.Random) -> None:
        self.numbers = numbers
        self.group = f"damaged-{number % 40}"
        self.member = Member(address, f"{self.group}-{number}")
        self.connection = self.member.connection
        self.left = LIFE_FRAMES

    def _right(self) -> bytes:
        group, me, generation = self.member.group, self.member.member_id, self.member.generation
        commit = i64(-1) + i32(1) + string("t") + i32(1) + i32(0) + i64(5) + string("")
        told = [
            heartbeat(group, me, generation),
            sync(group, me, generation, {me: b"plan"}),
            frame(OFFSET_COMMIT, 2, string(group) + i32(generation) + string(me) + commit),
            frame(OFFSET_FETCH, 1, string(group) + i32(1) + string("t") + i32(1) + i32(0)),
            frame(DESCRIBE_GROUPS, 0, i32(1) + string(group)),
            join(group, me),
            join(self.group),
            frame(LEAVE_GROUP, 0, string(group) + string(me)),
        ]
        weights = [8, 4, 4, 4, 4, 2, 1, 1]
        return self.numbers.choices(told, weights)[0]

    def say(self, frames: int) -> None:
        """So many requests, half of them damaged, half of those of any API."""
        said = []
        for _ in range(frames):
            right = self._right()
            match self.numbers.randrange(4):
                case 0 | 1:
                    said.append(right)
                case 2:
                    said.append(blob(damaged(right[4:], self.numbers)))
                case _:
                    said.append(blob(damaged(self.numbers.choice(SAMPLES), self.numbers)))
        self.left -= frames
        self.connection.send(b"".join(said))

    def hear(self) -> int:
        """How many bytes of answers are there; never waits. Raises ConnectionError when the server has closed."""
        self.connection.socket.setblocking(False)
        try:
            heard = self.connection.socket.recv(1 << 20)
        except BlockingIOError:
            return 0
        finally:
            self.connection.socket.settimeout(10)
        if not heard:
            raise ConnectionError
        return len(heard)


def test_damaged_requests_between_right_ones_go_unnoticed(rota_server: rota.Server, address: Address) -> None:
    numbers = random.Random(SEED)
    with a_healthy_client(address):
        before, heard, said, born = resident_bytes(), 0, 0, CONNECTIONS
        with Connection(address) as connection:
            make_topic(connection)
        lives = [Life(address, number, numbers) for number in range(CONNECTIONS)]
        while said < FRAMES:
            at = numbers.randrange(CONNECTIONS)
            # The server closes a connection with a request that it cannot read; a timeout is a request that is parked
            # for good.
            with suppress(ConnectionError, TimeoutError):
                lives[at].say(BATCH_FRAMES)
                said += BATCH_FRAMES
                heard += lives[at].hear()
                if lives[at].left > 0:
                    continue
            lives[at].connection.close()
            lives[at], born = Life(address, born, numbers), born + 1
        for life in lives:
            life.connection.close()
        grown = resident_bytes() - before
    assert rota_server.panics == 0
    # Or the server has handled hardly any of them.
    assert heard > 10 * FRAMES / 4
    assert grown < 100_000_000
    print(f"{said} requests over {born} connections, {heard} bytes of answers, {grown} bytes more")
