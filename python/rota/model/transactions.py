"""The coordinator of transactions, as docs/transactions.md has it: frozen data, plain functions, one event at a time.

    state, effects = advance(state, now_ms)

An event is a function of a state and a wall time: `submit`, `appended`, `marked`, `advance`, `loaded`, `unload`. `load`
takes a record of the log; `verify`, `describe` and `listed` only ask. The module shares no code with the coordinator in
`rust/txn`, which is compared with it. Errors have the names of the newest versions (§4).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rota.model.values import replace

Participant = tuple[str, int]
Producer = tuple[int, int]
"""Id and epoch."""

NO_PRODUCER: Producer = (-1, -1)
EPOCH_MAX = 32_766
"""Of a producer. A marker may have the next one."""
EMPTY, ONGOING, DEAD = "Empty", "Ongoing", "Dead"
PREPARE = {True: "PrepareCommit", False: "PrepareAbort"}
COMPLETE = {True: "CompleteCommit", False: "CompleteAbort"}
NONE = "NONE"
CONCURRENT = "CONCURRENT_TRANSACTIONS"
FENCED = "PRODUCER_FENCED"
INVALID_REQUEST = "INVALID_REQUEST"
INVALID_STATE = "INVALID_TXN_STATE"
UNAVAILABLE = "COORDINATOR_NOT_AVAILABLE"
UNKNOWN = "INVALID_PRODUCER_ID_MAPPING"


@dataclass(frozen=True)
class Transaction:
    """What a record says (§8), and the predecessor of the epoch, which is not in it (§3.1)."""

    state: str
    producer: Producer
    timeout_ms: int
    participants: frozenset[Participant] = frozenset()
    start_ms: int = -1
    updated_ms: int = -1
    previous_id: int = -1
    next_id: int = -1
    protocol: int = 1
    predecessor: int = -1

    @property
    def is_prepared(self) -> bool:
        """Whether it is decided, and its markers are being written."""
        return self.state in PREPARE.values()

    @property
    def successor(self) -> Producer:
        """The producer of the Complete state."""
        return self.producer if self.next_id == -1 else (self.next_id, 0)


# ---- requests; `spare_id` is a producer id that no producer has


@dataclass(frozen=True)
class InitProducerId:
    transactional_id: str
    timeout_ms: int = 60_000
    producer: Producer = NO_PRODUCER
    spare_id: int = 0


@dataclass(frozen=True)
class AddParticipants:
    """AddPartitionsToTxn and AddOffsetsToTxn, or the leader of a participant by the second protocol."""

    transactional_id: str
    producer: Producer
    participants: tuple[Participant, ...]
    protocol: int = 1


@dataclass(frozen=True)
class EndTransaction:
    transactional_id: str
    producer: Producer
    commits: bool
    protocol: int = 1
    spare_id: int = 0


Request = InitProducerId | AddParticipants | EndTransaction


# ---- effects


@dataclass(frozen=True)
class Answer:
    ticket: int
    error: str = NONE
    producer: Producer = NO_PRODUCER


@dataclass(frozen=True)
class Append:
    """Without a transaction it is a tombstone."""

    append_id: int
    transactional_id: str
    record: Transaction | None


@dataclass(frozen=True)
class SendMarker:
    marker_id: int
    transactional_id: str
    participant: Participant
    producer: Producer
    coordinator_epoch: int
    commits: bool
    protocol: int


@dataclass(frozen=True)
class GiveUp:
    """Another node owns the partition."""


Effect = Answer | Append | SendMarker | GiveUp


# ---- the state


class Decision(NamedTuple):
    """The answer to a request, once `change` is durable if there is one."""

    error: str = NONE
    producer: Producer = NO_PRODUCER
    change: Transaction | None = None


AT_ONCE = Decision()


@dataclass(frozen=True)
class InFlight:
    """A record on its way to the log. Without a ticket the coordinator wrote it by itself."""

    append_id: int
    record: Transaction | None
    ticket: int | None = None
    decision: Decision = AT_ONCE


class Sending(NamedTuple):
    """A marker that is not written: its number while it is under way, else when it is sent."""

    marker_id: int | None
    at_ms: int = 0


@dataclass(frozen=True)
class Id:
    """`current` is durable, and None before the first record. The coordinator's own work waits for `not_before_ms`."""

    current: Transaction | None = None
    in_flight: InFlight | None = None
    markers: Mapping[Participant, Sending] = field(default_factory=dict)
    not_before_ms: int | None = None

    @property
    def free(self) -> Transaction | None:
        """The transaction, if a request may change it (§2)."""
        is_free = self.in_flight is None and self.current is not None and not self.current.is_prepared
        return self.current if is_free else None


@dataclass(frozen=True)
class State:
    """The coordinator of one partition; `epoch` is the number of the ownership."""

    level: int = 2
    epoch: int = 0
    timeout_max_ms: int = 900_000
    expiration_ms: int = 7 * 24 * 3_600_000
    retry_ms: int = 100
    ids_max: int = 100_000
    phase: str = "Loading"
    ids: Mapping[str, Id] = field(default_factory=dict)
    numbers: int = 0
    effects: tuple[Effect, ...] = ()


Stepped = tuple[State, tuple[Effect, ...]]


def _done(s: State) -> Stepped:
    return replace(s, effects=()), s.effects


def _emit(s: State, effect: Effect) -> State:
    return replace(s, effects=(*s.effects, effect))


def _put(s: State, name: str, known: Id | None, **changes: Any) -> State:
    ids = {other: each for other, each in s.ids.items() if other != name}
    return replace(s, ids=ids if known is None else ids | {name: replace(known, **changes)})


# ---- requests (§3)


def submit(s: State, now_ms: int, ticket: int, r: Request) -> Stepped:
    """A request: it is answered at once, or when its record is durable (§2)."""
    error = _invalid(s, r) or phase_error(s)
    decision = Decision(error) if error else _decide(s, now_ms, r)
    if decision.change is None:
        return _done(_emit(s, Answer(ticket, decision.error, decision.producer)))
    return _done(_append(s, r.transactional_id, decision.change, ticket, decision))


def _invalid(s: State, r: Request) -> str | None:
    """The checks of the request by itself."""
    if not r.transactional_id:
        return INVALID_REQUEST
    if not isinstance(r, InitProducerId):
        return "UNSUPPORTED_VERSION" if r.protocol == 2 and s.level < 2 else None
    if (r.producer[0] == -1) != (r.producer[1] == -1):
        return INVALID_REQUEST
    return None if 1 <= r.timeout_ms <= s.timeout_max_ms else "INVALID_TRANSACTION_TIMEOUT"


def phase_error(s: State) -> str | None:
    """Why no request is served, if it is so (§3)."""
    return {"Loading": "COORDINATOR_LOAD_IN_PROGRESS", "GivenUp": "NOT_COORDINATOR"}.get(s.phase)


def _decide(s: State, now_ms: int, r: Request) -> Decision:
    known = s.ids.get(r.transactional_id)
    if isinstance(r, InitProducerId):
        return _init(s, now_ms, known, r)
    if known is None:
        return Decision(UNKNOWN)
    if isinstance(r, AddParticipants):
        return _add(now_ms, known, r)
    return (_end_first if r.protocol == 1 else _end_second)(now_ms, known, r)


def _init(s: State, now_ms: int, known: Id | None, r: InitProducerId) -> Decision:
    """§3.1."""
    if known is None:
        if len(s.ids) >= s.ids_max:
            return Decision(UNAVAILABLE)
        made = Transaction(EMPTY, (r.spare_id, 0), r.timeout_ms, updated_ms=now_ms, previous_id=r.spare_id)
        return Decision(NONE, made.producer, made)
    t = known.free
    if t is None:
        return Decision(CONCURRENT)
    (own_id, own_epoch), (current_id, epoch) = r.producer, t.producer
    if own_id not in (-1, current_id) and not (own_id == t.previous_id and own_epoch >= EPOCH_MAX):
        return Decision(FENCED)
    if t.state == ONGOING:
        return Decision(CONCURRENT, NO_PRODUCER, _aborted(s, now_ms, t))
    is_again = own_id != -1 and own_epoch == t.predecessor
    if own_id != -1 and not is_again and r.producer != t.producer:
        return Decision(FENCED)
    if is_again and epoch <= EPOCH_MAX:
        producer, own_epoch = t.producer, t.predecessor
    else:
        producer = (r.spare_id, 0) if epoch >= EPOCH_MAX else (current_id, epoch + 1)
    fields = {"producer": producer, "predecessor": own_epoch, "timeout_ms": r.timeout_ms}
    return Decision(NONE, producer, _changed(t, now_ms, EMPTY, **fields, participants=frozenset(), start_ms=-1))


def _add(now_ms: int, known: Id, r: AddParticipants) -> Decision:
    """§3.2."""
    t = known.free
    if t is None:
        return Decision(CONCURRENT)
    if r.producer != t.producer:
        return Decision(UNKNOWN if r.producer[0] != t.producer[0] else FENCED)
    if t.state == ONGOING and t.participants.issuperset(r.participants):
        return Decision()
    t = _opened(t, now_ms)
    added = t.participants.union(r.participants)
    return Decision(NONE, NO_PRODUCER, _changed(t, now_ms, ONGOING, participants=added, protocol=r.protocol))


def _end_first(now_ms: int, known: Id, r: EndTransaction) -> Decision:
    """§3.3, by the first protocol."""
    t = known.current
    if t is None or r.producer[0] != t.producer[0]:
        return Decision(UNKNOWN)
    if r.producer != t.producer:
        return Decision(FENCED)
    if known.free is None:
        return Decision(CONCURRENT)
    if t.state == ONGOING:
        return Decision(NONE, NO_PRODUCER, _changed(t, now_ms, PREPARE[r.commits], protocol=1))
    return Decision(NONE if t.state == COMPLETE[r.commits] else INVALID_STATE)


def _end_second(now_ms: int, known: Id, r: EndTransaction) -> Decision:
    """§3.3, by the second protocol."""
    t = known.free
    if t is None:
        return Decision(CONCURRENT)
    if _is_repetition(t, r.producer):
        return Decision(NONE, t.producer) if t.state == COMPLETE[r.commits] else Decision(INVALID_STATE)
    if r.producer != t.producer:
        return Decision(UNKNOWN if r.producer[0] != t.producer[0] else FENCED)
    if r.commits and t.state != ONGOING:
        return Decision(INVALID_STATE)
    epoch = t.producer[1]
    next_id = r.spare_id if epoch >= EPOCH_MAX else -1
    t = _changed(_opened(t, now_ms), now_ms, PREPARE[r.commits], protocol=2, predecessor=epoch, next_id=next_id)
    t = replace(t, producer=_raised(t.producer))
    return Decision(NONE, t.successor, t)


def _is_repetition(t: Transaction, producer: Producer) -> bool:
    current_id, epoch = t.producer
    is_before = producer == (current_id, epoch - 1) and epoch <= EPOCH_MAX
    is_before_overflow = producer == (t.previous_id, EPOCH_MAX) and t.previous_id != current_id and epoch == 0
    return t.state in COMPLETE.values() and (is_before or is_before_overflow)


# ---- changes of a transaction


def _changed(t: Transaction, now_ms: int, state: str, **fields: Any) -> Transaction:
    return replace(t, state=state, previous_id=t.producer[0], updated_ms=now_ms, **fields)


def _opened(t: Transaction, now_ms: int) -> Transaction:
    """It starts now, unless it is open."""
    return t if t.state == ONGOING else replace(t, start_ms=now_ms, participants=frozenset())


def _raised(producer: Producer) -> Producer:
    return producer[0], min(producer[1] + 1, EPOCH_MAX + 1)


def _aborted(s: State, now_ms: int, t: Transaction) -> Transaction:
    """§3.4."""
    protocol, predecessor = (2, t.producer[1]) if s.level == 2 else (1, -1)
    producer = _raised(t.producer)
    return _changed(t, now_ms, PREPARE[False], producer=producer, protocol=protocol, predecessor=predecessor)


def _completed(t: Transaction) -> Transaction:
    """The Complete state; its time is that of the Prepare state (§8)."""
    state = COMPLETE[t.state == PREPARE[True]]
    return _changed(t, t.updated_ms, state, producer=t.successor, next_id=-1, participants=frozenset())


# ---- records (§2, §8)


def _append(s: State, name: str, t: Transaction | None, ticket: int | None = None, d: Decision = AT_ONCE) -> State:
    s = replace(s, numbers=s.numbers + 1)
    s = _put(s, name, s.ids.get(name, Id()), in_flight=InFlight(s.numbers, t, ticket, d))
    return _emit(s, Append(s.numbers, name, None if t is None else stored(t, s.level)))


def stored(t: Transaction, level: int) -> Transaction:
    """What the record keeps: values of version 0, at level 0, have no tagged fields (§8)."""
    kept = replace(t, predecessor=-1)
    return kept if level >= 1 else replace(kept, previous_id=-1, next_id=-1, protocol=1)


def appended(s: State, now_ms: int, append_id: int, error: str | None = None) -> Stepped:
    """The end of an append; the error is `failed` or `fenced` (§8)."""
    found = [
        (name, known) for name, known in s.ids.items() if known.in_flight and known.in_flight.append_id == append_id
    ]
    if not found:
        return _done(s)
    if error == "fenced":
        return _done(_give_up(s))
    ((name, known),) = found
    flight = known.in_flight
    assert flight is not None
    if error is not None:
        return _done(_reverted(s, now_ms, name, known, flight))
    s = _put(s, name, known if flight.record else None, current=flight.record, in_flight=None, not_before_ms=None)
    if flight.ticket is not None:
        s = _emit(s, Answer(flight.ticket, flight.decision.error, flight.decision.producer))
    return _done(_send_all(s, now_ms, name) if flight.record and flight.record.is_prepared else s)


def _reverted(s: State, now_ms: int, name: str, known: Id, flight: InFlight) -> State:
    """Nothing has changed (§2). What the coordinator does by itself it tries again (§7)."""
    known = replace(known, in_flight=None)
    if flight.ticket is None:
        known = replace(known, not_before_ms=now_ms + s.retry_ms)
    else:
        s = _emit(s, Answer(flight.ticket, UNAVAILABLE))
    return _put(s, name, known if known.current else None)


# ---- markers (§5)


def _send_all(s: State, now_ms: int, name: str) -> State:
    """The markers of a transaction that is decided, to all participants."""
    t = s.ids[name].current
    assert t is not None
    s = _put(s, name, s.ids[name], markers={each: Sending(None, now_ms) for each in t.participants})
    return _complete(_send_due(s, now_ms, name), name)


def _send_due(s: State, now_ms: int, name: str) -> State:
    t = s.ids[name].current
    assert t is not None
    for participant, sending in sorted(s.ids[name].markers.items()):
        if sending.marker_id is None and sending.at_ms <= now_ms:
            s = replace(s, numbers=s.numbers + 1)
            markers = {**s.ids[name].markers, participant: Sending(s.numbers)}
            s = _put(s, name, s.ids[name], markers=markers)
            of = (t.producer, s.epoch, t.state == PREPARE[True], t.protocol)
            s = _emit(s, SendMarker(s.numbers, name, participant, *of))
    return s


def marked(s: State, now_ms: int, name: str, marker_id: int, result: str) -> Stepped:
    """What became of a marker: `written`, `gone`, `failed` or `fenced` (§5)."""
    known = s.ids.get(name, Id())
    found = [participant for participant, sending in known.markers.items() if sending.marker_id == marker_id]
    if not found:
        return _done(s)
    if result == "fenced":
        return _done(_give_up(s))
    markers = {each: sending for each, sending in known.markers.items() if each not in found}
    if result == "failed":
        markers[found[0]] = Sending(None, now_ms + s.retry_ms)
    return _done(_complete(_put(s, name, known, markers=markers), name))


def _complete(s: State, name: str) -> State:
    """After the last marker, the Complete state."""
    known = s.ids[name]
    return s if known.markers or not known.current else _append(s, name, _completed(known.current))


# ---- time (§7)


def _due_ms(s: State, known: Id) -> int | None:
    t = known.current
    if t is None or known.in_flight is not None:
        return None
    if t.is_prepared and known.markers:
        return min((each.at_ms for each in known.markers.values() if each.marker_id is None), default=None)
    if t.state == ONGOING:
        due_ms = t.start_ms + t.timeout_ms + 1
    else:
        due_ms = -1 if t.is_prepared else t.updated_ms + s.expiration_ms
    return due_ms if known.not_before_ms is None else max(due_ms, known.not_before_ms)


def deadlines(s: State) -> list[tuple[int, str]]:
    """When the coordinator has something to do for an id, in order (§7)."""
    due = ((_due_ms(s, known), name) for name, known in s.ids.items())
    return sorted((due_ms, name) for due_ms, name in due if due_ms is not None)


def advance(s: State, now_ms: int) -> Stepped:
    """Time has passed: what is due is done, in order (§7)."""
    for due_ms, name in deadlines(s) if s.phase == "Serving" else ():
        t = s.ids[name].current
        if due_ms > now_ms or t is None:
            continue
        if t.is_prepared:
            s = _send_due(s, now_ms, name) if s.ids[name].markers else _complete(s, name)
        else:
            s = _append(s, name, _aborted(s, now_ms, t) if t.state == ONGOING else None)
    return _done(s)


# ---- the ownership (§8)


def load(s: State, name: str, record: Transaction | None) -> State:
    """One record of the log, in order (§8)."""
    return _put(s, name, Id(record) if record else None)


def loaded(s: State, now_ms: int) -> Stepped:
    """The log is read: decided transactions are finished (§8)."""
    if s.phase != "Loading":
        return _done(s)
    s = replace(s, phase="Serving")
    for name, known in sorted(s.ids.items()):
        if known.current and known.current.is_prepared:
            s = _send_all(s, now_ms, name)
    return _done(s)


def unload(s: State) -> Stepped:
    """The ownership ends (§2)."""
    return _done(s if s.phase == "GivenUp" else _give_up(s))


def _give_up(s: State) -> State:
    waiting = [known.in_flight for _, known in sorted(s.ids.items()) if known.in_flight]
    for flight in waiting:
        if flight.ticket is not None:
            s = _emit(s, Answer(flight.ticket, "NOT_COORDINATOR"))
    return _emit(replace(s, phase="GivenUp", ids={}), GiveUp())


# ---- questions


def verify(s: State, name: str, producer: Producer, participant: Participant) -> str:
    """Whether a participant may append data (§6): NONE, or the newest version's error."""
    known = s.ids.get(name, Id())
    error = phase_error(s)
    if error is not None:
        return error
    t = known.current
    if t is None or producer[0] != t.producer[0]:
        return UNKNOWN
    if producer != t.producer:
        return "INVALID_PRODUCER_EPOCH"
    if t.is_prepared:
        return CONCURRENT
    return NONE if t.state == ONGOING and participant in t.participants else INVALID_STATE


def describe(s: State, name: str) -> tuple[str, Transaction | None]:
    """§3.5."""
    error = (None if name else INVALID_REQUEST) or phase_error(s)
    current = s.ids.get(name, Id()).current
    if error is None and current is None:
        error = "TRANSACTIONAL_ID_NOT_FOUND"
    return (error, None) if error else (NONE, current)


def listed(
    s: State, now_ms: int, states: Collection[str] = (), producer_ids: Collection[int] = (), age_ms: int | None = None
) -> tuple[str, list[str]]:
    """§3.5: the ids that pass every filter; those whose last transaction began over `age_ms` ago, if it is given."""

    def passes(t: Transaction) -> bool:
        return (
            (not states or t.state in states)
            and (not producer_ids or t.producer[0] in producer_ids)
            and (age_ms is None or now_ms - t.start_ms > age_ms)
        )

    error = phase_error(s)
    found = [name for name, known in sorted(s.ids.items()) if known.current and passes(known.current)]
    return (error, []) if error else (NONE, found)
