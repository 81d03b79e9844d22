"""Go programs of the tests, built by `go build`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.builds import built_once


class UnreachableError(RuntimeError):
    """The modules that a program needs cannot be downloaded."""


def built(module: Path, name: str, package: str = ".") -> Path:
    """The executable of a package of a Go module. It is kept by `name`.

    Raises UnreachableError if its modules cannot be downloaded, and RuntimeError if it does not build, with what Go
    said.
    """

    def build(program: Path) -> None:
        fetched = _go(module, "mod", "download")
        if fetched.returncode != 0:
            raise UnreachableError(f"the modules of {name} cannot be downloaded: {fetched.stderr.strip()}")
        done = _go(module, "build", "-o", str(program), package)
        if done.returncode != 0:
            raise RuntimeError(f"{name} does not build: {done.stdout}{done.stderr}")

    return built_once(name, [module / "go.mod", module / "go.sum", *sorted(module.rglob("*.go"))], build)


def _go(module: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["go", *arguments], cwd=module, capture_output=True, text=True, check=False)
