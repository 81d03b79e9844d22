"""`python -m tests.conform.fuzz [HOST:PORT]`: random sessions on that broker and on rota, in lockstep.

Both get the same requests, step by step; ids and generations go by names. A difference that no departure explains is
shrunk to the shortest session that still shows it, in the language of the transcripts. The classic protocol is played
on a server, and the newer one on the core (consumer_fuzz.py). Both brokers need an initial rebalance delay of 0. Exit
code 1 if something differs.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

import rota
from rota.conform.broker import Broker, Visit
from rota.conform.evidence import Difference, compare, said
from rota.conform.said import FAULT
from rota.conform.subject import WireSubject
from rota.conform.wire import WireError
from rota.transcript.cast import StepError
from rota.transcript.player import Player
from rota.transcript.text import Step
from tests.conform import consumer_fuzz, consumer_sides, conversion, conversion_kafka
from tests.conform.systems import DELAY, kafka

#: One side may be slower; what one has said the other is given this long to say.
SAME_WITHIN_S = 1.0
SESSION_S = 60.0
#: No initial delay.
AT_ONCE = {DELAY: "0"}
STEPS_MAX = 20
#: sessions of one seed
BATCH = 50
ACTORS = ("a", "b", "c")
#: What an actor may do; `{i}` is its own name as an instance id.
DEEDS = (
    "JoinGroup",
    "JoinGroup",
    "JoinGroup v=3",
    'JoinGroup id=""',
    "JoinGroup instance={i}",
    'JoinGroup id="" instance={i}',
    "JoinGroup protocols=range:S2",
    "JoinGroup protocols=other:S",
    "JoinGroup protocols=range:S,other:T",
    "JoinGroup type=connect",
    "JoinGroup id=x-unknown",
    "SyncGroup plan=a,b,c",
    "SyncGroup plan=a",
    "SyncGroup",
    "SyncGroup instance={i}",
    "SyncGroup generation=7",
    "SyncGroup type=connect name=range",
    "Heartbeat",
    "Heartbeat",
    "Heartbeat instance={i}",
    "Heartbeat generation=7",
    "Heartbeat id=x-unknown generation=1",
    "OffsetCommit t/0=5",
    "OffsetCommit generation=-1 t/0=6",
    'OffsetCommit id="" generation=-1 t/0=7',
    "OffsetCommit instance={i} t/1=5",
    "OffsetFetch t/0 t/1",
    "LeaveGroup",
    "LeaveGroup members=/{i}",
    "LeaveGroup members=x-unknown",
    "DescribeGroup v=5",
    "ListGroups",
    "DeleteGroup",
    "OffsetDelete t/0",
)
#: How sessions begin, so that many of them come to where it matters.
BEGINNINGS: tuple[tuple[str, ...], ...] = (
    (),
    ("a JoinGroup", "a JoinGroup"),
    ("a JoinGroup", "a JoinGroup", "a SyncGroup plan=a"),
    ("a JoinGroup", "a JoinGroup", "b JoinGroup", "b JoinGroup", "a JoinGroup"),
    ("a JoinGroup", "a JoinGroup", "b JoinGroup", "b JoinGroup", "a JoinGroup", "b SyncGroup", "a SyncGroup plan=a,b"),
    ("a JoinGroup instance=a", "b JoinGroup instance=b", "a JoinGroup instance=a", "a SyncGroup instance=a plan=a,b"),
)


@st.composite
def sessions(draw: st.DrawFn) -> list[str]:
    """A session: steps of a transcript."""
    one = st.builds(
        lambda actor, line, deed: f"{actor}{line} {deed.format(i=actor)}",
        st.sampled_from(ACTORS), st.sampled_from(("", "'")), st.sampled_from(DEEDS),
    )  # fmt: skip
    return [*draw(st.sampled_from(BEGINNINGS)), *draw(st.lists(one, min_size=1, max_size=STEPS_MAX))]


@dataclass
class Side:
    """A session at one broker."""

    visit: Visit
    subject: WireSubject = field(init=False)
    player: Player = field(init=False)

    def __post_init__(self) -> None:
        self.subject = WireSubject(self.visit)
        self.player = self.subject.player(loading=False)

    def waits(self, connection: str) -> bool:
        return any(waiting == connection for waiting, _ in self.player.tickets.values())

    def play(self, step: str) -> list[str]:
        try:
            return self.player.play(Step(0, step))
        except StepError:
            return [f"{FAULT}stuck"]
        except WireError as error:
            return [f"{FAULT}{type(error).__name__}"]

    def close(self) -> None:
        self.subject.close()
        self.visit.close()


def first_difference(theirs: Broker, ours: Broker, steps: Sequence[str]) -> Difference | None:
    """Where the two part, unless a departure or an open choice explains it; what follows a choice is not played."""
    sides = [Side(Visit(broker, SESSION_S)) for broker in (theirs, ours)]
    try:
        for step in steps:
            if any(side.waits(step.split()[0]) for side in sides):
                continue
            difference = lockstep(sides, step)
            if difference is not None:
                return None if difference.reasons else difference
    finally:
        for side in sides:
            side.close()
    return None


def lockstep(sides: list[Side], step: str) -> Difference | None:
    """Where the answers to a step part, after the slower side had its time; None too if a departure says why."""
    lines = [side.play(step) for side in sides]
    until = time.monotonic() + SAME_WITHIN_S
    while True:
        difference = compare(*([said(step, each)] for each in lines))
        if difference is None or not (difference.missing or difference.unexpected):
            return None
        if time.monotonic() > until:
            return difference
        for side, each in zip(sides, lines, strict=True):
            each += side.play("+0ms")


class DiffersError(AssertionError):
    """A session on which two brokers part; the message is the transcript."""


def check(theirs: Broker, ours: Broker, steps: Sequence[str]) -> None:
    """Raises DiffersError."""
    difference = first_difference(theirs, ours, steps)
    if difference is not None and first_difference(theirs, ours, steps) is not None:  # a busy machine is late once
        told = [f"  - {line}" for line in difference.missing] + [f"  + {line}" for line in difference.unexpected]
        raise DiffersError("\n".join([*steps, f"at {difference.step}:", *told]))


def search(theirs: Broker, ours: Broker, within_s: float, number: int = 0) -> int:
    """Play sessions for so long; how many were. Raises DiffersError with the shortest session that shows what was
    found, which is looked for beyond that time."""
    until = time.monotonic() + within_s
    played = 0
    while time.monotonic() < until:
        played += _batch(theirs, ours, until, number)
        number += 1
    return played


def _batch(theirs: Broker, ours: Broker, until: float, number: int) -> int:
    played = 0
    found: list[DiffersError] = []

    @seed(number)
    @settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(sessions())
    def run(steps: list[str]) -> None:
        nonlocal played
        if time.monotonic() > until and not found:
            return
        played += 1
        try:
            check(theirs, ours, steps)
        except DiffersError as differs:
            found.append(differs)
            raise

    run_all: Callable[[], None] = run
    try:
        run_all()
    except (DiffersError, Flaky):  # what two brokers do is not always the same twice
        raise min(found, key=lambda differs: len(str(differs))) from None
    return played


def reached(address: str) -> Broker:
    """A broker, with topics."""
    host, _, port = address.rpartition(":")
    broker = Broker((host, int(port)))
    broker.contact()
    problems = broker.prepare()
    if problems:
        raise SystemExit(f"{address}: {'; '.join(problems)}")
    return broker


def classic(options: argparse.Namespace) -> int:
    """Sessions of the classic protocol."""
    with contextlib.ExitStack() as stack:
        theirs = reached(options.broker or stack.enter_context(kafka("broker")(AT_ONCE)))
        stack.callback(theirs.clean)
        server = stack.enter_context(rota.Server(settings={**AT_ONCE, "num.partitions": 8}))
        try:
            played = search(theirs, reached(server.bootstrap_servers), options.seconds, options.seed)
        except DiffersError as differs:
            print(differs)
            return 1
    print(f"{played} sessions on both, none differs")
    return 0


def consumer(options: argparse.Namespace) -> int:
    """Sessions of the newer protocol. A broker that is named has the policy, and the settings of consumer_sides.py."""
    with contextlib.ExitStack() as stack:
        own = {**consumer_sides.SETTINGS, conversion_kafka.POLICY: options.policy}
        host, _, port = (options.broker or stack.enter_context(kafka("broker")(own))).rpartition(":")
        stage = consumer_sides.Stage((host, int(port)), consumer_sides.HASHED)
        opened = consumer_fuzz.with_core(stage, options.policy)
        tally = consumer_fuzz.search(opened, options.seconds, options.seed, findings_max=options.findings)
    print(tally)
    return 1 if tally.findings else 0


PROTOCOLS = {"classic": classic, "consumer": consumer}


def main() -> int:
    """Exit code 1 if a session differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.conform.fuzz", description=__doc__)
    parser.add_argument("broker", nargs="?", metavar="HOST:PORT", help="Apache Kafka 4.4.0 is started if none is named")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--protocol", choices=PROTOCOLS, default="classic")
    parser.add_argument("--policy", choices=conversion.POLICIES, default=conversion.USUAL, help="of the newer protocol")
    parser.add_argument("--findings", type=int, default=10, help="differences to find before the newer protocol's end")
    options = parser.parse_args()
    return PROTOCOLS[options.protocol](options)


if __name__ == "__main__":
    sys.exit(main())
