"""`rota plant`: what cannot be copied. `tests/audit/test_planted.py` has what is planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rota import _rota, exits
from rota.audit.command import shown_time
from rota.audit.plant import copying
from rota.cli import app


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A directory with a record of a group that ends early."""
    log = tmp_path / "data" / "__consumer_offsets-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(_rota.write_batch(0, [(0, b"\x00\x02\x00\x02ab", b"\x00\x03\x00\x05")]))
    return log.parent.parent


def test_a_record_that_cannot_be_read_leaves_no_copy(damaged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    ended = CliRunner().invoke(app, ["plant", str(damaged), str(copy)])
    assert (ended.exit_code, ended.stderr) == (exits.MISUSED, "rota: the record ends inside its protocol type\n")
    assert not copy.exists()


@pytest.mark.parametrize("ends_in", ["_plant", "MANIFEST"])
def test_what_ends_early_leaves_no_copy(
    ends_in: str, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_source: Path, target: Path) -> list[copying.Planted]:
        (target / "half").touch()
        raise KeyboardInterrupt

    if ends_in == "_plant":
        monkeypatch.setattr(copying, "_plant", interrupted)
    else:
        monkeypatch.setattr(copying, "_plant", lambda _source, _target: [])
        monkeypatch.setattr(copying, "MANIFEST", "no/such/directory")
    with pytest.raises((KeyboardInterrupt, FileNotFoundError)):
        copying.plant(damaged, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_time_that_no_calendar_has_is_shown_in_milliseconds() -> None:
    assert shown_time(2**62) == f"{2**62} ms"
    assert shown_time(-(2**62)) == f"{-(2**62)} ms"
    assert shown_time(0) == "1970-01-01T00:00:00.000+00:00"
