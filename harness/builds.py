"""Programs of the tests that other tools build: once per change of their sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def built_once(name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """The path that `build` was given, and where it left what it built; called again if the sources changed.

    It is below Cargo's target directory, by `name`. Processes wait for each other. What `build` raises is raised.
    """
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    cache = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / name
    cache.mkdir(parents=True, exist_ok=True)
    out, done = cache / digest, cache / f"{digest}.built"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # every pytest-xdist worker comes by here
        if not done.exists():
            build(out)
            done.touch()
    return out
