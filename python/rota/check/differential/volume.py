"""Volume: seeded runs without Hypothesis, several thousand steps a second, and the shortening of those that fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rota.check.differential.cells import Reached
from rota.check.differential.lockstep import Difference, Lockstep
from rota.check.differential.steps import Loaded, Step
from rota.check.differential.transaction_lockstep import LEVEL, TransactionLockstep
from rota.check.differential.walks import CLASSIC, Walk, lockstep_of

STEPS_OF_A_RUN = 60
PROTOCOLS = "group.coordinator.rebalance.protocols"


class Seeded:
    """Choices from a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def index(self, count: int) -> int:
        """A number below `count`."""
        return int(self.random.random() * count)


@dataclass
class Failure:
    """A run that failed: its settings, its steps, and how."""

    config: Mapping[str, int | str]
    steps: list[Step]
    error: str

    @property
    def is_recorded(self) -> bool:
        """Whether a recording shows it: no transcript has the newer protocol, nor transactions."""
        return PROTOCOLS in self.config or LEVEL in self.config


def run(
    seed: int, length: int = STEPS_OF_A_RUN, walk: Walk = CLASSIC, reached: Reached | None = None
) -> tuple[int, Failure | None]:
    """One run: how many steps it took, and what it found. `reached` gets what the walk reached."""
    choices = Seeded(seed)
    config = walk.configs[choices.index(len(walk.configs))]
    lockstep = lockstep_of(config, reached)
    maker = walk.maker(lockstep, choices)
    makers = [each for each, weight in walk.makers.items() for _ in range(weight)]
    steps: list[Step] = []
    for at in range(length):
        if at < len(walk.opening):
            steps.append(walk.opening[at])
        else:
            loading = lockstep.state.phase == "Loading" and choices.index(3) == 0
            steps.append(Loaded() if loading else makers[choices.index(len(makers))](maker))
        error = _played(lockstep, steps[-1])
        if error is not None:
            return len(steps), Failure(config, steps, error)
    return length, None


def error_of(config: Mapping[str, int | str], steps: Sequence[Step]) -> str | None:
    """How these steps fail, if they do."""
    lockstep = lockstep_of(config)
    errors = (_played(lockstep, step) for step in steps)
    return next((error for error in errors if error is not None), None)


def _played(lockstep: Lockstep | TransactionLockstep, step: Step) -> str | None:
    """How the step fails, if it does: a difference, or whatever the core or the model raises, who refuse nothing."""
    try:
        lockstep.play(step)
    except Difference as difference:
        return str(difference)
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # Ctrl-C; a panic of the core is no Exception either
        return f"at {lockstep.now_ms} ms, {step}: {type(error).__name__}: {error}"
    return None


def shorten(failure: Failure) -> Failure:
    """Leave out whatever the failure does not need: halves first, then ever fewer steps, then single ones."""
    steps, error = list(failure.steps), failure.error
    size = max(len(steps) // 2, 1)
    while size:
        start, before = 0, len(steps)
        while start < len(steps):
            without = steps[:start] + steps[start + size :]
            still = error_of(failure.config, without)
            if still is None:
                start += size
            else:
                steps, error = without, still
        size = size if size == 1 and len(steps) < before else size // 2
    return Failure(failure.config, steps, error)
