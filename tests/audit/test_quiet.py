"""`rota audit` puts a pipe in the place of stderr while Java runs, and takes it back."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from rota.audit.quiet import without_chatter


def descriptors() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir() if one.exists()}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="lists descriptors as Linux shows them")
@pytest.mark.parametrize("failing", ["pipe", "dup", "thread"])
def test_a_setup_that_fails_closes_what_it_opened(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    real_dup, dups = os.dup, []

    def dup(descriptor: int) -> int:
        dups.append(descriptor)
        if failing == "dup" and len(dups) == 2:
            raise OSError("too many open files")
        return real_dup(descriptor)

    def fail(*_: object) -> None:
        raise OSError("too many open files")

    before = descriptors()
    monkeypatch.setattr(os, "dup", dup)
    if failing == "pipe":
        monkeypatch.setattr(os, "pipe", fail)
    if failing == "thread":
        monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(OSError, match="too many open files"), without_chatter():
        pytest.fail("it is not set up")
    monkeypatch.undo()
    assert descriptors() == before
