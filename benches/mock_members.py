"""Members of librdkafka's mock broker, which settles a group when the leader's plan has a part for every member."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import uuid4

from harness.raw import NONE, Connection, Reader, join, sync
from rota.bench.serving import Seat

# It waits for more members before it answers the first.
PATIENCE_S = 30
# Others have their turns meanwhile.
SESSION_TIMEOUT_MS = 300_000
# To a sync that comes after the leader's; who sends it is a member all the same.
INVALID_REQUEST = 42


def received(connection: Connection, allowed: int = NONE) -> Reader:
    """An answer, behind its correlation id and error."""
    answer = Reader(connection.receive())
    answer.i32()
    error = answer.i16()
    if error not in (NONE, allowed):
        raise OSError(f"librdkafka's mock answers with error {error}")
    return answer


def assembled(address: str, members: int, group_members: int) -> list[Seat]:
    """All of them in Stable groups; all groups at once."""
    host, port = address.split(":")
    groups = [f"rota-bench-{uuid4().hex[:8]}-{at}" for at in range(-(-members // group_members))]
    seats: list[Seat] = []
    with ExitStack() as stack:
        lines = [stack.enter_context(Connection((host, int(port)), PATIENCE_S)) for _ in range(members)]
        for at, line in enumerate(lines):
            line.send(join(groups[at // group_members], session_ms=SESSION_TIMEOUT_MS))
        for at, line in enumerate(lines):
            answer = received(line)
            generation, _, leader, member = answer.i32(), answer.string(), answer.string(), answer.string()
            assert member is not None
            plan = {}
            if leader == member:
                for _ in range(answer.i32()):
                    plan[str(answer.string())] = b"plan"
                    answer.blob()
            line.send(sync(groups[at // group_members], member, generation, plan))
            seats.append((groups[at // group_members], member, generation))
        for line in lines:
            received(line, INVALID_REQUEST)
    return seats
