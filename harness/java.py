"""Java programs of the tests, built by Maven."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.builds import built_once


def classes(jars: Path) -> list[str]:
    """Options with which a program takes its classes from the archive beside its jars: it starts in half of the
    processor time. Without an archive they change nothing.
    """
    return [f"-XX:SharedArchiveFile={jars}/classes.jsa"]


def archived(jars: Path) -> list[str]:
    """Options with which a program writes the archive when it ends, with the classes that it used."""
    return ["-Xlog:disable", f"-XX:ArchiveClassesAtExit={jars}/classes.jsa"]


def built(project: Path, name: str, run: Callable[[Path], None] | None = None) -> Path:
    """The directory with the jars of a Maven project. It is kept by `name`. `run` runs it once, as `archived`.

    Raises RuntimeError with what Maven said if it does not build.
    """

    def build(out: Path) -> None:
        command = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), "package", f"-Dout={out}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name} does not build: {done.stdout}{done.stderr}")
        if run is not None:
            run(out)

    return built_once(name, [project / "pom.xml", *sorted((project / "src").rglob("*.java"))], build)
