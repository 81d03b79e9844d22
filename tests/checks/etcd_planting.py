"""The planted engines on real stores: a copy of `rust/etcd` in which every bug of `etcd_bugs.toml` sleeps until the
environment names it, as in `planting.py`, and the same for `rust/postgres`. Of the copied workspace only what the
mapping needs is built.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.checks.planting import SWITCH, VARIABLE, Bug, plant, without_optimization, workspace
from tests.checks.tidy import ROOT


@dataclass(frozen=True)
class Engine:
    """A crate of an engine, its bugs and its tests."""

    registry: str
    copy: Path
    crate: str
    test: str

    def bugs(self) -> list[Bug]:
        """Every bug, in the order of the registry. Each breaks the test that it names."""
        return [Bug(**entry) for entry in tomllib.loads((HERE / self.registry).read_text())["bug"]]


HERE = Path(__file__).parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ETCD = Engine("etcd_bugs.toml", ROOT / "build/planted-etcd", "rust/etcd", "real")
POSTGRES = Engine("postgres_bugs.toml", ROOT / "build/planted-postgres", "rust/postgres", "database")


def contents(engine: Engine) -> dict[Path, bytes]:
    """What belongs into the copy, by path."""
    root = Path(engine.crate) / "src"
    found = workspace()
    texts = {
        "planted.rs": SWITCH,
        "lib.rs": f"#![allow(warnings)]\n{found[root / 'lib.rs'].decode()}\nmod planted;\n",
    }
    for bug in engine.bugs():
        texts[bug.file] = bug.planted(texts.get(bug.file) or found[root / bug.file].decode())
    return found | {root / name: text.encode() for name, text in texts.items()}


@functools.cache
def build(engine: Engine) -> Path:
    """The tests of the copy on a real store. Crates of the registry are those of the workspace's own tests: they are in
    the same directory, and have the features that the whole workspace asks for.
    """
    # The tests wait for the store: what is optimized takes longer to build, and no less to run.
    command = ["test", *without_optimization(), "--no-run", "--workspace", "--test", engine.test]
    return next(Path(each["executable"]) for each in _cargo(engine, command) if each.get("executable"))


@functools.cache
def module(engine: Engine) -> Path:
    """What goes before everything else in PYTHONPATH, so that `rota` is that of the copy. Its bugs sleep, too."""
    config = next((TARGET / "maturin").glob("pyo3-config-*.txt"))
    maturin = {"PYO3_BUILD_EXTENSION_MODULE": "1", "PYO3_CONFIG_FILE": str(config)}
    command = ["build", *without_optimization(), "--package", "rota-python", "--features", "tests"]
    built = next(each for each in _cargo(engine, command, maturin) if each.get("target", {}).get("name") == "_rota")
    package = engine.copy / "python"
    shutil.copyfile(built["filenames"][0], package / "rota/_rota.abi3.so")
    return package


def _cargo(engine: Engine, words: list[str], also: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Builds the copy. Returns what cargo says of each crate."""
    plant(engine.copy, contents(engine))
    command = ["cargo", *words, "--quiet", "--offline", "--message-format", "json"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET)} | (also or {})
    told = subprocess.run(command, cwd=engine.copy, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def ran(engine: Engine, program: Path, test: str, bug: str = "") -> subprocess.CompletedProcess[str]:
    """One test, with a bug or without."""
    command = [str(program), "--exact", test, "--nocapture"]
    required = {"TEST_ETCD": "required", "TEST_POSTGRES": "required"}
    environment = os.environ | {VARIABLE: bug, "RUST_BACKTRACE": "0"} | required
    return subprocess.run(
        command, cwd=engine.copy, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
