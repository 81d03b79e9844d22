"""The broker that is being asked: what it can do, the topics and groups that are made on it, and their removal."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.client_properties import ClientSecurity
from rota.codec import Fields, apis
from rota.conform import limits
from rota.conform.said import FAULT, Said
from rota.conform.wire import Address, Connection, Exchange, Limits, WireError
from rota.transcript.cast import MINTED, StepError

PARTITIONS = 8
TOPICS = ("t", "u", "v", "w")
#: Of Metadata: enough to see that a topic is there, and the one that tells its id.
PLAIN_METADATA, METADATA_WITH_IDS = 8, 12
PREPARED_WITHIN_S = 90.0
CLEANED_WITHIN_S = 15.0
#: After Ctrl-C.
CLEANED_SOON_S = 0.8
#: DescribeGroups and DeleteGroups take lists; this many names at a time.
BATCH = 200
POLL_S = 0.05
#: The broker may still read requests of connections that were closed; then the next list has another group.
LISTS_WITHOUT = 2
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
NOT_YET = {14, 15, 16}
NONE, GROUP_ID_NOT_FOUND = 0, 69
#: Of ConsumerGroupDescribe v1, and of ConsumerGroupHeartbeat: the member epoch of a member that leaves for good.
CLASSIC_MEMBER, LEAVES = 0, -1
#: Of DescribeConfigs: the settings of a broker.
BROKER_RESOURCE = 4
#: In a step that names no group.
NAMELESS = 'group=""'
#: More than any initial rebalance delay that is worth waiting for.
DELAY_S_MAX = 10.0
Leave = tuple[str, int, Fields]
"""API, version and values of a request by which a member leaves."""


class NotServedError(Exception):
    """By its own ApiVersions the broker lacks an API, or the version of it, that a row needs."""


@dataclass
class Broker:
    """One address. `answer_s` is how long a plain answer may take."""

    address: Address
    answer_s: float = 5.0
    stopped: threading.Event = field(default_factory=threading.Event)
    #: what it is said to be set to, besides the initial rebalance delay
    settings: frozenset[tuple[str, str]] = frozenset()
    #: API -> the newest version of it to use, but where a row is about a version
    at_most: Mapping[str, int] = field(default_factory=dict)
    #: TLS and SASL
    security: ClientSecurity | None = None
    #: API key -> first and last version, as ApiVersions says
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: the names that transcripts use -> the topics on the broker
    topics: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    #: what may be there at the end, whether or not it could be used
    topics_asked_for: tuple[str, ...] = ()
    #: the initial rebalance delay, as measured; None if no group could be joined
    delay_s: float | None = None
    #: whether its member ids are the client id and a UUID
    has_usual_ids: bool = True
    #: the settings by which it refuses requests, as it says; Kafka's defaults if it does not
    refuses_by: limits.Limits = field(default_factory=lambda: limits.DEFAULTS)
    trail: deque[Exchange] = field(default_factory=lambda: deque(maxlen=200))

    def __post_init__(self) -> None:
        self.prefix = f"conform-{uuid.uuid4().hex[:8]}-"
        self._count = 0
        self._lock = threading.Lock()
        #: held by the row that uses the group without a name
        self.nameless = threading.Lock()
        #: whether a row has used it
        self.uses_nameless = False

    def limits(self, within_s: float) -> Limits:
        """Of something that has to be over in this time."""
        return Limits(time.monotonic() + within_s, self.answer_s, self.stopped)

    def connect(self, within_s: float = PREPARED_WITHIN_S) -> Connection:
        """A connection of the kit's own."""
        return Connection(self.address, "conform", self.limits(within_s), self.trail, security=self.security)

    def newest(self, name: str, wanted: int) -> int:
        """`wanted`, or the newest version below it; raises NotServedError."""
        first, last = self.ranges.get(apis()[name].key, (0, -1))
        found = min(wanted, last, self.at_most.get(name, last))
        if found < first:
            raise NotServedError(f"{name} v{wanted}")
        return found

    def exactly(self, name: str, version: int) -> int:
        """`version`, if the broker says that it has it; raises NotServedError."""
        first, last = self.ranges.get(apis()[name].key, (0, -1))
        if not first <= version <= last:
            raise NotServedError(f"{name} v{version}")
        return version

    def new_group(self) -> str:
        """The beginning of the names of one row's groups."""
        with self._lock:
            self._count += 1
            return f"{self.prefix}{self._count}."

    def ask(self, connection: Connection, name: str, wanted: int, values: Fields) -> Fields:
        """In the newest version up to `wanted`."""
        return connection.ask(name, self.newest(name, wanted), values)

    def contact(self) -> None:
        """Learn the versions; raises WireError if this is no broker."""
        with contextlib.closing(self.connect()) as connection:
            found = connection.ask("ApiVersions", 0, {})
        self.ranges = {each["api_key"]: (each["min_version"], each["max_version"]) for each in found["api_keys"]}

    def prepare(self) -> list[str]:
        """Topics, a coordinator for each group, the initial delay. Gives what could not be done."""
        problems = []
        steps = {
            "topics": self._create_topics,
            "topic ids": self._learn_ids,
            "settings": self._learn_settings,
            "coordinator": self._await,
            "group": self._measure,
        }
        for what, step in steps.items():
            try:
                step()
            except WireError as error:
                problems.append(f"no {what}: {type(error).__name__.removesuffix('Error').lower()}: {error}")
            except NotServedError as error:
                problems.append(f"no {what}: not served: {error}")
        return problems

    def _create_topics(self) -> None:
        names = {name: f"{self.prefix}{name}" for name in TOPICS}
        self.topics_asked_for = tuple(names.values())
        with contextlib.closing(self.connect()) as connection:
            wanted = [{"name": name, "num_partitions": PARTITIONS, "replication_factor": 1} for name in names.values()]
            with contextlib.suppress(NotServedError):  # then asking for them may create them
                self.ask(connection, "CreateTopics", 5, {"topics": wanted, "timeout_ms": 10_000})
            while True:
                asked = {"topics": [{"name": name} for name in names.values()], "allow_auto_topic_creation": True}
                found = self.ask(connection, "Metadata", PLAIN_METADATA, asked)["topics"]
                if all(topic["error_code"] == NONE and topic["partitions"] for topic in found):
                    break
                connection.limits.left_s(0)
                self.stopped.wait(POLL_S)
            self.topics = names

    def _learn_ids(self) -> None:
        with contextlib.closing(self.connect()) as connection:
            asked = {"topics": [{"name": name} for name in self.topics.values()]}
            found = self.ask(connection, "Metadata", METADATA_WITH_IDS, asked)["topics"]
            self.topic_ids = {topic["name"]: topic["topic_id"] for topic in found if "topic_id" in topic}

    def _learn_settings(self) -> None:
        with contextlib.closing(self.connect()) as connection, contextlib.suppress(NotServedError):
            nodes = self.ask(connection, "Metadata", PLAIN_METADATA, {"topics": []})["brokers"]
            this = {"resource_type": BROKER_RESOURCE, "resource_name": str(nodes[0]["node_id"] if nodes else 0)}
            wanted = this | {"configuration_keys": list(limits.DEFAULTS)}
            for found in self.ask(connection, "DescribeConfigs", 4, {"resources": [wanted]})["results"]:
                told = {
                    each["name"]: int(each["value"]) for each in found["configs"] if (each["value"] or "").isdecimal()
                }
                self.refuses_by = {**limits.DEFAULTS, **told}

    def _await(self) -> None:
        """Until every partition of the offsets topic is loaded, if groups can be described; so many names meet each."""
        with contextlib.closing(self.connect()) as connection:
            names = [f"{self.prefix}{number}" for number in range(5 * BATCH)]
            while True:
                asked = {"key_type": 0, "key": names[0], "coordinator_keys": names[:1]}
                found = self.ask(connection, "FindCoordinator", 4, asked)
                error = found["coordinators"][0]["error_code"] if "coordinators" in found else found["error_code"]
                if error == NONE and not self._is_loading(connection, names):
                    break
                connection.limits.left_s(0)
                self.stopped.wait(POLL_S)

    def _is_loading(self, connection: Connection, names: list[str]) -> bool:
        """Whether one of these groups is not served yet; no if they cannot be described."""
        with contextlib.suppress(NotServedError):
            groups = self.ask(connection, "DescribeGroups", 5, {"groups": names})["groups"]
            return any(group["error_code"] in NOT_YET for group in groups)
        return False

    def _measure(self) -> None:
        """How long the first member of a group waits; the first time of all it may wait for more."""
        with contextlib.closing(self.connect()) as connection:
            connection.limits.answer_s = DELAY_S_MAX + self.answer_s
            self.delay_s = min(self._first_join(connection) for _ in range(2))

    def _first_join(self, connection: Connection) -> float:
        group = self.new_group() + "g"
        join = {
            "group_id": group,
            "session_timeout_ms": max(10_000, self.refuses_by["group.min.session.timeout.ms"]),
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        version = min(3, self.newest("JoinGroup", 3))
        began = time.monotonic()
        joined = connection.ask("JoinGroup", version, join)
        took_s = time.monotonic() - began
        self.has_usual_ids = bool(MINTED.search(joined["member_id"]))
        leave = {"group_id": group, "member_id": joined["member_id"]}
        connection.ask("LeaveGroup", self.newest("LeaveGroup", 2), leave)
        return took_s

    def clean(self, within_s: float = CLEANED_WITHIN_S) -> list[str]:
        """Remove the groups and topics of this run, each as far as possible. Gives what is left and why."""
        # Not with `stopped`: an interrupted run is cleaned up, too, while its rows end.
        limits = Limits(time.monotonic() + within_s, self.answer_s)
        left = []
        for what, remove in (("groups", self._remove_groups), ("topics", self._remove_topics)):
            try:
                connection = Connection(self.address, "conform", limits, self.trail, security=self.security)
                with contextlib.closing(connection):
                    left += remove(connection)
            except NotServedError as error:
                left.append(f"{what} named {self.prefix}*: {error} is not served")
            except WireError as error:
                left.append(f"{what} named {self.prefix}*: {error}")
        return left

    def _remove_topics(self, connection: Connection) -> list[str]:
        if self.topics_asked_for:
            self.ask(connection, "DeleteTopics", 4, {"topic_names": self.topics_asked_for, "timeout_ms": 10_000})
        return []

    def _remove_groups(self, connection: Connection) -> list[str]:
        """Members are made to leave, then the groups are deleted; who joined late is met in the next turn."""
        # A fifth of the time is for the topics.
        until = connection.limits.deadline - (connection.limits.deadline - time.monotonic()) / 5
        left: list[str] = []
        without = 0
        while without < LISTS_WITHOUT and time.monotonic() < until:
            listed = self.ask(connection, "ListGroups", 4, {})["groups"]
            left = [each["group_id"] for each in listed if self._is_own(each["group_id"])]
            without = 0 if left else without + 1
            for first in range(0, len(left), BATCH):
                self._remove_batch(connection, left[first : first + BATCH])
            connection.limits.stopped.wait(POLL_S)
        return [f"{len(left)} groups named {self.prefix}*"] if left else []

    def _is_own(self, group_id: str) -> bool:
        return group_id.startswith(self.prefix) or (self.uses_nameless and not group_id)

    def _remove_batch(self, connection: Connection, names: list[str]) -> None:
        deleted = self.ask(connection, "DeleteGroups", 2, {"groups_names": names})["results"]
        rest = [each["group_id"] for each in deleted if each["error_code"] not in (NONE, GROUP_ID_NOT_FOUND)]
        if not rest:
            return
        with contextlib.suppress(NotServedError):  # then their sessions have to end
            self._make_leave(connection, rest)
        self.ask(connection, "DeleteGroups", 2, {"groups_names": rest})

    def _make_leave(self, connection: Connection, names: list[str]) -> None:
        """Every member of these groups, with all requests sent before the first answer is awaited."""
        leaves = [*self._classic_leaves(connection, names), *self._consumer_leaves(connection, names)]
        for api, version, values in leaves:
            connection.send(apis()[api], version, values)
        for _ in leaves:
            connection.answer()

    def _classic_leaves(self, connection: Connection, names: list[str]) -> Iterator[Leave]:
        """Of the members that a classic group has: one LeaveGroup for each group."""
        version = self.newest("LeaveGroup", 5)
        for group in self.ask(connection, "DescribeGroups", 5, {"groups": names})["groups"]:
            members = [
                {
                    "member_id": "" if each.get("instance_id") else each["member_id"],
                    "instance_id": each.get("instance_id"),
                }
                for each in group["members"]
            ]
            if members:
                yield "LeaveGroup", version, {"group_id": group["group_id"], "members": members}

    def _consumer_leaves(self, connection: Connection, names: list[str]) -> Iterator[Leave]:
        """Of the members that a consumer group has: a last heartbeat, or LeaveGroup of one that joined by JoinGroup."""
        try:
            heartbeats = self.newest("ConsumerGroupHeartbeat", 1)
            groups = self.ask(connection, "ConsumerGroupDescribe", 1, {"group_ids": names})["groups"]
        except NotServedError:  # then there is no such group
            return
        for group in groups:
            for each in group["members"]:
                who = {"member_id": each["member_id"], "instance_id": each["instance_id"]}
                if each.get("member_type") == CLASSIC_MEMBER:
                    values = {"group_id": group["group_id"], "members": [who]}
                    yield "LeaveGroup", self.newest("LeaveGroup", 5), values
                else:
                    values = {"group_id": group["group_id"], "member_epoch": LEAVES, **who}
                    yield "ConsumerGroupHeartbeat", heartbeats, values


class Visit:
    """One row's time at the broker: its connections, its groups' names, and all that was said."""

    def __init__(self, broker: Broker, within_s: float, others: limits.Limits = limits.DEFAULTS) -> None:
        self.broker = broker
        #: the settings of the broker that it is compared with
        self.others = others
        self.limits = broker.limits(within_s)
        self.prefix = broker.new_group()
        self.trail: deque[Exchange] = deque(maxlen=200)
        self._free: list[Connection] = []
        self._all: list[Connection] = []
        self._control: Connection | None = None

    def connect(self, client_id: str) -> Connection:
        """A new connection."""
        security = self.broker.security
        connection = Connection(self.broker.address, client_id, self.limits, self.trail, self._check, security)
        self._all.append(connection)
        return connection

    def _check(self, api: str, values: Mapping[str, Any]) -> None:
        limits.check(api, values, self.broker.refuses_by, self.others)

    def borrow(self, client_id: str) -> Connection:
        """A connection with nothing on it."""
        for at, connection in enumerate(self._free):
            if connection.client_id == client_id:
                return self._free.pop(at)
        return self.connect(client_id)

    def give_back(self, connection: Connection) -> None:
        """Take back a connection whose request was answered."""
        self._free.append(connection)

    def settle(self, group_id: str) -> None:
        """Ask something about a group: the answer comes after everything that was sent before has had its effect."""
        with contextlib.suppress(NotServedError):
            version = self.broker.newest("DescribeGroups", 5)
            self._asking().ask("DescribeGroups", version, {"groups": [self.prefix + group_id]})

    def _asking(self) -> Connection:
        """The kit's own connection, which no row shows."""
        if self._control is None:
            security = self.broker.security
            self._control = Connection(self.broker.address, "conform", self.limits, deque(maxlen=2), security=security)
            self._all.append(self._control)
        return self._control

    @contextlib.contextmanager
    def alone(self, steps: str) -> Iterator[None]:
        """If these steps use the group without a name, which all rows share: delete it, and lock it for this row."""
        if NAMELESS not in steps:
            yield
            return
        with self.broker.nameless:
            self.broker.uses_nameless = True
            with contextlib.suppress(NotServedError):
                version = self.broker.newest("DeleteGroups", 2)
                self._asking().ask("DeleteGroups", version, {"groups_names": [""]})
            yield

    def close(self) -> None:
        """Close the connections that still wait."""
        for connection in self._all:
            connection.close()

    def fault(self, step: str, error: Exception) -> Said:
        """Evidence of why a row cannot go on: its kind, for a broker says it in many ways; the rest is in the trail."""
        self.trail.append(Exchange("", "fault", b"", f"{type(error).__name__}: {error}"))
        match error:
            case WireError():
                return Said(step, (FAULT + type(error).__name__.removesuffix("Error").lower(),))
            case NotServedError():
                return Said(step, (f"{FAULT}not served: {error}",))
            case StepError():
                return Said(step, (f"{FAULT}stuck: {error}",))
        return Said(step, (f"{FAULT}garbled: {type(error).__name__}: {error}",))

    def topic(self, name: str) -> str:
        """On the broker."""
        if name not in self.broker.topics:
            raise NotServedError(f"topic {name}")
        return self.broker.topics[name]

    def topic_id(self, name: str) -> uuid.UUID:
        """On the broker."""
        found = self.broker.topic_ids.get(self.topic(name))
        if found is None:
            raise NotServedError(f"the id of topic {name}")
        return found

    def topic_shown(self, name: str) -> str:
        """In a transcript."""
        return next((short for short, long in self.broker.topics.items() if long == name), name)

    def name(self, group_id: str | None) -> str | None:
        """On the broker; there is nothing to put before no name."""
        return self.prefix + group_id if group_id else group_id

    def shown(self, text: str | None) -> str | None:
        """In a transcript."""
        return None if text is None else text.replace(self.prefix, "")
