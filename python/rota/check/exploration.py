"""The engine `exploration`: every state of the coordinator within small bounds, the shortest way to what is wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rota import _rota
from rota.check.engines import Effort, Progress, Report
from rota.transcript.cast import StepError
from rota.transcript.core_subject import CoreSubject
from rota.transcript.player import Player
from rota.transcript.text import EFFECT_INDENT, Step

STATES, STATES_QUICKLY = 200_000, 8_000
FIRST_OF_NEWER = "consumers"
"""The first bounds of the newer protocol."""


PROTOCOLS = ("classic", "consumer")


def bounds_of(protocol: str | None) -> list[str]:
    """The names of the bounds of one of PROTOCOLS, or of both."""
    names = _rota.exploration_bounds()
    newer = names.index(FIRST_OF_NEWER)
    return names if protocol is None else names[newer:] if protocol == "consumer" else names[:newer]


def run(effort: Effort, progress: Progress, names: Sequence[str] | None = None) -> Report:
    """Explores within the bounds that are named, or within all. Ends with so many states within each, or with what does
    not hold.
    """
    began = time.perf_counter()
    names = _rota.exploration_bounds() if names is None else names
    newer = bounds_of("consumer")
    states_max = effort.states or (STATES_QUICKLY if effort.quick else STATES)
    states = newer_states = transitions = whole = 0
    cells: set[str] = set()
    failures: list[str] = []
    for at, name in enumerate(names):

        def tell(known: int, at: int = at, name: str = name) -> None:
            progress(at * states_max + min(known, states_max), len(names) * states_max, f"states, {name}")

        found = _rota.explore(name, states_max, effort.processes, tell)
        states, transitions = states + found["states"], transitions + found["transitions"]
        newer_states += found["states"] if name in newer else 0
        whole += found["complete"]
        cells.update(found["cells"])
        if found["violation"]:
            broken, detail, steps = found["violation"]
            failures.append(f"{broken} within the bounds `{name}`: {detail}\n\n{played(steps)}".rstrip())
    progress(1, 1, "")
    seconds = time.perf_counter() - began
    cells_of_all, argued = _rota.exploration_cells()
    figures: dict[str, int | float | str] = {
        "states": states,
        "of the newer protocol": newer_states,
        "transitions": transitions,
        "bounds": f"{len(names)} ({whole} seen whole)",
        "cells": f"{len(cells)} of {cells_of_all - argued}",
        "states/s": round(states / seconds),
    }
    return Report("exploration", not failures, seconds, figures, failures)


def played(text: str) -> str:
    """The steps of a transcript, with what the core does in each of them; a step that a client could not take, such as
    one with an id that was never issued, is a comment. The events of the newer protocol are no transcript, and stay.
    """
    lines = text.splitlines()
    if "---" not in lines:
        return text
    start = lines.index("---") + 1
    config = dict(
        pair.split("=", 1) for line in lines[:start] if line.startswith("config ") for pair in line.split()[1:]
    )
    player = Player(CoreSubject(config), loading=False)
    told = lines[:start]
    for line in lines[start:]:
        if not line or line.startswith("#"):
            told.append(line)
            continue
        try:
            effects = player.play(Step(0, line))
        except StepError as error:
            told.append(f"# {line}: {error}")
            continue
        told += [line, *(f"{EFFECT_INDENT}{effect}" for effect in effects)]
    return "\n".join(told)
