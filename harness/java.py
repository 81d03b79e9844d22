"""Java programs of the tests, built by Maven."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def built(project: Path, name: str) -> Path:
    """The directory with the jars of a Maven project, built anew if its sources changed since the last time.

    It is kept under Cargo's target directory by `name`. Raises RuntimeError with what Maven said.
    """
    sources = [project / "pom.xml", *sorted((project / "src").rglob("*.java"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    cache = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / name
    cache.mkdir(parents=True, exist_ok=True)
    out = cache / digest
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # every pytest-xdist worker comes by here
        if not (out / "built").exists():
            command = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), "package", f"-Dout={out}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{name} does not build: {done.stdout}{done.stderr}")
            (out / "built").touch()
    return out
