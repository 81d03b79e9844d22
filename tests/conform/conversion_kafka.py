"""Sessions in which groups change their protocol, recorded from Apache Kafka 4.4.0 and played on model and core.

python -m tests.conform.conversion_kafka record    starts a broker per policy, plays, writes the recording
python -m tests.conform.conversion_kafka add       the same with the sessions that the recording lacks
python -m tests.conform.conversion_kafka           plays the sessions on both and prints what differs
"""

from __future__ import annotations

import selectors
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from rota import model
from rota.codec import apis
from rota.conform.consumer import ConsumerWire
from rota.conform.judge import Recording, dump, load
from rota.conform.older import Offer
from rota.conform.said import Evidence, Said
from rota.conform.subject import ABSENT, ANSWERS, REQUESTS, Asked
from rota.conform.wire import Address, Connection
from rota.transcript.core_subject import ConsumerCoreSubject
from rota.transcript.model_subject import ModelSubject
from rota.transcript.subject import Answer, Effect, Request, Subject
from tests.conform.consumer_kafka import SETTINGS, SYSTEM, Session, differing, played, set_up
from tests.conform.conversion import Conversion, conversions
from tests.conform.systems import SYSTEMS

RECORDING = Path(__file__).parent / "conversion-kafka-4.4.0.json"
POLICY = "group.consumer.migration.policy"
OWN_SETTINGS = SETTINGS | {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
CLASSIC = (
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DescribeGroup", "ListGroups", "DeleteGroup", "OffsetDelete",
)  # fmt: skip
#: how long an answer that may wait for another member is waited for
PARKED_S = 0.5
Rows = Mapping[str, Evidence]
#: Sessions in which model and core depart from Kafka, and why.
EXPLAINED: dict[str, str] = {
    "bidirectional/a-refused-join-meets-an-empty-group": "D18",
    "bidirectional/upgrade-of-an-interrupted-plan": "D21",
    "bidirectional/upgrade-behind-a-downgrade": "D21",
    "bidirectional/upgrade-before-a-member-syncs": "D21",
    "bidirectional/a-replacement-before-a-member-gives-up": "D23",
    "bidirectional/a-replacement-while-another-waits": "D23",
    "bidirectional/classic-describe-of-a-mixed-group": "D24",
    "bidirectional/a-replacement-by-a-consumer-while-another-waits": "D25",
    "bidirectional/a-replacement-between-the-rebalances-of-a-cooperative-plan": "D25",
    "bidirectional/too-large-for-a-consumer-group": "D25",
    "bidirectional/too-large-and-all-at-rest": "D22",
    "upgrade/the-last-consumer-leaves": "D22",
    "upgrade/the-last-consumer-is-removed-by-leave-group": "D22",
    "upgrade/the-last-consumer-times-out": "D22",
}


class ConversionWire(ConsumerWire):
    """One session's group on a broker. A request of the classic protocol may wait, so each has its own connection."""

    parked_s = PARKED_S

    def __init__(self, address: Address, prefix: str) -> None:
        super().__init__(address, prefix)
        self.address = address
        self.offer = Offer()
        self.waiting: dict[int, tuple[Connection, Asked]] = {}
        self.selector = selectors.DefaultSelector()

    @property
    def visit(self) -> ConversionWire:
        """The names of groups and topics on the broker."""
        return self

    def name(self, group_id: str) -> str:
        return self.named(group_id)

    def topic(self, name: str) -> str:
        return name

    topic_shown = topic

    def shown(self, message: str | None) -> str | None:
        return None if message is None else message.replace(self.prefix, "")

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        if request.api not in CLASSIC:
            return [*super().submit(now_ms, ticket, request, entropy), *self.collect()]
        connection = Connection(self.address, request.fields.get("client_id", "c"), self.limits, deque(maxlen=100))
        api, version, values = REQUESTS[request.api](self, request.fields)  # type: ignore[arg-type]
        connection.send(apis()[api.name], version, values)
        self.waiting[ticket] = (connection, Asked(ticket, request, api, version))
        self.selector.register(connection.socket, selectors.EVENT_READ, ticket)
        return self.collect()

    def collect(self) -> list[Effect]:
        """The answers that come before everything is answered, or within a moment."""
        effects: list[Effect] = []
        until = time.monotonic() + self.parked_s
        while self.waiting and time.monotonic() < until:
            for key, _ in self.selector.select(self.limits.left_s(until)):
                connection, asked = self.waiting[key.data]
                frame = connection.receive()
                if frame is None:
                    continue
                del self.waiting[key.data]
                self.selector.unregister(connection.socket)
                fields = ANSWERS[asked.request.api](self, asked, connection.read(frame))  # type: ignore[arg-type]
                if fields.get("protocol_type") == ABSENT:  # an older version leaves out what was offered
                    fields |= {"protocol_type": self.offer.protocol_type, "protocol_name": self.offer.names[0]}
                effects.append(Answer(asked.ticket, asked.request.api, fields))
                connection.close()
        return effects

    def advance(self, now_ms: int) -> list[Effect]:
        super().advance(now_ms)
        return self.collect()

    def close(self) -> None:
        for connection, _ in self.waiting.values():
            connection.close()
        self.selector.close()
        super().close()


class ConversionCore(ConsumerCoreSubject):
    """The core, whose timers fire right after a request, as those of a broker do."""

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        return [*super().submit(now_ms, ticket, request, entropy), *self.advance(now_ms)]


class ConversionModel(ModelSubject):
    """The model, whose timers fire right after a request likewise."""

    def step(self, now_ms: int, event: model.Event) -> list[Effect]:
        effects = super().step(now_ms, event)
        return [*effects, *super().step(now_ms, model.Advance())] if isinstance(event, model.Submit) else effects


def on_the_core(conversion: Conversion) -> Evidence:
    """What the core answers."""
    return _played(conversion, ConversionCore(_settings(conversion)))


def on_the_model(conversion: Conversion) -> Evidence:
    """What the model answers."""
    known = model.Config.__dataclass_fields__
    own = {name: value for name, value in _settings(conversion).items() if name.replace(".", "_") in known}
    return _played(conversion, ConversionModel(own))


PLAYERS: dict[str, Callable[[Conversion], Evidence]] = {"model": on_the_model, "core": on_the_core}


def _settings(conversion: Conversion) -> dict[str, str]:
    own = {name: value for name, value in OWN_SETTINGS.items() if name.startswith("group.")}
    return own | {POLICY: conversion.policy} | dict(conversion.limits)


def _played(conversion: Conversion, subject: Subject) -> Evidence:
    return played(Session(conversion.name, conversion.steps), subject, at_once=True, any_ids=True)


def record(known: Rows) -> Recording:
    """What brokers answer, one per policy and limits, to the sessions that are not known."""
    rows = {each.name: known[each.name] for each in conversions() if each.name in known}
    brokers = dict.fromkeys((each.policy, each.limits) for each in conversions() if each.name not in known)
    for policy, limits in brokers:
        wanted = [each for each in conversions() if (each.policy, each.limits) == (policy, limits)]
        own = [Session(each.name, each.steps) for each in wanted if each.name not in known]
        with SYSTEMS[SYSTEM].start(OWN_SETTINGS | {POLICY: policy} | dict(limits)) as text:
            host, _, port = text.rpartition(":")
            address, run = (host, int(port)), uuid.uuid4().hex[:8]
            by_prefix = {f"{run}-{number}-": session for number, session in enumerate(own)}
            set_up(address, by_prefix)
            for prefix, session in by_prefix.items():
                subject = ConversionWire(address, prefix)
                try:
                    rows[session.name] = played(session, subject, at_once=False, any_ids=True)
                finally:
                    subject.close()
    return Recording("kafka", "4.4.0", "", rows)


def recorded() -> Recording:
    """The recording in the tree."""
    return load(RECORDING.read_text(encoding="utf-8"))


def differences(conversion: Conversion, theirs: Evidence, player: str = "core") -> list[str]:
    """Where model or core answers otherwise, as lines; a departure is none."""
    if conversion.name in EXPLAINED:
        return []
    return differing(conversion.name, in_order(PLAYERS[player](conversion)), in_order(theirs))


def in_order(evidence: Evidence) -> Evidence:
    """Answers on several connections come in any order within a step."""
    return [Said(each.step, tuple(sorted(each.answers))) for each in evidence]


def main(arguments: list[str]) -> int:
    """Exit code 1 if something differs."""
    if arguments[:1] in (["record"], ["add"]):
        known = recorded().rows if arguments[0] == "add" else {}
        RECORDING.write_text(dump(record(known)), encoding="utf-8")
    rows = recorded().rows
    found = []
    for player in PLAYERS:
        lines = [line for each in conversions() for line in differences(each, rows.get(each.name, []), player)]
        found += [line if line.startswith(" ") else f"{player}: {line}" for line in lines]
    print("\n".join(found))
    print(f"{len(list(conversions()))} sessions, {sum(not line.startswith(' ') for line in found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
