"""The planted core: a copy of the workspace in which every bug of `bugs.toml` and `consumer_bugs.toml` sleeps until the
environment names it.

The core itself has no line for this, so no build of it can have a bug: they are edits, made in the copy only.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.checks.tidy import ROOT

REGISTRY = Path(__file__).parent / "bugs.toml"
CONSUMER_REGISTRY = Path(__file__).parent / "consumer_bugs.toml"
COPY = ROOT / "build/planted"
CORE = "rust/core/src"
VARIABLE = "ROTA_PLANTED"
COPIED = ("Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "pyproject.toml", "rust", "python", "benches/rust")
LEFT_OUT = {"target", "__pycache__"}
ALL = "PLANTED_ALL"
"""The variable of the environment with which every bug is tried: `make long` sets it."""

T = TypeVar("T")

SWITCH = """//! Which planted bug runs: the one that the environment names.

use std::sync::LazyLock;

static PLANTED: LazyLock<String> = LazyLock::new(|| std::env::var("ROTA_PLANTED").unwrap_or_default());

/// Whether this is the bug that runs.
pub fn is(bug: &str) -> bool {
    *PLANTED == bug
}
"""


class PlantingError(Exception):
    """A bug that has no place in the core any more, or more than one."""


@dataclass(frozen=True)
class Bug:
    """One edit: its name, what it means, the ids that it breaks, and what becomes what where."""

    id: str
    says: str
    breaks: str
    file: str
    fn: str
    find: str
    put: str

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


def without_optimization() -> list[str]:
    """Options of cargo with which no crate of the workspace is optimized in a debug build.

    For copies whose programs run for seconds: building them would take minutes. Crates of the registry stay as they
    are, so that copies share them with the workspace's own build.
    """
    levels = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["dev"]["package"]
    return [f"--config=profile.dev.package.{name}.opt-level=0" for name in levels if name.startswith("rota-")]


def one_of_each(planted: Iterable[T], of: Callable[[T], Hashable]) -> list[T]:
    """The first bug of each kind, in their order; all of them if the environment asks for it."""
    planted = list(planted)
    if os.environ.get(ALL):
        return planted
    return list({of(bug): bug for bug in reversed(planted)}.values())[::-1]


def bugs(registry: Path = REGISTRY) -> list[Bug]:
    """The bugs of a registry, in its order: by default those of the classic protocol."""
    return [Bug(**entry) for entry in tomllib.loads(registry.read_text())["bug"]]


def all_bugs() -> list[Bug]:
    """The bugs of both protocols: one copy has them all."""
    return [*bugs(), *bugs(CONSUMER_REGISTRY)]


def span_of(text: str, function: str, bug: str = "") -> tuple[int, int]:
    """Where the only function of that name begins and ends: at the brace that is as far in as its `fn`."""
    lines = text.splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if f"fn {function}(" in line or f"fn {function}<" in line]
    if len(starts) != 1:
        raise PlantingError(f"{bug}: there are {len(starts)} functions {function}, not one")
    indent = lines[starts[0]][: -len(lines[starts[0]].lstrip())]
    end = next(at for at, line in enumerate(lines) if at > starts[0] and line.rstrip() == f"{indent}}}")
    return sum(map(len, lines[: starts[0]])), sum(map(len, lines[: end + 1]))


def planted_core(planted: list[Bug]) -> dict[str, str]:
    """The core's files that differ, by name, with these bugs in them."""
    folder = ROOT / CORE
    texts = {"planted.rs": SWITCH, "lib.rs": f"#![allow(warnings)]\n{(folder / 'lib.rs').read_text()}\nmod planted;\n"}
    for bug in planted:
        texts[bug.file] = bug.planted(texts.get(bug.file) or (folder / bug.file).read_text())
    return texts


def plant(copy: Path = COPY, files: dict[Path, bytes] | None = None) -> Path:
    """Makes the copy, or brings it up to date; what did not change keeps its time, so that little is built again.

    `files` are the contents by path; by default the planted core's.
    """
    files = contents() if files is None else files
    there = [path for name in ("rust", "python") for path in (copy / name).rglob("*") if _counts(path)]
    for name in {path.relative_to(copy) for path in there} - files.keys():
        (copy / name).unlink()
    for name, data in files.items():
        path = copy / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return copy


def workspace() -> dict[Path, bytes]:
    """What a copy has without a bug, by path."""
    named = [ROOT / name for name in COPIED]
    paths = [path for each in named for path in (each.rglob("*") if each.is_dir() else [each]) if _counts(path)]
    return {path.relative_to(ROOT): path.read_bytes() for path in paths}


def contents() -> dict[Path, bytes]:
    """What belongs into the copy, by path."""
    return workspace() | {Path(CORE) / name: text.encode() for name, text in planted_core(all_bugs()).items()}


def _counts(path: Path) -> bool:
    return path.is_file() and path.suffix != ".so" and not LEFT_OUT & set(path.parts)
