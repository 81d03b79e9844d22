"""Sessions of the newer protocol, recorded from Apache Kafka 4.4.0 and played on the model and on the core.

    python -m tests.conform.consumer_kafka record    starts a broker, plays every session, writes the recording
    python -m tests.conform.consumer_kafka record HOST:PORT    the same on a broker that runs already
    python -m tests.conform.consumer_kafka add       the same with the sessions that the recording lacks
    python -m tests.conform.consumer_kafka           plays them on both and prints what differs

The recording has the answers, step by step, as lines of a transcript. Sessions are the transcripts of
python/rota/conform/consumer_vectors and the cells of tests/conform/consumer_cells.py.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.conform.consumer import ConsumerWire
from rota.conform.judge import Recording, dump, load
from rota.conform.said import Evidence, Said
from rota.transcript.core_subject import ConsumerCoreSubject
from rota.transcript.model_subject import ModelSubject
from rota.transcript.player import Player
from rota.transcript.runner import consumer_transcripts
from rota.transcript.subject import Subject
from rota.transcript.text import Step, parse
from tests.conform.consumer_cells import TOPICS, cells
from tests.conform.systems import SYSTEMS

RECORDING = Path(__file__).parent / "consumer-kafka-4.4.0.json"
SYSTEM = "kafka-4.4.0"
TRIES = 200
PROBE_MS = 321
PROBE = f"settings consumer.heartbeat.interval.ms={PROBE_MS}"
#: Bounds that let a session time out in seconds.
SETTINGS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "auto.create.topics.enable": "false",
}


#: Sessions in which model and core depart from Kafka, and the departure of docs/departures.md.
EXPLAINED = {
    f"{state}/join-becomes-static": "D14" for state in ("unaware", "revoking", "behind", "away", "away-while-revoking")
} | {
    "left-behind/join-none-stranger": "D15",
    "D14-a-dynamic-member-becomes-static": "D14",
    "D14b-a-static-member-takes-another-instance": "D14",
    "D15-a-join-without-topics-behind-a-departure": "D15",
    "D15b-a-join-without-topics-behind-a-pattern": "D15",
    "D17-equal-votes-for-two-assignors": "D17",
}


UNEVEN = ("beat-current-changes", "beat-current-drops", "join-both-stranger", "join-none", "join-other")
#: Sessions in which the core alone departs. D16: its assignor gives other partitions where subscriptions differ.
EXPLAINED_OF_CORE = {f"behind/{name}": "D16" for name in (*UNEVEN, "join-other-stranger")} | {
    "behind/leave": "D16",
    "behind/leave-other-member": "D16",
    "left-behind/join-both-stranger": "D16",
}


def explained(player: str) -> dict[str, str]:
    """Sessions in which a player departs from Kafka, and why."""
    return EXPLAINED | (EXPLAINED_OF_CORE if player == "core" else {})


@dataclass(frozen=True)
class Session:
    """Steps of a transcript, under a name."""

    name: str
    steps: tuple[str, ...]


def sessions() -> Iterator[Session]:
    """Every session."""
    for path in consumer_transcripts():
        yield Session(path.stem, tuple(step.text for step in parse(path).main.steps))
    for cell in cells():
        yield Session(cell.name, cell.steps)


def played(session: Session, subject: Subject, *, at_once: bool, any_ids: bool = False) -> Evidence:
    """The answers of a subject, step by step; its log is left out. `any_ids`: member ids of any form are accepted."""
    player = Player(subject, loading=False, at_once=at_once)
    player.cast.any_ids = any_ids
    evidence = []
    for at, text in enumerate(session.steps):
        lines = player.play(Step(at, text))
        evidence.append(Said(text, tuple(line for line in lines if "< " in line and not line.startswith("@"))))
    return evidence


def on_the_model(session: Session) -> Evidence:
    """What the model answers."""
    return played(session, ModelSubject({}), at_once=True)


def on_the_core(session: Session) -> Evidence:
    """What the core answers."""
    own = {name: value for name, value in SETTINGS.items() if name.startswith("group.")}
    return played(session, ConsumerCoreSubject(own), at_once=True)


PLAYERS: dict[str, Callable[[Session], Evidence]] = {"model": on_the_model, "core": on_the_core}


def buckets(topic_id: uuid.UUID) -> tuple[int, ...]:
    """Where Java keeps a topic in hash tables of 4, 8 and 16 places: the order in which Kafka goes through topics."""
    mixed = (topic_id.int >> 64) ^ (topic_id.int & (1 << 64) - 1)
    hashed = (mixed >> 32) ^ (mixed & 0xFFFF_FFFF)
    spread = hashed ^ (hashed >> 16)
    return tuple(spread % size for size in (4, 8, 16))


def in_order(address: tuple[str, int]) -> None:
    """Make the topics again until Kafka goes through them in the order in which the sessions name them, which is the
    model's: where assignors take partitions in turn, its order shows in the answers."""
    topics = [(name, int(count)) for name, _, count in (pair.partition(":") for pair in TOPICS.split()[1:])]
    subject = ConsumerWire(address, "order-")
    try:
        subject.topics_changed(topics, 0)
        for _ in range(TRIES):
            foo, bar = (buckets(subject.ids[name]) for name in ("foo", "bar"))
            if all(first < second for first, second in zip(foo, bar, strict=True)):
                return
            subject.recreate(topics)
    finally:
        subject.close()
    raise SystemExit(f"no order of topic ids was right in {TRIES} tries; try again")


def set_up(address: tuple[str, int], by_prefix: Mapping[str, Session]) -> None:
    """Give every session's group its settings, and wait until a group that got its own last has them."""
    probe_prefix = f"probe-{uuid.uuid4().hex[:8]}-"
    for prefix, session in [*by_prefix.items(), (probe_prefix, Session("probe", (PROBE,)))]:
        subject = ConsumerWire(address, prefix)
        for step in session.steps:
            word, *pairs = step.split()
            if word == "settings":
                subject.group_settings("g", {n: int(value) for n, _, value in (p.partition("=") for p in pairs)}, 0)
        if prefix == probe_prefix:
            probe = Player(subject, loading=False)
            while f"interval={PROBE_MS}ms" not in probe.play(Step(0, "m beat join none"))[0]:
                subject.limits.left_s(subject.limits.deadline)
        subject.close()


def record(address: tuple[str, int], known: Mapping[str, Evidence]) -> Recording:
    """What a broker answers to the sessions that are not known."""
    rows = {session.name: known.get(session.name, []) for session in sessions()}
    run = uuid.uuid4().hex[:8]
    wanted = [session for session in sessions() if session.name not in known]
    by_prefix = {f"{run}-{number}-": session for number, session in enumerate(wanted)}
    in_order(address)
    set_up(address, by_prefix)
    for prefix, session in by_prefix.items():
        subject = ConsumerWire(address, prefix)
        try:
            rows[session.name] = played(session, subject, at_once=False)
        finally:
            subject.close()
    return Recording("kafka", "4.4.0", "", rows)


def recorded() -> Recording:
    """The recording in the tree."""
    return load(RECORDING.read_text(encoding="utf-8"))


def differences(session: Session, theirs: Evidence, player: str = "model") -> list[str]:
    """Where the player, model or core, answers otherwise, as lines; a departure is none."""
    if session.name in explained(player):
        return []
    return differing(session.name, PLAYERS[player](session), theirs)


def differing(name: str, ours: Evidence, theirs: Evidence) -> list[str]:
    """The steps with other answers, as lines."""
    found = []
    if [each.step for each in ours] != [each.step for each in theirs]:
        return [f"{name}: its steps are not those of the recording; record it again"]
    for mine, told in zip(ours, theirs, strict=True):
        if mine.answers != told.answers:
            found += [f"{name}: {mine.step}", *(f"  - {each}" for each in told.answers)]
            found += [f"  + {each}" for each in mine.answers]
    return found


def main(arguments: list[str]) -> int:
    """Exit code 1 if something differs."""
    if arguments[:1] in (["record"], ["add"]):
        known = recorded().rows if arguments[0] == "add" else {}
        if arguments[1:]:
            host, _, port = arguments[1].rpartition(":")
            told = record((host, int(port)), known)
        else:
            with SYSTEMS[SYSTEM].start(SETTINGS) as address:
                host, _, port = address.rpartition(":")
                told = record((host, int(port)), known)
        RECORDING.write_text(dump(told), encoding="utf-8")
    rows = recorded().rows
    found = []
    for player in PLAYERS:
        lines = [line for session in sessions() for line in differences(session, rows.get(session.name, []), player)]
        found += [f"{player}: {line}" if not line.startswith(" ") else line for line in lines]
    print("\n".join(found))
    steps = sum(len(session.steps) for session in sessions())
    print(f"{len(list(sessions()))} sessions, {steps} steps, {sum(not line.startswith(' ') for line in found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
