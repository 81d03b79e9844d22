"""State x request of one transactional id: a state, reached the shortest way, one request, and what the id is after it.

Each row has an id of its own. `DescribeTransactions` tells what it is, so Prepare states, which end by themselves, are
not among the states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rota.codec import Fields
from rota.conform.batches import batch
from rota.conform.probes.talk import Talk, probe
from rota.conform.rows import Row
from rota.conform.subject import error_name

TIMEOUT_MS, SHORT_TIMEOUT_MS = 60_000, 1_000
#: Kafka looks for transactions whose time is over every 10 s.
TIMED_OUT_WITHIN_S = 16.0
FIRST_END_OF_SECOND_PROTOCOL = 5
FIRST_COMMIT_BY_TOPIC_ID, FIRST_PRODUCE_BY_TOPIC_ID = 6, 13
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS
NOT_YET = {14, 15, 16, 51}
NOBODY = (987_654_321_000, 0)
MOMENT_S = 0.02
UNSETTLED = {"PrepareCommit", "PrepareAbort"}

Producer = tuple[int, int]


class Transaction:
    """The transactional id of a row, and its producer."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.id = f"{talk.visit.prefix}x"
        self.topic = talk.visit.topic("t")
        #: the producer that the row is about: id and epoch
        self.producer: Producer = NOBODY
        self.sequence = 0

    def ask(self, api: str, version: int, values: Fields) -> Fields:
        """In exactly this version."""
        return self.talk.ask("a", api, self.talk.exactly(api, version), values)

    def named(self, producer: Producer) -> Fields:
        """What most requests name."""
        return {"transactional_id": self.id, "producer_id": producer[0], "producer_epoch": producer[1]}

    def patiently(self, look: Callable[[], bool], within_s: float) -> None:
        """Look until it is so."""
        until = time.monotonic() + within_s
        while not look() and self.talk.visit.limits.left_s(until) > 0:
            self.talk.visit.broker.stopped.wait(MOMENT_S)

    def find(self) -> None:
        """Wait for the coordinator: the first who asks makes the broker create its topic."""
        asked = {"key_type": 1, "coordinator_keys": [self.id]}
        version = self.talk.version("FindCoordinator", 4)

        def is_found() -> bool:
            found: bool = self.talk.ask("a", "FindCoordinator", version, asked)["coordinators"][0]["error_code"] == 0
            return found

        self.patiently(is_found, TIMED_OUT_WITHIN_S)

    def begin(self, timeout_ms: int = TIMEOUT_MS) -> None:
        """Become the producer of the id, whatever it is in."""
        asked = {"transactional_id": self.id, "transaction_timeout_ms": timeout_ms}
        asked |= {"producer_id": -1, "producer_epoch": -1}

        def is_begun() -> bool:
            told = self.ask("InitProducerId", 4, asked)
            self.producer = (told["producer_id"], told["producer_epoch"])
            return told["error_code"] not in NOT_YET

        self.patiently(is_begun, TIMED_OUT_WITHIN_S)

    def init(self, version: int, producer: Producer) -> Fields:
        own = self.named(producer) | {"transaction_timeout_ms": TIMEOUT_MS}
        return self.ask("InitProducerId", version, own)

    def add(self, version: int, producer: Producer) -> Fields:
        topics = [{"name": self.topic, "partitions": [0]}]
        return self.ask("AddPartitionsToTxn", version, self.named(producer) | {"topics": topics})

    def add_many(self, version: int, producer: Producer, *, verify_only: bool) -> Fields:
        """As brokers ask; the second partition is in no transaction unless this adds it."""
        topics = [{"name": self.topic, "partitions": [0, 1]}]
        one = self.named(producer) | {"verify_only": verify_only, "topics": topics}
        (told,) = self.ask("AddPartitionsToTxn", version, {"transactions": [one]})["transactions"]
        for topic in told["topics"]:
            topic["partitions"].sort(key=lambda part: int(part["partition_index"]))
        found: Fields = told
        return found

    def add_offsets(self, version: int, producer: Producer) -> Fields:
        return self.ask("AddOffsetsToTxn", version, self.named(producer) | {"group_id": self.talk.group})

    def commit_offset(self, version: int, producer: Producer) -> Fields:
        part = {"partition_index": 0, "offset": 5, "leader_epoch": -1, "metadata": ""}
        topic: Fields = {"name": self.topic, "partitions": [part]}
        if version >= FIRST_COMMIT_BY_TOPIC_ID:
            topic["topic_id"] = self.talk.visit.topic_id("t")
        values = {"group_id": self.talk.group, "generation": -1, "member_id": "", "topics": [topic]}
        return self.ask("TxnOffsetCommit", version, self.named(producer) | values)

    def produce(self, version: int, producer: Producer) -> Fields:
        records = batch(*producer, self.sequence)
        topic: Fields = {"name": self.topic, "partition_data": [{"index": 0, "records": records}]}
        if version >= FIRST_PRODUCE_BY_TOPIC_ID:
            topic["topic_id"] = self.talk.visit.topic_id("t")
        asked = {"transactional_id": self.id, "acks": -1, "timeout_ms": 5_000, "topic_data": [topic]}
        return self.ask("Produce", version, asked)

    def end(self, version: int, producer: Producer, *, is_commit: bool) -> Fields:
        return self.ask("EndTxn", version, self.named(producer) | {"is_commit": is_commit})

    def described(self) -> Fields:
        """What the id is now, once it is not being ended."""
        seen: list[Fields] = []

        def is_settled() -> bool:
            found = self.ask("DescribeTransactions", 0, {"transactional_ids": [self.id]})["transaction_states"]
            seen.extend(found)
            return found[0]["state"] not in UNSETTLED

        self.patiently(is_settled, self.talk.visit.limits.answer_s)
        return seen[-1]

    def relative(self, told: Fields) -> str:
        """`e+1`: the producer of an answer, by the producer that the row is about; `new id, 0` for another id."""
        producer_id, epoch = told["producer_id"], told["producer_epoch"]
        if producer_id == -1:
            return "no producer" if epoch == -1 else f"no producer, {epoch}"
        if producer_id != self.producer[0]:
            return f"new id, {epoch}"
        return f"e{epoch - self.producer[1]:+d}"

    def shown(self, told: Fields) -> str:
        """The errors of an answer, and its producer."""
        codes = [told["error_code"]] if "error_code" in told else _codes(told)
        text = ", ".join(map(error_name, codes))
        return f"{text} {self.relative(told)}" if "producer_id" in told else text

    def state(self) -> str:
        """`Ongoing e+0 t-0`."""
        told = self.described()
        if told["error_code"]:
            return error_name(told["error_code"])
        places = [f"{topic['name']}-{part}" for topic in told["topics"] for part in topic["partitions"]]
        # Which partition of __consumer_offsets it is depends on the group's name.
        shown = sorted({self.talk.named(place).split("offsets-")[0].rstrip("_") for place in places})
        return " ".join([told["state"], self.relative(told), *shown])

    def show(self, step: str, told: Fields) -> None:
        """Evidence: an answer, and what the id is after it."""
        self.talk.show(step, self.shown(told), self.state())


def _codes(told: Fields) -> list[int]:
    """The errors of all partitions of an answer."""
    topics = told.get("responses") or told["topics"]
    parts = [part for topic in topics for part in topic.get("partition_responses") or topic["partitions"]]
    return [part["error_code"] for part in parts]


def _empty(of: Transaction) -> None:
    of.begin()
    # An epoch that has a predecessor, which no request has named.
    of.begin()


def _ongoing(of: Transaction) -> None:
    _empty(of)
    of.add(3, of.producer)


def _ongoing_second(of: Transaction) -> None:
    _empty(of)
    of.produce(12, of.producer)
    of.sequence = 1


def _complete(of: Transaction, *, version: int, is_commit: bool) -> None:
    _ongoing(of)
    told = of.end(version, of.producer, is_commit=is_commit)
    if version >= FIRST_END_OF_SECOND_PROTOCOL:
        of.producer = (told["producer_id"], told["producer_epoch"])
    of.described()


def _timed_out(of: Transaction) -> None:
    """Of the producer whose transaction it was: its epoch is the one before the id's."""
    of.begin()
    of.begin(SHORT_TIMEOUT_MS)
    of.add(3, of.producer)
    of.patiently(lambda: of.described()["state"] == "CompleteAbort", TIMED_OUT_WITHIN_S)


@dataclass(frozen=True)
class State:
    """How an id comes to a state, in how many seconds."""

    says: str
    reach: Callable[[Transaction], None]
    wait_s: float = 0.0


STATES = {
    "unknown": State("an unknown id", lambda _: None),
    "empty": State("Empty", _empty),
    "ongoing": State("Ongoing, by the first protocol", _ongoing),
    "ongoing-2": State("Ongoing, by the second protocol", _ongoing_second),
    "committed": State("CompleteCommit, by the first protocol", partial(_complete, version=3, is_commit=True)),
    "aborted": State("CompleteAbort, by the first protocol", partial(_complete, version=3, is_commit=False)),
    "committed-2": State("CompleteCommit, by the second protocol", partial(_complete, version=5, is_commit=True)),
    "aborted-2": State("CompleteAbort, by the second protocol", partial(_complete, version=5, is_commit=False)),
    "timed-out": State("CompleteAbort, after its time was over", _timed_out, TIMED_OUT_WITHIN_S),
}

Ask = Callable[[Transaction, int, Producer], Fields]
#: Request -> how it is asked, its versions, and the section of docs/transactions.md.
REQUESTS: dict[str, tuple[Ask, tuple[int, ...], str]] = {
    "InitProducerId": (Transaction.init, (3, 4, 5), "3.1"),
    "AddPartitionsToTxn": (Transaction.add, (0, 2, 3), "3.2"),
    "AddPartitionsToTxn add": (partial(Transaction.add_many, verify_only=False), (4, 5), "6"),
    "AddPartitionsToTxn verify": (partial(Transaction.add_many, verify_only=True), (4, 5), "6"),
    "AddOffsetsToTxn": (Transaction.add_offsets, (0, 2, 3, 4), "3.2"),
    "EndTxn commit": (partial(Transaction.end, is_commit=True), (1, 2, 3, 4, 5), "3.3"),
    "EndTxn abort": (partial(Transaction.end, is_commit=False), (1, 2, 3, 4, 5), "3.3"),
    "Produce": (Transaction.produce, (7, 9, 11, 12, 13), "6"),
    "TxnOffsetCommit": (Transaction.commit_offset, (2, 3, 4, 5, 6), "11"),
}


def _as(of: Transaction, who: str) -> Producer:
    producer_id, epoch = of.producer
    return {
        "current": (producer_id, epoch),
        "before": (producer_id, epoch - 1),
        "after": (producer_id, epoch + 1),
        "another id": (producer_id + 1_000_000, epoch),
        "plain": (-1, -1),
    }[who]


#: Whose producer id and epoch a request has, by whom.
SPEAKERS = ("current", "before", "after", "another id")


def _speakers(state: str, request: str) -> tuple[str, ...]:
    whoever = ("current",) if state == "unknown" else SPEAKERS
    return (*whoever, "plain") if request == "InitProducerId" else whoever


def _versioned(request: str, version: int) -> str:
    """`EndTxn v3 commit`."""
    api, _, rest = request.partition(" ")
    return f"{api} v{version} {rest}".rstrip()


def rows() -> Iterator[Row]:
    """A row for each state, request, version and speaker."""
    for name, state in STATES.items():
        for request, (ask, versions, section) in REQUESTS.items():
            for version in versions:
                for who in _speakers(name, request):
                    yield probe(
                        f"transactions/{name}/{_versioned(request, version)}, {who}",
                        f"{_versioned(request, version)} with the producer {who}; {state.says}",
                        f"transactions {section}",
                        partial(
                            _cell, state=state, ask=ask, version=version, who=who, step=_versioned(request, version)
                        ),
                        needs_topics=True,
                        wait_s=state.wait_s,
                    )
    for session, (says, section, plan) in SESSIONS.items():
        yield probe(
            f"transactions/session/{session}", says, f"transactions {section}", partial(_session, plan=plan),
            needs_topics=True,
        )  # fmt: skip


def _cell(talk: Talk, state: State, ask: Ask, version: int, who: str, step: str) -> None:
    of = Transaction(talk)
    of.find()
    try:
        state.reach(of)
        of.show(f"{step}, {who}", ask(of, version, _as(of, who)))
    finally:
        _leave(of)


def _session(talk: Talk, plan: Callable[[Transaction], None]) -> None:
    of = Transaction(talk)
    of.find()
    try:
        plan(of)
    finally:
        _leave(of)


def _leave(of: Transaction) -> None:
    """Abort what is open: readers of the topic would wait for it."""
    evidence = list(of.talk.evidence)
    of.begin()
    of.talk.evidence = evidence


def _ends_repeated(of: Transaction) -> None:
    """By the second protocol the epoch says which end is meant."""
    _ongoing(of)
    for offset, is_commit in (
        (0, True),
        (0, True),
        (0, False),
        (1, True),
        (1, False),
        (0, True),
        (1, False),
        (1, True),
    ):
        word = "commit" if is_commit else "abort"
        producer = (of.producer[0], of.producer[1] + offset)
        of.show(f"EndTxn v5 {word} with e{offset:+d}", of.end(5, producer, is_commit=is_commit))


def _late_end(of: Transaction) -> None:
    _ongoing(of)
    of.show("EndTxn v5 commit", of.end(5, of.producer, is_commit=True))
    newer = (of.producer[0], of.producer[1] + 1)
    of.show("Produce v12 with e+1", of.produce(12, newer))
    of.show("EndTxn v5 commit with e+0, late", of.end(5, of.producer, is_commit=True))
    of.show("EndTxn v5 abort with e+0, late", of.end(5, of.producer, is_commit=False))


def _fenced(of: Transaction) -> None:
    """A new producer aborts what the one before has begun, which is fenced for good."""
    _ongoing(of)
    old = of.producer
    of.begin()
    of.producer, newer = old, of.producer
    of.talk.show("InitProducerId of a new producer, until it is answered", f"e{newer[1] - old[1]:+d}", of.state())
    for request, (ask, versions, _) in REQUESTS.items():
        if request != "InitProducerId":
            of.show(f"{_versioned(request, versions[-1])} of the old producer", ask(of, versions[-1], old))
            of.show(f"{_versioned(request, versions[1])} of the old producer", ask(of, versions[1], old))


def _all_or_nothing(of: Transaction) -> None:
    _empty(of)
    topics = [
        {"name": of.topic, "partitions": [0, 99]},
        {"name": f"{of.topic}-nosuch", "partitions": [0]},
        {"name": "__consumer_offsets", "partitions": [0]},
    ]
    for version in (0, 3):
        told = of.ask("AddPartitionsToTxn", version, of.named(of.producer) | {"topics": topics})
        codes = sorted(
            f"{of.talk.named(topic['name'])}-{part['partition_index']} {error_name(part['error_code'])}"
            for topic in told["topics"]
            for part in topic["partitions"]
        )
        of.talk.show(f"AddPartitionsToTxn v{version} with partitions that do not exist", *codes, of.state())


def _batched(of: Transaction) -> None:
    """Several transactions in one request, as brokers send them: each has an answer of its own."""
    _ongoing(of)
    unknown = {"transactional_id": f"{of.id}-unknown", "producer_id": NOBODY[0], "producer_epoch": 0}
    plans: dict[str, list[Fields]] = {
        "a partition that does not exist": [{"name": of.topic, "partitions": [0, 1, 99]}],
        "a topic that does not exist": [{"name": f"{of.topic}-nosuch", "partitions": [0]}],
        "a partition of groups": [{"name": "__consumer_offsets", "partitions": [0]}],
        "a topic twice": [{"name": of.topic, "partitions": [0]}, {"name": of.topic, "partitions": [2]}],
        "no topics": [],
    }
    for verify_only in (True, False):
        for version in (4, 5):
            for says, topics in plans.items():
                names = (unknown, of.named(of.producer))
                asked = [each | {"verify_only": verify_only, "topics": topics} for each in names]
                told = of.ask("AddPartitionsToTxn", version, {"transactions": asked})
                found = sorted(
                    f"{of.talk.named(each['transactional_id'])} {of.talk.named(topic['name'])}"
                    f"-{part['partition_index']} {error_name(part['error_code'])}"
                    for each in told["transactions"]
                    for topic in each["topics"]
                    for part in topic["partitions"]
                )
                word = "verify" if verify_only else "add"
                step = f"AddPartitionsToTxn v{version} {word} with {says}"
                of.talk.show(step, error_name(told["error_code"]), *found, of.state())


def _checks(of: Transaction) -> None:
    """What is refused before the id is looked up."""
    asked = {"transactional_id": of.id, "transaction_timeout_ms": TIMEOUT_MS, "producer_id": -1, "producer_epoch": -1}
    changed: dict[str, Fields] = {
        "an empty id": {"transactional_id": ""},
        "timeout 0": {"transaction_timeout_ms": 0},
        "timeout 900001": {"transaction_timeout_ms": 900_001},
        "a producer id without an epoch": {"producer_id": 5},
        "an epoch without a producer id": {"producer_epoch": 0},
    }
    for says, changes in changed.items():
        told = of.ask("InitProducerId", 4, asked | changes)
        of.talk.show(f"InitProducerId v4 with {says}", error_name(told["error_code"]))
    nobody = of.named(NOBODY) | {"transactional_id": ""}
    of.talk.show("EndTxn v3 with an empty id", of.shown(of.ask("EndTxn", 3, nobody | {"is_commit": True})))
    told = of.ask("AddOffsetsToTxn", 3, nobody | {"group_id": of.talk.group})
    of.talk.show("AddOffsetsToTxn v3 with an empty id", of.shown(told))
    for transactional_id in ("", of.id):
        found = of.ask("DescribeTransactions", 0, {"transactional_ids": [transactional_id]})["transaction_states"]
        shown = "an empty id" if not transactional_id else "an unknown id"
        of.talk.show(f"DescribeTransactions of {shown}", *(error_name(each["error_code"]) for each in found))


def _listed(of: Transaction) -> None:
    _ongoing(of)
    own = [of.producer[0]]
    filtered: dict[str, Fields] = {
        "its producer id": {"producer_id_filters": own},
        "its state": {"producer_id_filters": own, "state_filters": ["Ongoing"]},
        "its state in capitals": {"producer_id_filters": own, "state_filters": ["ONGOING"]},
        "other states": {"producer_id_filters": own, "state_filters": ["Empty", "nonsense"]},
        "an age of a day": {"producer_id_filters": own, "duration_filter": 86_400_000},
        "its name": {"transactional_id_pattern": of.id.replace(".", "[.]")},
        "a part of its name": {"transactional_id_pattern": of.id.removesuffix("x").replace(".", "[.]")},
        "no regular expression": {"transactional_id_pattern": "("},
    }
    for says, filters in filtered.items():
        told = of.ask("ListTransactions", 2, {"duration_filter": -1} | filters)
        found = [
            f"{of.talk.named(each['transactional_id'])} {each['state']} {of.relative({**each, 'producer_epoch': 0})}"
            for each in told["transaction_states"]
        ]
        unknown = [f"unknown {each}" for each in told["unknown_state_filters"]]
        of.talk.show(f"ListTransactions v2 by {says}", error_name(told["error_code"]), *found, *unknown)


def _producers(of: Transaction) -> None:
    """DescribeProducers of a partition: open and ended."""
    place = {"topics": [{"name": of.topic, "partitions": [0]}]}

    def look(step: str) -> None:
        (topic,) = of.ask("DescribeProducers", 0, place)["topics"]
        (part,) = topic["partitions"]
        rows = [each for each in part["active_producers"] if each["producer_id"] == of.producer[0]]
        shown = [f"{of.relative(each)} sequence {each['last_sequence']} {_open(each)}" for each in rows]
        of.talk.show(step, error_name(part["error_code"]), *shown)

    _empty(of)
    look("DescribeProducers of a producer that has written nothing")
    of.produce(12, of.producer)
    look("DescribeProducers of an open transaction")
    of.end(5, of.producer, is_commit=True)
    of.described()
    look("DescribeProducers of an ended transaction")
    (topic,) = of.ask("DescribeProducers", 0, {"topics": [{"name": of.topic, "partitions": [99]}]})["topics"]
    of.talk.show("DescribeProducers of no partition", error_name(topic["partitions"][0]["error_code"]))


def _open(row: Fields) -> str:
    return "open" if row["current_txn_start_offset"] >= 0 else "closed"


def _sequences(of: Transaction) -> None:
    """The hole of the first protocol: what is late by a transaction joins the next one, if that has the partition."""
    _ongoing(of)
    of.show("Produce v9, sequence 0", of.produce(9, of.producer))
    of.show("EndTxn v3 abort", of.end(3, of.producer, is_commit=False))
    of.sequence = 1
    of.show("Produce v9, sequence 1, late", of.produce(9, of.producer))
    of.show("AddPartitionsToTxn v3", of.add(3, of.producer))
    of.show("Produce v9, sequence 1, later", of.produce(9, of.producer))
    of.show("Produce v9, sequence 1, repeated", of.produce(9, of.producer))
    of.sequence = 7
    of.show("Produce v9, sequence 7", of.produce(9, of.producer))


SESSIONS: dict[str, tuple[str, str, Callable[[Transaction], None]]] = {
    "ends-repeated": ("ends of the second protocol are repeated", "3.3", _ends_repeated),
    "late-end": ("an end that is late by a transaction", "3.3", _late_end),
    "fenced": ("a new producer fences the one before", "3.1", _fenced),
    "all-or-nothing": ("one partition that cannot be added keeps the others out", "3.2", _all_or_nothing),
    "batched": ("several transactions in a request of a broker", "6", _batched),
    "checks": ("requests that are refused by themselves", "3.1", _checks),
    "listed": ("filters of ListTransactions", "3.5", _listed),
    "producers": ("producers of a partition", "10.4", _producers),
    "sequences": ("a late Produce of the first protocol", "10.1", _sequences),
}
