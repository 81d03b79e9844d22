"""The planted engine on etcd: a copy of `rust/etcd` in which every bug of `etcd_bugs.toml` sleeps until the environment
names it, as in `planting.py`. The copy has the crates that the mapping needs, without `rust/cluster`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.checks.engine_planting import EXCLUDED, MEMBERS
from tests.checks.planting import SWITCH, VARIABLE, Bug
from tests.checks.tidy import ROOT

REGISTRY = Path(__file__).parent / "etcd_bugs.toml"
COPY = ROOT / "build/planted-etcd"
CRATE = "rust/etcd"
CRATES = (CRATE, "rust/engine", "rust/security")
TRAIT = re.compile(r"^(mod cluster;|rota-(cluster|log)\.workspace = true)\n", re.MULTILINE)


@dataclass(frozen=True)
class EtcdBug(Bug):
    """One edit. It breaks the test of `tests/real` that it names."""


def bugs() -> list[EtcdBug]:
    """Every bug, in the order of the registry."""
    return [EtcdBug(**entry) for entry in tomllib.loads(REGISTRY.read_text())["bug"]]


def contents(planted: list[EtcdBug]) -> dict[Path, bytes]:
    """What belongs into the copy, by path."""
    sources = [path for crate in CRATES for path in (ROOT / crate).rglob("*.rs") if "nodes" not in path.parts]
    found = {path.relative_to(ROOT): path.read_bytes() for path in [*sources, ROOT / "Cargo.lock"]}
    for crate in CRATES:
        manifest = (ROOT / crate / "Cargo.toml").read_text()
        found[Path(crate) / "Cargo.toml"] = TRAIT.sub("", manifest).encode()
    members = ", ".join(f'"{crate}"' for crate in CRATES)
    workspace = MEMBERS.sub(f"members = [{members}]", (ROOT / "Cargo.toml").read_text())
    found[Path("Cargo.toml")] = EXCLUDED.sub("", workspace).encode()
    root = Path(CRATE) / "src"
    del found[root / "cluster.rs"]
    library = TRAIT.sub("", found[root / "lib.rs"].decode())
    texts = {"planted.rs": SWITCH, "lib.rs": f"#![allow(warnings)]\n{library}\nmod planted;\n"}
    for bug in planted:
        texts[bug.file] = bug.planted(texts.get(bug.file) or found[root / bug.file].decode())
    return found | {root / name: text.encode() for name, text in texts.items()}


def plant() -> None:
    """Make the copy, or bring it up to date."""
    for name, data in contents(bugs()).items():
        path = COPY / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def build() -> Path:
    """The tests of the copy on a real etcd. Crates of the registry are built where the workspace's own tests are."""
    plant()
    command = ["cargo", "test", "--quiet", "--offline", "--no-run", "-p", "rota-etcd", "--test", "real"]
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    told = subprocess.run(
        [*command, "--message-format", "json"],
        cwd=COPY,
        env=os.environ | {"CARGO_TARGET_DIR": target},
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
