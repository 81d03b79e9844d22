"""What happens in the demo, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.demo.cast import Cast

TOPICS = {"orders": 8, "payments": 4}


@dataclass(frozen=True)
class Step:
    """One thing that happens to the group, after which it has to settle."""

    title: str
    act: Callable[[Cast, dict[str, str]], None]
    """Gets the consumers and the broker's name of each topic."""
    is_over: Callable[[], bool] = lambda: True
    """Whether what the act began has come to its end; asked again and again."""


def joins(name: str) -> Step:
    """A consumer of both topics starts."""
    return Step(f"{name} joins", lambda cast, names: cast.start(name, frozenset(names.values())))


def leaves(name: str) -> Step:
    """A consumer says good-bye."""
    return Step(f"{name} leaves", lambda cast, _: cast.leave(name))


def is_killed(name: str) -> Step:
    """A consumer's process gets SIGKILL: only its silence can tell."""
    return Step(f"{name} is killed", lambda cast, _: cast.kill(name))


def switches(name: str, topic: str) -> Step:
    """A consumer drops all topics but one."""
    return Step(f"{name} switches to {topic} only", lambda cast, names: cast.subscribe(name, frozenset([names[topic]])))


STEPS = (
    joins("ana"),
    joins("ben"),
    joins("cleo"),
    joins("dan"),
    leaves("ben"),
    is_killed("cleo"),
    switches("dan", "orders"),
)
