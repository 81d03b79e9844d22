"""Ctrl-C ends every long command soon, with its exit code and without a process left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from rota import exits, interrupts
from rota.check import cli
from rota.check.engines import Effort, Progress, Report
from rota.system import Flag
from tests.clients.eventually import eventually
from tests.commands.interrupted import CASES, ENDS_WITHIN_S, Case, interrupt, name_of, scene, simulate

SEED = int(os.environ.get("ROTA_SEED", "0"))
"""Of the moments: `make interrupts` goes through many."""
READS_WORLDS = "{worlds}"


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("journal"))


def tried(at: int, case: Case) -> Any:
    """One worker runs all that read the worlds, and makes them."""
    marks = [pytest.mark.xdist_group("interrupted worlds")] if READS_WORLDS in case.words else []
    return pytest.param(case, id=f"{name_of(case)} {at}", marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("case", [tried(at, case) for at, case in enumerate(CASES)])
def test_ctrl_c_ends_it(case: Case, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    worlds = request.getfixturevalue("worlds") if READS_WORLDS in case.words else tmp_path
    for seed in range(SEED, SEED + 10):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with scene(directory, worlds) as place:
            end = interrupt(case, place, seed)
        if end is not None:
            break
    assert end is not None, "it ended before every interrupt"
    print(f"{case.words}: {end.moment}, {end.seconds:.2f} s, exit code {end.code}")
    assert end.is_clean(case), "\n".join([f"exit code {end.code}", end.printed, *end.left])


def test_every_command_that_may_run_for_long_is_tried() -> None:
    from rota.check.registry import ENGINES
    from rota.cli import COMMANDS

    # Those of `cluster` need an etcd, and wait a minute at most.
    short = {"assign", "settings", "config", "user", "cluster"}
    assert {case.words.split()[0] for case in CASES} == set(COMMANDS) - short
    assert {f"check {engine.name}" for engine in ENGINES} <= {" ".join(case.words.split()[:2]) for case in CASES}


def test_a_check_that_is_interrupted_does_not_wait_for_a_thread_that_waits_for_ever() -> None:
    script = """
import threading
from rota import interrupts
from rota.check import cli, engines

def run(effort, progress):
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=lock.acquire).start()
    raise KeyboardInterrupt

interrupts.watch()
cli.checked("proofs", run, engines.Effort(), [])
"""
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (exits.INTERRUPTED, "rota: proofs was interrupted")


@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_checked_before_an_interrupt_is_printed_in_the_form_that_was_asked_for(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_effort: Effort, _progress: Progress) -> Report:
        raise KeyboardInterrupt

    before = [Report("simulation", ok=True, seconds=1.0, figures={"worlds": 3})]
    with pytest.raises(SystemExit):
        cli.checked("proofs", run, Effort(), before, as_json=as_json)
    printed = capsys.readouterr().out
    assert printed == f"{cli.as_text(before, as_json)}\n"
    assert printed.startswith("[") == as_json


def test_an_error_of_the_work_is_raised_and_no_other_job_begins() -> None:
    begun, was_raised, has_ended = [], Event(), Event()

    def work(job: int) -> int:
        begun.append(job)
        if job == 1:
            raise ValueError(job)
        if job == 2:
            was_raised.wait(ENDS_WITHIN_S)
            has_ended.set()
        return job

    with pytest.raises(ValueError, match="1"):
        list(interrupts.completed(work, range(1000), 1))
    was_raised.set()
    assert has_ended.wait(ENDS_WITHIN_S)
    assert begun == [0, 1, 2]


def test_an_interrupt_while_threads_are_started_stops_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    has_stopped, start, started = Event(), Thread.start, count(1)

    def interrupted_start(thread: Thread) -> None:
        if next(started) == 3:
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(Thread, "start", interrupted_start)
    begun: list[int] = []

    def work(job: int) -> None:
        begun.append(job)
        has_stopped.wait(ENDS_WITHIN_S)

    with pytest.raises(KeyboardInterrupt):
        list(interrupts.completed(work, range(1000), 7, ENDS_WITHIN_S, has_stopped.set))
    assert has_stopped.is_set()
    assert len(begun) <= 2


def test_the_work_is_done_once_for_every_job() -> None:
    assert sorted(interrupts.completed(lambda job: job * 2, range(100), 7)) == list(range(0, 200, 2))
    assert list(interrupts.completed(lambda job: job, [], 7)) == []


def ended(script: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_end_of_a_process_leaves_no_named_semaphore_and_no_warning() -> None:
    code, name, said = ended("""
import multiprocessing
from rota import interrupts

interrupts.watch()
lock = multiprocessing.get_context("spawn").Lock()
print(lock._semlock.name, flush=True)
interrupts.end(130)
""")
    assert (code, said) == (130, "")
    semaphore = Path("/dev/shm", f"sem.{name.strip().removeprefix('/')}")  # noqa: S108 - where the kernel shows them
    eventually(lambda: not semaphore.exists(), ENDS_WITHIN_S, "the semaphore is removed")


def test_the_end_of_a_process_removes_its_scratch_directory_after_its_children(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    code, _, said = ended(f"""
import subprocess, sys
from pathlib import Path
from rota import interrupts

scratch = Path({str(scratch)!r})
writes = "import pathlib, itertools\\nfor at in itertools.count(): pathlib.Path(str(at)).mkdir(); print(at, flush=True)"
scratch.mkdir()
child = subprocess.Popen([sys.executable, "-c", writes], cwd=scratch, stdout=subprocess.PIPE)
child.stdout.readline()
interrupts.end(3, scratch)
""")
    assert (code, said) == (3, "")
    assert not scratch.exists()


def test_an_interrupt_that_python_wraps_into_another_error_ends_a_command_as_any_interrupt() -> None:
    code, _, said = ended("""
import sys
from rota import __main__, cli

class Interrupted:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt

def app(prog_name):
    type("Owner", (), {"field": Interrupted()})

cli.app = app
sys.argv = ["rota", "bench", "join"]
__main__.run()
""")
    assert (code, said) == (exits.INTERRUPTED, "rota: interrupted\n")


def test_an_interrupt_inside_a_callback_of_the_interpreter_prints_no_traceback() -> None:
    code, _, said = ended("""
from rota import interrupts

class Owner:
    def __del__(self):
        raise KeyboardInterrupt

interrupts.watch()
owner = Owner()
del owner
""")
    assert (code, said) == (0, "")


def test_a_command_that_finishes_after_a_lost_interrupt_ends_as_interrupted() -> None:
    code, _, said = ended("""
import sys
from rota import __main__, cli

class Owner:
    def __del__(self):
        raise KeyboardInterrupt

def app(prog_name):
    owner = Owner()
    del owner
    raise SystemExit(3)

cli.app = app
sys.argv = ["rota", "state"]
__main__.run()
""")
    assert (code, said) == (exits.INTERRUPTED, "rota: interrupted\n")


@pytest.mark.timeout(20)
def test_a_signal_at_any_line_of_the_wait_for_it_ends_the_wait() -> None:
    """A server waits for SIGTERM in `Flag.wait`; `threading.Event` keeps a lock there that `set` needs."""
    for at in count():
        flag, lines = Flag(), count()

        def handler(
            _: object, event: str, _arg: object, at: int = at, flag: Flag = flag, lines: Iterator[int] = lines
        ) -> Any:
            if event == "line" and next(lines) == at:
                flag.set()
            return handler

        sys.settrace(handler)
        try:
            ended = flag.wait(0.01)
        finally:
            sys.settrace(None)
        assert ended == flag.is_set()
        if not flag.is_set():
            break
    assert at > 3
