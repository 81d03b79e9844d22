"""Java programs of the tests, built by Maven."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.builds import built_once


def built(project: Path, name: str) -> Path:
    """The directory with the jars of a Maven project. It is kept by `name`.

    Raises RuntimeError with what Maven said if it does not build.
    """

    def build(out: Path) -> None:
        command = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), "package", f"-Dout={out}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name} does not build: {done.stdout}{done.stderr}")

    return built_once(name, [project / "pom.xml", *sorted((project / "src").rglob("*.java"))], build)
