"""Requests about transactional ids in a Prepare state, which lasts while a partition's leader cannot write its marker.

`python -m tests.conform.prepared` records Apache Kafka: of two brokers, the one that leads the partition is killed
before the transactions end. rota holds the markers instead (`rota.faults`). Every other state is among the rows of
`rota conform` (`transactions/*`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from harness.brokers import KAFKA, KAFKA_JVM, free_port
from rota.conform.broker import Broker, Visit
from rota.conform.probes.talk import Talk
from rota.conform.probes.transactions import REQUESTS, Transaction
from rota.conform.wire import Connection
from tests.clients.eventually import eventually

RECORDED = Path(__file__).parent / "prepared-kafka-4.4.0.json"
#: Led by a broker that can write markers, and by one that cannot.
HERE, HELD = "here", "held"
WITHIN_S = 120.0
TIMEOUT_MS, SHORT_TIMEOUT_MS = 60_000, 1_000
#: These name topics by their ids, which the versions before them show as well.
BY_TOPIC_ID = {("Produce", 13), ("TxnOffsetCommit", 6)}
EPOCHS = (-1, 0, 1, 2)
BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}

Answers = dict[str, dict[str, str]]
Hold = Callable[[], object]


def _ended(of: Transaction, version: int, *, is_commit: bool) -> None:
    assert of.end(version, of.producer, is_commit=is_commit)["error_code"] == 0


def _by_a_newer_producer(of: Transaction) -> None:
    of.init(4, (-1, -1))


#: How an id comes to a Prepare state, from Ongoing.
ENDS: dict[str, Callable[[Transaction], None]] = {
    "committed by the first protocol": partial(_ended, version=3, is_commit=True),
    "aborted by the first protocol": partial(_ended, version=3, is_commit=False),
    "committed by the second protocol": partial(_ended, version=5, is_commit=True),
    "aborted by the second protocol": partial(_ended, version=5, is_commit=False),
    "aborted by a newer producer": _by_a_newer_producer,
    "aborted after its time": lambda _: None,
}


def opened(visit: Visit, name: str) -> Transaction:
    """An id with an open transaction in HELD."""
    of = Transaction(Talk(visit))
    of.id = f"prepared-{name.replace(' ', '-')}"
    of.find()
    of.begin()
    # A predecessor that no request has named.
    of.begin(SHORT_TIMEOUT_MS if "time" in name else TIMEOUT_MS)
    of.topic = HELD
    eventually(lambda: of.shown(of.add(3, of.producer)) == "NONE", WITHIN_S, f"{HELD} is known")
    of.topic = HERE
    return of


def state(of: Transaction) -> str:
    """`PrepareCommit e+0 held-0`."""
    told = of.ask("DescribeTransactions", 0, {"transactional_ids": [of.id]})["transaction_states"][0]
    places = [f"{topic['name']}-{index}" for topic in told["topics"] for index in topic["partitions"]]
    return " ".join([told["state"], of.relative(told), *places])


def asked(of: Transaction) -> Iterator[tuple[str, str]]:
    """Every request with every producer, and its answer. None of them changes a Prepare state."""
    producer_id, epoch = of.producer
    producers = {f"e{offset:+d}": (producer_id, epoch + offset) for offset in EPOCHS}
    producers["another id"] = (producer_id + 1_000_000, epoch)
    for request, (ask, versions, _) in REQUESTS.items():
        api, _, rest = request.partition(" ")
        for version in versions:
            if (api, version) in BY_TOPIC_ID:
                continue
            more = {"plain": (-1, -1)} if api == "InitProducerId" else {}
            for who, producer in (producers | more).items():
                yield f"{api} v{version} {rest}".rstrip() + f", {who}", of.shown(ask(of, version, producer))


def play(address: tuple[str, int], hold: Hold, release: Hold) -> Answers:
    """What a broker answers in each Prepare state. From `hold` to `release` no marker gets into HELD."""
    broker = Broker(address)
    broker.contact()
    broker.topics = {"t": HERE}
    found: Answers = {}
    visit = Visit(broker, WITHIN_S)
    try:
        ids = {name: opened(visit, name) for name in ENDS if "time" not in name}
        hold()
        # HELD is known still, so that a transaction that is about to time out can begin now.
        ids |= {name: opened(visit, name) for name in ENDS if "time" in name}
        for name, of in ids.items():
            ENDS[name](of)
            prepared = eventually(partial(_prepared, of), WITHIN_S, f"{name}: it is in a Prepare state")
            found[name] = {"state": prepared, **dict(asked(of)), "state afterwards": state(of)}
        release()
        for name, of in ids.items():
            found[name]["state at last"] = eventually(partial(_complete, of), WITHIN_S, f"{name}: it is complete")
    finally:
        visit.close()
    return found


def _prepared(of: Transaction) -> str:
    told = state(of)
    return told if told.startswith("Prepare") else ""


def _complete(of: Transaction) -> str:
    told = state(of)
    return told if told.startswith("Complete") else ""


class Kafka:
    """Two brokers. The second leads HELD and no other topic."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = BROKER) -> None:
        self.folder, self.settings = folder, settings
        self.ports = [free_port(), free_port()]

    def begin(self, at: int) -> None:
        """Start a broker; the first is the controller."""
        settings = {
            **self.settings,
            "node.id": str(at + 1),
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports[0] + 1}",
        }
        if at:
            settings |= {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[at]}"}
        words = [f"{name}={value}" for name, value in settings.items()]
        command = [sys.executable, str(KAFKA), "start", str(self.ports[at]), str(self.folder / f"k{at}"), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=KAFKA_JVM | os.environ)

    def end(self, at: int, how: str) -> None:
        """Stop or kill a broker."""
        subprocess.run([sys.executable, str(KAFKA), how, str(self.folder / f"k{at}")], check=True)

    def topics(self) -> None:
        """Create HERE and HELD, once both brokers are there."""
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[0]}"})
        eventually(lambda: len(admin.list_topics(timeout=5).brokers) == 2, WITHIN_S, "both brokers are there")
        topics = [NewTopic(name, 2, replica_assignment=[[node]] * 2) for node, name in enumerate((HERE, HELD), 1)]
        for made in admin.create_topics(topics).values():
            made.result()


@contextmanager
def kafka() -> Iterator[Kafka]:
    """Both brokers; the first has the internal topics."""
    with tempfile.TemporaryDirectory(prefix="rota-kafka-", ignore_cleanup_errors=True) as folder:
        brokers = Kafka(Path(folder))
        brokers.begin(0)
        try:
            _make_internal_topics(("127.0.0.1", brokers.ports[0]))
            brokers.begin(1)
            brokers.topics()
            yield brokers
        finally:
            for at in (1, 0):
                if (brokers.folder / f"k{at}" / "broker.pid").exists():
                    brokers.end(at, "kill")


def _make_internal_topics(address: tuple[str, int]) -> None:
    """Where only one broker is, it leads all their partitions."""
    broker = Broker(address)
    broker.contact()
    connection = broker.connect(WITHIN_S)
    for key_type in (0, 1):
        eventually(partial(is_found, connection, key_type), WITHIN_S, "there is a coordinator")
    connection.close()


def is_found(connection: Connection, key_type: int) -> bool:
    """Whether there is a coordinator."""
    asked = {"key_type": key_type, "coordinator_keys": ["any"]}
    error: int = connection.ask("FindCoordinator", 4, asked)["coordinators"][0]["error_code"]
    return error == 0


def main() -> None:
    """Record Apache Kafka."""
    with kafka() as brokers:
        found = play(
            ("127.0.0.1", brokers.ports[0]), hold=lambda: brokers.end(1, "kill"), release=lambda: brokers.begin(1)
        )
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(map(len, found.values()))} answers in {len(found)} states")


if __name__ == "__main__":
    main()
