"""The same cells on two brokers, over the wire: what a running Apache Kafka answers beside what rota does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rota.transcript.player import Player
from rota.transcript.text import Step
from tests.matrix.matrix import State, shown, states
from tests.matrix.requests import columns
from tests.transcripts.wire_subject import Address, Broker, WireSubject

#: States that nothing but a partition's log or a setting brings about.
UNREACHABLE = {"loading", "unloaded", "initial-delay", "stable-full"}
#: Requests whose answer depends on settings that a broker may have otherwise.
BY_SETTINGS = {"JoinGroup newcomer, session timeout too short", "JoinGroup newcomer, session timeout too long"}
TRIES = 3

#: docs/departures.md: what rota answers where Kafka 4.4.0 is silent, taken away from rota's side before comparing.
DEPARTURES = {
    "D1": re.compile(r"(\w+'*)< NOT_COORDINATOR( member=\S+)? ; "),
    "D2": re.compile(r"(\w+'*)< UNKNOWN_MEMBER_ID ; (?=.*LeaveGroup|\w+'*< NONE )"),
}


@dataclass(frozen=True)
class Compared:
    """One cell on both: `departure` if the difference is a known one."""

    state: str
    column: str
    theirs: str
    ours: str
    departure: str | None

    @property
    def differs(self) -> bool:
        """Whether the difference is one that nothing explains."""
        return self.theirs != self.ours and self.departure is None


def compare(theirs: Address, ours: Address, workers: int = 6) -> Iterator[Compared]:
    """Every cell that can be reached from outside, state by state."""
    reachable = [state for state in states() if state.name not in UNREACHABLE]
    with ThreadPoolExecutor(workers) as pool:
        for compared in pool.map(lambda state: _compare_state(state, theirs, ours), reachable):
            yield from compared


def _compare_state(state: State, theirs: Address, ours: Address) -> list[Compared]:
    brokers = [Broker(theirs), Broker(ours)]
    compared = []
    for column in columns():
        step = state.step_of(column)
        if step is None or column.name in BY_SETTINGS:
            continue
        for _ in range(TRIES):  # a broker under load may be late: what differs once is asked again
            theirs_said, ours_said = (_play(state, step, broker) for broker in brokers)
            if theirs_said == ours_said:
                break
        departure = _departure(theirs_said, ours_said)
        compared.append(Compared(state.name, column.name, theirs_said, ours_said, departure))
    for broker in brokers:
        broker.close()
    return compared


def _departure(theirs: str, ours: str) -> str | None:
    if theirs == ours:
        return None
    return next((name for name, said in DEPARTURES.items() if said.sub("", ours, count=1) == theirs), None)


def _play(state: State, step: str, broker: Broker) -> str:
    subject = WireSubject(broker)
    try:
        player = Player(subject, state.loading)
        for before in state.steps:
            if before != "stored":  # a broker's log is its own
                player.play(Step(0, before))
        player.cast.rebase()
        return shown(player.play(Step(0, step)) + player.play(Step(0, "+0ms")), step)
    except Exception as error:  # belongs into the report, with its cell
        return f"{type(error).__name__}: {error}"
    finally:
        subject.close()
