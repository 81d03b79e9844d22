"""`rota demo --exactly-once`: three transactional workers copy numbered inputs, and one is killed in each phase of a
transaction. Every input has to be among the outputs once, as a reader of committed records sees them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rota.demo.witness import UnreachableError, remove
from rota.demo.worker import PHASES

INPUTS = 400
PARTITIONS = 6
NAMES = ("ana", "ben", "cleo")
WITHIN_S = 90.0
CLOSE_WITHIN_S = 30.0
ANSWER_WITHIN_S = 20.0
SESSION_MS = 10_000
Say = Callable[[str], None]


@dataclass
class Outcome:
    """What happened. `failures` are sentences; empty if every input was counted once."""

    inputs: int = INPUTS
    counted_once: int = 0
    phases: list[str] = field(default_factory=list)
    transactions: int = 0
    hidden: int = 0
    """Records of aborted transactions."""
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.failures


def judge(outcome: Outcome, committed: Iterable[int], everything: int) -> None:
    """Count what a reader of committed records saw; `everything` counts records of aborted transactions, too."""
    counts = Counter(committed)
    outcome.counted_once = sum(counts[number] == 1 for number in range(outcome.inputs))
    outcome.hidden = everything - counts.total()
    for words, wrong in (
        ("inputs are never among the outputs", [number for number in range(outcome.inputs) if not counts[number]]),
        ("inputs are more than once among the outputs", [number for number, times in counts.items() if times > 1]),
        ("outputs have no input", [number for number in counts if number not in range(outcome.inputs)]),
    ):
        if wrong:
            outcome.failures.append(f"{len(wrong)} {words}: {', '.join(map(str, sorted(wrong)[:5]))}")
    outcome.failures += [f"no worker was killed {phase}" for phase in PHASES if phase not in outcome.phases]
    if not outcome.hidden:
        outcome.failures.append("no killed worker left a record that had to stay hidden: nothing was shown")


class Play:
    """One run against a broker."""

    def __init__(self, client: dict[str, Any], say: Say) -> None:
        self.client, self.say = client, say
        self.outcome = Outcome()
        self.run_id = uuid.uuid4().hex[:8]
        self.inputs, self.outputs = f"rota-demo-inputs-{self.run_id}", f"rota-demo-outputs-{self.run_id}"
        self.group, self.has_topics = f"rota-demo-{self.run_id}", False
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.to_die = list(PHASES)

    def play(self) -> Outcome:
        """Start the workers, restart those that die, and count at the end."""
        self._prepare()
        try:
            for name in NAMES:
                self._start(name)
            self._work()
        finally:
            self._end()
        committed = self._read("read_committed")
        judge(self.outcome, committed, len(self._read("read_uncommitted")))
        return self.outcome

    def clear(self) -> None:
        """Leave no topic and no group behind on a broker of the user. No client can delete transactional ids."""
        if self.has_topics:
            remove(AdminClient(self.client), [self.inputs, self.outputs], self.group, SESSION_MS)

    def _prepare(self) -> None:
        admin = AdminClient(self.client)
        try:
            admin.list_topics(timeout=ANSWER_WITHIN_S)
        except KafkaException as error:
            at = self.client["bootstrap.servers"]
            raise UnreachableError(f"nothing answers at {at}: is a broker running there?") from error
        self.has_topics = True
        topics = [NewTopic(self.inputs, PARTITIONS, 1), NewTopic(self.outputs, PARTITIONS, 1)]
        for created in admin.create_topics(topics, operation_timeout=ANSWER_WITHIN_S).values():
            created.result(ANSWER_WITHIN_S)
        producer = Producer(self.client)
        for number in range(INPUTS):
            producer.produce(self.inputs, value=str(number), partition=number % PARTITIONS)
        if producer.flush(ANSWER_WITHIN_S):
            raise TimeoutError

    def _start(self, name: str) -> None:
        """A worker keeps its name, so that it fences the one before and takes over its partitions."""
        own = f"{name}-{self.run_id}"
        dies = self.to_die.pop(0) if self.to_die else None
        reads = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        order = {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "dies": dies,
            "consumer": {
                **self.client,
                **reads,
                "group.id": self.group,
                "group.instance.id": own,
                "session.timeout.ms": SESSION_MS,
            },
            "producer": {**self.client, "transactional.id": own, "transaction.timeout.ms": 10_000},
        }
        command = [sys.executable, "-m", "rota.demo.worker"]
        pipe = subprocess.PIPE
        worker = self.workers[name] = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(order) + "\n")
        worker.stdin.flush()
        self.say(f"{name} starts" + (f", to die {dies}" if dies else ""))

    def _work(self) -> None:
        """Until a reader of committed records has as many outputs as there are inputs, and every phase had its kill."""
        deadline_s = time.monotonic() + WITHIN_S
        reader = self._reader("read_committed")
        seen = 0
        try:
            while seen < INPUTS or len(self.outcome.phases) < len(PHASES):
                seen += sum(message.error() is None for message in reader.consume(100, 0.2))
                self._restart()
                if time.monotonic() > deadline_s:
                    self.outcome.failures.append(f"{seen} of {INPUTS} inputs were counted within {WITHIN_S:.0f} s")
                    return
        finally:
            reader.close()

    def _restart(self) -> None:
        """A worker that has ended leaves its report; another one takes its name."""
        for name, worker in list(self.workers.items()):
            if worker.poll() is None:
                continue
            out, errors = worker.communicate()
            self._note(name, out)
            if worker.returncode > 0:
                reason = (errors.strip().splitlines() or ["it said nothing"])[-1]
                self.say(f"{name} ended with code {worker.returncode}: {reason}")
            self._start(name)

    def _note(self, name: str, report: str) -> None:
        for line in map(json.loads, report.splitlines()):
            self.outcome.transactions += line["kind"] == "committed"
            if line["kind"] == "dies":
                self.outcome.phases.append(line["phase"])
                self.say(f"{name} was killed {line['phase']}")

    def _end(self) -> None:
        """The end of its orders ends a worker."""
        for worker in self.workers.values():
            if worker.stdin is not None and not worker.stdin.closed:
                worker.stdin.close()
                worker.stdin = None
        for name, worker in self.workers.items():
            try:
                out, _ = worker.communicate(timeout=CLOSE_WITHIN_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                out, _ = worker.communicate()
            self._note(name, out)

    def _reader(self, isolation: str) -> Consumer:
        group = {"group.id": f"rota-demo-reader-{self.run_id}", "enable.auto.commit": False}
        reader = Consumer({**self.client, **group, "isolation.level": isolation, "enable.partition.eof": True})
        reader.assign([TopicPartition(self.outputs, index, 0) for index in range(PARTITIONS)])
        return reader

    def _read(self, isolation: str) -> list[int]:
        """All outputs, to the end of every partition."""
        reader, found, ended = self._reader(isolation), list[int](), set[int | None]()
        deadline_s = time.monotonic() + ANSWER_WITHIN_S
        try:
            while len(ended) < PARTITIONS and time.monotonic() < deadline_s:
                for message in reader.consume(100, 0.2):
                    error, value = message.error(), message.value()
                    if error is None and value is not None:
                        found.append(int(value))
                    elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition())
        finally:
            reader.close()
        if len(ended) < PARTITIONS:
            raise TimeoutError
        return found


def perform(client: dict[str, Any], as_json: bool) -> Outcome:
    """Play once, shown on stdout. Without `bootstrap.servers` in `client`, against a rota of its own.

    Raises UnreachableError if nothing answers, KafkaException or TimeoutError if the broker refuses.
    """
    began_s = time.monotonic()

    def say(text: str) -> None:
        at_s = time.monotonic() - began_s
        print(json.dumps({"at_s": round(at_s, 1), "text": text}) if as_json else f"{at_s:5.1f} s  {text}", flush=True)

    if "bootstrap.servers" in client:
        play = Play(client, say)
        try:
            outcome = play.play()
        finally:
            play.clear()
    else:
        from rota.server import Server

        with Server() as server:
            outcome = Play({**client, "bootstrap.servers": server.bootstrap_servers}, say).play()
    if as_json:
        print(json.dumps({**asdict(outcome), "ok": outcome.ok}))
        return outcome
    print(f"{outcome.counted_once} of {outcome.inputs} inputs counted once; {outcome.hidden} records stayed hidden")
    for failure in outcome.failures:
        print(f"FAILED: {failure}")
    return outcome
