"""Drives `rota.transactions.TransactionCoordinator` and `rota.model.transactions` through the same steps.

After each event it compares effects, decoded records, states, deadlines and verdicts. It knows nothing of the protocol,
but for two promises: a marker follows its decision in the log, and a request is answered once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rota.transactions as core
from rota.check.differential import transaction_bytes
from rota.check.differential.cells import Reached
from rota.check.differential.lockstep import Difference, Stepping
from rota.check.differential.steps import AskTransaction, Crash, End, HandOver, Loaded, Mark, Pass, Step
from rota.check.differential.transaction_cells import Seen, cell_of
from rota.model import transactions as model

LEVEL, FIRST_EPOCH = "transaction.version", "first.epoch"
BEGIN_MS = 1_700_000_000_000
EXPIRATION_MS = 3_600_000
STOPS_MAX = 50
"""Of one step in time: an id that cannot append waits 100 ms each time."""
CODES = {
    model.NONE: 0,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    model.UNAVAILABLE: 15,
    "NOT_COORDINATOR": 16,
    "UNSUPPORTED_VERSION": 35,
    model.INVALID_REQUEST: 42,
    model.INVALID_STATE: 48,
    model.UNKNOWN: 49,
    "INVALID_TRANSACTION_TIMEOUT": 50,
    model.CONCURRENT: 51,
    model.FENCED: 90,
    "TRANSACTIONAL_ID_NOT_FOUND": 105,
}
VERDICTS = {
    model.NONE: "verified",
    model.INVALID_STATE: "not added",
    model.CONCURRENT: "concurrent",
    model.UNKNOWN: "unknown mapping",
    "INVALID_PRODUCER_EPOCH": "wrong epoch",
    "NOT_COORDINATOR": "not coordinator",
    "COORDINATOR_LOAD_IN_PROGRESS": "loading",
}


@dataclass(frozen=True)
class Flying:
    """A record on its way to the log: the core's number of it and the model's."""

    cores: int
    models: int
    transactional_id: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Sent:
    """A marker on its way."""

    cores: int
    models: int
    transactional_id: str


def shown(transaction: model.Transaction) -> core.Transaction:
    """The model's transaction as the core shows it."""
    return core.Transaction(
        transaction.state,
        *transaction.producer,
        transaction.timeout_ms,
        sorted(transaction.participants),
        transaction.start_ms,
        transaction.updated_ms,
        transaction.previous_id,
        transaction.next_id,
        transaction.predecessor,
        transaction.protocol,
    )


class TransactionLockstep(Stepping):
    """Both coordinators, the log, and what is on its way."""

    def __init__(self, config: Mapping[str, int | str], reached: Reached | None = None) -> None:
        self.reached = reached
        self.level, self.first_epoch = int(config[LEVEL]), int(config.get(FIRST_EPOCH, -1))
        self.ids_max = int(config.get("ids.max", 100))
        self.now_ms, self.epoch = BEGIN_MS, -1
        self.log: list[tuple[str, bytes, bytes | None]] = []
        self._start()
        if self.first_epoch >= 0:
            self._load_first()
        self.play(Loaded())

    def _start(self) -> None:
        self.epoch += 1
        self.core = core.TransactionCoordinator(
            level=self.level, epoch=self.epoch, ids_max=self.ids_max, expiration_ms=EXPIRATION_MS
        )
        self.state = model.State(self.level, self.epoch, ids_max=self.ids_max, expiration_ms=EXPIRATION_MS)
        self.in_flight: list[Flying] = []
        self.ended: list[Flying] = []
        self.sent: list[Sent] = []
        self.waiting: set[int] = set()

    def _load_first(self) -> None:
        """An id whose producer has an epoch near the last one, in a value of version 1."""
        value = (
            b"\x00\x01" + (900).to_bytes(8, "big") + self.first_epoch.to_bytes(2, "big") + (60_000).to_bytes(4, "big")
        )
        value += b"\x00\x00" + self.now_ms.to_bytes(8, "big") + b"\xff" * 8 + b"\x00"
        self.log.append(("a", transaction_bytes.key_of("a"), value))
        self._read_log()

    def _read_log(self) -> None:
        for name, key, value in self.log:
            self.core.load(key, value)
            record = None if value is None else transaction_bytes.decoded(value)[1]
            self.state = model.load(self.state, name, record)
        self._compare()

    # ---- steps

    def _play(self, step: Step) -> None:
        match step:
            case AskTransaction():
                self._ask(step)
            case Pass():
                self._pass(step)
            case End():
                self._end(step)
            case Mark():
                self._mark(step)
            case Loaded():
                self._both(step, self.core.loaded(self.now_ms), model.loaded(self.state, self.now_ms))
            case HandOver():
                self._both(step, self.core.unload(), model.unload(self.state))
                if self.waiting:
                    raise Difference(f"unloading left {self.waiting} without an answer")
                self._reload(step.kept)
            case Crash():
                self._reload(step.kept)

    def _ask(self, step: AskTransaction) -> None:
        r = step.request
        match r:
            case model.InitProducerId():
                effects = self.core.init_producer_id(
                    self.now_ms, step.ticket, r.transactional_id, timeout_ms=r.timeout_ms, producer=r.producer,
                    spare_producer_id=r.spare_id,
                )  # fmt: skip
            case model.AddParticipants():
                effects = self.core.add_participants(
                    self.now_ms, step.ticket, r.transactional_id, r.producer, list(r.participants), protocol=r.protocol
                )
            case model.EndTransaction():
                effects = self.core.end_transaction(
                    self.now_ms, step.ticket, r.transactional_id, r.producer, r.commits, protocol=r.protocol,
                    spare_producer_id=r.spare_id,
                )  # fmt: skip
        self.waiting.add(step.ticket)
        self._both(step, effects, model.submit(self.state, self.now_ms, step.ticket, r))

    def _pass(self, step: Pass) -> None:
        """To the end of the span, with a stop at each deadline on the way if wanted."""
        until_ms = self.now_ms + step.span_ms
        for _ in range(STOPS_MAX if step.stops else 0):
            due = [at_ms for at_ms, _ in model.deadlines(self.state) if at_ms <= until_ms]
            if not due or self.state.phase != "Serving":
                break
            self.now_ms = max(self.now_ms, due[0])
            self._both(step, self.core.advance(self.now_ms), model.advance(self.state, self.now_ms))
        self.now_ms = until_ms
        self._both(step, self.core.advance(self.now_ms), model.advance(self.state, self.now_ms))

    def _end(self, step: End) -> None:
        """`stored`: it is in the log, and the coordinator hears that it is not. `again`: a second completion."""
        flights = self.ended if step.error == "again" else self.in_flight
        if not flights:
            return
        flying = flights[step.index % len(flights)]
        if step.error != "again":
            flights.remove(flying)
            self.ended.append(flying)
            if step.error in (None, "stored"):
                self.log.append((flying.transactional_id, flying.key, flying.value))
        error = {"stored": "failed", "again": None}.get(step.error or "", step.error)
        effects = self.core.appended(self.now_ms, flying.cores, error)
        self._both(step, effects, model.appended(self.state, self.now_ms, flying.models, error))

    def _mark(self, step: Mark) -> None:
        """Also of a marker that has its result."""
        if self.sent:
            of = self.sent[step.index % len(self.sent)]
            effects = self.core.marked(self.now_ms, of.transactional_id, of.cores, step.result)
            self._both(
                step, effects, model.marked(self.state, self.now_ms, of.transactional_id, of.models, step.result)
            )

    def _reload(self, kept: int) -> None:
        """Another owner reads the log; the first `kept` appends in flight are in it."""
        self.log += [(each.transactional_id, each.key, each.value) for each in self.in_flight[:kept]]
        self._start()
        self._read_log()

    # ---- comparison

    def _both(self, step: Step, effects: Sequence[Any], after: model.Stepped) -> None:
        before = self.state
        self.state, expected = after
        for found, wanted in zip(effects, expected, strict=False):
            self._effect(found, wanted)
        if len(effects) != len(expected):
            raise Difference(f"at {self.now_ms} ms, {step}: core {list(effects)}, model {list(expected)}")
        self._compare()
        if self.reached is not None:
            self.reached.take(cell_of(before, step, expected), Seen(before, step, self.state, expected))

    def _effect(self, found: Any, wanted: model.Effect) -> None:
        match wanted:
            case model.Answer():
                same = found == core.TransactionAnswer(wanted.ticket, CODES[wanted.error], *wanted.producer)
                if wanted.ticket not in self.waiting:
                    raise Difference(f"request {wanted.ticket} is answered twice")
                self.waiting.remove(wanted.ticket)
            case model.Append():
                same = isinstance(found, core.TransactionAppend) and self._append(found, wanted)
            case model.SendMarker():
                same = isinstance(found, core.TransactionMarker) and self._marker(found, wanted)
            case model.GiveUp():
                same = isinstance(found, core.GivenUp)
        if not same:
            raise Difference(f"at {self.now_ms} ms: core {found}, model {wanted}")

    def _append(self, found: core.TransactionAppend, wanted: model.Append) -> bool:
        name = wanted.transactional_id
        if any(flying.transactional_id == name for flying in self.in_flight):
            raise Difference(f"two records of `{name}` are in flight")
        self.in_flight.append(Flying(found.append_id, wanted.append_id, name, found.key, found.value))
        if found.key != transaction_bytes.key_of(name) or (found.value is None) != (wanted.record is None):
            return False
        if found.value is None:
            return True
        version, record = transaction_bytes.decoded(found.value)
        if record != wanted.record:
            raise Difference(f"at {self.now_ms} ms, the record of `{name}`: core {record}, model {wanted.record}")
        return version == (1 if self.level else 0)

    def _marker(self, found: core.TransactionMarker, wanted: model.SendMarker) -> bool:
        self.sent.append(Sent(found.marker_id, wanted.marker_id, wanted.transactional_id))
        last = [value for name, _, value in self.log if name == wanted.transactional_id][-1:]
        state = transaction_bytes.decoded(last[0])[1].state if last and last[0] else None
        if state != model.PREPARE[found.is_commit]:
            raise Difference(f"a marker of `{wanted.transactional_id}` although its last record is {state}: {found}")
        where = (found.transactional_id, found.participant, (found.producer_id, found.producer_epoch))
        what = (found.coordinator_epoch, found.is_commit, found.protocol)
        return (*where, *what) == (
            wanted.transactional_id,
            wanted.participant,
            wanted.producer,
            wanted.coordinator_epoch,
            wanted.commits,
            wanted.protocol,
        )

    def _compare(self) -> None:
        known = {name: known.current for name, known in self.state.ids.items() if known.current}
        cores, models = self.core.transactions(), {name: shown(current) for name, current in known.items()}
        if cores != models:
            raise Difference(f"at {self.now_ms} ms, states: core {cores}, model {models}")
        deadline_ms = min(model.deadlines(self.state), default=(None, ""))[0]
        deadline_ms = deadline_ms if self.state.phase == "Serving" else None
        if self.core.next_deadline() != deadline_ms:
            raise Difference(f"next deadline: core {self.core.next_deadline()}, model {deadline_ms}")
        if self.core.violations():
            raise Difference(f"invariants: {self.core.violations()}")
        for name, current in [*known.items(), ("nobody", None), ("", None)]:
            self._compare_questions(name, current)

    def _compare_questions(self, name: str, current: model.Transaction | None) -> None:
        error, described = model.describe(self.state, name)
        found = self.core.describe(name)
        if found[0] != CODES[error] or (described and _seen(found[1]) != _seen(shown(described))):
            raise Difference(f"`{name}`: core {found}, model {error} {described}")
        state, producer_id, epoch = (current.state, *current.producer) if current else ("Dead", 7, 0)
        for producer in ((producer_id, epoch), (producer_id, epoch - 1), (producer_id + 1, epoch)):
            for participant in (("t", 0), ("t", 1), ("__consumer_offsets", 0)):
                verdict = VERDICTS[model.verify(self.state, name, producer, participant)]
                if self.core.verify(name, producer, participant) != verdict:
                    raise Difference(f"`{name}` {producer} in {participant}: core {found}, model {verdict}")
        for filters in (((), (), None), ((state,), (), None), ((), (producer_id,), None), ((), (), 30_000)):
            states, ids, age_ms = filters
            listed = self.core.list_ids(self.now_ms, states=list(states), producer_ids=list(ids), min_age_ms=age_ms)
            error, names = model.listed(self.state, self.now_ms, *filters)
            if listed != (CODES[error], names):
                raise Difference(f"the list of {filters}: core {listed}, model {error} {names}")


def _seen(each: core.Transaction | None) -> tuple[Any, ...] | None:
    """What DescribeTransactions shows."""
    return each and (
        each.state,
        each.producer_id,
        each.producer_epoch,
        each.timeout_ms,
        each.start_ms,
        each.participants,
    )
