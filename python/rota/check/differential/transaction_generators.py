"""Which step comes next with transactions: raw requests can be anything; directed ones look at the model's state for
what moves a transaction on, and for what is almost right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rota.check.differential.generators import Choices, Picker
from rota.check.differential.steps import AskTransaction, Crash, End, HandOver, Mark, Pass, Step
from rota.check.differential.transaction_lockstep import FIRST_EPOCH, LEVEL, TransactionLockstep
from rota.model import transactions as model

CONFIGS: tuple[dict[str, int], ...] = (
    {LEVEL: 2},
    {LEVEL: 0},
    {LEVEL: 1},
    {LEVEL: 2, FIRST_EPOCH: 32_764},
    {LEVEL: 2, FIRST_EPOCH: 32_766},
    {LEVEL: 0, FIRST_EPOCH: 32_765},
    {LEVEL: 2, "ids.max": 2},
)
IDS = ("a", "a", "a", "a", "b", "c")
PARTICIPANTS = (("t", 0), ("__consumer_offsets", 0), ("t", 1), ("u", 7))
TIMEOUTS_MS = (60_000, 1_000, 900_000, 1, 0, 900_001)
SPANS_MS = (0, 1, 99, 100, 60_001, 5_000, -50, 3_600_000)
BAD_ENDS = ("failed", "stored", "failed", "stored", "again", "again", "fenced")
RESULTS = ("written", "written", "failed", "gone", "written", "failed", "fenced")
# How many requests a client may send again.
REMEMBERED = 4


class TransactionMaker(Picker):
    """Makes the steps of one run."""

    def __init__(self, lockstep: TransactionLockstep, choices: Choices) -> None:
        super().__init__(choices)
        self.lockstep = lockstep
        self.ticket = 0
        self.asked: list[model.Request] = []

    def ask(self, request: model.Request) -> Step:
        self.ticket += 1
        if not isinstance(request, model.AddParticipants):
            request = replace(request, spare_id=1_000 + self.ticket)
        self.asked = [*self.asked, request][-REMEMBERED:]
        return AskTransaction(self.ticket, request)

    def current(self, name: str) -> model.Transaction | None:
        return self.lockstep.state.ids.get(name, model.Id()).current

    def producer(self, name: str) -> model.Producer:
        """The right one, or one that is almost right."""
        t = self.current(name)
        if t is None:
            return self.pick(((900, 0), (1_001, 0)))
        producer_id, epoch = t.producer
        ahead = min(epoch + 1, model.EPOCH_MAX + 1)
        wrong = [(producer_id, epoch - 1), (producer_id, ahead), (t.previous_id, 32_766), (producer_id + 1, epoch)]
        return self.pick((t.producer, t.producer, t.producer, *wrong, (producer_id, t.predecessor)))

    def protocol(self) -> int:
        """The second one is refused below level 2."""
        return self.pick((2, 1)) if self.lockstep.level == 2 else self.usual((1, 2))

    def participants(self) -> tuple[model.Participant, ...]:
        return tuple(self.pick(PARTICIPANTS) for _ in range(self.pick((1, 2, 1, 3, 0))))

    # ---- requests

    def starts(self) -> Step:
        return self.ask(model.InitProducerId(self.pick(IDS), self.usual(TIMEOUTS_MS)))

    def starts_by_name(self) -> Step:
        """A producer that names itself, or that has only a half of a name."""
        name = self.pick(IDS)
        producer = self.producer(name)
        producer = self.usual((producer, (producer[0], -1), (-1, producer[1])))
        return self.ask(model.InitProducerId(name, self.usual(TIMEOUTS_MS), producer))

    def adds(self) -> Step:
        name = self.pick(IDS)
        return self.ask(model.AddParticipants(name, self.producer(name), self.participants(), self.protocol()))

    def ends(self) -> Step:
        name = self.pick(IDS)
        return self.ask(model.EndTransaction(name, self.producer(name), self.pick((True, False)), self.protocol()))

    def nameless(self) -> Step:
        """Without a transactional id."""
        end = model.EndTransaction("", (1_001, 0), True, self.protocol())
        requests: tuple[model.Request, ...] = (model.InitProducerId(""), model.AddParticipants("", (1, 0), ()), end)
        return self.ask(self.pick(requests))

    def lost_answer(self) -> Step:
        """A request once more: its answer was lost."""
        return self.ask(self.pick(self.asked)) if self.asked else self.starts()

    def onward(self) -> Step:
        """What an id needs next."""
        if self.lockstep.state.phase == "GivenUp":
            return Crash(self.pick((0, 1)))
        if self.lockstep.in_flight:
            return End(0, None)
        outstanding = self.outstanding()
        if outstanding:
            return Mark(self.pick(outstanding), "written")
        name = self.pick(IDS)
        t = self.current(name)
        if t is None:
            return self.ask(model.InitProducerId(name))
        protocol = self.protocol()
        if t.state == model.ONGOING and self.pick((True, True, False)):
            return self.ask(model.EndTransaction(name, t.producer, self.pick((True, False)), protocol))
        return self.ask(model.AddParticipants(name, t.producer, self.participants(), protocol))

    # ---- markers, the log and time

    def outstanding(self) -> list[int]:
        """Places of the markers without a result."""
        ids = {each.marker_id for known in self.lockstep.state.ids.values() for each in known.markers.values()}
        return [at for at, sent in enumerate(self.lockstep.sent) if sent.models in ids]

    def marks(self) -> Step:
        outstanding = self.outstanding()
        return Mark(self.pick(outstanding), self.pick(RESULTS)) if outstanding else self.onward()

    def marks_late(self) -> Step:
        """The result of any marker, for the first time or again."""
        count = len(self.lockstep.sent)
        return Mark(self.choices.index(count), self.pick(RESULTS)) if count else self.onward()

    def end_well(self) -> Step:
        return End(self.pick((0, 0, 0, -1)), None) if self.lockstep.in_flight else self.onward()

    def end_badly(self) -> Step:
        return End(self.pick((0, 0, -1)), self.pick(BAD_ENDS)) if self.lockstep.in_flight else self.onward()

    def to_deadline(self) -> Step:
        """To a deadline, or a little before or after it."""
        left_ms = [at_ms - self.lockstep.now_ms for at_ms, _ in model.deadlines(self.lockstep.state)]
        ahead_ms = [span_ms for span_ms in left_ms if span_ms >= 0]
        if not ahead_ms:
            return self.some_time()
        return Pass(self.pick(ahead_ms[:3]) + self.pick((0, -1, 1)), self.pick((True, False)))

    def some_time(self) -> Step:
        return Pass(self.pick(SPANS_MS), self.pick((True, False)))

    def end_of_service(self) -> Step:
        """A crash or a handover."""
        kept = self.pick((0, 1, 2))
        steps: tuple[Step, ...] = (Crash(kept), HandOver(kept))
        return self.pick(steps)


MAKERS: dict[Callable[[TransactionMaker], Step], int] = {
    TransactionMaker.onward: 14,
    TransactionMaker.starts: 2,
    TransactionMaker.starts_by_name: 3,
    TransactionMaker.adds: 4,
    TransactionMaker.ends: 5,
    TransactionMaker.nameless: 1,
    TransactionMaker.lost_answer: 4,
    TransactionMaker.marks: 5,
    TransactionMaker.marks_late: 2,
    TransactionMaker.end_well: 8,
    TransactionMaker.end_badly: 4,
    TransactionMaker.to_deadline: 4,
    TransactionMaker.some_time: 2,
    TransactionMaker.end_of_service: 2,
}
