"""How much is measured, and programs that take turns."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches.brokers import MissingError, needs
from benches.rival import Rival
from harness.java import built
from rota.bench import joining, serving
from rota.bench.alone import Way, way
from rota.bench.joining import Storm
from rota.bench.processes import Served
from rota.bench.serving import Say

ROOT = Path(__file__).resolve().parents[2]
JVM_PROJECT = ROOT / "benches" / "kafka" / "jvm"
JVM_FLAGS = ("-Xms2g", "-Xmx8g", "-XX:+UseG1GC")
PACKAGE = "rota-benches"
# Two cores' worth of compiling, and the first passes of cold caches, are over by then.
WARM_UP_S, WARM_UP_RUNS_MIN = 5.0, 2
# The first run waits until a million members are there.
WARM_UP_RUN_LIMIT_S = 600
BROKER_WARM_UP_S, WARM_UP_CONNECTIONS = 20.0, 256
Run = Callable[[], tuple[int, float]]


@dataclass(frozen=True)
class Plan:
    """How much. `say` tells where it has got to."""

    quick: bool = False
    say: Say = field(default=lambda _: None)

    @property
    def rounds(self) -> int:
        """Of everything that takes turns."""
        return 2 if self.quick else 3

    @property
    def seconds(self) -> float:
        """Of a measurement whose length can be chosen."""
        return 0.1 if self.quick else 1.0

    @property
    def warm_up_s(self) -> float:
        """Seconds of warm-up: a JVM needs more."""
        return 0.5 if self.quick else WARM_UP_S

    @property
    def broker_warm_up_s(self) -> float:
        """Of a broker in a JVM, for heartbeats and for joins: it has one core for its work and for its compiler."""
        return 0.5 if self.quick else BROKER_WARM_UP_S

    @property
    def members(self) -> tuple[int, ...]:
        """Members of the coordinator, and timers of the wheel."""
        return (1_000, 10_000) if self.quick else (1_000, 100_000, 1_000_000)


def in_turns(plan: Plan, runs: Mapping[str, Run]) -> dict[str, Way]:
    """Each once a round, in this order."""
    rounds: dict[str, list[tuple[int, float]]] = {name: [] for name in runs}
    for number in range(plan.rounds):
        for name, run in runs.items():
            plan.say(f"round {number + 1} of {plan.rounds}: {name}")
            rounds[name].append(run())
    return {name: way(name, done) for name, done in rounds.items()}


def jvm(plan: Plan, *words: object, lines: Sequence[str] = ("run",)) -> Rival:
    """Kafka's classes, warmed up for runs of these kinds: `benches/kafka/jvm`."""
    for program in ("java", "mvn"):
        needs(program, "Kafka")
    try:
        jars = built(JVM_PROJECT, "benches-java")
    except RuntimeError as error:
        raise MissingError(f"Kafka's classes: {str(error).splitlines()[0]}") from error
    command = ["java", *JVM_FLAGS, "-cp", f"{jars}/benches.jar:{jars}/lib/*", "rota.benches.Main", *map(str, words)]
    rival = Rival(command)
    for line in lines:
        plan.say(f"warming up {' '.join(map(str, words))}: {line}")
        began, runs = time.monotonic(), 0
        while runs < WARM_UP_RUNS_MIN or time.monotonic() - began < plan.warm_up_s:
            rival.run(WARM_UP_RUN_LIMIT_S, line)
            runs += 1
    return rival


def warmed(broker: Served, plan: Plan) -> None:
    """Let a broker that runs in a JVM have its code compiled: heartbeats, then joins. What it is for is not counted."""
    plan.say(f"warming up {broker.name}")
    seconds = plan.broker_warm_up_s
    serving.measure([broker], serving.Plan(WARM_UP_CONNECTIONS, 1, WARM_UP_CONNECTIONS, 100, 0, seconds, 1), plan.say)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        joining.measure([broker], Storm(1, WARM_UP_CONNECTIONS, 1), plan.say)


def native(example: str, *words: object) -> list[str]:
    """The command of an example of `benches/rust`, built."""
    needs("cargo", f"`{example}`")
    build = ["cargo", "build", "--quiet", "--release", "-p", PACKAGE, "--example", example]
    subprocess.run(build, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return [str(target / "release" / "examples" / example), *map(str, words)]
