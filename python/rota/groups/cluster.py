"""What `rota groups` asks of a cluster, through kafka-python; its errors become GroupsError."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition, errors
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.structs import OffsetAndMetadata

from rota.groups.errors import GroupsError, Kind, misused, nearest
from rota.groups.messages import ConsumerGroupDescribeRequest
from rota.groups.reaching import admin
from rota.groups.rights import Right, lacks

Partition = tuple[str, int]
"""Topic and index."""

FETCH_WAIT_MS = 500
"""How long a broker may wait until there is something to fetch: the library's own default."""
OFFSETS_TOPIC = "__consumer_offsets"
CONSUMER = "consumer"
"""The type of groups of the newer protocol."""
GROUP_ID_NOT_FOUND = 69
HIDDEN = errors.GroupAuthorizationFailedError.__name__
"""How the library begins to say that an ACL hides a group."""

# The library warns on stderr of what it then raises.
logging.getLogger("kafka").addHandler(logging.NullHandler())

KINDS: list[tuple[type[Exception], Kind]] = [
    (errors.GroupIdNotFoundError, Kind.NOT_FOUND),
    (errors.UnknownTopicOrPartitionError, Kind.NOT_FOUND),
    (errors.NonEmptyGroupError, Kind.IN_USE),
    (errors.UnknownMemberIdError, Kind.IN_USE),
    (errors.RebalanceInProgressError, Kind.IN_USE),
    (errors.GroupSubscribedToTopicError, Kind.IN_USE),
    (errors.BrokerResponseError, Kind.REFUSED),
    (errors.UnknownBrokerIdError, Kind.UNREACHABLE),
    (errors.KafkaConnectionError, Kind.UNREACHABLE),
    (errors.KafkaTimeoutError, Kind.UNREACHABLE),
    (errors.NodeNotReadyError, Kind.UNREACHABLE),
    (OSError, Kind.UNREACHABLE),
    (errors.KafkaError, Kind.REFUSED),
]
"""Which kind an error of the library is; the first row that it is an instance of counts."""


@dataclass(frozen=True)
class Listed:
    """One line of a list of groups."""

    group: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True)
class Member:
    """One member of a described group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: list[str]
    """What it subscribes to."""
    partitions: list[Partition]
    """What it was assigned."""
    epoch: int | None = None
    """Its member epoch, in a consumer group."""
    target: list[Partition] | None = None
    """What the coordinator wants it to have, in a consumer group."""

    @property
    def revoking(self) -> list[Partition]:
        """What it still has to give up."""
        return [] if self.target is None else [one for one in self.partitions if one not in self.target]


@dataclass(frozen=True)
class Described:
    """One group with its members; None if they cannot be asked for, as those of a share group."""

    group: str
    state: str
    type: str
    protocol_type: str
    protocol: str
    members: list[Member] | None
    epoch: int | None = None
    """The group epoch of a consumer group."""
    target_epoch: int | None = None
    """The group epoch for which its target assignment was computed."""


@dataclass(frozen=True)
class Committed:
    """A committed offset with what was committed beside it; the epoch is -1 where there is none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True)
class Bounds:
    """The first and the next offset of a partition."""

    first: int
    end: int


def refusal(code: type[Exception]) -> str:
    """The name of an error as people know it: `NonEmptyGroup`."""
    return code.__name__.removesuffix("Error")


def kind_of(error: Exception | type[Exception]) -> Kind:
    """Which kind an error of the library is."""
    found = error if isinstance(error, type) else type(error)
    return next((kind for one, kind in KINDS if issubclass(found, one)), Kind.REFUSED)


def told(error: Exception) -> str:
    """What an error says, without the number and the name of a class that the library puts before it."""
    said = ", ".join(str(one) for one in error.args if isinstance(one, str))
    return (said or refusal(type(error))) if isinstance(error, errors.KafkaError) else str(error)


@contextlib.contextmanager
def asking(what: str, lacks: str = "") -> Iterator[None]:
    """Turns the library's errors into one line. `lacks`: what to say if the user lacks a right."""
    try:
        yield
    except (errors.KafkaError, OSError) as error:
        if lacks and isinstance(error, errors.AuthorizationError):
            raise GroupsError(kind_of(error), lacks) from error
        raise GroupsError(kind_of(error), f"{what}: {told(error)}") from error


@contextlib.contextmanager
def changing(what: str, lacks: str = "") -> Iterator[None]:
    """As `asking`. If the broker goes away meanwhile, the outcome is unknown."""
    try:
        with asking(what, lacks):
            yield
    except GroupsError as error:
        if error.kind is Kind.UNREACHABLE:
            raise GroupsError(error.kind, f"{error}; whether it was done is not known: look with `describe`") from error
        raise


def _admin(settings: Mapping[str, Any]) -> KafkaAdminClient:
    try:
        return admin(settings)
    except (TypeError, ValueError, AssertionError) as error:
        raise misused(f"the client library refuses the properties: {error}") from error


def _at(partition: Partition) -> Any:
    return TopicPartition(*partition)


class Cluster:
    """A connection to a cluster, for as long as the `with` lasts."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any], timeout_ms: int) -> None:
        self._settings = {
            "client_id": "rota-groups",
            "request_timeout_ms": timeout_ms,
            "bootstrap_timeout_ms": timeout_ms,
            **settings,
            "bootstrap_servers": [server.strip() for server in bootstrap_servers.split(",")],
        }
        with asking(f"no answer from {bootstrap_servers}"):
            self._admin = _admin(self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listed]:
        """All groups, by name; only those in one of the states, of one of the types."""
        with asking("the groups could not be listed"):
            found = self._admin.list_groups(states_filter=list(states) or None, types_filter=list(types) or None)
        lines = [
            Listed(one["group_id"], one.get("group_state", ""), one.get("group_type", ""), one["protocol_type"])
            for one in found
        ]
        return sorted(lines, key=lambda line: line.group)

    def lacks(self, operation: str, kind: str, names: Iterable[str]) -> str:
        """What to say if this user may not do something with groups or topics."""
        return lacks(self._settings.get("sasl_plain_username"), Right(operation, kind, sorted(set(names))))

    def describe(self, groups: Sequence[str]) -> list[Described]:
        """These groups with their members; a group that does not exist is an error that names it."""
        with asking(f"{', '.join(groups)} could not be described", self.lacks("DESCRIBE", "GROUP", groups)):
            found = self._admin.describe_groups(list(groups)) if groups else {}
        if hidden := [group for group in groups if HIDDEN in (found[group]["error"] or "")]:
            raise GroupsError(Kind.REFUSED, self.lacks("DESCRIBE", "GROUP", hidden))
        unknown = {group for group in groups if _is_unknown(found[group])}
        listed = {line.group: line for line in self.groups()} if unknown else {}
        newer = self._consumer_groups(
            [group for group in unknown if group in listed and listed[group].type == CONSUMER]
        )
        of_unknown = {group: newer.get(group) or self._newer(group, listed) for group in unknown}
        return [of_unknown[group] if group in unknown else _described(found[group]) for group in groups]

    def _consumer_groups(self, groups: Sequence[str]) -> dict[str, Described]:
        """Groups of the consumer protocol; without those that have gone meanwhile."""
        with asking(f"{', '.join(groups)} could not be described"):
            told = self._admin._manager.run(self._ask_consumer_groups, groups) if groups else []
        return {one.group_id: _consumer_group(one) for one in told if one.error_code != GROUP_ID_NOT_FOUND}

    async def _ask_consumer_groups(self, groups: Sequence[str]) -> list[Any]:
        told = []
        for group, node_id in (await self._admin._find_coordinator_ids(list(groups))).items():
            request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
            told += (await self._admin._manager.send(request, node_id=node_id)).groups
        return told

    @staticmethod
    def _newer(group: str, listed: Mapping[str, Listed]) -> Described:
        """A group that only the list knows: one of Kafka's newer protocols."""
        if group not in listed:
            raise GroupsError(Kind.NOT_FOUND, f"there is no group `{group}`{nearest(group, listed)}")
        line = listed[group]
        return Described(group, line.state, line.type, line.protocol_type, "", [] if line.state == "Empty" else None)

    def committed(self, group: str) -> dict[Partition, Committed]:
        """Every committed offset of a group."""
        with asking(f"the offsets of group `{group}` could not be read", self.lacks("DESCRIBE", "GROUP", [group])):
            found = self._admin.list_group_offsets({group: None})[group]
        return {
            (at.topic, at.partition): Committed(one.offset, _epoch(one.leader_epoch), one.metadata or "")
            for at, one in sorted(found.items())
            if one.offset >= 0
        }

    def transactions(self, states: Sequence[str]) -> dict[str, Any]:
        """The transactional ids in these states, as the library describes them.

        None on a broker that does not list transactions, or not for this user, or that does not answer.
        """
        with contextlib.suppress(errors.KafkaError):
            listed = self._admin.list_transactions(state_filters=list(states))
            found = sorted({one.transactional_id for of_broker in listed.values() for one in of_broker})
            return dict(self._admin.describe_transactions(found)) if found else {}
        return {}

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions of those of these topics that there are."""
        wanted = sorted(set(topics))
        with asking("the topics could not be read"):
            there = set(self._admin.list_topics())
            asked = [topic for topic in wanted if topic in there]
            found = self._admin.describe_topics(asked) if asked else []
        return {one["name"]: sorted(part["partition_index"] for part in one["partitions"]) for one in found}

    def metadata(self, topic: str) -> dict[str, Any]:
        """A topic as the library describes it: its id, its partitions with their leaders, or an error code."""
        with asking("the topics could not be read"):
            [found] = self._admin.describe_topics([topic])
        return dict(found)

    def send(self, request: Any, node_id: int) -> Any:
        """What a node answers to a request of the library."""

        async def ask() -> Any:
            return await self._admin._manager.send(request, node_id=node_id)

        with asking(f"node {node_id} gave no answer"):
            return self._admin._manager.run(ask)

    def offsets(self, specs: Mapping[Any, Any], isolation_level: int) -> dict[Any, Any]:
        """Offsets of partitions as the library tells them."""
        with asking("the ends of partitions could not be read"):
            return dict(self._admin.list_partition_offsets(specs, isolation_level=isolation_level)) if specs else {}

    def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, Bounds]:
        """First and next offset of those of these partitions that there are."""
        wanted = self._there(partitions)
        first, end = self._offsets(wanted, OffsetSpec.EARLIEST), self._offsets(wanted, OffsetSpec.LATEST)
        return {at: Bounds(first[at].offset, end[at].offset) for at in wanted}

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The next offset of those of these partitions that there are."""
        return {at: found.offset for at, found in self._offsets(self._there(partitions), OffsetSpec.LATEST).items()}

    def at_time(self, partitions: Iterable[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The first offset at or after a time, in partitions that there are; -1 where no message is as young."""
        return {at: found.offset for at, found in self._offsets(list(partitions), timestamp_ms).items()}

    def newest_ms(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The latest timestamp in each partition, where the broker tells it."""
        try:
            found = self._offsets(list(partitions), OffsetSpec.MAX_TIMESTAMP)
        except GroupsError as error:
            if isinstance(error.__cause__, errors.UnsupportedVersionError):
                return {}
            raise
        return {at: one.timestamp for at, one in found.items() if one.timestamp >= 0}

    def _there(self, partitions: Iterable[Partition]) -> list[Partition]:
        wanted = list(partitions)
        there = self.partitions(topic for topic, _ in wanted)
        return [(topic, index) for topic, index in wanted if index in there.get(topic, [])]

    def _offsets(self, partitions: Sequence[Partition], spec: Any) -> dict[Partition, Any]:
        topics = [topic for topic, _ in partitions]
        with asking("the ends of partitions could not be read", self.lacks("DESCRIBE", "TOPIC", topics)):
            asked = {_at(partition): spec for partition in partitions}
            found = self._admin.list_partition_offsets(asked) if asked else {}
        return {(at.topic, at.partition): one for at, one in found.items()}

    @contextlib.contextmanager
    def consumer(self, fetch_bytes_max: int, isolation_level: str = "read_uncommitted") -> Iterator[Any]:
        """A consumer of the library without a group; it fetches so many bytes of a partition at once."""
        settings = {name: value for name, value in self._settings.items() if name in KafkaConsumer.DEFAULT_CONFIG}
        with asking("messages could not be read"):
            consumer = KafkaConsumer(
                **settings,
                enable_auto_commit=False,
                isolation_level=isolation_level,
                auto_offset_reset="earliest",
                max_partition_fetch_bytes=fetch_bytes_max,
                # The library wants it below the timeout of a request.
                fetch_max_wait_ms=min(FETCH_WAIT_MS, int(self._settings["request_timeout_ms"]) // 2),
            )
            try:
                yield consumer
            finally:
                consumer.close()

    def alter(self, group: str, offsets: Mapping[Partition, Committed]) -> dict[Partition, type[Exception]]:
        """Commits offsets for a group without members; what was refused, by partition."""
        with changing(f"the offsets of group `{group}` could not be changed", self.lacks("READ", "GROUP", [group])):
            told = {
                _at(partition): OffsetAndMetadata(one.offset, one.metadata, one.leader_epoch)
                for partition, one in offsets.items()
            }
            return self._refused(self._admin.alter_group_offsets(group, told), "READ", group)

    def _refused(
        self, codes: Mapping[Any, type[Exception]], operation: str, group: str
    ) -> dict[Partition, type[Exception]]:
        """What was refused, by partition. Raises GroupsError if a right to the group or the topics is missing."""
        kinds = set(codes.values())
        if kinds == {errors.GroupAuthorizationFailedError}:
            raise GroupsError(Kind.REFUSED, f"{self.lacks(operation, 'GROUP', [group])}; nothing was changed")
        if kinds == {errors.TopicAuthorizationFailedError}:
            topics = self.lacks("READ", "TOPIC", [at.topic for at in codes])
            raise GroupsError(Kind.REFUSED, f"{topics}; nothing was changed")
        return {(at.topic, at.partition): code for at, code in codes.items() if code is not errors.NoError}

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, type[Exception]]:
        """Deletes committed offsets; what was refused, by partition."""
        with changing(f"the offsets of group `{group}` could not be deleted", self.lacks("DELETE", "GROUP", [group])):
            codes = self._admin.delete_group_offsets(group, [_at(partition) for partition in partitions])
            return self._refused(codes, "DELETE", group)

    def delete(self, groups: Sequence[str]) -> dict[str, str]:
        """Deletes groups with their offsets; what was refused, by group."""
        with changing(f"{', '.join(groups)} could not be deleted", self.lacks("DELETE", "GROUP", groups)):
            codes = self._admin.delete_groups(list(groups))
        if codes and all(HIDDEN in code for code in codes.values()):
            raise GroupsError(Kind.REFUSED, f"{self.lacks('DELETE', 'GROUP', groups)}; nothing was changed")
        return {group: code.removesuffix("Error") for group, code in codes.items() if code != "OK"}

    def remove(self, group: str, member: Member, reason: str) -> type[Exception] | None:
        """Removes a member, by its instance id if it has one; what it was refused with."""
        one = (
            MemberToRemove(member_id=member.member_id, reason=reason)
            if member.instance_id is None
            else MemberToRemove(group_instance_id=member.instance_id, reason=reason)
        )
        what = f"member `{member.member_id}` of group `{group}` could not be removed"
        with changing(what, self.lacks("READ", "GROUP", [group])):
            [code] = self._admin.remove_group_members(group, [one]).values()
        return None if code is errors.NoError else code


def _epoch(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _is_unknown(found: Mapping[str, Any]) -> bool:
    return found["group_state"] == "Dead" or "GroupIdNotFound" in (found["error"] or "")


def _consumer_group(found: Any) -> Described:
    if found.error_code:
        reason = found.error_message or refusal(errors.for_code(found.error_code))
        raise GroupsError(Kind.REFUSED, f"group `{found.group_id}` could not be described: {reason}")

    def places(assignment: Any) -> list[Partition]:
        return sorted((part.topic_name, index) for part in assignment.topic_partitions for index in part.partitions)

    members = [
        Member(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            sorted(one.subscribed_topic_names),
            places(one.assignment),
            one.member_epoch,
            places(one.target_assignment),
        )
        for one in found.members
    ]
    epochs = (found.group_epoch, found.assignment_epoch)
    return Described(found.group_id, found.group_state, CONSUMER, CONSUMER, found.assignor_name, members, *epochs)


def _described(found: Mapping[str, Any]) -> Described:
    group = found["group_id"]
    if found["error"] is not None:
        raise GroupsError(Kind.REFUSED, f"group `{group}` could not be described: {found['error']}")
    members = []
    for one in found["members"]:
        assignment, subscription = one["member_assignment"], one["member_metadata"]
        # Of another protocol than a consumer's, these are bytes.
        parts = assignment.get("assigned_partitions", []) if isinstance(assignment, Mapping) else []
        topics = subscription.get("topics", []) if isinstance(subscription, Mapping) else []
        held = sorted((part["topic"], index) for part in parts for index in part["partitions"])
        members.append(
            Member(
                one["member_id"],
                one.get("group_instance_id"),
                one["client_id"],
                one["client_host"],
                sorted(topics),
                held,
            )
        )
    return Described(group, found["group_state"], "classic", found["protocol_type"], found["protocol_data"], members)
