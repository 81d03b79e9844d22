"""The records of `__transaction_state` from their bytes (docs/transactions.md §8), as the model has them.

It shares no code with the coordinator's encoder and decoder.
"""

from __future__ import annotations

from rota.check.differential.consumer_bytes import Malformed, Reader
from rota.model.transactions import COMPLETE, EMPTY, ONGOING, PREPARE, Participant, Transaction

STATES = (EMPTY, ONGOING, PREPARE[True], PREPARE[False], COMPLETE[True], COMPLETE[False])


def key_of(transactional_id: str) -> bytes:
    """The key of an id's records."""
    text = transactional_id.encode()
    return b"\x00\x00" + len(text).to_bytes(2, "big") + text


def decoded(value: bytes) -> tuple[int, Transaction]:
    """A value with its version."""
    r = Reader(value)
    version = r.number("h")
    if version not in (0, 1):
        raise Malformed(f"the version of {value.hex()}")
    producer, timeout_ms = (r.number("q"), r.number("h")), r.number("i")
    state = STATES[r.number("b")]
    participants = _compact(r) if version else _classic(r)
    if (participants is None) != (state == EMPTY):
        raise Malformed(f"{value.hex()}: the partitions are null only in Empty")
    updated_ms, start_ms = r.number("q"), r.number("q")
    tags = r.tags() if version else {}
    r.end()
    found = [] if participants is None else participants
    if found != sorted(set(found)):
        raise Malformed(f"{value.hex()}: the partitions are not in order")
    previous, following, protocol = (int.from_bytes(tags[t], "big", signed=True) if t in tags else -1 for t in range(3))
    return version, Transaction(
        state, producer, timeout_ms, frozenset(found), start_ms, updated_ms, previous, following, max(protocol, 1)
    )


def _classic(r: Reader) -> list[Participant] | None:
    topics = r.number("i")
    if topics < 0:
        return None
    found = []
    for _ in range(topics):
        topic = r.take(r.number("h")).decode()
        found += [(topic, r.number("i")) for _ in range(r.number("i"))]
    return found


def _compact(r: Reader) -> list[Participant] | None:
    topics = r.varint() - 1
    if topics < 0:
        return None
    found = []
    for _ in range(topics):
        topic = r.word()
        found += [(topic, at) for at in r.array(lambda: r.number("i"))]
        if r.tags():
            raise Malformed(f"{r.octets.hex()}: a topic has tags")
    return found
