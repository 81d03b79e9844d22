"""A topic's batches as its brokers keep them, for a reader that must notice each offset that it does not get.

The library's consumer asks for a topic by its name and hides markers. Here a topic is asked for by its id, so a topic
that was created anew is another one, and markers are not confused with offsets whose records compaction took.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from kafka import TopicPartition, errors
from kafka.admin import OffsetSpec
from kafka.protocol.consumer import FetchRequest, IsolationLevel

from rota.groups.cluster import Bounds, Cluster, asking, refusal
from rota.groups.errors import GroupsError, Kind

NO_EPOCH = -1
BY_ID_SINCE = 13
"""The version of Fetch that names topics by their ids."""
BY_NAME = 12
NO_SESSION = -1


class Topic(NamedTuple):
    """A topic as its metadata say."""

    id: str
    """32 hexadecimal digits; "": the brokers are too old to have ids."""
    leaders: dict[int, int]
    """By partition; of those that have one."""
    leaderless: tuple[int, ...] = ()
    """The other partitions."""


class At(NamedTuple):
    """Where reading goes on in a partition."""

    offset: int
    epoch: int = NO_EPOCH
    """Of the leader that wrote what was read last."""


class Fetched(NamedTuple):
    """What a broker sent of a partition."""

    batches: bytes = b""
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of the aborted transactions in them."""
    error: str = ""
    """The name of the error, such as `OffsetOutOfRange`."""
    is_transient: bool = False
    """Whether the error may pass."""
    is_diverging: bool = False
    """Whether the broker has not got what was read last."""


class Feed(Protocol):
    """Where batches come from. Everything raises GroupsError."""

    def topic(self) -> Topic | None:
        """The topic as it is now; None: there is none."""

    def bounds(self, partition: int) -> Bounds | None:
        """The first and the next offset of a partition."""

    def stable_ends(self, topic: Topic) -> dict[int, int]:
        """By partition, the offset before which no transaction is open."""

    def fetch(self, topic: Topic, places: Mapping[int, At], bytes_max: int) -> dict[int, Fetched]:
        """The batches from these offsets on, as far as transactions are decided, so many bytes of each partition."""

    def close(self) -> None:
        """End the connection."""


class ClusterFeed:
    """A topic of a cluster."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    def topic(self) -> Topic | None:
        """The topic as it is now; None: there is none. Raises GroupsError."""
        told = self._cluster.metadata(self._topic)
        error = errors.for_code(told["error_code"])
        if error is errors.UnknownTopicOrPartitionError:
            return None
        if error is errors.TopicAuthorizationFailedError:
            raise GroupsError(Kind.REFUSED, f"an ACL forbids to describe the topic {self._topic}")
        with asking(f"{self._topic} could not be described"):
            if error is not errors.NoError:
                raise error
        found = UUID(str(told.get("topic_id") or UUID(int=0)))
        leaders = {one["partition_index"]: one["leader_id"] for one in told["partitions"]}
        leaderless = tuple(sorted(partition for partition, leader in leaders.items() if leader < 0))
        led = {partition: leader for partition, leader in leaders.items() if leader >= 0}
        return Topic(found.hex if found.int else "", led, leaderless)

    def bounds(self, partition: int) -> Bounds | None:
        """The first and the next offset of a partition. Raises GroupsError."""
        place = (self._topic, partition)
        return self._cluster.bounds([place]).get(place)

    def stable_ends(self, topic: Topic) -> dict[int, int]:
        """By partition, the offset before which no transaction is open. Raises GroupsError."""
        asked = {TopicPartition(self._topic, partition): OffsetSpec.LATEST for partition in topic.leaders}
        found = self._cluster.offsets(asked, IsolationLevel.READ_COMMITTED)
        return {at.partition: one.offset for at, one in found.items()}

    def fetch(self, topic: Topic, places: Mapping[int, At], bytes_max: int) -> dict[int, Fetched]:
        """The batches from these offsets on, as far as transactions are decided, so many bytes of each partition.

        Raises GroupsError.
        """
        by_leader: dict[int, dict[int, At]] = {}
        for partition, at in places.items():
            if partition in topic.leaders:
                by_leader.setdefault(topic.leaders[partition], {})[partition] = at
        found: dict[int, Fetched] = {}
        for leader, asked in by_leader.items():
            response = self._cluster.send(self._request(topic, asked, bytes_max), leader)
            with asking(f"{self._topic} could not be read"):
                if error := response.error_code:
                    raise errors.for_code(error)
            found |= {one.partition_index: _fetched(one) for answer in response.responses for one in answer.partitions}
            if topic.id and response.API_VERSION < BY_ID_SINCE and self.topic() != topic:
                return {}  # which of the topics answered is not known
        return found

    def _request(self, topic: Topic, places: Mapping[int, At], bytes_max: int) -> FetchRequest:
        partitions = [
            FetchRequest.FetchTopic.FetchPartition(
                partition=partition,
                current_leader_epoch=NO_EPOCH,
                fetch_offset=at.offset,
                last_fetched_epoch=at.epoch,
                partition_max_bytes=bytes_max,
            )
            for partition, at in places.items()
        ]
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=IsolationLevel.READ_COMMITTED,
            session_id=0,
            session_epoch=NO_SESSION,
            topics=[
                FetchRequest.FetchTopic(
                    topic=self._topic, topic_id=UUID(hex=topic.id) if topic.id else UUID(int=0), partitions=partitions
                )
            ],
            forgotten_topics_data=[],
            rack_id="",
            min_version=FetchRequest.min_version_for_isolation_level(IsolationLevel.READ_COMMITTED),
            max_version=BY_ID_SINCE if topic.id else BY_NAME,
        )

    def close(self) -> None:
        """End the connection."""
        self._cluster.__exit__(None, None, None)


FETCH_BYTES_MAX = 32 << 20
"""Of all partitions of a broker in one answer."""


def _fetched(told: FetchRequest) -> Fetched:
    error = errors.for_code(told.error_code)
    if error is not errors.NoError:
        return Fetched(error=refusal(error), is_transient=bool(error.retriable))
    diverging = told.diverging_epoch
    aborted = tuple((one.producer_id, one.first_offset) for one in told.aborted_transactions or ())
    is_diverging = diverging is not None and diverging.end_offset >= 0
    return Fetched(bytes(told.records or b""), aborted, is_diverging=is_diverging)
