"""Builds of the planted copy, and what runs them: `rota-sim`, tests of its crates, and the module for Python.

One copy has the bugs of all crates, so that each crate is built once. Crates of the registry are those of the
workspace's own debug build: they are in the same directory, and have the features that the whole workspace asks for.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.checks.planting import COPY, ENGINE, TXN, plant, variable
from tests.checks.tidy import ROOT

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SIM = COPY / "rota-sim"
PACKAGE = COPY / "python"
"""What goes before everything else in PYTHONPATH, so that `rota` is that of the copy."""
FEATURES = ("--package", "rota-python", "--features", "rota-python/tests")
# Their explorations run for longer than they are built.
OPTIMIZED = {f"rota-{Path(crate).name}" for crate in (ENGINE, TXN)}
LEVELS = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["dev"]["package"]
QUICK = (
    "--config=profile.dev.debug=0",
    *(
        f"--config=profile.dev.package.{name}.opt-level=0"
        for name in LEVELS
        if "rota-" in name and name not in OPTIMIZED
    ),
)
"""Options of cargo with which crates of the workspace have no debug information, and few are optimized. What the tests
run has run within seconds; building it would take minutes. Crates of the registry stay as they are.
"""


@functools.cache
def sim() -> Path:
    """The explorer and simulator."""
    built = _cargo("build", "--package", "rota-sim", "--bin", "rota-sim", *QUICK)
    return _kept(next(Path(each["executable"]) for each in built if each.get("executable")), SIM)


@functools.cache
def module(is_optimized: bool = False) -> Path:
    """The module, in its package. `make planted` runs it for long enough that the optimization pays."""
    told = _cargo("build", "--lib", *([] if is_optimized else QUICK))
    built = next(each for each in told if each.get("target", {}).get("name") == "_rota")
    _kept(Path(built["filenames"][0]), PACKAGE / "rota/_rota.abi3.so")
    return PACKAGE


@functools.cache
def test(crate: str, name: str) -> Path:
    """A file of tests of a crate."""
    built = _cargo("test", "--no-run", "--package", f"rota-{Path(crate).name}", "--test", name, *QUICK)
    return next(Path(each["executable"]) for each in built if each.get("executable"))


def ran(crate: str, program: Path, test: str, bug: str = "") -> subprocess.CompletedProcess[str]:
    """One test of a crate, with a bug or without."""
    required = {"TEST_ETCD": "required", "TEST_POSTGRES": "required"}
    environment = os.environ | {variable(crate): bug, "RUST_BACKTRACE": "0"} | required
    return subprocess.run(
        [str(program), "--exact", test, "--nocapture", "--include-ignored"],
        cwd=COPY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def _cargo(*words: str) -> list[dict[str, Any]]:
    """Builds something of the copy. Returns what cargo says of each crate."""
    with _locked():
        plant()
        told = cargo(COPY, *words, *FEATURES)
    assert told.returncode == 0, told.stderr
    return entries(told)


def cargo(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs cargo in a copy of the workspace, in the directory of the workspace's own builds."""
    config = sorted((TARGET / "maturin").glob("pyo3-config-*.txt"))
    # As maturin does: otherwise PyO3 would be built once more.
    maturin = {"PYO3_BUILD_EXTENSION_MODULE": "1"} | ({"PYO3_CONFIG_FILE": str(config[0])} if config else {})
    command = ["cargo", *words, "--quiet", "--offline", "--message-format", "json"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET)} | maturin
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def entries(told: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What cargo says of each crate."""
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Lets one process at a time write the copy: each worker of pytest asks for it."""
    COPY.parent.mkdir(exist_ok=True)
    with COPY.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kept(built: Path, path: Path) -> Path:
    """Copies what was built to where the workspace's own build does not replace it. A process may be running it."""
    with _locked():
        if not path.exists() or path.read_bytes() != built.read_bytes():
            new = path.with_name(f"{path.name}.new")
            shutil.copy(built, new)
            new.replace(path)
    return path
