"""Planted copies of the crates with explorers of their own: `rust/engine` with the bugs of `engine_bugs.toml`, and
`rust/txn` with those of `txn_bugs.toml`. Every bug sleeps until the environment names it, as in `planting.py`. These
crates depend on nothing else here, so that a copy has only one and is soon built.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.checks.planting import SWITCH, VARIABLE, Bug
from tests.checks.tidy import ROOT

MEMBERS = re.compile(r"^members = \[.*\]$", re.MULTILINE)
EXCLUDED = re.compile(r"^exclude = .*$", re.MULTILINE)


@dataclass(frozen=True)
class Crate:
    """A crate that is planted: its folder, its bugs, and where its copy is."""

    folder: str
    registry: Path
    copy: Path


ENGINE = Crate("rust/engine", Path(__file__).parent / "engine_bugs.toml", ROOT / "build/planted-engine")
TXN = Crate("rust/txn", Path(__file__).parent / "txn_bugs.toml", ROOT / "build/planted-txn")

#: A module for Python with the planted `rust/txn` and nothing else, made of files of `rust/python`.
MODULE = "rust/planted"
MODULE_FILES = ("plain.rs", "transactions.rs", "values.rs")
MODULE_ROOT = """#![allow(warnings)]
mod errors {
    pyo3::create_exception!(rota, RecordError, pyo3::exceptions::PyException);
}
mod plain;
mod transactions;
mod values;

use pyo3::prelude::*;

#[pymodule]
fn planted(module: &Bound<'_, PyModule>) -> PyResult<()> {
    transactions::register(module)
}
"""
MODULE_MANIFEST = """[package]
name = "planted"
version.workspace = true
edition.workspace = true

[lib]
crate-type = ["cdylib"]

[dependencies]
rota-txn.workspace = true
pyo3.workspace = true
"""


@dataclass(frozen=True)
class EngineBug(Bug):
    """One edit, and the exploration that finds it."""

    bounds: str


def bugs(crate: Crate = ENGINE) -> list[EngineBug]:
    """Every bug, in the order of the registry."""
    return [EngineBug(**entry) for entry in tomllib.loads(crate.registry.read_text())["bug"]]


def contents(planted: list[EngineBug], crate: Crate = ENGINE) -> dict[Path, bytes]:
    """What belongs into the copy, by path."""
    folder = ROOT / crate.folder
    sources = [*(folder / "src").rglob("*.rs"), *(folder / "tests").rglob("*.rs"), folder / "Cargo.toml"]
    found = {path.relative_to(ROOT): path.read_bytes() for path in [*sources, ROOT / "Cargo.lock"]}
    members = [crate.folder, *([MODULE] if crate == TXN else [])]
    workspace = MEMBERS.sub(f"members = {json.dumps(members)}", (ROOT / "Cargo.toml").read_text())
    found[Path("Cargo.toml")] = EXCLUDED.sub("", workspace).encode()
    root = Path(crate.folder) / "src"
    texts = {"planted.rs": SWITCH, "lib.rs": f"#![allow(warnings)]\n{found[root / 'lib.rs'].decode()}\nmod planted;\n"}
    for bug in planted:
        texts[bug.file] = bug.planted(texts.get(bug.file) or found[root / bug.file].decode())
    return found | {root / name: text.encode() for name, text in texts.items()}


def plant(crate: Crate) -> None:
    """Make the copy, or bring it up to date."""
    made = contents(bugs(crate), crate) | (module_contents() if crate == TXN else {})
    for name, data in made.items():
        path = crate.copy / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def module_contents() -> dict[Path, bytes]:
    """The files of the module, by path."""
    folder = Path(MODULE)
    files = {name: (ROOT / "rust/python/src" / name).read_bytes() for name in MODULE_FILES}
    made = {folder / "src" / name: data for name, data in files.items()}
    return made | {folder / "Cargo.toml": MODULE_MANIFEST.encode(), folder / "src/lib.rs": MODULE_ROOT.encode()}


def build_module() -> Path:
    """The folder with the module `planted`, from where `PYTHONPATH` takes it."""
    plant(TXN)
    target = TXN.copy / "target"
    environment = os.environ | {"CARGO_TARGET_DIR": str(target), "PYO3_BUILD_EXTENSION_MODULE": "1"}
    command = ["cargo", "build", "--quiet", "--offline", "--package", "planted"]
    told = subprocess.run(command, cwd=TXN.copy, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    module = TXN.copy / "module/planted.abi3.so"
    module.parent.mkdir(exist_ok=True)
    module.unlink(missing_ok=True)
    module.write_bytes((target / "debug/libplanted.so").read_bytes())
    return module.parent


def build(crate: Crate = ENGINE) -> Path:
    """The explorer of the copy."""
    plant(crate)
    package = f"rota-{Path(crate.folder).name}"
    command = ["cargo", "test", "--quiet", "--offline", "--no-run", "--package", package, "--test", "exploration"]
    # Overflow checks and assertions stay, and so does the search's speed.
    environment = os.environ | {"CARGO_TARGET_DIR": str(crate.copy / "target"), "CARGO_INCREMENTAL": "0"}
    told = subprocess.run(
        [*command, "--message-format", "json"],
        cwd=crate.copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    made = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
    return next(Path(each["executable"]) for each in made if each.get("executable"))


def explored(program: Path, bounds: str, bug: str = "") -> subprocess.CompletedProcess[str]:
    """An exploration within bounds, with a bug or without."""
    command = [str(program), "--exact", bounds, "--nocapture", "--include-ignored"]
    environment = os.environ | {VARIABLE: bug, "RUST_BACKTRACE": "0"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
