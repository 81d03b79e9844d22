"""The planted engine on etcd: a copy of `rust/etcd` in which every bug of `etcd_bugs.toml` sleeps until the environment
names it, as in `planting.py`. Of the copied workspace only what the mapping needs is built.
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.checks.planting import SWITCH, VARIABLE, Bug, plant, workspace
from tests.checks.tidy import ROOT

REGISTRY = Path(__file__).parent / "etcd_bugs.toml"
COPY = ROOT / "build/planted-etcd"
CRATE = "rust/etcd"


@dataclass(frozen=True)
class EtcdBug(Bug):
    """One edit. It breaks the test of `tests/real` that it names."""


def bugs() -> list[EtcdBug]:
    """Every bug, in the order of the registry."""
    return [EtcdBug(**entry) for entry in tomllib.loads(REGISTRY.read_text())["bug"]]


def contents(planted: list[EtcdBug]) -> dict[Path, bytes]:
    """What belongs into the copy, by path."""
    root = Path(CRATE) / "src"
    found = workspace()
    texts = {
        "planted.rs": SWITCH,
        "lib.rs": f"#![allow(warnings)]\n{found[root / 'lib.rs'].decode()}\nmod planted;\n",
    }
    for bug in planted:
        texts[bug.file] = bug.planted(texts.get(bug.file) or found[root / bug.file].decode())
    return found | {root / name: text.encode() for name, text in texts.items()}


def build() -> Path:
    """The tests of the copy on a real etcd. Crates of the registry are those of the workspace's own tests: they are in
    the same directory, and have the features that the whole workspace asks for.
    """
    plant(COPY, contents(bugs()))
    command = ["cargo", "test", "--quiet", "--offline", "--no-run", "--workspace", "--test", "real"]
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    # The tests wait for etcd: what is optimized takes longer to build, and no less to run.
    environment = os.environ | {"CARGO_TARGET_DIR": target, "CARGO_PROFILE_DEV_OPT_LEVEL": "0"}
    told = subprocess.run(
        [*command, "--message-format", "json"],
        cwd=COPY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    made = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
    return next(Path(each["executable"]) for each in made if each.get("executable"))


def ran(program: Path, test: str, bug: str = "") -> subprocess.CompletedProcess[str]:
    """One test, with a bug or without."""
    command = [str(program), "--exact", test, "--nocapture"]
    environment = os.environ | {VARIABLE: bug, "RUST_BACKTRACE": "0", "TEST_ETCD": "required"}
    return subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, check=False, timeout=600)
