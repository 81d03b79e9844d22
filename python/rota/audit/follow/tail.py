"""What is new in `__consumer_offsets` of a broker: its batches, up to so many bytes of each partition at once.

A position has the topic's id and the offset that is next in each partition. Offsets are neither read twice nor passed
over: where the broker has not got them, because the topic was created anew or lost records, reading ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rota import _rota
from rota.audit.logs import OFFSETS, OFFSETS_TOPIC
from rota.groups.errors import GroupsError, Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from rota.groups.fetching import At, Feed, Fetched, Topic

PARTITION_BYTES = 4 << 20
ANEW = "what was read is still right; follow from the beginning with another --checkpoint directory"

Say = Callable[[str], None]


class LostError(Exception):
    """The broker has not got what comes next. The message says why and what to do."""


class Position(NamedTuple):
    """How far a topic has been read."""

    log: str = ""
    """What its rows call it; stays the same if the address of the cluster changes."""
    topic: str | None = None
    """Its id; None: nothing was read."""
    following: dict[int, tuple[int, int]] = {}  # noqa: RUF012 - never changed
    """By partition: the offset that is next, and the epoch of the leader that wrote what was read last."""

    def plain(self) -> dict[str, Any]:
        """Return the position in the types of JSON."""
        following = {str(partition): list(at) for partition, at in sorted(self.following.items())}
        return {"log": self.log, "topic": self.topic, "next": following}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Position:
        """The position that JSON has; {}: the beginning."""
        following = {int(partition): (at[0], at[1]) for partition, at in plain.get("next", {}).items()}
        return cls(plain.get("log", ""), plain.get("topic"), following)


class Piece(NamedTuple):
    """Batches of a partition as they were fetched, and which of their offsets count."""

    first_offset: int
    end_offset: int
    batches: bytes
    aborted: tuple[tuple[int, int], ...]


class Chunk(NamedTuple):
    """What one task decodes: consecutive pieces of a partition."""

    log: str
    partition: int
    pieces: tuple[Piece, ...]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of the pieces."""
        from rota.audit.decoding import placed

        for piece in self.pieces:
            first, end = piece.first_offset, piece.end_offset
            count, columns = _rota.audit_fetched(piece.batches, first, end, list(piece.aborted))
            yield placed(OFFSETS, self.log, self.partition, count, columns)


@dataclass
class Tail:
    """Reads from a feed what comes behind a position."""

    servers: str
    feed: Feed
    say: Say = lambda _: None
    partition_bytes: int = PARTITION_BYTES
    kept: dict[int, Piece] = field(default_factory=dict)
    """What `reach` fetched last."""
    said: set[str] = field(default_factory=set)
    rounds: int = 0

    def topic(self, start: Position) -> Topic:
        """The topic, which is the one of the position. Raises GroupsError and LostError."""
        topic = self.feed.topic()
        if topic is None:
            raise GroupsError(Kind.NOT_FOUND, f"{self.servers} has no topic {OFFSETS_TOPIC} now")
        if start.topic is not None and topic.id != start.topic:
            raise LostError(
                f"{self.servers}: {OFFSETS_TOPIC} was created anew: its id is {topic.id or 'not known'}, that of the"
                f" topic which was followed is {start.topic or 'not known'}; {ANEW}"
            )
        return topic

    def reach(self, start: Position, goal: Mapping[int, int] | None = None) -> Position:
        """Fetch once, and say how far that reaches. Raises GroupsError and LostError."""
        from rota.groups.fetching import At

        topic = self.topic(start)
        for partition in topic.leaderless:
            self._say_once(f"partition {partition} of {OFFSETS_TOPIC} cannot be read now: it has no leader")
        following = {partition: At(*at) for partition, at in start.following.items()}
        places = {partition: following.get(partition, At(0)) for partition in self._in_turn(topic)}
        if goal is not None:
            places = {one: at for one, at in places.items() if at.offset < goal.get(one, 0)}
        self.kept, reached = {}, dict(start.following)
        for partition, first, fetched in self._fetched(topic, places):
            at = places[partition]
            # Without a batch there is nothing behind the offsets that were removed.
            until, epoch = self._extent(partition, at.offset, fetched) or (first, at.epoch)
            end = until if goal is None else min(until, goal[partition])
            if end > at.offset:
                self.kept[partition] = Piece(at.offset, end, fetched.batches, fetched.aborted)
                reached[partition] = (end, epoch)
        left = [partition for partition, end in (goal or {}).items() if following.get(partition, At(0)).offset < end]
        if left and not self.kept:
            text = ", ".join(map(str, left))
            raise GroupsError(Kind.UNREACHABLE, f"partitions of {OFFSETS_TOPIC} that cannot be read now: {text}")
        return Position(start.log or self.servers, topic.id, reached)

    def chunks(self, start: Position, end: Position) -> list[Chunk]:
        """The batches between two positions, which are fetched again if need be. Raises GroupsError and LostError."""
        found = []
        for partition, (goal, epoch) in end.following.items():
            first, _ = start.following.get(partition, (0, epoch))
            if first < goal:
                kept = self.kept.get(partition)
                is_kept = kept is not None and (kept.first_offset, kept.end_offset) == (first, goal)
                pieces = (kept,) if kept is not None and is_kept else self._again(end, partition, first, goal)
                found.append(Chunk(end.log, partition, pieces))
        return found

    def ends(self) -> dict[int, int]:
        """By partition, the offset before which no transaction is open now. Raises GroupsError."""
        topic = self.topic(Position())
        if topic.leaderless:
            text = ", ".join(map(str, topic.leaderless))
            raise GroupsError(Kind.UNREACHABLE, f"partitions of {OFFSETS_TOPIC} without a leader now: {text}")
        return self.feed.stable_ends(topic)

    def _in_turn(self, topic: Topic) -> list[int]:
        """The partitions, each time beginning with another one: an answer has room for some."""
        self.rounds += 1
        partitions = sorted(topic.leaders)
        turn = self.rounds % max(1, len(partitions))
        return partitions[turn:] + partitions[:turn]

    def _fetched(self, topic: Topic, places: Mapping[int, At]) -> Iterator[tuple[int, int, Fetched]]:
        """What came of each partition, and from which offset on: that of its place, or the first that is left.

        Partitions that could not be read now are left for later.
        """
        from rota.groups.fetching import At

        for partition, fetched in self.feed.fetch(topic, places, self.partition_bytes).items():
            at, found = places[partition], fetched
            first = at.offset
            if found.error == "OffsetOutOfRange":
                first = self._first(partition, at.offset)
                found = self.feed.fetch(topic, {partition: At(first)}, self.partition_bytes).get(partition, found)
            if found.is_diverging:
                raise LostError(
                    f"{self.servers}: partition {partition} of {OFFSETS_TOPIC} has lost records that were read before"
                    f" offset {at.offset} (a leader that lacked them was elected); {ANEW}"
                )
            if not found.error:
                yield partition, first, found
            elif found.is_transient or found.error == "OffsetOutOfRange":
                self._say_once(f"partition {partition} of {OFFSETS_TOPIC} cannot be read now: {found.error}")
            else:
                hint = ": an ACL forbids to read it" if found.error == "TopicAuthorizationFailed" else ""
                raise GroupsError(Kind.REFUSED, f"{OFFSETS_TOPIC} could not be read: {found.error}{hint}")

    def _first(self, partition: int, offset: int) -> int:
        """Where to go on if the broker has not got an offset. Raises LostError if it had it, or more."""
        bounds = self.feed.bounds(partition)
        if bounds is None:
            raise GroupsError(Kind.UNREACHABLE, f"partition {partition} of {OFFSETS_TOPIC} is not there now")
        if offset > bounds.end:
            raise LostError(
                f"{self.servers}: partition {partition} of {OFFSETS_TOPIC} ends at offset {bounds.end}, but it was read"
                f" up to {offset}: it was created anew or lost records; {ANEW}"
            )
        if 0 < offset < bounds.first:
            removed = f"offsets {offset} to {bounds.first - 1} of partition {partition}"
            self._say_once(f"{removed} were removed before they were read: what was known of its groups is forgotten")
        return max(offset, bounds.first)

    def _extent(self, partition: int, offset: int, fetched: Fetched) -> tuple[int, int] | None:
        where = f"{self.servers}: what partition {partition} of {OFFSETS_TOPIC} has at offset {offset}"
        try:
            extent = _rota.audit_extent(fetched.batches)
        except ValueError as error:
            raise LostError(f"{where} is no batch: {error}") from error
        if extent is not None and extent[0] <= offset:
            raise LostError(f"{where} ends before it, at {extent[0]}")
        return extent

    def _again(self, end: Position, partition: int, first: int, goal: int) -> tuple[Piece, ...]:
        """Fetch the offsets from `first` to before `goal`. Compaction may have taken some of them since."""
        from rota.groups.fetching import At

        pieces: list[Piece] = []
        while first < goal:
            topic = self.topic(end)
            [*answers] = self._fetched(topic, {partition: At(first)})
            if not answers:
                raise GroupsError(Kind.UNREACHABLE, f"partition {partition} of {OFFSETS_TOPIC} cannot be read now")
            [(_, _, fetched)] = answers
            extent = self._extent(partition, first, fetched)
            if extent is None:
                self._first(partition, goal)
            # Without a batch behind it, the offset is one that compaction took, with all that follow.
            until = goal if extent is None else min(extent[0], goal)
            pieces.append(Piece(first, until, fetched.batches, fetched.aborted))
            first = until
        return tuple(pieces)

    def _say_once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.say(text)
