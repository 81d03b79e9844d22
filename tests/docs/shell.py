"""Commands of a page, typed into one shell in an empty directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic

from harness.brokers import free_port
from tests.docs.pages import ROOT

WITHIN_S = 600.0
"""For one command, on a machine that has other things to do."""
READY_S = 60.0
ENDED = "\x1eended"
#: Commands that go on until Ctrl-C. A server goes on to the end of its page, or until the page starts another one.
SERVER = re.compile(r"^(\w+=\S+ )*rota serve\b")
LASTING = re.compile(r"^(\w+=\S+ )*rota (groups watch|top)\b(?!.*--(once|count))")

PIP = """#!{python}
# What a page installs has to be there: the extras of this package.
import re, sys
extras = set({extras!r})
asked = [name for word in sys.argv[1:] for name in re.findall(r"\\[(\\S+)\\]", word)]
missing = [name for word in asked for name in word.split(",") if name not in extras]
sys.exit(f"pip: there is no extra {{missing}}" if missing else 0)
"""
MAKE = """#!/bin/sh
# The target has to be there; it is not made.
exec "{make}" -C "{root}" --dry-run "$@" > /dev/null
"""


class Shell:
    """A shell with an environment of its own. Addresses that pages print stand for free ports."""

    def __init__(self, directory: Path, variables: Mapping[str, str]) -> None:
        self.work = directory / "work"
        self.work.mkdir()
        self._bin = directory / "bin"
        self._bin.mkdir()
        self._stub("pip", PIP.format(python=sys.executable, extras=_extras()))
        self._stub("make", MAKE.format(make="/usr/bin/make", root=ROOT))
        (directory / "home").mkdir()
        (self.work / "docs").symlink_to(ROOT / "docs")
        path = f"{self._bin}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        self.environment = {
            "PATH": path,
            "HOME": str(directory / "home"),
            "LANG": "C.UTF-8",
            "COLUMNS": "200",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ROOT),  # `specs` lies there in the tree, and beside rota once that is installed
            **variables,
        }
        self.kafka = f"127.0.0.1:{free_port()}"
        self.http = f"127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines = _lines_of(self._process)
        self._server: subprocess.Popen[str] | None = None

    def _stub(self, name: str, program: str) -> None:
        path = self._bin / name
        path.write_text(program, encoding="utf-8")
        path.chmod(0o755)

    def typed(self, command: str) -> str:
        """The command with the addresses of this page's servers."""
        command = command.split("  #")[0].rstrip()
        if SERVER.match(command) and "--listen" not in command:
            command = command.replace("rota serve", f"rota serve --listen {self.kafka}")
        if re.match(r"rota (why|top)\b", command) and "--http" not in command and "--from" not in command:
            command = re.sub(r"^rota (why|top)", rf"rota \1 --http {self.http}", command)
        command = re.sub(r"(127\.0\.0\.1|localhost|0\.0\.0\.0):9092", self.kafka, command)
        command = re.sub(r"(127\.0\.0\.1|localhost|0\.0\.0\.0):9644", self.http, command)
        return re.sub(r"(?<=\s):9644", f":{self.http.rpartition(':')[2]}", command)

    def typed_program(self, program: str) -> str:
        """A program with the addresses of this page's servers."""
        return program.replace("127.0.0.1:9092", self.kafka).replace("127.0.0.1:9644", self.http)

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and output of a command. One that goes on until Ctrl-C gets it once it has printed something."""
        typed = self.typed(command)
        if SERVER.match(typed):
            return self._serve(typed)
        if LASTING.match(typed):
            return self._until_interrupted(typed)
        assert self._process.stdin is not None
        self._process.stdin.write(f'{typed}\necho "{ENDED} $?"\n')
        self._process.stdin.flush()
        told: list[str] = []
        deadline = monotonic() + WITHIN_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - monotonic()))
            except Empty:
                self.close()
                raise AssertionError(f"`{command}` does not end within {WITHIN_S} s: {''.join(told)}") from None
            if line is None:
                raise AssertionError(f"`{command}` ended the shell: {''.join(told)}")
            if ENDED in line:
                before, _, code = line.partition(ENDED)
                return int(code), "".join([*told, before])
            told.append(line)

    def _environment_now(self) -> Mapping[str, str]:
        code, told = self.run("export -p")
        assert code == 0
        exported = dict(re.findall(r'^declare -x (\w+)="(.*)"$', told, re.MULTILINE))
        return {**self.environment, **exported}

    def _start(self, command: str) -> tuple[subprocess.Popen[str], Queue[str | None]]:
        process = subprocess.Popen(
            ["bash", "--norc", "-c", f"exec {command}" if "=" not in command.split()[0] else f"exec env {command}"],
            cwd=self.work,
            env=self._environment_now(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return process, _lines_of(process)

    def _serve(self, command: str) -> tuple[int, str]:
        self.stop_server()
        self._server, lines = self._start(command)
        first = lines.get(timeout=READY_S)
        if first is None or " ready on " not in first:
            code = self._server.wait(READY_S)
            return code or 1, first or ""
        return 0, ""

    def _until_interrupted(self, command: str) -> tuple[int, str]:
        process, lines = self._start(command)
        try:
            first = lines.get(timeout=READY_S) or ""
            process.send_signal(signal.SIGINT)
            code = process.wait(READY_S)
        finally:
            _kill(process)
        return (0 if code in (0, 130) else code), first

    def stop_server(self) -> None:
        """Ctrl-C, which has to end it well."""
        if self._server is not None:
            server, self._server = self._server, None
            server.send_signal(signal.SIGINT)
            try:
                assert server.wait(READY_S) == 0
            finally:
                _kill(server)

    def close(self) -> None:
        """Nothing that the page started goes on."""
        if self._server is not None:
            _kill(self._server)
        _kill(self._process)
        if self._process.stdin is not None:
            self._process.stdin.close()


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _lines_of(process: subprocess.Popen[str]) -> Queue[str | None]:
    """Its lines as they come, and None at the end."""
    lines: Queue[str | None] = Queue()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as stdout:
            for line in stdout:
                lines.put(line)
        lines.put(None)

    Thread(target=read, daemon=True).start()
    return lines


def _extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(project["optional-dependencies"])
