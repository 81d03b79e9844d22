"""The examples in Go, Java and Node are tests that pass unchanged, where their toolchains are."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.builds import ROOT

EXAMPLES = ROOT / "examples"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
NODE_MIN = (20, 19, 4)
PLAIN_TESTS = 3
"""The tests of each example."""


def run(command: list[str], directory: Path) -> str:
    """What it prints; the `rota` that it starts is the one under test."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"PATH": path},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def needs(*tools: str) -> None:
    """Skips where a toolchain is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} on the path")


def installed(project: Path) -> Path:
    """A copy of a Node project outside the sources, with its packages."""
    digest = hashlib.sha256((project / "package-lock.json").read_bytes()).hexdigest()[:12]
    copy = TARGET / "examples-node" / digest
    copy.mkdir(parents=True, exist_ok=True)
    with (copy.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source in (*project.glob("*.js"), *project.glob("*.json")):
            shutil.copy(source, copy)
        if not (copy / "installed").exists():
            run(["npm", "ci", "--no-audit", "--no-fund"], copy)
            (copy / "installed").touch()
    return copy


@pytest.mark.clients
def test_the_tests_in_go_pass() -> None:
    needs("go")
    told = run(["go", "test", "-count=1", "-v", "./..."], EXAMPLES / "go")
    assert told.count("--- PASS") == PLAIN_TESTS, told


@pytest.mark.clients
@pytest.mark.java
def test_the_tests_in_java_pass() -> None:
    needs("java", "mvn")
    told = run(["mvn", "-B", "test", f"-Dout={TARGET / 'examples-java'}"], EXAMPLES / "java")
    assert f"Tests run: {PLAIN_TESTS}, Failures: 0, Errors: 0, Skipped: 0" in told


@pytest.mark.clients
def test_the_tests_in_node_pass() -> None:
    needs("node", "npm")
    version = run(["node", "-p", "process.versions.node"], ROOT).strip()
    if tuple(map(int, version.split("."))) < NODE_MIN:
        pytest.skip(f"the clients need Node {'.'.join(map(str, NODE_MIN))}; this is {version}")
    told = run(["node", "--test", "--test-reporter=tap"], installed(EXAMPLES / "node"))
    assert f"# pass {PLAIN_TESTS}" in told, told
