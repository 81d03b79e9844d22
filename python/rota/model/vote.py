"""Which protocol a group uses (docs/protocol.md §4.3, §5.5), and which topics it consumes (§13.2)."""

from __future__ import annotations

from rota.model.requests import JoinGroup
from rota.model.state import Group


def common_protocols(group: Group) -> set[str]:
    """The names that every member lists (docs/protocol.md §1.2)."""
    lists = [{name for name, _ in member.protocols} for member in group.members]
    return set.intersection(*lists) if lists else set()


def is_acceptable(group: Group, request: JoinGroup) -> bool:
    """docs/protocol.md §4.3."""
    if group.state == "Empty":
        return request.protocol_type != "" and len(request.protocols) > 0
    if request.protocol_type != group.protocol_type:
        return False
    offered = {name for name, _ in request.protocols}
    return bool(offered & common_protocols(group)) if group.members else bool(offered)


def java_hash(text: str) -> int:
    """31 h + c over the UTF-16 code units, as an unsigned 32-bit number (docs/protocol.md §19)."""
    units = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        h = (31 * h + 256 * high + low) % 2**32
    return h


def vote(group: Group) -> str:
    """Each member votes for the first common name of its list; most votes win, ties go by bucket (docs/protocol.md
    §5.5).
    """
    common = common_protocols(group)
    ballots = [next(name for name, _ in member.protocols if name in common) for member in group.members]
    buckets = 16
    while len(set(ballots)) > buckets * 3 / 4:
        buckets *= 2

    def place(name: str) -> tuple[int, int, int]:
        h = java_hash(name)
        return (-ballots.count(name), (h ^ h >> 16) % buckets, ballots.index(name))

    return min(ballots, key=place)


def subscribed_topics(group: Group) -> tuple[str, ...] | None:
    """The union of the members' subscriptions, sorted; None if it cannot be known (docs/protocol.md §13.2)."""
    if group.protocol_type != "consumer" or (group.members and group.protocol_name is None):
        return None
    topics: set[str] = set()
    for member in group.members:
        subscription = _topics_of(dict(member.protocols).get(group.protocol_name or "", b""))
        if subscription is None:
            return None
        topics |= subscription
    return tuple(sorted(topics))


class Bytes:
    """Big-endian reading; raises ValueError where bytes are missing or make no sense."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data):
            raise ValueError("too few bytes")
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big", signed=True)

    def count(self) -> int:
        count = self.number(4)
        if count < 0:
            raise ValueError("a negative count")
        return count

    def text(self) -> str:
        return self.take(self.number(2)).decode()

    def text_or_null(self) -> str | None:
        length = self.number(2)
        return None if length < 0 else self.take(length).decode()


def _topics_of(data: bytes) -> set[str] | None:
    """The topics of a Subscription, read as version 0 whatever its version (docs/protocol.md §13.2)."""
    reader = Bytes(data)
    try:
        reader.number(2)
        topics = {reader.text() for _ in range(reader.count())}
        reader.take(max(reader.number(4), 0))
    except ValueError:
        return None
    return topics
