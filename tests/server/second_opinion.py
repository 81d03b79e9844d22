"""What porcupine, which searches, says of histories that `registers.py` decides without a search. Needs Go."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.server.registers import NEVER, Call, History

FOLDER = Path(__file__).parent / "porcupine"
OK, ILLEGAL = "Ok", "Illegal"
SAMPLE = 4


def is_installed() -> bool:
    """Whether Go is there."""
    return shutil.which("go") is not None


def opinions(histories: Iterable[Iterable[Call]]) -> list[str]:
    """Of each history of a register: Ok, Illegal, or Unknown after some seconds."""
    lines = []
    for calls in histories:
        first = min((call.begin for call in calls), default=0.0)
        rows = [
            [
                int(each.is_commit),
                each.value,
                _ns(each.begin - first),
                None if each.end == NEVER else _ns(each.end - first),
            ]
            for each in calls
        ]
        lines.append(json.dumps(rows))
    command = ["go", "run", "."]
    said = subprocess.run(command, cwd=FOLDER, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout.split()


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def of_sample(history: History) -> tuple[Counter[str], list[str]]:
    """How often porcupine has each opinion of some keys, and the keys that are illegal to it."""
    keys = sorted(history.keys())[:SAMPLE]
    said = opinions([history.calls(key) for key in keys])
    return Counter(said), [
        f"{key}: porcupine finds no order" for key, each in zip(keys, said, strict=True) if each == ILLEGAL
    ]
