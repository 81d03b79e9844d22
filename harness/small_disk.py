"""A small file system that a test fills. Needs root and the right to mount."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

FILLER = "filler"


@functools.cache
def why_not() -> str | None:
    """Why no file system can be mounted here; None: one can."""
    if os.geteuid() != 0:
        return "only root can mount a file system"
    with tempfile.TemporaryDirectory(prefix="rota-disk-") as place:
        try:
            with SmallDisk(Path(place), 1):
                return None
        except OSError as error:
            return f"no file system can be mounted here: {error}"


class SmallDisk:
    """A file system in memory, mounted at an empty directory."""

    def __init__(self, place: Path, megabytes: int) -> None:
        self.place, self._megabytes = place, megabytes

    def __enter__(self) -> Self:
        command = ["mount", "-t", "tmpfs", "-o", f"size={self._megabytes}m", "tmpfs", str(self.place)]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            raise OSError(tried.stderr.strip())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def fill(self) -> None:
        """Take all room that is left."""
        with (self.place / FILLER).open("ab", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def empty(self) -> None:
        """Give the room back."""
        (self.place / FILLER).unlink()
