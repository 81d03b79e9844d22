"""The two programs of docs/member.md, each in two processes, as a person would run them in two terminals."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic

import pytest

import rota
from tests.checks.tidy import ROOT
from tests.journaled import journaled

WITHIN_S = 60.0
PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/member.md").read_text(), re.DOTALL)


class Terminal:
    """A program of the page that runs, and what it has printed so far."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._queue: Queue[str] = Queue()
        self.lines: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                self._queue.put(line)

    def until(self, condition: Callable[[list[str]], bool]) -> None:
        """Wait until what it has printed is as wanted."""
        deadline = monotonic() + WITHIN_S
        while not condition(self.lines):
            try:
                self.lines.append(self._queue.get(timeout=max(0.0, deadline - monotonic())))
            except Empty:
                raise AssertionError(f"not within {WITHIN_S} s: {''.join(self.lines)}") from None

    def stop(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(WITHIN_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[rota.Server]:
    settings = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 4}
    with journaled(tmp_path / "journal", settings=settings) as running:
        yield running


@pytest.fixture
def start(server: rota.Server, tmp_path: Path) -> Iterator[Callable[[str], Terminal]]:
    terminals: list[Terminal] = []

    def start_one(program: str) -> Terminal:
        path = tmp_path / f"program{len(terminals)}.py"
        path.write_text(program.replace("127.0.0.1:9092", server.bootstrap_servers))
        terminals.append(Terminal(path))
        return terminals[-1]

    yield start_one
    for terminal in terminals:
        terminal.close()


def holds(count: int, word: str) -> Callable[[list[str]], bool]:
    """Whether the last list after this word has so many entries."""

    def check(lines: list[str]) -> bool:
        lists = [match[1] for line in lines if (match := re.search(word + r" ([\[\(\{].*?[\]\)\}])(?: new:|$)", line))]
        return bool(lists) and len(ast.literal_eval(lists[-1])) == count

    return check


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal")
@pytest.mark.parametrize(
    ("program", "word", "all_of_it"), [(PROGRAMS[0], "now", 4), (PROGRAMS[1], "mine:", 64)], ids=["member", "roster"]
)
def test_the_program_shares_with_its_twin_and_takes_over_when_that_is_stopped(
    program: str, word: str, all_of_it: int, start: Callable[[str], Terminal]
) -> None:
    first = start(program)
    first.until(holds(all_of_it, word))
    second = start(program)
    second.until(holds(all_of_it // 2, word))
    first.until(holds(all_of_it // 2, word))
    second.stop()
    first.until(holds(all_of_it, word))
    assert not any("Traceback" in line for line in first.lines)


def test_there_are_two_programs() -> None:
    assert len(PROGRAMS) == 2
