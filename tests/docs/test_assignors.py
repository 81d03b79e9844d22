"""The page about assignors does what it says."""

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rota.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs/assignors.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_programs_run() -> None:
    names: dict[str, Any] = {}
    programs = blocks("python")
    assert len(programs) == 4
    for program in programs:
        exec(program, names)  # noqa: S102  the page's own programs


def test_the_command_prints_what_the_page_shows(tmp_path: Path, monkeypatch: Any) -> None:
    (shell,) = blocks("sh")
    (shown,) = blocks("text")
    text = re.findall(r"echo '(.*?)'", shell)[0]
    assert json.loads(text)
    (tmp_path / "plan.json").write_text(text)
    monkeypatch.chdir(tmp_path)
    arguments = shell.strip().splitlines()[1].split()[1:]
    assert CliRunner().invoke(app, arguments).stdout == shown
