"""The member's side of a group as a state machine without sockets or a clock. `rota.aio` runs it over TCP.

    >>> import rota
    >>> member = rota.Member("readers")
    >>> member.subscribe(0, ["orders"])
    [Send(request=0, node=None, api='FindCoordinator', fields={...})]

Every call takes the time (monotonic, in ms) and returns what is to be done, in order. A driver sends each `Send`, hands
the answer in with `answered`, says `disconnected` when a connection is lost, closes it on `Disconnect`, and calls
`advance` at `next_deadline()`. It tells the application of everything else, and says `done` to what `wants_done`.
`poll` says that the application waits for news, `busy` that it works. The rules are those of docs/protocol.md §22, and
with `group_protocol="consumer"` those of docs/consumer-protocol.md §22.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from rota._rota import ErrorCode, JoinedMember, MemberMachine, RotaError
from rota.arguments import INT64_MAX, UINT64_MAX, text, texts, whole, wire_text

Partition = tuple[str, int]
"""Topic and index."""

Node = tuple[int, str, int]
"""Id, host and port of a broker."""

Strategy = str | tuple[str, bool]
"""The name of a built-in assignor, or (name, cooperative) of your own, which `Plan` asks for."""


CLASSIC_STRATEGIES: Final[tuple[Strategy, ...]] = ("range",)


@dataclass(frozen=True)
class Offset:
    """A committed position: the next offset to read, the leader epoch (-1 if unknown) and metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def checked(partitions: Any) -> list[Partition]:
    """Check that partitions are (topic, index). Raises TypeError."""
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise TypeError(f"partitions is {partitions!r}: give a list of (topic, partition)")
    found = list(partitions)
    for at in found:
        if not (isinstance(at, tuple) and len(at) == 2 and isinstance(at[0], str) and isinstance(at[1], int)):
            raise TypeError(f"{at!r} is no partition: give (topic, partition), such as ('orders', 0)")
    return found


def _fields(at: Partition, offset: Any) -> tuple[int, int, str]:
    if not isinstance(offset, Offset):
        raise TypeError(f"the offset of {at!r} is {offset!r}: give a rota.member.Offset")
    return (
        whole(offset.offset, f"the offset of {at!r}", 0, INT64_MAX),
        whole(offset.leader_epoch, f"leader_epoch of {at!r}", -1),
        wire_text(offset.metadata, f"metadata of {at!r}"),
    )


class MemberError(RotaError):
    """An error that a retry does not solve.

    `kind` is `Answer`, `RebalanceInProgress`, `CommitFailed`, `TimedOut`, `Topics`, `InconsistentProtocol`,
    `UnknownProtocol`, `Subscription`, `Assignment`, `Plan`, `Closed` or, of `rota.aio`, `Authentication`; `error`
    is the broker's code if it gave one.
    """

    def __init__(self, kind: str, error: ErrorCode | None, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.error = error

    def __reduce__(self) -> tuple[type[MemberError], tuple[str, ErrorCode | None, str]]:
        return type(self), (self.kind, self.error, str(self))


MemberError.__module__ = "rota"


@dataclass(frozen=True)
class Send:
    """Send a request: to the coordinator `node`, or to any broker (None). `fields` are those of its newest version."""

    request: int
    node: Node | None
    api: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Disconnect:
    """Close the connection to the coordinator `node`, or to any broker (None): a request timed out."""

    node: Node | None


@dataclass(frozen=True)
class Revoke:
    """Stop reading these partitions, commit, then call `done`."""

    wants_done: ClassVar[bool] = True
    partitions: list[Partition]


@dataclass(frozen=True)
class Lose:
    """Another member may own these partitions already. Stop reading, do not commit, then call `done`."""

    wants_done: ClassVar[bool] = True
    partitions: list[Partition]


@dataclass(frozen=True)
class Assign:
    """Start reading `added`, then call `done`. `partitions` is the whole assignment.

    `generation` is the member's epoch in the newer protocol.
    """

    wants_done: ClassVar[bool] = True
    generation: int
    added: list[Partition]
    partitions: list[Partition]
    user_data: bytes | None


@dataclass(frozen=True)
class Plan:
    """This member is the leader and the strategy is custom: assign the partitions, then call `planned`.

    `topics` has the number of partitions of each, `racks` those of each partition's replicas where they are known.
    """

    wants_done: ClassVar[bool] = False
    strategy: str
    generation: int
    members: list[JoinedMember]
    topics: dict[str, int]
    racks: dict[str, list[list[str]]]


@dataclass(frozen=True)
class Committed:
    """Result of a commit."""

    wants_done: ClassVar[bool] = False
    commit: int
    error: MemberError | None


@dataclass(frozen=True)
class Fetched:
    """Committed offsets, None for a partition without one, or an error."""

    wants_done: ClassVar[bool] = False
    fetch: int
    offsets: dict[Partition, Offset | None]
    error: MemberError | None


@dataclass(frozen=True)
class Failed:
    """An error that a retry does not solve. The member tries again at the next `poll`."""

    wants_done: ClassVar[bool] = False
    error: MemberError


@dataclass(frozen=True)
class Closed:
    """The member has left the group. This is its last effect."""

    wants_done: ClassVar[bool] = False


Notice = Revoke | Lose | Assign | Plan | Committed | Fetched | Failed | Closed
Effect = Send | Disconnect | Notice


def _error(told: tuple[str, ErrorCode | None, str] | None) -> MemberError | None:
    return MemberError(*told) if told else None


def _plan(
    strategy: str,
    generation: int,
    members: list[tuple[str, str | None, bytes]],
    topics: list[tuple[str, int, list[list[str]]]],
) -> Plan:
    return Plan(
        strategy,
        generation,
        [JoinedMember(*member) for member in members],
        {name: partitions for name, partitions, _ in topics},
        {name: racks for name, _, racks in topics},
    )


def _fetched(
    fetch: int,
    offsets: list[tuple[Partition, tuple[int, int, str] | None]] | None,
    failure: tuple[str, ErrorCode | None, str] | None,
) -> Fetched:
    found = {partition: Offset(*offset) if offset else None for partition, offset in offsets or ()}
    return Fetched(fetch, found, _error(failure))


_KINDS: dict[str, Any] = {
    "Send": Send,
    "Disconnect": Disconnect,
    "Revoke": Revoke,
    "Lose": Lose,
    "Assign": Assign,
    "Plan": _plan,
    "Committed": lambda commit, failure: Committed(commit, _error(failure)),
    "Fetched": _fetched,
    "Failed": lambda failure: Failed(MemberError(*failure)),
    "Closed": Closed,
}


@dataclass(kw_only=True)
class MemberSettings:
    """A member's settings, by the names of Kafka's consumer settings, with their defaults.

    `group_protocol` is "classic", or "consumer" for the newer protocol (KIP-848), in which the coordinator assigns:
    `remote_assignor` names its assignor (None: its choice), and `strategies`, `session_timeout_ms` and
    `heartbeat_interval_ms` keep their defaults, since the broker decides them.

    `strategies` are in order of preference. `seed` spreads retries, and gives a member of the newer protocol its id:
    give members different ones. `leave_on_close` also applies to static members in the newer protocol; the coordinator
    keeps their partitions until they come back or their session ends.
    `auto_commit_interval_ms`: how often what was read is committed (`Member.position`); None: never by itself.
    """

    group_protocol: Literal["classic", "consumer"] = "classic"
    remote_assignor: str | None = None
    instance_id: str | None = None
    rack: str | None = None
    strategies: Sequence[Strategy] = CLASSIC_STRATEGIES
    auto_commit_interval_ms: int | None = None
    leave_on_close: bool = True
    seed: int = 0
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    _times: ClassVar[tuple[str, ...]] = (
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
        "request_timeout_ms",
        "api_timeout_ms",
        "retry_backoff_ms",
        "retry_backoff_max_ms",
        "metadata_max_age_ms",
    )

    def machine(self, group_id: str) -> MemberMachine:
        """Create the state machine. Raises TypeError or ValueError for a setting or a group id that cannot be."""
        wire_text(group_id, "group_id")
        for name in ("remote_assignor", "instance_id", "rack"):
            if (value := getattr(self, name)) is not None:
                wire_text(value, name)
        for name in ("auto_commit_interval_ms", *self._times):
            if (value := getattr(self, name)) is not None or name in self._times:
                whole(value, name, 1)
        whole(self.seed, "seed", 0, UINT64_MAX)
        text(self.group_protocol, "group_protocol", "give classic or consumer")
        is_default = self.group_protocol == "consumer" and self.strategies is CLASSIC_STRATEGIES
        return MemberMachine(
            group_id,
            group_protocol=self.group_protocol,
            remote_assignor=self.remote_assignor,
            strategies=[] if is_default else list(self.strategies),
            instance_id=self.instance_id,
            rack=self.rack,
            auto_commit_interval_ms=self.auto_commit_interval_ms,
            leave_on_close=self.leave_on_close,
            seed=self.seed,
            times_ms={name: getattr(self, name) for name in self._times},
        )


@dataclass(eq=False)
class Member:
    """A group member without IO: it takes events and returns effects. `Member("readers")` has Kafka's defaults."""

    group_id: str
    settings: MemberSettings = field(default_factory=MemberSettings)

    def __post_init__(self) -> None:
        if not isinstance(self.settings, MemberSettings):
            raise TypeError(f"settings is {self.settings!r}: give rota.MemberSettings(...)")
        self._machine = self.settings.machine(self.group_id)

    @staticmethod
    def _effects(told: Iterable[tuple[Any, ...]]) -> list[Effect]:
        return [_KINDS[kind](*rest) for kind, *rest in told]

    def subscribe(self, now_ms: int, topics: Sequence[str]) -> list[Effect]:
        """Subscribe to these topics. Replaces the previous subscription."""
        named = texts(topics, "topics", "give a list of names", "give names as str")
        return self._effects(self._machine.subscribe(now_ms, topics=named))

    def subscribe_pattern(self, now_ms: int, pattern: str) -> list[Effect]:
        """Subscribe to all topics whose whole name matches `pattern`, a regular expression in Rust's syntax.

        In the newer protocol the coordinator matches, in the syntax of RE2; it refuses a pattern that it cannot read.
        """
        if not isinstance(pattern, str):
            raise TypeError(f"pattern is {pattern!r}: give a regular expression as str")
        try:
            return self._effects(self._machine.subscribe(now_ms, pattern=pattern))
        except ValueError as error:
            raise ValueError(f"pattern is {pattern!r}: {error}") from None

    def assign(self, now_ms: int, partitions: Sequence[Partition]) -> list[Effect]:
        """Read these partitions without joining the group. Offsets can be committed."""
        return self._effects(self._machine.subscribe(now_ms, manual=checked(partitions)))

    def unsubscribe(self, now_ms: int) -> list[Effect]:
        """Give up all partitions and leave the group."""
        return self._effects(self._machine.subscribe(now_ms))

    def poll(self, now_ms: int) -> list[Effect]:
        """Report that the application polls. Operations that failed are retried."""
        return self._effects(self._machine.poll(now_ms))

    def busy(self, now_ms: int) -> list[Effect]:
        """Report that the application processes records. The member leaves after `max_poll_interval_ms` of this."""
        return self._effects(self._machine.busy(now_ms))

    def done(self, now_ms: int) -> list[Effect]:
        """Report that the application has handled the notice that asked for it."""
        return self._effects(self._machine.done(now_ms))

    def advance(self, now_ms: int) -> list[Effect]:
        """Run the timers that are due at `now_ms`."""
        return self._effects(self._machine.advance(now_ms))

    def close(self, now_ms: int, commit_timeout_ms: int | None = None) -> list[Effect]:
        """Commit, give up all partitions and leave. The last effect is `Closed`.

        The last commit may take `commit_timeout_ms`, by default `api_timeout_ms` of the settings.
        """
        return self._effects(self._machine.close(now_ms, commit_timeout_ms))

    def rejoin(self, now_ms: int, reason: str) -> list[Effect]:
        """Join again although nothing has changed. In the newer protocol only the coordinator can rebalance."""
        self._classic_only("rejoin")
        return self._effects(self._machine.rejoin(now_ms, reason))

    def position(self, now_ms: int, partition: Partition, offset: Offset) -> list[Effect]:
        """Set the position that automatic commits store."""
        [at] = checked([partition])
        return self._effects(self._machine.position(now_ms, *at, _fields(at, offset)))

    def commit(self, now_ms: int, commit: int, offsets: Mapping[Partition, Offset]) -> list[Effect]:
        """Commit these offsets. `Committed` with the same number has the result."""
        if not isinstance(offsets, Mapping):
            raise TypeError(f"offsets is {offsets!r}: give a mapping from (topic, partition) to rota.member.Offset")
        told = [(at, _fields(at, offsets[at])) for at in checked(offsets)]
        return self._effects(self._machine.commit(now_ms, commit, told))

    def fetch(self, now_ms: int, fetch: int, partitions: Sequence[Partition]) -> list[Effect]:
        """Fetch the committed offsets of these partitions. `Fetched` with the same number has them."""
        return self._effects(self._machine.fetch(now_ms, fetch, checked(partitions)))

    def planned(
        self, now_ms: int, generation: int, assignments: Mapping[str, bytes] | None, error: str | None = None
    ) -> list[Effect]:
        """Answer `Plan` with an embedded assignment for each member id, or with an error message."""
        return self._effects(self._machine.planned(now_ms, generation, list((assignments or {}).items()), error))

    def user_data(self, now_ms: int, strategy: str, user_data: bytes | None) -> list[Effect]:
        """Set the user data of the subscription for this strategy, from the next join on."""
        self._classic_only("user_data")
        return self._effects(self._machine.user_data(now_ms, strategy, user_data))

    def _classic_only(self, call: str) -> None:
        if self.settings.group_protocol == "consumer":
            raise ValueError(f"{call} needs group_protocol `classic`: with `consumer` the coordinator decides")

    def answered(self, now_ms: int, request: int, api: str, fields: Mapping[str, Any]) -> list[Effect]:
        """Handle an answer; `fields` of any version. `KeyError`, `TypeError` or `ValueError` if fields are wrong."""
        if not isinstance(fields, Mapping):
            raise TypeError(f"fields is {fields!r}: give the fields of the answer, a mapping")
        return self._effects(self._machine.answered(now_ms, request, api, dict(fields)))

    def disconnected(self, now_ms: int, node: Node | None) -> list[Effect]:
        """Handle a lost or refused connection to the coordinator `node`, or to any broker (None)."""
        return self._effects(self._machine.disconnected(now_ms, node))

    def next_deadline(self) -> int | None:
        """Time in ms at which `advance` is due, perhaps in the past. None if no timer runs."""
        return self._machine.next_deadline()

    @property
    def state(self) -> str:
        """`Unjoined`, `PreparingRebalance`, `CompletingRebalance` or `Stable`.

        In the newer protocol `Unjoined`, `Joining`, `Reconciling` or `Stable`.
        """
        return self._machine.state

    @property
    def generation(self) -> int:
        """Generation of the member, or its epoch in the newer protocol; -1 before the first join."""
        return self._machine.generation

    @property
    def member_id(self) -> str:
        """Member id from the coordinator, empty before the first join. In the newer protocol the member chooses it."""
        return self._machine.member_id

    @property
    def owned(self) -> list[Partition]:
        """Partitions that the member holds."""
        return self._machine.owned

    @property
    def coordinator(self) -> Node | None:
        """Last known coordinator."""
        return self._machine.coordinator

    @property
    def is_leader(self) -> bool:
        """Whether the member was the leader of the last rebalance; never in the newer protocol."""
        return self._machine.is_leader

    @property
    def is_closed(self) -> bool:
        """Whether the member has left and `close` is complete."""
        return self._machine.is_closed

    def __repr__(self) -> str:
        return f"<rota.Member {self.member_id or 'no member'} of {self.group_id}: {self.state}, {self.generation}>"
