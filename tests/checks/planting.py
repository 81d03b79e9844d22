"""The planted copy of the workspace: every bug of `CRATES` sleeps in it until the environment names it.

The crates themselves have no line for this, so no build of them can have a bug: they are edits, made in the copy only.
`planted_build.py` builds it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.checks.tidy import ROOT

REGISTRY = Path(__file__).parent / "bugs.toml"
CONSUMER_REGISTRY = Path(__file__).parent / "consumer_bugs.toml"
COPY = ROOT / "build/planted"
CORE = "rust/core"
ENGINE, TXN, ETCD, POSTGRES = "rust/engine", "rust/txn", "rust/etcd", "rust/postgres"
CLUSTER = "rust/cluster"
VARIABLE = "ROTA_PLANTED"
COPIED = ("Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "pyproject.toml", "rust", "python", "benches/rust")
LEFT_OUT = {"target", "__pycache__"}
ALL = "PLANTED_ALL"
"""The variable of the environment with which every bug is tried: `make long` sets it."""

T = TypeVar("T")

CRATES = {
    CORE: (REGISTRY, CONSUMER_REGISTRY),
    ENGINE: (REGISTRY.with_name("engine_bugs.toml"),),
    TXN: (REGISTRY.with_name("txn_bugs.toml"),),
    ETCD: (REGISTRY.with_name("etcd_bugs.toml"),),
    POSTGRES: (REGISTRY.with_name("postgres_bugs.toml"),),
    CLUSTER: (REGISTRY.with_name("cluster_bugs.toml"),),
}
"""The registries of each crate that has planted bugs."""

SWITCH = """//! Which planted bug runs: the one that the environment names.

use std::sync::LazyLock;

static PLANTED: LazyLock<String> = LazyLock::new(|| std::env::var("VARIABLE").unwrap_or_default());

/// Whether this is the bug that runs.
pub fn is(bug: &str) -> bool {
    *PLANTED == bug
}
"""


class PlantingError(Exception):
    """A bug that has no place in the core any more, or more than one."""


@dataclass(frozen=True)
class Bug:
    """One edit: its name, what it means, the ids or tests that it breaks, and what becomes what where."""

    id: str
    says: str
    breaks: str
    file: str
    fn: str
    find: str
    put: str
    bounds: str = ""
    """The exploration that finds it, of crates that have several."""

    def planted(self, text: str) -> str:
        """The file's text with the bug asleep in it."""
        start, end = span_of(text, self.fn, self.id)
        count = text.count(self.find, start, end)
        if count != 1:
            raise PlantingError(f"{self.id}: `{self.find}` is {count} times in {self.file}, fn {self.fn}, not once")
        at = text.index(self.find, start)
        runs = f'crate::planted::is("{self.id}")'
        becomes = f"{{ if {runs} {{ {self.put} }} else {{ {self.find} }} }}"
        if "PLANTED" in self.put:
            becomes = self.put.replace("PLANTED", runs)
        return text[:at] + becomes + text[at + len(self.find) :]


def one_of_each(planted: Iterable[T], of: Callable[[T], Hashable], every: int = 1) -> list[T]:
    """The first bug of each kind, or of each `every`-th kind, in their order; all if the environment asks for it."""
    planted = list(planted)
    if os.environ.get(ALL):
        return planted
    return list({of(bug): bug for bug in reversed(planted)}.values())[::-1][::every]


def bugs(registry: Path = REGISTRY) -> list[Bug]:
    """The bugs of a registry, in its order: by default those of the classic protocol."""
    return [Bug(**entry) for entry in tomllib.loads(registry.read_text())["bug"]]


def bugs_of(crate: str) -> list[Bug]:
    """The bugs of a crate, of all of its registries."""
    return [bug for registry in CRATES[crate] for bug in bugs(registry)]


def variable(crate: str) -> str:
    """The variable of the environment that names the bug of a crate. Crates have bugs of the same name."""
    return VARIABLE if crate == CORE else f"{VARIABLE}_{crate.rpartition('/')[2].upper()}"


def span_of(text: str, function: str, bug: str = "") -> tuple[int, int]:
    """Where the only function of that name begins and ends: at the brace that is as far in as its `fn`."""
    lines = text.splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if f"fn {function}(" in line or f"fn {function}<" in line]
    if len(starts) != 1:
        raise PlantingError(f"{bug}: there are {len(starts)} functions {function}, not one")
    indent = lines[starts[0]][: -len(lines[starts[0]].lstrip())]
    end = next(at for at, line in enumerate(lines) if at > starts[0] and line.rstrip() == f"{indent}}}")
    return sum(map(len, lines[: starts[0]])), sum(map(len, lines[: end + 1]))


def planted(crate: str) -> dict[str, str]:
    """The files of a crate that differ, by name in its `src`, with its bugs in them."""
    folder = ROOT / crate / "src"
    texts = {
        "planted.rs": SWITCH.replace("VARIABLE", variable(crate)),
        "lib.rs": f"#![allow(warnings)]\n{(folder / 'lib.rs').read_text()}\nmod planted;\n",
    }
    for bug in bugs_of(crate):
        texts[bug.file] = bug.planted(texts.get(bug.file) or (folder / bug.file).read_text())
    return texts


def plant() -> None:
    """Makes the copy, or brings it up to date."""
    bring(COPY, contents())


def bring(copy: Path, files: Mapping[Path, bytes]) -> None:
    """Makes a copy have these files; what did not change keeps its time, so that little is built again."""
    there = [path for name in ("rust", "python") for path in (copy / name).rglob("*") if _counts(path)]
    for name in {path.relative_to(copy) for path in there} - files.keys():
        (copy / name).unlink()
    for name, data in files.items():
        path = copy / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def contents() -> dict[Path, bytes]:
    """What belongs into the copy, by path."""
    edited = {Path(crate) / "src" / name: text for crate in CRATES for name, text in planted(crate).items()}
    return workspace() | {path: text.encode() for path, text in edited.items()}


def workspace() -> dict[Path, bytes]:
    """What a copy of the workspace needs to be built, by path."""
    named = [ROOT / name for name in COPIED]
    paths = [path for each in named for path in (each.rglob("*") if each.is_dir() else [each]) if _counts(path)]
    return {path.relative_to(ROOT): path.read_bytes() for path in paths}


def _counts(path: Path) -> bool:
    return path.is_file() and path.suffix != ".so" and not LEFT_OUT & set(path.parts)
