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
    workspace = MEMBERS.sub(f'members = ["{crate.folder}"]', (ROOT / "Cargo.toml").read_text())
    found[Path("Cargo.toml")] = EXCLUDED.sub("", workspace).encode()
    root = Path(crate.folder) / "src"
    texts = {"planted.rs": SWITCH, "lib.rs": f"#![allow(warnings)]\n{found[root / 'lib.rs'].decode()}\nmod planted;\n"}
    for bug in planted:
        texts[bug.file] = bug.planted(texts.get(bug.file) or found[root / bug.file].decode())
    return found | {root / name: text.encode() for name, text in texts.items()}


def plant(crate: Crate) -> None:
    """Make the copy, or bring it up to date."""
    for name, data in contents(bugs(crate), crate).items():
        path = crate.copy / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def build(crate: Crate = ENGINE) -> Path:
    """The explorer of the copy."""
    plant(crate)
    command = ["cargo", "test", "--quiet", "--offline", "--no-run", "--test", "exploration"]
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
